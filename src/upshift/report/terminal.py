"""The result on a terminal: the verdict first, then the table behind it."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from upshift.measure.model import Comparison
from upshift.report.result import Result
from upshift.report.verdicts import headline, held_out, losses, sentence

_COLOURS = {"faster": "green", "slower": "red", "equivalent": "cyan", "inconclusive": "yellow"}
_METRICS = ("qps", "user_cpu_us_per_query", "system_cpu_us_per_query", "latency_ms_p99")


def show(result: Result, console: Console) -> None:
    """Print losses, the verdict, comparisons, stages and where things are."""
    for one in losses(result):
        console.print(f"[red]LOSS[/] {escape(sentence(one))}")
    for one in (*headline(result), *held_out(result)):
        console.print(f"[{_COLOURS[one.verdict]}]{escape(sentence(one))}[/]")
    for flag in result.experiment.flags:
        console.print(f"[yellow]flag[/] {escape(flag.message)}; {escape(flag.hint)}")
    for warning in result.warnings:
        console.print(f"[yellow]note[/] {escape(warning)}")
    console.print(_comparisons(result))
    if result.stages:
        console.print(_stages(result))
    if result.package:
        console.print(f"package: {escape(result.package)}", soft_wrap=True)


def _comparisons(result: Result) -> Table:
    table = Table(title=f"against {result.experiment.baseline}: ratio (95 % interval)", title_justify="left")
    for name in ("arm", "workload", "threads", "QPS", "user CPU/query", "system CPU/query", "p99"):
        table.add_column(name)
    cells: dict[tuple[str, str, int], dict[str, Comparison]] = {}
    for one in result.experiment.comparisons:
        name = one.workload + (" *" if one.held_out else "")
        cells.setdefault((one.arm, name, one.threads), {})[one.metric] = one
    for (arm, workload, threads), by_metric in cells.items():
        row = [_cell(by_metric[metric]) if metric in by_metric else "" for metric in _METRICS]
        table.add_row(arm, workload, str(threads), *row)
    table.caption = "* held out of training. QPS: more is better; the others: less is better."
    return table


def _cell(one: Comparison) -> str:
    colour = _COLOURS[one.verdict]
    if one.ci_high > 1e6:
        return f"[{colour}]{one.ratio:.2f}[/]"
    return f"[{colour}]{one.ratio:.2f}[/] ({one.ci_low:.2f}-{one.ci_high:.2f})"


def _stages(result: Result) -> Table:
    table = Table("stage", "wall s", "CPU s", "peak memory", "", title="stages", title_justify="left")
    for each in result.stages:
        memory = f"{each.peak_memory_bytes / 2**30:.1f} GiB"
        table.add_row(each.name, f"{each.wall_s:.0f}", f"{each.cpu_s:.0f}", memory, "kept" if each.cached else "")
    return table
