"""The page's charts, as plotly figures in plain JSON.

Colours are tokens such as ``@ink``: the page's script puts the style sheet's colour of that name in their place, so that
charts follow light, dark and print. Every chart's figures are also in a table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from upshift.measure.model import Comparison, Level, Load, Metric
from upshift.report import words
from upshift.report.findings import Findings

Figure = dict[str, Any]
"""``{"data": ..., "layout": ...}`` as Plotly.newPlot takes it."""

ARM_COLOURS = ("@arm0", "@arm1", "@arm2", "@arm3", "@arm4", "@arm5", "@arm6", "@arm7")
MARKS: Mapping[str, str] = {
    "circle": "●",
    "square": "■",
    "diamond": "◆",
    "triangle-up": "▲",
    "triangle-down": "▼",
    "cross": "✚",
    "x": "✖",
    "star": "★",
    "hexagon": "⬢",
}
"""plotly's symbols as letters: who does not tell the colours apart tells the marks apart. There are more of them than colours,
so that a colour that comes again has another mark.
"""
_VERDICT_COLOURS = {"faster": "@good", "slower": "@bad", "equivalent": "@same", "inconclusive": "@open"}
_TICKS = (
    (1.12, (0.94, 0.96, 0.98, 1.0, 1.02, 1.04, 1.06)),
    (1.9, (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8)),
    (math.inf, (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0)),
)
"""Ticks for an axis that spans up to so many times its lower limit."""
_WIDEST = 1.5
"""A chart of ratios shows its estimates and at most this factor beyond them; longer intervals end in an arrow."""
_ROW_PX = 30


def colour(arms: Sequence[str], baseline: str, arm: str) -> str:
    """The baseline is grey; the others keep their colour through the whole report."""
    if arm == baseline:
        return ARM_COLOURS[0]
    others = [name for name in arms if name != baseline]
    return ARM_COLOURS[1 + others.index(arm) % (len(ARM_COLOURS) - 1)]


def mark(arms: Sequence[str], baseline: str, arm: str) -> str:
    """The symbol of an arm's points: a circle of the baseline; of the others another each, as far as there are any."""
    others = [name for name in arms if name != baseline]
    symbols = list(MARKS)
    return symbols[0] if arm == baseline else symbols[1 + others.index(arm) % (len(symbols) - 1)]


def forest(comparisons: Sequence[Comparison], axis: Axis) -> Figure:
    """Ratios with their intervals, one row each, on a logarithmic axis; what leaves the axis ends in an arrow."""
    rows = len(comparisons)
    labels = [axis.label(each) for each in comparisons]
    data = [trace for y, each in enumerate(comparisons) for trace in _interval(y, each, labels[y], axis)]
    layout = _layout(56 + _ROW_PX * rows)
    layout["margin"] = {"l": axis.label_px, "r": 250, "t": 8, "b": 44}
    layout["xaxis"] |= {
        "type": "log",
        "range": [math.log10(axis.low), math.log10(axis.high)],
        "tickvals": axis.ticks(),
        "ticktext": [f"{tick:g}" for tick in axis.ticks()],
        "title": {"text": "times the baseline's throughput; better →", "font": {"size": 12}},
    }
    layout["yaxis"] |= {
        "tickvals": list(range(rows)),
        "ticktext": [f"{label}  " for label in labels],
        "range": [rows - 0.4, -0.6],
        "showgrid": False,
    }
    line = {"color": "@ink", "width": 1, "dash": "dot"}
    layout["shapes"] = [{"type": "line", "x0": 1, "x1": 1, "yref": "paper", "y0": 0, "y1": 1, "line": line}]
    layout["annotations"] = [note for y, each in enumerate(comparisons) for note in _figures_beside(y, each)]
    return {"data": data, "layout": layout}


class Axis(NamedTuple):
    """The axis of ratios that several charts share, and the room for their rows' labels."""

    low: float
    high: float
    label_px: int
    name_arm: bool

    @classmethod
    def over(cls, comparisons: Sequence[Comparison], *, name_arm: bool) -> Axis:
        """It holds 1 and every estimate, and of longer intervals as much as is of use."""
        estimates = [1.0, *(each.ratio for each in comparisons)]
        least, most = min(estimates), max(estimates)
        low = max(min(least, *(each.ci_low for each in comparisons)), least / _WIDEST)
        high = min(max(most, *(each.ci_high for each in comparisons)), most * _WIDEST)
        margin = max(1.01, (high / low) ** 0.06)
        longest = max(len(_row_name(each, name_arm)) for each in comparisons)
        return cls(low / margin, high * margin, min(360, 24 + int(7.5 * longest)), name_arm)

    def label(self, each: Comparison) -> str:
        return escape(_row_name(each, self.name_arm))

    def ticks(self) -> list[float]:
        ticks = next(ticks for span, ticks in _TICKS if self.high / self.low <= span)
        return [tick for tick in ticks if self.low <= tick <= self.high]


def against_connections(findings: Findings, workload: str, metric: Metric) -> Figure:
    """A metric against connections, one line an arm; bars when there is one number of connections only."""
    loads = findings.loads_of(workload)
    unit = words.unit(metric, transactions=findings.counts_transactions(workload))
    data: list[Any] = []
    for arm in findings.arms:
        levels = [level for load in loads if (level := findings.level(arm, load, metric))]
        paint = colour(findings.arms, findings.baseline, arm)
        if len(loads) == 1:
            data += [_bar(level, paint, unit) for level in levels]
        elif levels:
            data.append(_line(levels, arm, paint, mark(findings.arms, findings.baseline, arm), unit))
    layout = _layout(250 if len(loads) > 1 else 190)
    layout["margin"] = {"l": 10, "r": 12, "t": 10, "b": 40}
    # 20000 as 20k; below 1, the same format would write 0.5 as 500m.
    thousands = metric == "qps" and any(value >= 1000 for trace in data for value in trace["y"])
    layout["yaxis"] |= {"rangemode": "tozero", "automargin": True, "nticks": 6, "tickformat": "~s" if thousands else "~g"}
    layout["xaxis"] |= {"showgrid": False}
    if len(loads) == 1:
        layout["xaxis"] |= {"type": "category"}
        layout["bargap"] = 0.55
    else:
        connections = [load.connections for load in loads]
        layout["xaxis"] |= {
            "type": "log",
            "tickvals": connections,
            "ticktext": [str(number) for number in connections],
            "range": [math.log10(connections[0]) - 0.08, math.log10(connections[-1]) + 0.08],
            "title": {"text": "connections", "font": {"size": 12}},
        }
    return {"data": data, "layout": layout}


def cpu_per_query(findings: Findings, loads: Sequence[Load]) -> Figure:
    """CPU time per query, a bar an arm with its total beside it, divided into user and system; grouped by load."""
    rows = [(load, arm) for load in loads for arm in findings.arms if findings.level(arm, load, "user_cpu_us_per_query")]
    positions: list[float] = []
    at = 0.0
    for number, (load, _arm) in enumerate(rows):
        at += 1.55 if number and rows[number - 1][0] != load else 1.0
        positions.append(at)
    data: list[Any] = []
    metrics: tuple[tuple[Metric, str, str], ...] = (
        ("user_cpu_us_per_query", "user", "@user"),
        ("system_cpu_us_per_query", "system", "@system"),
    )
    for metric, name, paint in metrics:
        levels = [findings.level(arm, load, metric) for load, arm in rows]
        values = [level.value if level else 0 for level in levels]
        hover = [f"{escape(arm)}: {name} {words.figure(value)} µs" for (_load, arm), value in zip(rows, values, strict=True)]
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": name,
                "x": values,
                "y": positions,
                "width": 0.8,
                "marker": {"color": paint},
                "text": [words.figure(value) for value in values],
                "textposition": "inside",
                "insidetextanchor": "middle",
                "textangle": 0,
                "textfont": {"color": "@onbar", "size": 11},
                "hovertext": hover,
                "hoverinfo": "text",
            }
        )
    totals = [level.value if (level := findings.level(arm, load, "total_cpu_us_per_query")) else None for load, arm in rows]
    data.append(
        {
            "mode": "text",
            "x": [sum(trace["x"][number] for trace in data) for number in range(len(rows))],
            "y": positions,
            "text": [f" <b>{words.figure(total)}</b>" if total else "" for total in totals],
            "textposition": "middle right",
            "textfont": {"color": "@ink", "size": 12},
            "cliponaxis": False,
            "hoverinfo": "skip",
            "showlegend": False,
        }
    )
    layout = _layout(70 + int(24 * (at if rows else 1)))
    layout["margin"] = {"l": 10, "r": 60, "t": 30, "b": 40}
    layout["barmode"] = "stack"
    layout["showlegend"] = True
    layout["legend"] = {"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "traceorder": "normal"}
    layout["xaxis"] |= {"title": {"text": "µs of server CPU per query", "font": {"size": 12}}, "rangemode": "tozero"}
    layout["yaxis"] |= {
        "tickvals": positions,
        "ticktext": [
            f"{escape(load.workload)} ×{load.connections}  <b>{escape(arm)}</b>"
            if number == 0 or rows[number - 1][0] != load
            else f"<b>{escape(arm)}</b>"
            for number, (load, arm) in enumerate(rows)
        ],
        "range": [at + 0.6, 0.4],
        "showgrid": False,
        "automargin": True,
    }
    return {"data": data, "layout": layout}


def _line(levels: Sequence[Level], arm: str, paint: str, symbol: str, unit: str) -> Figure:
    return {
        "x": [level.connections for level in levels],
        "y": [level.value for level in levels],
        "error_y": _error_bars(levels, paint),
        "name": escape(arm),
        "mode": "lines+markers",
        "line": {"color": paint, "width": 2.5},
        "marker": {"size": 8, "color": paint, "symbol": symbol},
        "hovertext": [_hover(level, unit) for level in levels],
        "hoverinfo": "text",
    }


def _bar(level: Level, paint: str, unit: str) -> Figure:
    return {
        "type": "bar",
        "x": [escape(level.arm)],
        "y": [level.value],
        "error_y": _error_bars([level], "@ink"),
        "marker": {"color": paint},
        "hovertext": [_hover(level, unit)],
        "hoverinfo": "text",
    }


def _error_bars(levels: Sequence[Level], paint: str) -> Figure:
    """None where no interval is known: a bar up to 1e9 would flatten the chart."""
    known = [words.known(level.ci_low, level.ci_high) for level in levels]
    return {
        "type": "data",
        "symmetric": False,
        "array": [level.ci_high - level.value if ok else 0 for level, ok in zip(levels, known, strict=True)],
        "arrayminus": [level.value - level.ci_low if ok else 0 for level, ok in zip(levels, known, strict=True)],
        "color": paint,
        "thickness": 1.5,
        "width": 5,
        "visible": any(known),
    }


def _hover(level: Level, unit: str) -> str:
    limits = words.interval_of(level.ci_low, level.ci_high)
    more = f" ({limits})" if limits else ", interval not known"
    return f"{escape(level.arm)}, {words.count(level.connections, 'connection')}: {words.figure(level.value)} {unit}{more}"


def _marker(x: float, y: int, paint: str, symbol: str, size_px: int, hover: str) -> Figure:
    marker = {"color": paint, "symbol": symbol, "size": size_px}
    return {
        "x": [x],
        "y": [y],
        "mode": "markers",
        "cliponaxis": False,
        "marker": marker,
        "hovertext": [hover],
        "hoverinfo": "text",
    }


def _interval(y: int, each: Comparison, label: str, axis: Axis) -> list[Figure]:
    paint = _VERDICT_COLOURS[each.verdict]
    hover = f"{label}: {words.ratio(each)} ({words.measured(each)}), {words.verdict_name(each)}"
    left, right = max(axis.low, each.ci_low), min(axis.high, each.ci_high)
    line = {"color": paint, "width": 2.5}
    traces: list[Figure] = [{"x": [left, right], "y": [y, y], "mode": "lines", "line": line, "hoverinfo": "skip"}]
    if each.ci_low < axis.low:
        traces.append(_marker(left, y, paint, "triangle-left", 10, hover))
    if each.ci_high > axis.high:
        traces.append(_marker(right, y, paint, "triangle-right", 10, hover))
    return [*traces, _marker(each.ratio, y, paint, "circle", 10, hover)]


def _row_name(each: Comparison, name_arm: bool) -> str:
    return f"{each.workload} ×{each.connections}{'  ' + each.arm if name_arm else ''}"


def _figures_beside(y: int, each: Comparison) -> list[Figure]:
    columns = ((14, f"<b>{words.ratio(each)}</b>"), (62, words.interval(each, "–")), (160, words.verdict_name(each)))
    place = {"xref": "paper", "x": 1, "xanchor": "left", "y": y, "showarrow": False, "align": "left"}
    font = {"size": 12, "color": _VERDICT_COLOURS[each.verdict]}
    return [{**place, "xshift": shift_px, "text": text, "font": font} for shift_px, text in columns]


def _layout(height_px: int) -> Figure:
    axis = {"gridcolor": "@rule", "zeroline": False, "linecolor": "@rule", "tickfont": {"size": 12}, "fixedrange": True}
    return {
        "height": height_px,
        "showlegend": False,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": "@ink", "size": 12},
        "hoverlabel": {"bgcolor": "@panel", "bordercolor": "@rule", "font": {"color": "@ink"}},
        "xaxis": {**axis},
        "yaxis": {**axis},
    }
