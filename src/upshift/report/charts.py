"""The report's figures, as plotly figures: ratios with intervals, QPS against threads, CPU time per query."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go

from upshift.measure.model import Comparison, Level
from upshift.report.result import Result

_COLOURS = {"faster": "#1a7f4b", "slower": "#c0362c", "equivalent": "#3b7ea1", "inconclusive": "#b7791f"}
_ARM_COLOURS = ("#8a94a6", "#1a7f4b", "#7a4fb5", "#b7791f", "#3b7ea1")
_FONT = {"family": "system-ui, sans-serif", "size": 13}


def forest(result: Result) -> go.Figure:
    """Each QPS ratio with its 95 % interval, one a line; held-out workloads are named so."""
    found = [one for one in result.experiment.comparisons if one.metric == "qps"]
    found.sort(key=lambda one: (not one.held_out, one.workload, -one.threads, one.arm), reverse=True)
    figure = go.Figure()
    for one in found:
        bounded = one.ci_high < 1e6
        figure.add_trace(
            go.Scatter(
                x=[one.ratio],
                y=[_label(one, len(result.experiment.arms) > 2)],
                mode="markers",
                marker={
                    "size": 11,
                    "color": _COLOURS[one.verdict],
                    "symbol": "diamond" if one.held_out else "circle",
                },
                error_x=_error(one.ratio, one.ci_low, one.ci_high) if bounded else None,
                hovertext=f"{one.ratio:.3f} ({one.ci_low:.3f} to {one.ci_high:.3f}), {one.verdict}",
                showlegend=False,
            )
        )
    figure.add_vline(x=1, line_width=1, line_dash="dot", line_color="#888")
    return _styled(figure, height=110 + 34 * len(found), x_title=f"QPS ratio to {result.experiment.baseline}")


def throughput(result: Result) -> list[tuple[str, go.Figure]]:
    """QPS against threads, one figure a workload, one line an arm."""
    figures = []
    qps = [level for level in result.experiment.levels if level.metric == "qps"]
    for workload in dict.fromkeys(level.workload for level in qps):
        figure = go.Figure()
        for arm, colour in zip((arm.name for arm in result.experiment.arms), _ARM_COLOURS, strict=False):
            points = sorted(
                (one for one in qps if one.workload == workload and one.arm == arm),
                key=lambda one: one.threads,
            )
            figure.add_trace(_line(points, arm, colour))
        _styled(figure, height=300, x_title="client threads", y_title="QPS")
        figure.update_xaxes(type="category")
        figure.update_yaxes(rangemode="tozero")
        figures.append((workload, figure))
    return figures


def cpu_per_query(result: Result) -> go.Figure:
    """Server CPU time for each query at the most threads, user and system stacked, for each arm."""
    figure = go.Figure()
    levels = result.experiment.levels
    workloads = list(dict.fromkeys(level.workload for level in levels))
    most = {name: max(level.threads for level in levels if level.workload == name) for name in workloads}
    for arm, colour in zip((arm.name for arm in result.experiment.arms), _ARM_COLOURS, strict=False):
        for metric, opacity in (("user_cpu_us_per_query", 1.0), ("system_cpu_us_per_query", 0.45)):
            values = {
                one.workload: one.value
                for one in levels
                if one.arm == arm and one.metric == metric and one.threads == most[one.workload]
            }
            figure.add_trace(
                go.Bar(
                    x=workloads,
                    y=[values.get(name) for name in workloads],
                    name=f"{arm}, {'user' if opacity == 1.0 else 'system'}",
                    marker={"color": colour, "opacity": opacity},
                    offsetgroup=arm,
                )
            )
    figure.update_layout(barmode="stack")
    return _styled(figure, height=360, y_title="µs a query")


def _line(points: list[Level], arm: str, colour: str) -> go.Scatter:
    return go.Scatter(
        x=[point.threads for point in points],
        y=[point.value for point in points],
        name=arm,
        mode="lines+markers",
        line={"color": colour, "width": 2},
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [max(0.0, min(point.ci_high, point.value * 3) - point.value) for point in points],
            "arrayminus": [max(0.0, point.value - point.ci_low) for point in points],
            "thickness": 1.2,
        },
    )


def _error(value: float, low: float, high: float) -> dict[str, Any]:
    return {
        "type": "data",
        "symmetric": False,
        "array": [high - value],
        "arrayminus": [value - low],
        "thickness": 1.6,
    }


def _label(one: Comparison, several: bool) -> str:
    held = ", held out" if one.held_out else ""
    arm = f" [{one.arm}]" if several else ""
    return f"{one.workload} x{one.threads}{held}{arm}"


def _styled(figure: go.Figure, *, height: int, x_title: str = "", y_title: str = "") -> go.Figure:
    figure.update_layout(
        height=height,
        margin={"l": 10, "r": 10, "t": 20, "b": 40},
        font=_FONT,
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(128,128,128,0.06)",
        legend={"orientation": "h", "y": 1.12},
    )
    figure.update_xaxes(title=x_title, automargin=True, gridcolor="rgba(128,128,128,0.2)")
    figure.update_yaxes(title=y_title, automargin=True, gridcolor="rgba(128,128,128,0.2)")
    return figure
