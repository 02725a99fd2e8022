"""The result as one HTML file that opens from disk."""

from __future__ import annotations

from pathlib import Path

import jinja2
import plotly.graph_objects as go
import plotly.io
from plotly.offline import get_plotlyjs

from upshift.report import charts
from upshift.report.result import Result
from upshift.report.verdicts import headline, held_out, interval, losses, sentence

_HERE = Path(__file__).parent


def write_html(result: Result, path: Path) -> None:
    """Write the page; plotly's script is embedded once, and nothing is loaded from anywhere."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["duration"] = _duration
    environment.filters["size"] = _size
    build_stages = [stage for stage in result.stages if "build" in stage.name or stage.name == "post-link"]
    page = environment.get_template("template.html").render(
        result=result,
        style=(_HERE / "style.css").read_text(),
        plotly_script=get_plotlyjs(),
        losses=losses(result),
        headline=headline(result),
        held_out=held_out(result),
        sentence=sentence,
        interval=interval,
        forest=_figure(charts.forest(result)),
        throughput=[(name, _figure(figure)) for name, figure in charts.throughput(result)],
        cpu=_figure(charts.cpu_per_query(result)),
        build_cpu_s=sum(stage.cpu_s for stage in build_stages),
        wall_s=sum(stage.wall_s for stage in result.stages),
    )
    partial = path.with_suffix(".partial")
    partial.write_text(page)
    partial.replace(path)


def _figure(figure: go.Figure) -> str:
    return str(
        plotly.io.to_html(figure, full_html=False, include_plotlyjs=False, config={"displaylogo": False, "responsive": True})
    )


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min"


def _size(size_bytes: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size_bytes < 1024:
            return f"{size_bytes:.0f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} GiB"
