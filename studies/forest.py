"""A forest plot as SVG: estimates with their intervals, one row each, on a logarithmic axis. For the pictures in docs/."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_ROW_PX, _LABEL_PX, _AXIS_PX, _FIGURES_PX, _TOP_PX, _BOTTOM_PX = 26, 250, 420, 270, 44, 46
_TICKS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.2, 1.5, 2, 3, 4, 6, 8, 10, 15, 20, 30, 50, 100, 200)
_GREY, _INK, _LINE = "#8a8f98", "#20242a", "#2f6fde"


@dataclass(frozen=True)
class Row:
    """A ratio with its 95 % interval; a row with a label alone is a heading."""

    label: str
    ratio: float | None = None
    low: float = 1.0
    high: float = 1.0
    note: str = ""


def forest(title: str, axis: str, rows: Sequence[Row]) -> str:
    """The picture. Ratios must be above 0; the axis holds all intervals, and 1."""
    measured = [row for row in rows if row.ratio is not None]
    low = min(1.0, *(row.low for row in measured)) / 1.05
    high = max(1.0, *(row.high for row in measured)) * 1.05
    width, height = _LABEL_PX + _AXIS_PX + _FIGURES_PX, _TOP_PX + _ROW_PX * len(rows) + _BOTTOM_PX

    def x(value: float) -> float:
        return _LABEL_PX + _AXIS_PX * (math.log(value) - math.log(low)) / (math.log(high) - math.log(low))

    bottom = _TOP_PX + _ROW_PX * len(rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        _text(12, 24, title, weight="bold"),
    ]
    last = -math.inf
    for tick in (tick for tick in _TICKS if low <= tick <= high):
        colour = _GREY if tick == 1 else "#e3e5e8"
        parts.append(f'<line x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{_TOP_PX}" y2="{bottom}" stroke="{colour}"/>')
        if x(tick) - last >= 30:
            parts.append(_text(x(tick), bottom + 17, f"{tick:g}", anchor="middle", colour=_GREY))
            last = x(tick)
    parts.append(_text(_LABEL_PX + _AXIS_PX / 2, bottom + 36, axis, anchor="middle", colour=_GREY))
    for number, row in enumerate(rows):
        parts += _row(row, _TOP_PX + _ROW_PX * (number + 0.5), x)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _row(row: Row, y: float, x: object) -> list[str]:
    assert callable(x)
    if row.ratio is None:
        return [_text(12, y + 4, row.label, weight="bold")]
    figures = f"{row.ratio:.2f} ({row.low:.2f} to {row.high:.2f}) {row.note}"
    return [
        _text(_LABEL_PX - 12, y + 4, row.label, anchor="end"),
        f'<line x1="{x(row.low):.1f}" x2="{x(row.high):.1f}" y1="{y}" y2="{y}" stroke="{_LINE}" stroke-width="2"/>',
        f'<circle cx="{x(row.ratio):.1f}" cy="{y}" r="4.5" fill="{_LINE}"/>',
        _text(_LABEL_PX + _AXIS_PX + 14, y + 4, figures.strip()),
    ]


def _text(x: float, y: float, text: str, *, anchor: str = "start", colour: str = _INK, weight: str = "normal") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}" font-weight="{weight}">{escape(text)}</text>'
