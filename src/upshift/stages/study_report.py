"""A study's result: as JSON, as a page, as raw samples, and the recommended set as a file."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from upshift import __version__
from upshift.instructions.model import Instructions
from upshift.machine import describe_machine
from upshift.measure.model import Experiment
from upshift.measure.quality import of_parts
from upshift.measure.speed import slowed_share
from upshift.measure.variant import Variant
from upshift.parquet import database, quoted, read_from, writing
from upshift.run.directory import write_json
from upshift.stages.card import Carded
from upshift.stages.lab import Lab
from upshift.stages.measure import asked_of, in_transactions, with_settings
from upshift.stages.study import Measured, parts_of
from upshift.stages.work import Measuring
from upshift.study import wording
from upshift.study.analysis import Analysis, uncounted
from upshift.study.attribution import Attribution
from upshift.study.designs import Row
from upshift.study.file import Study
from upshift.study.page import write_page
from upshift.study.plan import Arm, StudyPlan
from upshift.study.recommended import write_recommended
from upshift.study.result import StudyResult, StudyRow
from upshift.values import file_sha256


class Best(NamedTuple):
    """The set that a study recommends."""

    row: Row | None
    """None: nothing helps."""
    arm: Arm | None = None
    """None also when no server can be made of it."""
    confirmed: Experiment | None = None
    lacking: str = ""
    """Why it was not confirmed, as a sentence; empty when it was, and when nothing had to be."""


def report_study(
    lab: Lab,
    study: Study,
    plan: StudyPlan,
    measuring: Measuring,
    servers: tuple[Variant, ...],
    same: dict[str, str],
    carded: Carded,
    measured: Measured,
    found: Analysis,
    counted: Instructions,
    executed: Attribution | None,
    lacking: Sequence[str],
    best: Best,
) -> StudyResult:
    """Written into the run's folder: ``result.json``, ``report.html``, ``samples.parquet``, ``recommended.toml``.

    ``lacking`` says which servers are not what their recipes ask for.
    """
    confirmed = best.confirmed
    standing = tuple(first for first in dict.fromkeys(same.values()) if first not in measured.died)
    file = write_recommended(lab.run.path / "recommended.toml", study, best.arm, confirmed) if best.arm else None
    _join(parts_of(lab.run.path), lab.run.path / "samples.parquet")
    result = StudyResult(
        run=lab.run.name,
        study=study.name,
        description=study.description,
        started_at=lab.run.manifest.started_at,
        command=shlex.join(lab.run.manifest.command),
        upshift_version=__version__,
        machine=describe_machine(),
        card=carded.card,
        stages=lab.stages.records(),
        design=plan.design,
        metric=study.metric,
        settings=with_settings(lab, servers[:1], measuring)[0].settings,
        rows=tuple(_row(arm, server, same, measured) for arm, server in zip(plan.arms, servers, strict=True)),
        loads=asked_of(measuring),
        transactions=in_transactions(measuring),
        trials=plan.trials,
        trainings=study.trainings,
        layouts=study.layouts,
        # The options have one trial where the budget says how many there are.
        plan=measuring.plan.model_copy(update={"trials": plan.trials}),
        cells=found.cells,
        cells_confidence=found.cells_confidence,
        crossed=found.crossed,
        crossed_confidence=found.crossed_confidence,
        effects=found.effects,
        by_load=found.by_load,
        instructions=counted,
        by_instructions=executed,
        steps=found.steps,
        variance=found.variance,
        recommended=_names(plan, best.row) if best.row else (),
        recommended_file=str(file) if file else "",
        confirmed=confirmed,
        slowed_share=slowed_share(*(part.slices for part in measured.parts)),
        flags=of_parts((*(confirmed.flags if confirmed else ()), *measured.flags)),
        warnings=(
            *filter(None, (best.lacking, carded.lacking)),
            *lacking,
            *_warnings(plan, same, measured),
            *((wording.WITHOUT_PAIRS,) if found.effects.without_pairs else ()),
            *uncounted_warnings(standing, counted, measuring.counted),
        ),
    )
    write_json(lab.run.path / "result.json", result.model_dump(mode="json"))
    write_page(result, lab.run.path / "report.html")
    return result


def _row(arm: Arm, server: Variant, same: dict[str, str], measured: Measured) -> StudyRow:
    first = same[arm.name]
    return StudyRow(
        name=arm.name,
        change=arm.change,
        server=str(server.program.binary),
        sha256=file_sha256(server.program.binary),
        flags=arm.recipe.flags if arm.recipe else (),
        same_as=first if first != arm.name else None,
        died=measured.died.get(first),
    )


def _warnings(plan: StudyPlan, same: dict[str, str], measured: Measured) -> tuple[str, ...]:
    dead = [f"row '{name}' was left out: {why.splitlines()[0]}" for name, why in measured.died.items()]
    idle = [factor.name for number, factor in enumerate(plan.design.factors) if _idle(plan, same, number)]
    return (*dead, *(f"factor '{name}' changes nothing: the servers with it and without are the same" for name in idle))


def uncounted_warnings(arms: tuple[str, ...], counted: Instructions, workloads: tuple[str, ...]) -> tuple[str, ...]:
    """Which rows are not in the effects on instructions, and why; one sentence where none is."""
    without = uncounted(arms, counted, workloads)
    if not workloads or len(without) == len(arms):
        why = counted.not_counted[0] if counted.not_counted else "no workload has a fixed command"
        return (f"no row's instructions of a query were counted: {why}",)
    named = {arm: [each for each in counted.not_counted if f"'{arm}'" in each] for arm in without}
    return tuple(
        f"row '{arm}' is left out of the instructions of a query: {reasons[0] if reasons else 'it was not counted'}"
        for arm, reasons in named.items()
    )


def _idle(plan: StudyPlan, same: dict[str, str], number: int) -> bool:
    """Whether all rows that differ in this factor alone have the same server."""
    names = {arm.row: same[arm.name] for arm in plan.arms}
    pairs = [
        (names[row], names[off]) for row in names if row[number] and (off := (*row[:number], 0, *row[number + 1 :])) in names
    ]
    return bool(pairs) and all(on == off for on, off in pairs)


def _names(plan: StudyPlan, row: Row) -> tuple[str, ...]:
    return tuple(plan.design.name(row).split("+"))


def _join(parts: list[Path], target: Path) -> None:
    """All parts' slices in one file, with the part that each belongs to; trials are counted within a part."""
    files = ", ".join(map(read_from, parts))
    fresh = target.with_suffix(".new")
    with writing(target), database() as base:
        named = "parse_filename(filename, true) AS part"
        rows = f"SELECT * EXCLUDE filename, {named} FROM read_parquet([{files}], filename = true, union_by_name = true)"
        base.execute(f"COPY ({rows}) TO {quoted(fresh)} (FORMAT parquet)")
    fresh.replace(target)
