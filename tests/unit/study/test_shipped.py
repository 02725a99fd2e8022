"""The studies that are shipped can be planned, and the reference names every key."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from upshift.cli.study_plan import show_plan
from upshift.estimate import estimate
from upshift.measure.model import Load, Metric
from upshift.paths import CHECKOUT
from upshift.resolve import measuring_plan
from upshift.server.mysql import KIND
from upshift.study.attribution import FactorEffect, Together
from upshift.study.builds import builds_of, confirming, disk_bytes
from upshift.study.change import Change
from upshift.study.crossing import crossings
from upshift.study.designs import Kind
from upshift.study.file import Study, read_study
from upshift.study.intervals import Effect
from upshift.study.plan import StudyPlan, make_plan
from upshift.study.result import Crossed, StudyResult
from upshift.values import Value

SHIPPED = sorted((CHECKOUT / "studies").glob("*.toml"))
PAGE = (CHECKOUT / "docs" / "reference" / "study.md").read_text()


@pytest.fixture(autouse=True)
def free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many servers run at once depends on it, and so does whether a study fits into its budget."""
    free = SimpleNamespace(available=20 << 30, total=32 << 30)
    monkeypatch.setattr("psutil.virtual_memory", lambda: free)


def planned(file: Path) -> tuple[Study, StudyPlan]:
    study = read_study(file)
    if study.base.binary is not None or study.base.server is not None:  # the distribution's, which this machine may lack
        server = Path("/bin/true")
        study = study.model_copy(update={"base": study.base.model_copy(update={"binary": server})})
    return study, make_plan(study, KIND, measuring_plan(study.options()), {})


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.name)
def test_a_shipped_study_can_be_planned(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study, plan = planned(file)
    assert study.description
    assert study.budget <= 3600, "an evening has time for the builds, too"
    show_plan(study, plan, as_json=False)
    text = capsys.readouterr().out
    assert "expected half-width" in text and "measuring: " in text
    show_plan(study, plan, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["rows"][0] == "off" and told["half_width_percent"] > 0 and told["trials"] >= 3


def test_suns_study_has_their_rows() -> None:
    _study, plan = planned(CHECKOUT / "studies" / "sun.toml")
    assert len(plan.arms) == 16
    assert "builtin+unroll+prefetch+alias+inlining" in [arm.name for arm in plan.arms]


def test_builds_that_rows_share_are_counted_once(capsys: pytest.CaptureFixture[str]) -> None:
    study, plan = planned(CHECKOUT / "studies" / "variance.toml")
    show_plan(study, plan, as_json=True)
    builds = {each["stage"]: each["count"] for each in json.loads(capsys.readouterr().out)["builds"]}
    assert (builds["plain build"], builds["instrumented build"], builds["train"], builds["post-link"]) == (1, 1, 4, 16)


def test_the_matrix_trains_a_server_on_each_workload_and_runs_all_on_each() -> None:
    study, plan = planned(CHECKOUT / "studies" / "matrix.toml")
    alone = [arm.change.trained_on for arm in plan.arms if len(arm.change.trained_on) == 1]
    assert sorted(each for (each,) in alone) == sorted(study.workloads)
    loads = [Load(workload=each, connections=8, held_out=False) for each in study.workloads]
    beside = [(each.row, each.workload) for each in crossings(study, plan.arms, loads)]
    assert len(set(beside)) == len(beside) == len(study.workloads) * 6 and plan.arms[0].row not in dict(beside)
    builds = {each.stage: each.count for each in builds_of(plan.built, study)}
    assert (builds["plain build"], builds["hot set"], builds["instrumented build"]) == (1, 6, 6)
    # MTR trains the server that all five workloads train: their hot set, and so their instrumented build.
    assert (builds["train"], builds["profile gate"], builds["optimised build"], builds["post-link"]) == (7, 7, 7, 7)
    took_s = {each.stage: each.wall_s for each in builds_of(plan.built, study)}
    without = {each.stage: each.wall_s for each in builds_of(tuple(arm for arm in plan.built if "mtr" not in arm.name), study)}
    tests = len(plan.arms[-1].recipe.training_tests.split(",")) if plan.arms[-1].recipe else 0
    assert tests == 12 and all(took_s[stage] - without[stage] >= 10 * tests for stage in ("train", "post-link"))


def test_rows_of_two_trainings_have_one_hot_set_where_the_study_says_so() -> None:
    study, plan = planned(CHECKOUT / "studies" / "sun-feedback.toml")
    builds = {each.stage: each.count for each in builds_of(plan.built, study)}
    assert (builds["hot set"], builds["instrumented build"], builds["train"]) == (1, 3, 6)
    apart = tuple(arm.model_copy(update={"change": arm.change.model_copy(update={"hot_set_of": ()})}) for arm in plan.arms)
    assert {each.stage: each.count for each in builds_of(apart, study)}["hot set"] == 2


def test_hundreds_of_connections_take_their_time_to_connect() -> None:
    """512 of them to each of four servers: more than the turns themselves."""
    study, plan = planned(CHECKOUT / "studies" / "service.toml")
    few = study.model_copy(update={"connections": (1, 2, 4, 8)})
    less = make_plan(few, KIND, measuring_plan(few.options()), {})
    assert plan.wall_s <= study.budget and less.trials > 1.5 * plan.trials


def keys(model: type[Value]) -> Iterator[str]:
    yield from model.model_fields


@pytest.mark.parametrize("model", [Study, Change, StudyResult, Crossed, FactorEffect, Together, Effect])
def test_the_reference_names_every_key(model: type[Value]) -> None:
    named = {word for part in re.findall(r"`([^`\n]+)`", PAGE) for word in re.split(r"[^\w-]+", part)}
    assert set(keys(model)) <= named
    assert {*get_args(Kind), *get_args(Metric)} <= named


def test_the_example_of_the_reference_is_a_study(tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE, re.S)
    (tmp_path / "example.toml").write_text(example)
    assert set(read_study(tmp_path / "example.toml").factors) == {"spin", "allocator"}


def test_patches_are_a_factor_beside_the_binary(capsys: pytest.CaptureFixture[str]) -> None:
    study, plan = planned(CHECKOUT / "studies" / "patches.toml")
    rows = {arm.name: arm.recipe for arm in plan.arms}
    assert {name: bool(recipe and recipe.patches) for name, recipe in rows.items()} == {
        "off": False,
        "patches": True,
        "optimised": False,
        "patches+optimised": True,
    }
    show_plan(study, plan, as_json=True)
    builds = {each["stage"]: each["count"] for each in json.loads(capsys.readouterr().out)["builds"]}
    once = ("source", "patched source", "plain build", "patched build", "data")
    assert {stage: builds[stage] for stage in once} == dict.fromkeys(once, 1)
    assert builds["hot set"] == builds["instrumented build"] == builds["optimised build"] == 2


def test_the_builds_of_a_dry_run_include_what_confirms(capsys: pytest.CaptureFixture[str]) -> None:
    study, plan = planned(CHECKOUT / "studies" / "patches.toml")
    published = study.model_copy(update={"confirm": 0.0})

    def told(asked: Study, made: StudyPlan) -> tuple[dict[str, Any], str]:
        show_plan(asked, made, as_json=True)
        found = json.loads(capsys.readouterr().out)
        show_plan(asked, made, as_json=False)
        return found, capsys.readouterr().out

    with_it, text = told(study, plan)
    without, short = told(published, make_plan(published, KIND, measuring_plan(published.options()), {}))
    dearest = next(arm.recipe for arm in plan.arms if arm.name == "patches+optimised")
    trained = ("train", "profile gate", "optimised build", "post-link")
    again_s = sum(each.wall_s for each in estimate(study.options(), trained, dearest))
    assert with_it["confirm_build_s"] == pytest.approx(again_s) and without["confirm_build_s"] == 0
    assert with_it["disk_bytes"] > without["disk_bytes"]
    minutes = [int(re.findall(r"builds: at most (\d+) min", each)[0]) for each in (text, short)]
    assert minutes[0] - minutes[1] == pytest.approx(again_s / 60, abs=1)
    assert "for the servers that confirm" in text and "for the servers that confirm" not in short


def test_a_set_that_no_row_has_is_built_to_be_confirmed() -> None:
    """A quarter of all combinations of flags: the recommended one may be none of them, and then its hot set is compiled."""
    study, plan = planned(CHECKOUT / "studies" / "flags.toml")
    assert plan.arms[0].recipe and plan.arms[0].recipe.profile == "none"
    (compiled,) = estimate(study.options(), ("optimised build",), plan.arms[0].recipe)
    assert confirming(plan, study).wall_s >= compiled.wall_s
    few = study.model_copy(update={"factors": dict(list(study.factors.items())[:2])})
    assert confirming(make_plan(few, KIND, measuring_plan(few.options()), {}), few).wall_s == 0


def test_the_disk_of_a_study_is_that_of_all_its_builds(capsys: pytest.CaptureFixture[str]) -> None:
    study, plan = planned(CHECKOUT / "studies" / "flags.toml")
    alone = study.model_copy(update={"factors": dict(list(study.factors.items())[:1])})
    pair = make_plan(alone, KIND, measuring_plan(alone.options()), {})
    (compiled,) = estimate(study.options(), ("optimised build",), plan.arms[0].recipe)
    assert (len(plan.arms), len(pair.arms)) == (16, 2)
    assert disk_bytes(plan, study) - disk_bytes(pair, alone) >= 14 * compiled.disk_bytes
    show_plan(study, plan, as_json=False)
    assert f"disk: about {disk_bytes(plan, study) / 1e9:.0f} GB" in capsys.readouterr().out
