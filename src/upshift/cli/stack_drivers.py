"""`upshift stack drivers`: what real drivers send, at their defaults, their bad and their good settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from upshift.cli import programs
from upshift.cli.parameters import JsonResult, NoInstall


def drivers(
    only: Annotated[
        list[str] | None, typer.Option(metavar="DRIVER", help="Run this driver alone, as --dry-run names it; repeatable.")
    ] = None,
    binary: Annotated[
        Path | None, typer.Option(metavar="MYSQLD", help="Run MySQL's drivers on this MySQL, too.", show_default=False)
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Run on this server, without TLS, in place of those that Upshift starts: mysql://USER@HOST:PORT/DATABASE.",
            show_default=False,
        ),
    ] = None,
    result: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the result here after each run; with the same file again: continue.",
            show_default=False,
        ),
    ] = None,
    show: Annotated[Literal["round-trips", "packets", "bytes"], typer.Option(help="The figure of the table.")] = "round-trips",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show drivers and runs, and exit.")] = False,
    json: JsonResult = False,
    no_install: NoInstall = False,
) -> None:
    """Count the round trips, packets and bytes of real drivers at their defaults, their bad and their good settings."""
    from upshift import console
    from upshift.cli.dry_run import show_lines
    from upshift.errors import UsageError
    from upshift.shell import SystemShell
    from upshift.stack.driver_matrix import store
    from upshift.stack.driver_matrix.ground import ground_of
    from upshift.stack.driver_matrix.matrix import chosen, read_matrix
    from upshift.stack.driver_matrix.model import DriversResult, Figure
    from upshift.stack.driver_matrix.rows import summary
    from upshift.stack.driver_matrix.terminal import show as show_matrix
    from upshift.stack.driver_matrix.whole import Asked, run_matrix

    wanted = chosen(read_matrix(), only or ())
    if dry_run:
        show_lines([summary(each) for each in wanted], "drivers", as_json=json)
        return
    if server and binary:
        raise UsageError("--server and --binary name different servers", "leave one of them out")
    begun = store.begin(result)
    shell = SystemShell()
    if server:
        ground_of(server, shell)

    def keep(found: DriversResult) -> None:
        if result is not None:
            store.save(found, result)

    try:
        proxy = programs.built_programs(shell, allow_install=not no_install, say=console.say) / programs.STACK
        found = run_matrix(shell, proxy, Asked(wanted, binary, server or ""), begun, say=console.say, save=keep)
    finally:
        shell.close()
    if json:
        console.result_json(found.model_dump_json(indent=2))
        return
    figures: dict[str, Figure] = {"round-trips": "round_trips", "packets": "packets", "bytes": "bytes"}
    show_matrix(found, figures[show], console.out)
