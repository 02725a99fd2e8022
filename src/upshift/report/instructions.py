"""Instructions a query: as a table on the terminal, and as rows for the page."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from upshift.instructions.model import Instructions
from upshift.report import words

Row = tuple[str, str, str, str, str]
"""Workload, server, instructions a query, calls a query, ratio to the baseline; texts, the ratio empty for the baseline."""


def rows(found: Instructions) -> Iterator[Row]:
    """A row for each server and workload that was counted."""
    ratios = {(each.arm, each.workload): f"{each.ratio:.4f}" for each in found.ratios}
    for each in found.counts:
        figures = (f"{each.instructions_per_query:,.0f}", _figure(each.calls_per_query))
        yield (each.workload, each.arm, *figures, ratios.get((each.arm, each.workload), ""))


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:,.1f}"


def tool(found: Instructions) -> str:
    """What counted, with its version."""
    return f"{found.source} {found.version}"


def show(found: Instructions, console: Console) -> None:
    """Print what was counted, and what was not."""
    if found.counts:
        table = Table(
            title=f"Instructions a query, compared with {found.baseline}; counted by {tool(found)}",
            title_justify="left",
            title_style="dim",
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            padding=(0, 1, 0, 0),
        )
        for name in ("workload", "server"):
            table.add_column(name, overflow="fold")
        branches = any(each.taken_branches_per_query is not None for each in found.counts)
        for name in ("instructions", "calls", "ratio", *(("taken branches",) if branches else ())):
            table.add_column(name, justify="right")
        for row, each in zip(rows(found), found.counts, strict=True):
            table.add_row(*row, *((_figure(each.taken_branches_per_query),) if branches else ()))
        console.print(table, soft_wrap=False)
    if found.transactions:
        console.print(Text(f"{words.unit_sentence(found.transactions)}.", style="dim"), soft_wrap=False)
    for reason in found.not_counted:
        console.print(Text.assemble(("instructions: ", "bold yellow"), reason), soft_wrap=False)
