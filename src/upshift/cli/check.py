"""`upshift check`: what is wrong with a server's configuration, before anything is optimised."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from upshift.check.model import Report
    from upshift.check.rule import Rule


class Threshold(StrEnum):
    """The least severity that fails."""

    WARNING = "warning"
    ERROR = "error"


FAILED = 1


def check(
    server: Annotated[
        str | None, typer.Option(metavar="URL", help="The server, as mysql://user@host:port or mysql://user@/?socket=PATH.")
    ] = None,
    defaults_file: Annotated[
        Path | None,
        typer.Option(help="Take address and login from this option file; default: those that MySQL's clients read."),
    ] = None,
    login_path: Annotated[
        str | None, typer.Option(metavar="NAME", help="Take address and login from this login path of mysql_config_editor.")
    ] = None,
    only: Annotated[list[str] | None, typer.Option(metavar="ID", help="Judge this rule alone; repeatable.")] = None,
    ignore: Annotated[list[str] | None, typer.Option(metavar="ID", help="Leave this rule out; repeatable.")] = None,
    fail_on: Annotated[
        Threshold | None, typer.Option(help="Exit 1 when there is a finding of this severity, or a worse one.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON to stdout.")] = False,
) -> None:
    """Say what is wrong with a server's configuration and schema, with the fix for each; it only reads."""
    from upshift import console
    from upshift.check.address import find_address
    from upshift.check.gather import read_facts
    from upshift.check.rule import judge
    from upshift.check.rules import RULES
    from upshift.check.session import opened
    from upshift.check.terminal import show

    chosen = choose(RULES, only or [], ignore or [])
    address = find_address(server, defaults_file, login_path)
    with opened(address) as session:
        facts = read_facts(session)
    left_out = tuple(each.id for each in RULES if each not in chosen)
    report = judge(facts, chosen, server=address.shown(), ignored=left_out)
    if json:
        console.result_json(report.model_dump_json(indent=2))
    else:
        show(report, console.out)
    if fails(report, fail_on):
        raise typer.Exit(FAILED)


def choose(rules: tuple[Rule, ...], only: list[str], ignore: list[str]) -> tuple[Rule, ...]:
    """The rules that are asked for. Raises UsageError for one that there is not."""
    from difflib import get_close_matches

    from upshift.errors import UsageError

    names = [each.id for each in rules]
    for name in (*only, *ignore):
        if name not in names:
            near = get_close_matches(name, names, 1)
            raise UsageError(
                f"there is no rule '{name}'", f"did you mean {near[0]}?" if near else "docs/reference/check.md lists the rules"
            )
    return tuple(each for each in rules if each.id not in ignore and (not only or each.id in only))


def fails(report: Report, fail_on: Threshold | None) -> bool:
    failing = {None: (), Threshold.ERROR: ("error",), Threshold.WARNING: ("error", "warning")}[fail_on]
    return any(each.severity in failing for each in report.findings)
