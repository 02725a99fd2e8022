"""`upshift stack`: what an application and its server say to each other, captured and examined."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from upshift.cli import programs, stack_plans
from upshift.cli.parameters import JsonReport, JudgedBy, NoInstall, Trace
from upshift.cli.stack_drivers import drivers
from upshift.cli.stack_prove import prove

stack_app = typer.Typer(help="Capture the traffic between any client and a server, and find where the time goes.")

PROGRAMS_OWN = ("capture", "import", "export", "dump")
"""Commands whose options are the program's."""


def capture(context: typer.Context) -> None:
    """Write a trace of what clients send to a server and what it answers (`upshift stack capture --help`)."""
    programs.stack_program(context)


def import_log(context: typer.Context) -> None:
    """Make a trace of a server's own log (`upshift stack import --help`)."""
    programs.stack_program(context)


def export(context: typer.Context) -> None:
    """Write a trace as Parquet files for SQL (`upshift stack export --help`)."""
    programs.stack_program(context)


def dump(context: typer.Context) -> None:
    """Print a trace as JSON lines (`upshift stack dump --help`)."""
    programs.stack_program(context)


def examine(
    trace: Trace,
    server: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Also ask the server that the trace is of, such as mysql://user@/shop?socket=PATH."),
    ] = None,
    defaults_file: Annotated[
        Path | None, typer.Option(help="Take the server's address and login from this option file.")
    ] = None,
    login_path: Annotated[
        str | None, typer.Option(metavar="NAME", help="Take the server's address and login from this login path.")
    ] = None,
    driver: Annotated[
        str | None, typer.Option(metavar="NAME", help="The driver of connections that do not name theirs.")
    ] = None,
    threshold: JudgedBy = None,
    top: Annotated[int, typer.Option(min=0, help="Statements to list.")] = 10,
    json: JsonReport = False,
    no_install: NoInstall = False,
) -> None:
    """Say where an application's time goes, which suspects have evidence against them, and what fixes each."""
    from upshift import console
    from upshift.check.session import opened as counters
    from upshift.cli.passwords import with_password
    from upshift.shell import SystemShell
    from upshift.stack.drivers import find_driver
    from upshift.stack.examining import evidence_in, exported
    from upshift.stack.explaining import WAIT_S, counters_address, explained, server_address
    from upshift.stack.plans.ask import Asker
    from upshift.stack.plans.session import opened
    from upshift.stack.report import report_on
    from upshift.stack.server import refuse_family, with_server
    from upshift.stack.suspects.thresholds import read_thresholds
    from upshift.stack.terminal import show

    thresholds = read_thresholds(threshold or ())
    named = find_driver(driver) if driver else None
    address = server_address(server, defaults_file, login_path)
    shell = SystemShell()

    def program() -> Path:
        return programs.built_programs(shell, allow_install=not no_install, say=console.say) / programs.STACK

    plans = None
    try:
        with exported(shell, program, trace, say=console.say) as folder:
            evidence = evidence_in(folder, trace, named)
            if address:
                refuse_family(evidence.trace, postgres=address.postgres)
                address = with_password(address, lambda each: opened(each, WAIT_S))
                if not address.postgres:
                    with counters(counters_address(address)) as session:
                        evidence = with_server(evidence, session)
                with opened(address, WAIT_S) as asked:
                    plans = explained(folder, Asker(asked), evidence, thresholds, stack_plans.progress)
    finally:
        shell.close()
    report = report_on(evidence, thresholds, plans, top=top)
    if json:
        console.result_json(report.model_dump_json(indent=2))
    else:
        show(report, console.out)


for _name, _command in zip(PROGRAMS_OWN, (capture, import_log, export, dump), strict=True):
    stack_app.command(_name, context_settings=programs.CONTEXT_SETTINGS)(_command)
stack_app.command()(examine)
stack_app.command()(prove)
stack_app.command()(stack_plans.plans)
stack_app.command()(stack_plans.compare)
stack_app.command()(drivers)
