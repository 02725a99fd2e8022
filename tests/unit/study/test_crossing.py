"""Trained on one workload and run on another: which rows are compared, how well that is known, and what reports begin with."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from example_study import LOADS, confirmed, part, result, shown

from upshift.measure.samples import Samples
from upshift.run.directory import Manifest, RunDirectory, write_json
from upshift.stages.study_again import report_again
from upshift.study.analysis import Analysis, Part, analyse
from upshift.study.crossing import Crossing, crossings
from upshift.study.designs import Design, Factor, make_design
from upshift.study.file import Study
from upshift.study.intervals import LEVEL
from upshift.study.page import render
from upshift.study.plan import Arm, StudyPlan, recipe_of
from upshift.study.store import load_study

ON_READS = {"recipe": "max-clang", "trained_on": ["reads"]}
ON_WRITES = {"recipe": "max-clang", "trained_on": ["/home/writes.toml"]}
TEXT = {
    "name": "matrix",
    "base": {"recipe": "plain"},
    "factors": {"trained": {"on_reads": ON_READS, "on_writes": ON_WRITES, "on_all": {"recipe": "max-clang"}}},
    "workloads": ["reads"],
    "held_out": ["/home/writes.toml"],
    "design": "one-at-a-time",
}
CPU_US = {"off": 20.0, "trained=on_reads": 10.0, "trained=on_writes": 12.0, "trained=on_all": 11.0}


def study(**changes: object) -> Study:
    return Study.model_validate({**TEXT, **changes})


def planned(of: Study) -> StudyPlan:
    design = make_design(of.design, of.listed_factors(), of.listed_rows())
    arms = []
    for row in design.rows:
        change = of.change(row)
        arms.append(Arm(name=design.name(row), row=row, change=change, recipe=recipe_of(change, design.name(row))))
    given = {"trials": 6, "confirm_trials": 0, "loads": 3, "wall_s": 1.0, "half_width": 0.1, "arms_at_once": 8}
    return StudyPlan.model_validate({"design": design, "arms": arms, **given})


def found(of: Study | None = None) -> tuple[Crossing, ...]:
    of = of or study()
    return crossings(of, planned(of).arms, LOADS)


def analysed(design: Design, *parts: Part) -> Analysis:
    standing = {row: design.name(row) for row in design.rows}
    return analyse(design, standing, parts, LOADS, "total_cpu_us_per_query", found())


def test_each_trained_row_is_compared_with_the_one_trained_on_the_load_itself() -> None:
    assert [(each.row, each.own, each.workload) for each in found()] == [
        ((2,), (1,), "reads"),
        ((3,), (1,), "reads"),
        ((1,), (2,), "writes"),
        ((3,), (2,), "writes"),
    ]


def test_rows_that_differ_in_another_factor_too_are_not_compared() -> None:
    factors = {"v3": {"on": {"build": {"flags": ["-march=x86-64-v3"]}}}, **TEXT["factors"]}  # type: ignore[dict-item]
    pairs = [(each.row, each.own) for each in found(study(factors=factors, design="full"))]
    assert pairs and all(row[0] == own[0] and row != own for row, own in pairs)
    assert {own[0] for _row, own in pairs} == {0, 1}


def test_a_study_that_trains_all_rows_alike_compares_none() -> None:
    assert found(study(factors={"v3": {"on": {"build": {"flags": ["-march=x86-64-v3"]}}}}, base={"recipe": "max-clang"})) == ()


def test_a_base_that_is_trained_is_compared_too() -> None:
    assert ((0,), (1,), "reads") in [(each.row, each.own, each.workload) for each in found(study(base={"recipe": "max-clang"}))]


def test_a_row_without_a_profile_is_no_measure_for_a_training() -> None:
    base = {"recipe": "plain", "build": {"scope": "hot", "flags": ["-O3"]}, "trained_on": ["reads"], "hot_set_of": ["reads"]}
    profile = {"build": {"profile": "ir"}}
    factors = {"feedback": {"reads": profile, "writes": {**profile, "trained_on": ["/home/writes.toml"]}}}
    pairs = [(each.row, each.own, each.workload) for each in found(study(base=base, factors=factors))]
    assert pairs == [((2,), (1,), "reads"), ((1,), (2,), "writes")]


def unlucky_base(seed: int = 3) -> Part:
    """All off scatters by 20 % from trial to trial, the trained rows by nothing like that."""
    chance = np.random.default_rng(seed)
    luck = [math.exp(each) for each in chance.normal(0, 0.2, 6)]
    measured = part(CPU_US, seed=seed)
    slices = tuple(
        each.model_copy(update={"total_cpu_s": each.total_cpu_s * luck[each.trial]}) if each.arm == "off" else each
        for each in measured.slices
    )
    return measured.model_copy(update={"slices": slices})


def test_what_the_base_scatters_by_cancels_between_two_rows_of_a_trial() -> None:
    design = planned(study()).design
    made = analysed(design, unlucky_base())
    first, *others = made.crossed
    assert (first.row, first.own, first.load.workload) == ("trained=on_writes", "trained=on_reads", "reads")
    assert first.effect.ratio == pytest.approx(1.2, rel=0.01) and first.verdict == "slower"
    assert 1.15 < first.effect.ci_low < 1.2 < first.effect.ci_high < 1.25
    assert min(cell.effect.ci_high / cell.effect.ci_low for cell in made.cells) > 1.5
    ratios = [first.effect.ratio, *(each.effect.ratio for each in others)]
    assert ratios == sorted(ratios, reverse=True), "the greatest loss is first"
    # Under writes, which on_writes was trained on, on_reads is the better one all the same.
    assert others[-1].row == "trained=on_reads" and others[-1].verdict == "faster"


def test_intervals_of_all_loads_have_the_confidence_that_is_said() -> None:
    """One load where all rows differ, others where none does: they are one family of Holm's."""
    design = planned(study()).design
    same = dict.fromkeys(CPU_US, 20.0)
    slices = [each for each in part(same, noise=0.05).slices if each.held_out]
    slices += [each for each in part(CPU_US).slices if not each.held_out]
    made = analysed(design, Part(training=1, slices=tuple(slices)))
    open_cells = sum(cell.verdict not in ("faster", "slower") for cell in made.cells)
    assert 0 < open_cells < len(made.cells)
    assert made.cells_confidence == pytest.approx(1 - LEVEL / open_cells)


def test_a_report_begins_with_what_is_worse() -> None:
    design = planned(study()).design
    shows = result(design, (part(CPU_US),), crossings=found())
    page = render(shows)
    loss = "trained=on_writes under reads at 8 connections: +20."
    assert page.index(loss) < page.index('id="verdict"') < page.index("Trained on one workload, run on another")
    assert "which was trained on it" in page and "its own" in page and "trained once" in page
    text = shown(shows)
    assert text.index(f"worse: {loss}") < text.index("Nothing to recommend")
    assert "beside the server trained on that workload" in text and "trained once" in text


def test_without_a_confirmed_set_the_worst_rows_are_said_first() -> None:
    design = make_design("full", [Factor(name="a", levels=("off", "on")), Factor(name="b", levels=("off", "on"))])
    shows = result(design, (part({"off": 20.0, "a": 21.0, "b": 24.0, "a+b": 25.0}),))
    page = render(shows)
    assert page.index("a+b under reads at ") < page.index("b under reads at ") < page.index("Nothing helps")
    assert "What is worse" in page
    assert "What is worse" not in render(result(design, (part({"off": 20.0, "a": 19.0, "b": 18.0, "a+b": 17.0}),)))
    only = result(design, (part({"off": 20.0, "a": 21.0, "b": 18.0, "a+b": 19.0}),), recommended=("b",), confirmed=confirmed())
    assert "a under reads" not in render(only).partition('id="verdict"')[0], "what was confirmed is what counts"


def keep(folder: Path, *parts: Part) -> None:
    for number, each in enumerate(parts, 1):
        samples = Samples(folder / "parts" / f"measure-{number}.parquet", "one")
        samples.open([], 0)
        for one in each.slices:
            samples.add(one)
        samples.finish()


def a_run(folder: Path, asked: Study, plan: StudyPlan) -> RunDirectory:
    options = {"study": asked.model_dump(mode="json"), "plan": plan.model_dump(mode="json")}
    manifest = Manifest(
        command=("upshift", "study"), options=options, started_at="2026-11-22T12:00:00+00:00", upshift_version="0"
    )
    write_json(folder / "manifest.json", manifest.model_dump(mode="json"))
    return RunDirectory(folder)


def test_a_finished_run_is_analysed_again_from_its_samples(tmp_path: Path) -> None:
    """As an older Upshift left it: without crossings."""
    plan = planned(study())
    parts = [part(CPU_US, training=1, seed=1), part(CPU_US, training=2, seed=2)]
    fresh = result(plan.design, tuple(parts), crossings=found(), trainings=2)
    assert fresh.crossed and [each.source for each in fresh.variance] == ["training", "start", "block"]
    old = fresh.model_copy(update={"crossed": (), "cells": fresh.cells[:1], "variance": ()})
    write_json(tmp_path / "result.json", old.model_dump(mode="json"))
    run = a_run(tmp_path, study(), plan)
    assert report_again(run) == old, "no samples, nothing to find anew"
    keep(tmp_path, *parts)
    assert report_again(run) == fresh == load_study(tmp_path)
    assert "Trained on one workload" in (tmp_path / "report.html").read_text()


def test_groups_of_a_layout_are_found_again(tmp_path: Path) -> None:
    """Two layouts of two groups each: four files, named in the order in which they were measured."""
    plan = planned(study()).model_copy(update={"arms_at_once": 3})
    first, second = ({name: CPU_US[name] for name in ("off", *names)} for names in (list(CPU_US)[1:3], list(CPU_US)[3:]))
    parts = [
        part(arms, training=1, seed=number).model_copy(update={"layout": layout})
        for number, (layout, arms) in enumerate([(1, first), (1, second), (2, first), (2, second)])
    ]
    fresh = result(plan.design, tuple(parts), crossings=found(), layouts=2)
    write_json(tmp_path / "result.json", fresh.model_copy(update={"variance": ()}).model_dump(mode="json"))
    keep(tmp_path, *parts)
    aside = tmp_path / "parts" / "measure-1.old-1.parquet"
    aside.write_bytes((tmp_path / "parts" / "measure-2.parquet").read_bytes())
    assert report_again(a_run(tmp_path, study(), plan)) == fresh
    assert fresh.variance[0].source == "layout"
