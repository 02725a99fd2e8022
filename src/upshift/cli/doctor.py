"""`upshift doctor`: what this machine can do, and how to get the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from upshift.toolchain.doctor import Finding

SCHEMA_VERSION = 1

_MARKS = {"found": "green", "too old": "yellow", "too small": "yellow", "missing": "red"}


def doctor(
    json: Annotated[bool, typer.Option("--json", help="The same for machines, on stdout.")] = False,
) -> None:
    """Say what this machine has and lacks: compilers, BOLT, profilers, sysbench, memory and disk.

    Ends with exit code 1 when something is missing that the default recipe cannot do without.
    """
    from upshift.shell import SystemShell
    from upshift.toolchain.doctor import examine

    shell = SystemShell()
    try:
        findings = examine(shell)
    finally:
        shell.close()
    lacking = [one.name for one in findings if one.required and one.state != "found"]
    if json:
        typer.echo(_as_json(findings, ready=not lacking))
    else:
        _show(findings, lacking)
    if lacking:
        raise typer.Exit(1)


def _as_json(findings: tuple[Finding, ...], *, ready: bool) -> str:
    import json

    rows = [one.model_dump(mode="json") for one in findings]
    return json.dumps({"schema_version": SCHEMA_VERSION, "ready": ready, "findings": rows}, indent=2)


def _show(findings: tuple[Finding, ...], lacking: list[str]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("", "", "version", "for"):
        table.add_column(title, overflow="fold")
    for one in findings:
        colour = _MARKS[one.state] if one.required or one.state == "found" else "yellow"
        state = one.state if one.required or one.state == "found" else f"{one.state}, optional"
        # What is missing is worth more room than what it would be good for.
        purpose = f"{one.allows}\n[dim]{escape(one.hint)}[/dim]" if one.hint else one.allows
        table.add_row(one.name, f"[{colour}]{state}[/{colour}]", escape(one.version), purpose)
    console = Console(highlight=False)
    console.print(table)
    console.print()
    if lacking:
        console.print(f"[red]Not ready[/red]: {', '.join(lacking)}. `upshift optimize` installs packages itself.")
    else:
        console.print("[green]Ready[/green] for `upshift optimize`.")
