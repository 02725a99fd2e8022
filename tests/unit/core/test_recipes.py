"""Recipes: those that are shipped, those of users, and those that cannot work."""

from __future__ import annotations

from pathlib import Path

import pytest

from upshift.build.recipe import Recipe, find_recipe, read_recipe, shipped_recipes
from upshift.errors import RecipeError


def written(folder: Path, text: str) -> Path:
    file = folder / "mine.toml"
    file.write_text(text)
    return file


def test_every_shipped_recipe_reads_and_says_what_it_is() -> None:
    recipes = {recipe.name: recipe for recipe in shipped_recipes()}
    assert {"plain", "max-clang", "gcc-pgo-lto", "stock-gcc", "vendor-pgo"} <= set(recipes)
    assert [name for name, recipe in recipes.items() if not recipe.description] == []


def test_a_recipe_is_found_by_name_or_by_path(tmp_path: Path) -> None:
    assert find_recipe("plain").name == "plain"
    assert find_recipe(str(written(tmp_path, 'flags = ["-march=native"]'))).flags == ("-march=native",)


def test_the_files_name_is_the_default_of_the_name(tmp_path: Path) -> None:
    assert read_recipe(written(tmp_path, "")).name == "mine"
    assert read_recipe(written(tmp_path, 'name = "yours"')).name == "yours"


@pytest.mark.parametrize("name", ["no-such", "no-such.toml", "", "../recipes/plain/"])
def test_no_such_recipe(name: str) -> None:
    with pytest.raises(RecipeError, match="there is no recipe") as caught:
        find_recipe(name)
    assert "upshift recipes" in caught.value.hint


def test_a_file_of_ones_own_needs_its_ending(tmp_path: Path) -> None:
    written(tmp_path, "")
    name = str(tmp_path / "mine")
    assert find_recipe(f"{name}.toml").name == "mine"
    with pytest.raises(RecipeError, match="there is no recipe"):
        find_recipe(name)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("toolchain = clang", "is not TOML"),
        ('toolchian = "clang"', "toolchian: there is no such key"),
        ('toolchain = "msvc"', "toolchain: 'msvc' is not 'clang', 'gcc' or 'icx'"),
        ('flags = "-O3"', "flags: "),
        ('version = "newest"', "version: "),
        ('scope = "some"', "scope: "),
        ('profile = "context-sensitive"', "profile: "),
        ('profile = "gcc"', 'profile = "gcc" needs toolchain = "gcc"'),
        ('toolchain = "icx"\nprofile = "gcc"', 'profile = "gcc" needs toolchain = "gcc"'),
        ('toolchain = "gcc"\nprofile = "ir"', 'profile = "ir" needs toolchain = "clang" or "icx"'),
        ('toolchain = "gcc"\nlto = "thin"', 'GCC has lto = "full"'),
        ('lto = "full"', 'lto = "full" is GCC\'s'),
        ('scope = "hot"', "would rebuild the same objects"),
        ('toolchain = "gcc"\npost_link = "bolt"', "-fno-reorder-blocks-and-partition"),
        ('training = "mtr"', "training"),
        ('training_tests = "main.1st"', "training_tests needs"),
        ("[options]\nWITH_SSL = 1", "options.WITH_SSL: "),
        (
            'options = { CMAKE_CXX_COMPILER = "g++" }',
            "options.CMAKE_CXX_COMPILER is what Upshift gives: use toolchain and version",
        ),
        ('options = { "CMAKE_C_COMPILER:FILEPATH" = "cc" }', "use toolchain and version"),
        ('options = { CMAKE_CXX_COMPILER_LAUNCHER = "ccache" }', "use precompiled_headers"),
        ('options = { CMAKE_BUILD_TYPE = "Debug" }', "use build_type"),
        ('options = { CMAKE_C_FLAGS = "-O2" }', "use flags"),
        ('options = { CMAKE_CXX_FLAGS = "-O2" }', "use flags"),
        ('options = { CMAKE_EXE_LINKER_FLAGS = "-fuse-ld=bfd" }', "use link_flags"),
        ('flags = ["-mllvm -inline-threshold=500"]', "flags has '-mllvm -inline-threshold=500', with white space"),
        ('link_flags = ["-lm\t"]', "link_flags has "),
        ('post_link = "bolt"\npost_link_flags = ["-a b"]', "post_link_flags has "),
    ],
)
def test_what_cannot_work_is_refused_with_the_file_and_the_key(tmp_path: Path, text: str, said: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(RecipeError) as caught:
        read_recipe(file)
    assert said in caught.value.message and str(file) in caught.value.message
    assert caught.value.hint


def test_a_recipe_in_another_encoding_is_told(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_bytes(b'description = "caf\xe9"\n')
    with pytest.raises(RecipeError, match=r"mine\.toml is not UTF-8"):
        read_recipe(file)


@pytest.mark.parametrize(
    "given",
    [
        {"scope": "hot", "profile": "ir"},
        {"scope": "hot", "lto": "thin"},
        {"scope": "hot", "flags": ("-march=native",)},
        {"toolchain": "gcc", "post_link": "bolt", "flags": ("-fno-reorder-blocks-and-partition",)},
        {"toolchain": "gcc", "lto": "full", "profile": "gcc", "training": "mtr", "training_tests": "short"},
        {"toolchain": "icx", "lto": "thin", "profile": "ir", "post_link": "bolt"},
        {"options": {"CMAKE_CXX_FLAGS_RELEASE": "-O2 -g", "CMAKE_C_COMPILER_LAUNCHER": "ccache"}},
    ],
)
def test_what_can_work_is_taken(given: dict[str, object]) -> None:
    assert Recipe.model_validate({"name": "x", **given})
