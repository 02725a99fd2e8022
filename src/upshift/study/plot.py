"""The rows of a study against all off, drawn: each ratio with its interval on a logarithmic axis."""

from __future__ import annotations

import math
from collections.abc import Callable

from markupsafe import Markup

from upshift.measure.model import Load
from upshift.measure.statistics import HIGHER_IS_BETTER
from upshift.study import wording
from upshift.study.result import Cell, StudyResult

_WIDTH_PX, _ROW_PX, _AXIS_PX = 1000, 26, 40
_LABEL_PX, _FIGURE_PX = 300, 210
_LONGEST = 40
"""Characters of a row's name that its place holds."""
_WIDEST = 1.5
"""An interval is drawn to at most this factor beyond the estimates: one that is wider would press all others together."""
_TICKS = (0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.5, 1.7, 2, 2.5, 3, 4, 5, 7, 10)


def rows_plot(result: StudyResult, load: Load) -> Markup:
    """An SVG of the rows that have figures under ``load``; empty when there are none."""
    cells = [cell for cell in result.cells if cell.load == load]
    if not cells:
        return Markup("")
    ratios = [1.0, *(cell.effect.ratio for cell in cells)]
    low = max(min(*ratios, *(cell.effect.ci_low for cell in cells)), min(ratios) / _WIDEST)
    high = min(max(*ratios, *(cell.effect.ci_high for cell in cells)), max(ratios) * _WIDEST)
    low, high = low / 1.03, high * 1.03

    def across(ratio: float) -> float:
        place = math.log(min(max(ratio, low), high) / low) / math.log(high / low)
        return _LABEL_PX + place * (_WIDTH_PX - _LABEL_PX - _FIGURE_PX)

    bottom = _ROW_PX * len(cells)
    drawn = [_tick(tick, across(tick), bottom) for tick in _ticks(low, high)]
    drawn += [_row(result, cell, number, across) for number, cell in enumerate(cells)]
    said = f"{load.workload}, each row against all off"
    return Markup('<svg class="rows" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        _WIDTH_PX, bottom + _AXIS_PX, said, Markup("").join(drawn)
    )


def label(result: StudyResult, row: str) -> str:
    """A row's name; in a design of steps how far it goes, as its ratio is that of all steps so far."""
    names = [result.design.name(each) for each in result.design.rows]
    if result.design.kind == "steps":
        return f"up to {result.design.factors[names.index(row) - 1].name}"
    return row


def _ticks(low: float, high: float) -> list[float]:
    """At most some eight of them, 1 always among them."""
    inside = [tick for tick in _TICKS if low <= tick <= high]
    every = math.ceil(len(inside) / 8)
    at_one = inside.index(1)
    return [tick for number, tick in enumerate(inside) if (number - at_one) % every == 0]


def _tick(tick: float, x: float, bottom: float) -> Markup:
    base = ' class="base"' if tick == 1 else ""
    return Markup('<line{} x1="{:.1f}" x2="{:.1f}" y1="0" y2="{}"/><text class="tick" x="{:.1f}" y="{}">{:g}x</text>').format(
        Markup(base), x, x, bottom, x, bottom + 18, tick
    )


def _row(result: StudyResult, cell: Cell, number: int, across: Callable[[float], float]) -> Markup:
    middle = _ROW_PX * (number + 0.5)
    name = label(result, cell.row)
    short = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
    better = (cell.effect.ratio > 1) == HIGHER_IS_BETTER[result.metric]
    called = cell.verdict in ("faster", "slower")
    colour = ("good" if better else "bad") if called else "open"
    return Markup(
        '<g class="{}"><title>{}</title><text class="name" x="{}" y="{:.1f}">{}</text>'
        '<line x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/><circle cx="{:.1f}" cy="{:.1f}" r="5"/>'
        '<text class="figure" x="{}" y="{:.1f}">{}</text></g>'
    ).format(
        colour,
        cell.row,
        _LABEL_PX - 16,
        middle + 4,
        short,
        across(cell.effect.ci_low),
        across(cell.effect.ci_high),
        middle,
        middle,
        across(cell.effect.ratio),
        middle,
        _WIDTH_PX - _FIGURE_PX + 12,
        middle + 4,
        wording.times(cell.effect),
    )
