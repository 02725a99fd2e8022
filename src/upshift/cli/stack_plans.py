"""`upshift stack plans` and `upshift stack compare`: the plans of a trace's or a file's statements, on one server or two."""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from upshift.cli.parameters import JsonReport, NoInstall

if TYPE_CHECKING:
    from upshift.stack.plans.address import Address
    from upshift.stack.plans.ask import Asker
    from upshift.stack.plans.source import Source

_Statements = Annotated[
    Path, typer.Argument(metavar="TRACE|FILE.sql", help="What `upshift stack capture` wrote, or a file of SQL statements.")
]
_DefaultsFile = Annotated[
    Path | None, typer.Option(help="Take what the URL lacks from this option file (MySQL and MariaDB).", show_default=False)
]
_LoginPath = Annotated[
    str | None, typer.Option(metavar="NAME", help="Take what the URL lacks from this login path (MySQL and MariaDB).")
]
_Execute = Annotated[
    bool, typer.Option("--execute", help="Execute each SELECT, in a read-only transaction that is rolled back.")
]
_Wait = Annotated[float, typer.Option(min=0.1, max=86400, help="Seconds after which the server aborts a statement.")]
_Rounds = Annotated[
    int, typer.Option(min=1, max=1000, help="With --execute, rounds (A, B, B, A) of timing SELECTs with the same plan on both.")
]
_Threshold = Annotated[
    list[str] | None, typer.Option(metavar="NAME=VALUE", help="Judge by this value, such as P2.rows=5000; repeatable.")
]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="List the statements and what would be done with each, and exit.")]


def plans(
    statements: _Statements,
    server: Annotated[
        str, typer.Option(metavar="URL", help="The server, such as postgres://user@host/shop, without a password.")
    ],
    execute: _Execute = False,
    defaults_file: _DefaultsFile = None,
    login_path: _LoginPath = None,
    wait_seconds: _Wait = 30.0,
    threshold: _Threshold = None,
    dry_run: _DryRun = False,
    json: JsonReport = False,
    no_install: NoInstall = False,
) -> None:
    """Show the plan of each statement in terms common to all servers, and the suspects that the plans show."""
    from upshift import console
    from upshift.stack.plans.address import read_address
    from upshift.stack.plans.looking import planned
    from upshift.stack.plans.report import show_dry_run, show_plans
    from upshift.stack.suspects.thresholds import read_thresholds

    thresholds = read_thresholds(threshold or ())
    address = read_address(server, "--server", defaults_file, login_path)
    source = _source(statements, address, allow_install=not no_install)
    if dry_run:
        show_dry_run(source, address.family, execute=execute, as_json=json)
        return
    with _asker(_with_password(address, wait_seconds), wait_seconds) as asker:
        report = planned(source, asker, address.shown(), thresholds, execute=execute, progress=progress)
    if json:
        console.result_json(report.model_dump_json(indent=2))
    else:
        show_plans(report)


def compare(
    context: typer.Context,
    statements: _Statements,
    a: Annotated[str, typer.Option(metavar="URL", help="A server, such as mysql://user@host/shop, without a password.")],
    b: Annotated[str, typer.Option(metavar="URL", help="The other server; it may be of another family.")],
    execute: _Execute = False,
    rounds: _Rounds = 5,
    defaults_file: _DefaultsFile = None,
    login_path: _LoginPath = None,
    wait_seconds: _Wait = 30.0,
    threshold: _Threshold = None,
    dry_run: _DryRun = False,
    json: JsonReport = False,
    no_install: NoInstall = False,
) -> None:
    """Compare two servers, statement by statement: plans, and with --execute answers, rows examined and time."""
    from upshift import console
    from upshift.cli.resume import typed
    from upshift.errors import UsageError
    from upshift.stack.plans.address import read_address
    from upshift.stack.plans.comparing import compared
    from upshift.stack.plans.report import show_comparison, show_dry_run
    from upshift.stack.suspects.thresholds import read_thresholds

    if "rounds" in typed(context) and not execute:
        raise UsageError("--rounds belongs to --execute, which is missing", "without it nothing is timed")
    thresholds = read_thresholds(threshold or ())
    addresses = [read_address(url, option, defaults_file, login_path) for url, option in ((a, "--a"), (b, "--b"))]
    source = _source(statements, addresses[0], allow_install=not no_install)
    if dry_run:
        show_dry_run(source, addresses[0].family, execute=execute, as_json=json)
        return
    addresses = [_with_password(each, wait_seconds) for each in addresses]
    with _asker(addresses[0], wait_seconds) as first, _asker(addresses[1], wait_seconds) as second:
        names = (addresses[0].shown(), addresses[1].shown())
        report = compared(source, (first, second), names, thresholds, execute=execute, rounds=rounds, progress=progress)
    if json:
        console.result_json(report.model_dump_json(indent=2))
    else:
        show_comparison(report)
    if report.answers_differ:
        raise typer.Exit(1)


def _with_password(address: Address, wait_s: float) -> Address:
    from upshift.cli.passwords import with_password
    from upshift.stack.plans.session import opened

    return with_password(address, lambda each: opened(each, wait_s))


@contextlib.contextmanager
def _asker(address: Address, wait_s: float) -> Iterator[Asker]:
    from upshift.stack.plans.ask import Asker
    from upshift.stack.plans.session import opened

    with opened(address, wait_s) as session:
        yield Asker(session)


def _source(statements: Path, address: Address, *, allow_install: bool) -> Source:
    """The statements of a file of SQL, of a trace, or of a folder that a trace was exported to."""
    from upshift import console
    from upshift.cli import programs
    from upshift.shell import SystemShell
    from upshift.stack.examining import exported
    from upshift.stack.plans.source import read_export, read_file

    if statements.suffix == ".sql":
        source = read_file(statements, address.family)
        if left := source.without_plan:
            more = f" and {len(left) - 1} more" if len(left) > 1 else ""
            console.say(f"left out, because they have no plan: {textwrap.shorten(left[0], 60)}{more}")
        return source
    if (statements / "trace.json").is_file():
        return read_export(statements)
    shell = SystemShell()

    def program() -> Path:
        return programs.built_programs(shell, allow_install=allow_install, say=console.say) / programs.STACK

    try:
        with exported(shell, program, statements, say=console.say) as folder:
            return read_export(folder)
    finally:
        shell.close()


_SAY_EVERY = 20


def progress(number: int, of: int) -> None:
    from upshift import console

    if number and number % _SAY_EVERY == 0:
        console.say(f"{number} of {of} statements")
