"""A report on a terminal: where the time goes, the suspects, what is ruled out, what could not be seen."""

from __future__ import annotations

import textwrap

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from upshift.stack.evidence import Client
from upshift.stack.report import Report
from upshift.stack.suspects.finding import count
from upshift.stack.suspects.model import SUSPECTS, Accused, Figure, Finding, Unit

BUDGET_PARTS = {
    "client gap": "client_gap_us",
    "network": "network_us",
    "server": "server_us",
    "locks": "lock_us",
    "commit": "commit_us",
    "request transfer": "untold_us",
}
"""The budget's lines: name, and the part's key."""
_STATEMENTS = 3
_TEXT = 76
_STYLES = {"counted": "green", "measured": "green", "proven": "bold green", "inferred": "yellow"}


def show(report: Report, console: Console) -> None:
    """Print the report on ``console``, at its width."""
    console.print(Text(_headline(report), style="bold"), soft_wrap=False)
    for note in report.notes:
        console.print(Text.assemble(("NOTE ", "bold yellow"), note), soft_wrap=False)
    for client in report.clients:
        console.print(Padding(Text(_client(client), style="dim"), (0, 0, 0, 1)), soft_wrap=False)
    for table in (_budget(report), _statements(report)):
        if table.row_count:
            console.print()
            console.print(table, soft_wrap=False)
    for finding in report.findings:
        console.print()
        _finding(finding, console)
    console.print()
    _rest(report, console)


def _headline(report: Report) -> str:
    transactions = count(report.budget.transactions, "transaction")
    trips = report.budget.round_trips
    requests = count(report.trace.exchanges, "request") if trips is None else count(trips, "round trip")
    of = f"{transactions}, {requests}, {_us(report.total_us)}"
    if not report.findings:
        return f"No suspect: {of}"
    first = report.findings[0]
    named = f"{count(len(report.findings), 'suspect')}, first {first.suspect}, {SUSPECTS[first.suspect].title}"
    return f"{named}: at most {first.share:.0%} of the time ({of})"


def _client(client: Client) -> str:
    said = " ".join(each for each in (client.name, client.version) if each) or "clients that do not name themselves"
    known = f", {client.driver}" if client.driver and client.driver != client.name else ""
    return f"{said}{known}: {count(client.connections, 'connection')}, {count(client.transactions, 'transaction')}"


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number and column != "what" else "left", overflow="fold")
    return table


def _budget(report: Report) -> Table:
    budget = report.budget
    table = _table("where the time goes", "part", "share", "a transaction", "what")
    what = {
        "client gap": "the server waits for the next request",
        "network": f"round trips, each at its least ({budget.round_trip_us} µs or more)",
        "server": "execution" if budget.lock_us is not None else "execution, with its lock waits",
        "locks": "waits that the server counted",
        "commit": "COMMIT",
        "request transfer": "requests on their way: client or network",
    }
    for name, key in BUDGET_PARTS.items():
        part_us = getattr(budget, key)
        if part_us is not None:
            share = f"{budget.share(part_us):.1%}"
            table.add_row(name, share, _us(part_us / max(1, budget.transactions)), Text(what[name], style="dim"))
    return table


def _statements(report: Report) -> Table:
    table = _table("statements with the most time", "statement", "share", "executions", "µs each", "suspects")
    for each in report.statements:
        mean = each.time_us / each.executions if each.executions else 0
        table.add_row(
            textwrap.shorten(each.text, 40, placeholder=" ..."),
            f"{each.share:.1%}",
            f"{each.executions:,}",
            f"{mean:,.0f}",
            " ".join(each.suspects),
        )
    return table


def _finding(finding: Finding, console: Console) -> None:
    suspect = SUSPECTS[finding.suspect]
    head = Text.assemble(
        (f"{finding.suspect} {suspect.title}", "bold"),
        f"  at most {finding.share:.1%} of the time  ",
        (finding.status, _STYLES.get(finding.status, "red")),
    )
    console.print(head, soft_wrap=False)
    _line(console, "seen", finding.said)
    if finding.evidence:
        _line(console, "evidence", ", ".join(map(_figure, finding.evidence)))
    for each in finding.statements[:_STATEMENTS]:
        _line(console, f"{each.share:.1%}", textwrap.shorten(each.text, _TEXT * 2, placeholder=" ...") + _figures(each))
    if len(finding.statements) > _STATEMENTS:
        _line(console, "", f"and {len(finding.statements) - _STATEMENTS} more: --json has them")
    for fix in finding.fixes:
        _line(console, "fix", f"{fix.driver}: {fix.text}" if fix.driver else fix.text, "cyan")
    _line(console, "limits", finding.limits, "dim")


def _line(console: Console, name: str, text: str, style: str = "") -> None:
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(width=9, justify="right", style="dim")
    table.add_column(overflow="fold")
    table.add_row(name, Text(text, style=style))
    console.print(table, soft_wrap=False)


def _figures(each: Accused) -> str:
    return f" ({', '.join(map(_figure, each.figures))})" if each.figures else ""


_UNITS: dict[Unit, str] = {"us": " µs", "bytes": " bytes", "us_per_round_trip": " µs"}


def _figure(each: Figure) -> str:
    name = each.name.removesuffix("_us").replace("_us_", " ").replace("_", " ")
    if each.unit == "share":
        return f"{name} {each.value:.1%}"
    number = f"{each.value:,.0f}" if float(each.value).is_integer() or abs(each.value) >= 100 else f"{each.value:,.2f}"
    return f"{name} {number}{_UNITS.get(each.unit, '')}"


def _rest(report: Report, console: Console) -> None:
    clear = ", ".join(f"{each.suspect} {SUSPECTS[each.suspect].title}" for each in report.innocent)
    if clear:
        console.print(Text.assemble(("ruled out  ", "bold"), clear), soft_wrap=False)
    for each in report.unseen:
        said = f"{each.suspect} {SUSPECTS[each.suspect].title}: {each.why}"
        console.print(Text.assemble(("not seen  ", "bold"), said), soft_wrap=False)


def _us(us: float) -> str:
    if us >= 10_000_000:
        return f"{us / 1e6:,.0f} s"
    if us >= 1_000_000:
        return f"{us / 1e6:.1f} s"
    return f"{us / 1000:,.1f} ms" if us >= 10_000 else f"{us:,.0f} µs"
