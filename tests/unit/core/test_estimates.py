"""What stages are estimated to take, and which stages a recipe has."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import pytest

from upshift import needs
from upshift.build.recipe import Recipe, find_recipe, shipped_recipes
from upshift.estimate import estimate, explaining
from upshift.options import Options
from upshift.paths import CHECKOUT
from upshift.stages.names import all_stages, building_stages, training_stages


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two CPUs, and a cache of its own: what earlier runs took is not known."""
    monkeypatch.setenv("UPSHIFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1})


@pytest.mark.parametrize("level", ["quick", "full"])
def test_every_stage_of_a_level_is_estimated(level: str) -> None:
    stages = all_stages(level, find_recipe("max-clang"))
    made = estimate(Options.model_validate({"level": level}), stages)
    assert tuple(each.name for each in made) == stages
    assert all(each.wall_s > 0 and each.disk_bytes >= 0 and each.memory_bytes > 0 for each in made)


def test_bolt_needs_less_memory_after_a_training_which_says_what_is_executed() -> None:
    def bolt_bytes(level: Literal["full", "quick"]) -> int:
        stages = all_stages(level, find_recipe("max-clang"))
        return next(each.memory_bytes for each in estimate(Options(level=level), stages) if each.name == "post-link")

    assert bolt_bytes("full") < 6 * 2**30 < bolt_bytes("quick")


def test_the_room_that_is_asked_for_holds_the_estimate() -> None:
    full = estimate(Options(), all_stages("full", find_recipe("max-clang")))
    assert sum(each.disk_bytes for each in full) < needs.NEEDED_DISK_BYTES


def wall_s(stage: str, **options: object) -> float:
    given = Options.model_validate(options)
    return next(each.wall_s for each in estimate(given, (stage,)))


@pytest.mark.parametrize("recipe", shipped_recipes(), ids=lambda recipe: recipe.name)
def test_every_recipe_that_is_shipped_can_be_estimated(recipe: Recipe) -> None:
    stages = building_stages(recipe)
    made = estimate(Options(recipe=recipe.name, toolchain=recipe.toolchain), stages)
    assert tuple(each.name for each in made) == stages


def test_the_whole_tree_costs_more_than_what_runs() -> None:
    for stage in ("instrumented build", "optimised build"):
        assert wall_s(stage, scope="all") > 2 * wall_s(stage, scope="hot")


def test_builds_take_what_they_were_measured_to_take() -> None:
    """docs/measurements: an optimised build 155 to 204 CPU seconds; GCC's of the hot set more than twice clang's."""

    def cpu_s(stage: str, **recipe: object) -> float:
        made = estimate(Options(jobs=1), (stage,), Recipe.model_validate({"scope": "hot", **recipe}))
        return made[0].wall_s

    flags = {"flags": ["-O3"]}
    assert 150 < cpu_s("optimised build", profile="ir", lto="thin") < 210
    # Nobody has parsed the sources of a build with other flags alone.
    assert cpu_s("optimised build", **flags) > cpu_s("optimised build", profile="ir", lto="thin")
    assert cpu_s("optimised build", toolchain="gcc", profile="gcc", lto="full") > 2 * cpu_s("optimised build", **flags)
    for stage in ("plain build", "instrumented build"):
        assert cpu_s(stage, toolchain="gcc", profile="gcc") > 1.4 * cpu_s(stage, profile="ir")


def test_times_follow_the_options(monkeypatch: pytest.MonkeyPatch) -> None:
    assert wall_s("measure", trials=12) == pytest.approx(2 * wall_s("measure", trials=6))
    assert wall_s("measure") < wall_s("measure", baseline="/b") < 1.5 * wall_s("measure")
    assert wall_s("measure", slice_s=10) > wall_s("measure")
    for cpus, rounds in ((1, 2), (2, 1)):  # of three workloads, two at most train on a CPU
        monkeypatch.setattr(os, "sched_getaffinity", lambda _pid, cpus=cpus: set(range(cpus)))
        assert wall_s("train", train_s=120) == pytest.approx(wall_s("train") + rounds * 100)
    assert wall_s("plain build", jobs=8) == pytest.approx(wall_s("plain build", jobs=2) / 4)
    assert wall_s("verify", verify="main") > 3600
    cut = str(CHECKOUT / "studies" / "recipes" / "vendor-pgo-cut.toml")
    assert wall_s("train", recipe=cut) < wall_s("train", recipe="vendor-pgo") / 4


def test_simulated_caches_take_longer_than_counts_alone() -> None:
    def counted_s(*, counts: bool, simulate: bool) -> float:
        stages = explaining(Options(), 16.0, counts=counts, simulate=simulate)
        return sum(each.wall_s for each in stages if each.name == "instructions")

    assert counted_s(counts=False, simulate=False) == 0
    assert 0 < counted_s(counts=True, simulate=False) < counted_s(counts=True, simulate=True)


def test_levels_are_made_of_the_same_stages() -> None:
    recipe = find_recipe("max-clang")
    assert set(all_stages("quick", recipe)) <= set(all_stages("full", recipe))
    assert building_stages(recipe) == all_stages("full", recipe)[: len(building_stages(recipe))]
    assert training_stages(recipe) == building_stages(recipe)[: len(training_stages(recipe))]


def test_a_recipe_without_a_profile_is_built_and_then_linked_again_if_it_says_so() -> None:
    plain = find_recipe("plain")
    assert building_stages(plain) == ("source", "plain build")
    hot = plain.model_copy(update={"scope": "hot", "flags": ("-O2",)})
    assert building_stages(hot) == ("source", "plain build", "data", "hot set", "optimised build")
    assert building_stages(plain.model_copy(update={"post_link": "bolt"})) == ("source", "plain build", "data", "post-link")


def test_a_context_sensitive_profile_is_trained_twice() -> None:
    twice = training_stages(find_recipe("max-clang").model_copy(update={"profile": "csir"}))
    assert twice[-6:-3] == ("instrumented build", "train", "profile gate")
    assert twice[-3:] == ("second instrumented build", "second train", "second profile gate")


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        ("max-clang", ("clang++ -fprofile-use -flto=thin ...", "llvm-profdata merge")),
        ("gcc-pgo-lto", ("g++ -fprofile-use -flto ...", "")),
    ],
)
def test_commands_are_those_of_the_recipes_compiler(recipe: str, said: tuple[str, str]) -> None:
    found = find_recipe(recipe)
    made = estimate(Options(recipe=recipe), all_stages("full", found), found)
    commands = [command for each in made for command in each.commands]
    optimised, merged = said
    assert optimised in commands
    assert [command for command in commands if command.startswith("llvm-profdata merge")] == [merged] * bool(merged)
    assert not any("{" in command for command in commands)
    assert {command.split()[0] for command in commands if "++" in command} == {optimised.split()[0]}


def test_a_build_with_flags_alone_names_them() -> None:
    recipe = Recipe(name="flags", toolchain="gcc", scope="hot", flags=("-O3", "-funroll-loops"), post_link="none")
    made = estimate(Options(), building_stages(recipe), recipe)
    assert "g++ -O3 -funroll-loops ..." in [command for each in made for command in each.commands]
