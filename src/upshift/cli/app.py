"""The command line: verbs, and the one place where an exception becomes ERROR, hint and exit code."""

from __future__ import annotations

import os
import sys

import typer

from upshift.cli import listing, optimize, programs, single
from upshift.cli.doctor import doctor
from upshift.cli.test import CONTEXT_SETTINGS, test

app = typer.Typer(
    name="upshift",
    help="Rebuilds a MySQL server around the work it really does, and proves the gain.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command()(optimize.optimize)
app.command()(single.build)
app.command()(single.train)
app.command()(single.measure)
app.command()(listing.report)
app.command()(listing.runs)
app.command()(listing.recipes)
app.command()(listing.workloads)
app.command(context_settings=programs.CONTEXT_SETTINGS)(programs.cache)
app.command(context_settings=programs.CONTEXT_SETTINGS)(programs.load)
app.command()(doctor)
app.command(context_settings=CONTEXT_SETTINGS)(test)


def main() -> None:
    """Run the command line and end the process with its exit code."""
    from upshift import console
    from upshift.errors import UpshiftError

    try:
        app()
    except UpshiftError as error:
        console.error(error.message, error.hint)
        sys.exit(error.exit_code)
    except SystemExit as end:
        # Typer turns a KeyboardInterrupt into this before it can be caught here.
        if end.code == 130:
            console.error("interrupted", _way_on())
        raise
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if error.errno != 28:
            raise
        console.error("the disk is full", f"free some space; {_way_on()}")
        sys.exit(1)


def _way_on() -> str:
    if "optimize" in sys.argv[1:2]:
        return "`upshift optimize --resume last` goes on where this run stopped"
    return "the same command again goes on after the last stage that was finished"
