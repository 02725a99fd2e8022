"""`upshift cache` and `upshift load`: the programs in crates/, built when need be, with the arguments as they stand."""

from __future__ import annotations

import os

import typer

CONTEXT_SETTINGS = {
    "ignore_unknown_options": True,
    "allow_extra_args": True,
    # Else click takes `--` away, which tells the program's options from those of the server that it starts.
    "allow_interspersed_args": False,
    "help_option_names": [],
}
"""For the commands' registration: every argument is the program's, --help and -- too."""


def cache(context: typer.Context) -> None:
    """Put a page cache under a mysqld, watch it and measure it (`upshift cache --help`)."""
    _become("upshift-cache", "upshift cache", context.args)


def load(context: typer.Context) -> None:
    """Load a server and see what each statement costs (`upshift load --help`)."""
    _become("upshift-load", "upshift load", context.args)


def _become(program: str, name: str, arguments: list[str]) -> None:
    from upshift.native.programs import TIER_LIBRARY, build_programs
    from upshift.shell import SystemShell
    from upshift.toolchain.system import ensure_packages

    def say(line: str) -> None:
        typer.echo(f"upshift: {line}", err=True)

    shell = SystemShell()
    try:
        ensure_packages("native", allow_install=True, shell=shell, say=say)
        folder = build_programs(shell, say=say)
    finally:
        shell.close()
    os.environ["UPSHIFT_TIER_LIBRARY"] = str(folder / TIER_LIBRARY)
    os.execv(folder / program, [name, *arguments])
