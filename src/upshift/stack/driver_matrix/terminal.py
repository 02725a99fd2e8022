"""The matrix on a terminal of 80 columns."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from upshift.stack.driver_matrix.model import DriversResult, Figure
from upshift.stack.driver_matrix.rows import COLUMNS, FIGURES, UNITS, checks, failures, lines, servers

_STYLES = {"bad": "red", "good": "green", "default": ""}


def show(result: DriversResult, figure: Figure, console: Console) -> None:
    """A table a server, then the basic tests, what failed, and what is missing."""
    for server in servers(result):
        table = Table(
            title=f"{server}: {FIGURES[figure]} {UNITS}",
            title_justify="left",
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            padding=(0, 1, 0, 0),
        )
        table.add_column("driver, setting", overflow="fold")
        for name in COLUMNS.values():
            table.add_column(name, justify="right", no_wrap=True)
        before = ""
        for line in lines(result, server, figure):
            if line.driver != before:
                table.add_row(Text(f"{line.driver} {line.version}", style="bold"))
                before = line.driver
            table.add_row(Text(f"  {line.setting}", style=_STYLES[line.kind]), *line.cells)
        console.print(table, soft_wrap=False)
        for driver, said in checks(result, server):
            console.print(Text(f"{driver}: basic tests: {said}"), soft_wrap=False)
        console.print()
    for said in failures(result):
        console.print(Text(f"no figures: {said}"), soft_wrap=False)
    for each in result.left_out:
        console.print(Text(f"left out: {each.what}: {each.why} ({each.hint})"), soft_wrap=False)
