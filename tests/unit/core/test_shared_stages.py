"""Recipes that differ where a stage does not look share what that stage made."""

from __future__ import annotations

import pytest

from upshift import resolve
from upshift.build.recipe import Recipe, find_recipe
from upshift.paths import CHECKOUT
from upshift.values import content_hash

MAX = find_recipe("max-clang")


def study(name: str) -> Recipe:
    return find_recipe(str(CHECKOUT / "studies" / "recipes" / f"{name}.toml"))


@pytest.mark.parametrize(
    ("other", "same_training", "same_build"),
    [("hugify", True, True), ("cs", True, False), ("march-v3", False, False), ("jemalloc", False, False)],
)
def test_what_is_built_and_trained_once(other: str, same_training: bool, same_build: bool) -> None:
    recipe = study(other)
    assert (content_hash(recipe.before_profile()) == content_hash(MAX.before_profile())) == same_training
    assert (content_hash(recipe.before_post_link()) == content_hash(MAX.before_post_link())) == same_build


def test_other_training_tests_need_no_other_instrumented_server() -> None:
    vendor = find_recipe("vendor-pgo")
    cut = vendor.model_copy(update={"training_tests": "main.1st"})
    assert content_hash(cut.before_profile()) == content_hash(vendor.before_profile())
    assert content_hash(cut.before_post_link()) != content_hash(vendor.before_post_link())


def test_stock_gcc_is_what_vendor_pgo_starts_from() -> None:
    start, stock = resolve.plain_of(find_recipe("vendor-pgo")), find_recipe("stock-gcc")
    assert content_hash(start.before_post_link()) == content_hash(stock.before_post_link())


@pytest.mark.parametrize("name", ["max-clang", "gcc-pgo-lto", "vendor-pgo"])
def test_the_parts_are_recipes_that_can_be_read_back(name: str) -> None:
    for part in (find_recipe(name).before_profile(), find_recipe(name).before_post_link()):
        assert Recipe.model_validate_json(part.model_dump_json()) == part
