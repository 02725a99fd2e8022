"""A report on a terminal: the worst first, then what is well, then what nobody could tell."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from upshift.check.model import Finding, NotJudged, Report, Severity
from upshift.report import words

_STYLES: dict[Severity, str] = {"error": "bold red", "warning": "bold yellow", "note": "bold cyan"}
_INDENT, _LABEL = 4, 8
_LINES = 10


def show(report: Report, console: Console) -> None:
    """Print the report on ``console``, at its width."""
    where = "on this machine" if report.on_this_machine else "on another machine"
    console.print(
        Text.assemble((report.version, "bold"), f" at {report.server}, {where}, up {words.duration(report.uptime_s)}"),
        soft_wrap=False,
    )
    for finding in report.findings:
        console.print()
        _show_finding(finding, console)
    console.print()
    console.print(Text(_summary(report), style="bold"), soft_wrap=False)
    if report.well:
        _paragraph(console, f"{len(report.well)} looked at and well", [each.id for each in report.well])
    for why, rules in _by_reason(report.not_judged):
        _paragraph(console, f"{len(rules)} not judged: {why}", [each.id for each in rules])
    for section, why in report.unseen.items():
        _paragraph(console, f"not seen: {section}", [why])
    if report.ignored:
        _paragraph(console, f"{len(report.ignored)} left out as asked", report.ignored)


def _show_finding(finding: Finding, console: Console) -> None:
    heading = Text.assemble(
        (f"{finding.severity.upper()} ", _STYLES[finding.severity]), (finding.id, "bold"), f": {finding.title}"
    )
    console.print(heading, soft_wrap=False)
    _show_rows(console, ("found", Text(finding.evidence)))
    for name, lines in (("my.cnf", finding.my_cnf), ("SQL", finding.sql), ("shell", finding.shell)):
        for number, line in enumerate(lines[:_LINES]):
            label = " " * _INDENT + ("" if number else name).ljust(_LABEL)
            # In one piece, however long: it is there to be pasted.
            console.print(Text.assemble((label, "dim"), line, ";" if name == "SQL" else ""), soft_wrap=True)
        if len(lines) > _LINES:
            _show_rows(console, ("", Text(f"and {len(lines) - _LINES} more, which --json has", style="dim")))
    measure = [("measure", Text(f"--prove {finding.id}", style="dim"))] if finding.provable else []
    says = Text(finding.source, style="dim")
    _show_rows(console, ("effect", Text(finding.effect)), ("risk", Text(finding.risk)), ("says", says), *measure)


def _show_rows(console: Console, *rows: tuple[str, Text]) -> None:
    table = Table.grid()
    table.add_column(style="dim", width=_LABEL)
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(Padding(table, (0, 0, 0, _INDENT)), soft_wrap=False)


def _summary(report: Report) -> str:
    counts = {severity: sum(each.severity == severity for each in report.findings) for severity in _STYLES}
    said = [words.count(number, severity) for severity, number in counts.items() if number]
    return ", ".join(said) if said else "nothing found"


def _by_reason(not_judged: Iterable[NotJudged]) -> list[tuple[str, list[NotJudged]]]:
    found: dict[str, list[NotJudged]] = {}
    for each in not_judged:
        found.setdefault(each.why, []).append(each)
    return list(found.items())


def _paragraph(console: Console, heading: str, names: Iterable[str]) -> None:
    console.print(Text(heading), soft_wrap=False)
    console.print(Padding(Text(", ".join(names), style="dim"), (0, 0, 0, _INDENT)), soft_wrap=False)
