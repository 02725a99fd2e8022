"""A trace with a missing index, and what an experiment of such a gain measures."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from cards import MACHINE
from story import Story

from upshift.measure.model import Comparison, Experiment, Plan, Slice
from upshift.measure.statistics import comparisons
from upshift.report.result import Result
from upshift.source.model import Source
from upshift.stack.answers import Answers
from upshift.stack.change import AS_SENT, CHANGED
from upshift.stack.evidence import Evidence
from upshift.stack.prove import find_finding, of_suspect
from upshift.stack.read import read_evidence
from upshift.stack.suspects.model import Finding
from upshift.stack.suspects.rules import judge
from upshift.stack.suspects.thresholds import Thresholds

EQUAL = Answers(requests=300, differ=0, unsteady=0, otherwise=0, otherwise_overlapped=0, first=None)


def finding(seen: Evidence, suspect: str) -> Finding:
    return find_finding(judge(seen, Thresholds()), suspect)


def scanning(folder: Path) -> Evidence:
    """Of an application with a statement that reads a table without an index."""
    story = Story()
    app = story.connection()
    for number in range(100):
        with app.transaction():
            app.asks(f"SELECT price FROM item WHERE id = {number}", rows=1, wait_us=200)
            app.asks(f"SELECT id FROM item WHERE name = '{number}'", rows=1, wait_us=9000, no_index_used=True)
    return read_evidence(story.export(folder))


def chatting(folder: Path, text: str | None, *, commits: bool = False) -> Evidence:
    """Of an application that says ``text``, or pings, before each statement."""
    story = Story()
    app = story.connection()
    for number in range(300):
        if text:
            app.asks(text)
        else:
            app.pings()
        if commits:
            with app.transaction():
                app.asks(f"SELECT price FROM item WHERE id = {number}", rows=1)
        else:
            app.asks(f"SELECT price FROM item WHERE id = {number}", rows=1)
    return read_evidence(story.export(folder))


def slices(gain: float, errors: int = 0) -> list[Slice]:
    """Of a trace's replay, as sent and changed: what a machine that is off by half a percent measures of such a gain."""
    chance = np.random.default_rng(7)
    return [
        Slice(
            **{name: 0 for name, field in Slice.model_fields.items() if field.is_required()}  # type: ignore[arg-type]
            | {"errors": errors}
            | {"trial": trial, "arm": arm, "workload": "app", "connections": 4, "wall_s": 1.0, "half_wall_s": 0.5}
            | {"queries": round(ratio * 100_000 * math.exp(chance.normal(0, 0.005))), "half_queries": 50_000},
        )
        for trial in range(12)
        for arm, ratio in ((AS_SENT, 1.0), (CHANGED, gain))
    ]


def experiment(gain: float) -> tuple[Comparison, ...]:
    """What is said of them."""
    return of_suspect(comparisons(slices(gain), AS_SENT))


def result(measured: list[Slice]) -> Result:
    """Of a run that measured these."""
    plan = Plan(
        trials=12,
        rounds=1,
        slice_s=1,
        lead_s=0.3,
        warmup_s=0,
        seed=7,
        headline_connections=4,
        server_cpus=(0,),
        client_cpus=(1,),
        placement="",
    )
    experiment = Experiment(
        plan=plan,
        arms=(),
        baseline=AS_SENT,
        loads=(),
        levels=(),
        comparisons=comparisons(measured, AS_SENT),
        confidence=0.95,
        steal_share=0.0,
        flags=(),
    )
    return Result(
        run="20261123-120000-prove",
        started_at="2026-11-23T12:00:00+00:00",
        command="upshift stack prove",
        upshift_version="1",
        level="",
        machine=MACHINE,
        source=Source(kind="mysql", version="", origin="", sha256="", verified="none", path=Path("/")),
        stages=(),
        builds=(),
        hot_set=None,
        profile_notes=(),
        verify=None,
        experiment=experiment,
        warnings=(),
        package="",
    )
