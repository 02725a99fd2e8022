"""A study's result as one HTML file that opens from disk: style and figures are in it, nothing is fetched."""

from __future__ import annotations

import math
from pathlib import Path

from markupsafe import Markup

from upshift.card import rows
from upshift.card.sentences import sentences
from upshift.measure.model import Load
from upshift.report import templates, words
from upshift.run.directory import write_text
from upshift.study import wording
from upshift.study.attribution import FactorEffect, judged_effect
from upshift.study.designs import Design
from upshift.study.losses import losses
from upshift.study.plot import rows_plot
from upshift.study.recommend import unconfirmed
from upshift.study.result import Cell, Crossed, StudyResult

_HERE = Path(__file__).parent
_DEEPEST = 0.2
"""A change of the logarithm that gets a heat map's full colour."""


def write_page(result: StudyResult, path: Path) -> None:
    """Write the page for people; a reader never meets half of it."""
    write_text(path, render(result))


def render(result: StudyResult) -> str:
    """The page as text."""
    cells = {(cell.row, cell.load.model_dump_json()): cell for cell in result.cells}
    return templates.page("page.html", _HERE).render(
        result=result,
        words=words,
        wording=wording,
        style=Markup((templates.FOLDER / "style.css").read_text(encoding="utf-8")),
        card_rows=rows,
        card_sentences=sentences(result.card) if result.card else (),
        unit=lambda load: _unit(result, load),
        cell=lambda row, load: cells.get((row, load.model_dump_json())),
        rows_plot=lambda load: rows_plot(result, load),
        base_value=lambda load: base_value(result, load),
        judged=lambda each: judged_effect(result.design, each),
        heat=lambda each: _heat(result.design, each),
        losses=losses(result),
        notes=wording.notes(result),
        own_cpus={row.name: row.change for row in result.rows if row.same_as is None},
        confirmed=result.confirmed is not None and not unconfirmed(result.confirmed, result.metric),
        crossed=crossed_cells(result),
    )


def _unit(result: StudyResult, load: Load) -> str:
    """Of a load's figures: what QPS counts may be transactions."""
    if result.metric == "qps" and load.workload in result.transactions:
        return words.metric_name(result.metric, transactions=True)
    return words.UNITS[result.metric]


def base_value(result: StudyResult, load: object) -> str:
    """All off under this load, in the metric's unit."""
    own = [cell for cell in result.cells if cell.load == load]
    return words.figure(own[0].value / own[0].effect.ratio) if own else ""


def _heat(design: Design, each: FactorEffect) -> str:
    """A cell's colour: green better, red worse, the deeper the more; none where nothing was found."""
    effect = judged_effect(design, each)
    if effect is None or each.verdict not in ("faster", "slower"):
        return ""
    depth = min(1.0, abs(math.log(effect.ratio)) / _DEEPEST)
    colour = "good" if each.verdict == "faster" else "bad"
    return f"background: color-mix(in srgb, var(--{colour}) {60 * depth:.0f}%, transparent)"


def row_cells(result: StudyResult, row: str) -> list[Cell | None]:
    """A row's figures, in the order of the loads; None under a load of which the row has none."""
    found = {cell.load.model_dump_json(): cell for cell in result.cells if cell.row == row}
    return [found.get(load.model_dump_json()) for load in result.loads]


def crossed_cells(result: StudyResult) -> dict[str, list[Crossed | str]]:
    """By row, in the order of the rows and then of the loads: what training on another workload does there.

    A word stands where the row is the one to compare with, or has nothing to be compared with.
    """
    found = {(each.row, each.load.model_dump_json()): each for each in result.crossed}
    owns = {(each.own, each.load.model_dump_json()) for each in result.crossed}
    rows = [row.name for row in result.rows if any(row.name in (each.row, each.own) for each in result.crossed)]
    keys = [load.model_dump_json() for load in result.loads]
    return {row: [found.get((row, key)) or ("its own" if (row, key) in owns else "–") for key in keys] for row in rows}
