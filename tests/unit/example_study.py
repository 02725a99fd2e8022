"""A study's samples and result, made up at exact rates."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from upshift.machine import describe_machine
from upshift.measure.model import Experiment, Load, Plan, Slice
from upshift.measure.statistics import comparisons, levels
from upshift.measure.variant import Variant
from upshift.run.record import StageRecord
from upshift.server.kind import Program
from upshift.study.analysis import Part, analyse
from upshift.study.change import Change
from upshift.study.crossing import Crossing
from upshift.study.designs import Design, Factor, make_design
from upshift.study.result import StudyResult, StudyRow
from upshift.study.terminal import show

LOADS = (
    Load(workload="reads", connections=1, held_out=False),
    Load(workload="reads", connections=8, held_out=False),
    Load(workload="writes", connections=8, held_out=True),
)
PLAN: dict[str, Any] = {
    "trials": 6,
    "rounds": 2,
    "slice_s": 1.0,
    "lead_s": 0.1,
    "warmup_s": 1.0,
    "seed": 1,
    "headline_connections": 8,
    "server_cpus": (0,),
    "client_cpus": (1,),
    "placement": "the server has 1 core and the load 1 core of its own",
}


def one_slice(arm: str, load: Load, trial: int, number: int, cpu_us: float) -> Slice:
    return Slice(
        **load.model_dump(),
        trial=trial,
        round=number,
        arm=arm,
        started_s=0.0,
        wall_s=1.0,
        queries=100_000,
        total_cpu_s=cpu_us / 10,
        user_cpu_s=cpu_us / 20,
        system_cpu_s=cpu_us / 20,
        client_cpu_s=0.1,
        errors=0,
        latency_ms_p50=1.0,
        latency_ms_p95=1.0,
        latency_ms_p99=None,
        other_cpu_s=0.0,
        steal_s=0.0,
        swapped_bytes=0,
        settled=True,
        attempt=0,
        half_queries=50_000,
        half_wall_s=0.5,
    )


def part(
    arms: Mapping[str, float], training: int = 0, trials: int = 6, noise: float = 0.002, seed: int = 1, rounds: int = 2
) -> Part:
    """Each arm's CPU time a query in microseconds; a trial's mood is common to its arms."""
    chance = np.random.default_rng(seed)
    slices = []
    for trial in range(trials):
        mood = chance.normal(0, 0.1)
        for load in LOADS:
            for arm, cpu_us in arms.items():
                for number in range(rounds):
                    luck = mood + chance.normal(0, noise)
                    slices.append(one_slice(arm, load, trial, number, cpu_us * math.exp(luck)))
    return Part(training=training, slices=tuple(slices))


def two_factors() -> Design:
    return make_design("full", [Factor(name="a", levels=("off", "on")), Factor(name="b", levels=("off", "on"))])


def result(design: Design, parts: tuple[Part, ...], crossings: tuple[Crossing, ...] = (), **changes: Any) -> StudyResult:
    names = {row: design.name(row) for row in design.rows}
    found = analyse(design, names, parts, LOADS, "total_cpu_us_per_query", crossings)
    rows = tuple(
        StudyRow(name=name, change=Change(), server="/bin/server", sha256="0" * 64, flags=(), same_as=None, died=None)
        for name in names.values()
    )
    base = {
        "run": "20261122-120000-study",
        "study": "example",
        "description": "Two factors <b>made up</b>.",
        "started_at": "2026-11-22T12:00:00+00:00",
        "command": "upshift study example.toml",
        "upshift_version": "0",
        "machine": describe_machine(),
        "stages": (StageRecord(name="measure 1", wall_s=60.0, cpu_s=1.0, peak_memory_bytes=0, cached=False),),
        "design": design,
        "metric": "total_cpu_us_per_query",
        "rows": rows,
        "loads": LOADS,
        "trials": 6,
        "trainings": 1,
        "plan": plan(),
        "recommended": (),
        "recommended_file": "",
        "confirmed": None,
        "flags": (),
        "warnings": (),
        **{name: getattr(found, name) for name in found._fields},
    }
    return StudyResult.model_validate({**base, **changes})


def confirmed() -> Experiment:
    """The set ``a`` against all off: better but for the load that is held out."""
    slices = [
        each.model_copy(update={"total_cpu_s": each.total_cpu_s * 1.2}) if each.held_out and each.arm == "a" else each
        for each in part({"off": 20.0, "a": 19.0}).slices
    ]
    arms = tuple(Variant(name=name, program=Program(kind="fake", binary=Path("/bin") / name)) for name in ("off", "a"))
    return Experiment(
        plan=plan(),
        arms=arms,
        baseline="off",
        loads=LOADS,
        levels=levels(slices, 0.95),
        comparisons=comparisons(slices, "off"),
        confidence=0.95,
        steal_share=0.0,
        flags=(),
    )


def shown(found: StudyResult) -> str:
    """What the terminal has of it."""
    console = Console(file=io.StringIO(), width=200)
    show(found, console)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def plan() -> Plan:
    return Plan.model_validate(PLAN)
