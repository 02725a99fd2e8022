"""The command line: verbs, and the one place where an exception becomes ERROR, hint and exit code."""

from __future__ import annotations

import contextlib
import errno
import io
import math
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from upshift import interrupts
from upshift.cli import listing, optimize, programs, single
from upshift.cli.card import card
from upshift.cli.check import check
from upshift.cli.clean import clean
from upshift.cli.count import count
from upshift.cli.doctor import doctor
from upshift.cli.explain import explain
from upshift.cli.patch import patch_app
from upshift.cli.stack import PROGRAMS_OWN, stack_app
from upshift.cli.study import study
from upshift.cli.test import CONTEXT_SETTINGS, test
from upshift.limits import MOST_CONNECTIONS, MOST_ROUNDS, MOST_SECONDS, MOST_TRIALS

_THE_PROGRAMS_OWN = ("cache", "load", "test")
"""Commands whose options are another program's."""


class _Group(TyperGroup):
    """Takes -q and -v after the command's name, too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        verb, below = [*(each for each in args if not each.startswith("-")), "", ""][:2]
        if verb not in _THE_PROGRAMS_OWN and not (verb == "stack" and below in PROGRAMS_OWN):
            args = sorted(args, key=lambda each: each not in ("-q", "--quiet", "-v", "--verbose"))
        return super().parse_args(ctx, args)


_MOST = {
    "trials": MOST_TRIALS,
    "rounds": MOST_ROUNDS,
    "connections": MOST_CONNECTIONS,
    "jobs": 10_000,
    "seed": 2**64 - 1,
    "statements": 10**12,
    "minutes": 7 * 24 * 60,
}
"""By the option's name."""


def _most(name: str) -> int | None:
    return MOST_SECONDS if name.endswith("seconds") else _MOST.get(name)


class _Command(TyperCommand):
    """Refuses an option that takes one value and has two, of which the last would win without a word; an empty value, which
    would count as none; and an amount without end, or beyond what anybody means.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        values, _rest, order = self.make_parser(ctx).parse_args(args=list(args))
        for each in order:
            given = values.get(each.name or "")
            if isinstance(each, TyperOption) and "" in (given if isinstance(given, list) else [given]):
                ctx.fail(f"{each.opts[0]} is empty: give it a value, or leave it out")
            if isinstance(each, TyperOption) and not (each.multiple or each.is_flag) and order.count(each) > 1:
                ctx.fail(f"{each.opts[0]} is given twice, and takes one value")
        rest = super().parse_args(ctx, args)
        for each in order:
            value = ctx.params.get(each.name)
            if isinstance(value, float) and not math.isfinite(value):
                ctx.fail(f"{each.opts[0]} takes a finite number, not {value}")
            most = _most(each.name or "")
            if isinstance(value, int | float) and most is not None and value > most:
                ctx.fail(f"{each.opts[0]} takes {most} at most")
        return rest


def _refuse_repeats(of: typer.Typer) -> None:
    for command in of.registered_commands:
        command.cls = _Command
    for group in of.registered_groups:
        if group.typer_instance:
            _refuse_repeats(group.typer_instance)


app = typer.Typer(
    name="upshift",
    cls=_Group,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from upshift import __version__

        typer.echo(f"upshift {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show only errors and results.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show each command before it runs.")] = False,
    _show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Rebuild a MySQL server around its workload, and measure the gain."""
    if quiet or verbose:
        from upshift import console, shell

        console.quiet(quiet)
        shell.announce = console.say if verbose else None


app.command()(optimize.optimize)
app.command()(single.build)
app.command()(single.train)
app.command()(single.measure)
app.command()(count)
app.command()(explain)
app.command()(check)
app.command()(study)
app.add_typer(patch_app, name="patch")
app.command()(listing.report)
app.add_typer(listing.runs_app, name="runs")
app.command()(clean)
app.add_typer(listing.recipes_app, name="recipes")
app.command()(listing.workloads)
app.command(context_settings=programs.CONTEXT_SETTINGS)(programs.cache)
app.command(context_settings=programs.CONTEXT_SETTINGS)(programs.load)
app.add_typer(stack_app, name="stack")
app.command()(card)
app.command()(doctor)
app.command(context_settings=CONTEXT_SETTINGS)(test)
_refuse_repeats(app)


def main() -> None:
    """Run the command line and end the process with its exit code."""
    if sys.stdout is None:  # As a shell leaves it with >&-.
        sys.exit(_failed("stdout is closed, and takes no result", "name a file for it; /dev/null drops the result", 1))
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Not every encoding has µ. stderr writes such characters as escapes without being told.
        sys.stdout.reconfigure(errors="replace")
    try:
        with interrupts.handled():
            code = _run(sys.argv[1:] or ["--help"])
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code)


INTERRUPTED = 130
_FULL = (errno.ENOSPC, errno.EDQUOT)
_OF_PATHS = (errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)
_OF_THE_MACHINE = (errno.EROFS, errno.EIO, errno.EMFILE)


def _run(arguments: list[str]) -> int:
    """The exit code; every error that a user can act on is shown as ERROR and hint."""
    from upshift.errors import UpshiftError

    try:
        # Typer turns a KeyboardInterrupt into the code 130, and returns what typer.Exit says.
        code = app(arguments, prog_name="upshift", standalone_mode=False)
    except UpshiftError as error:
        return _failed(error.message, error.hint, error.exit_code)
    except typer.Abort:
        code = INTERRUPTED
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        hint = f"`{context.command_path} --help` says what it takes" if context else ""
        message = error.format_message().rstrip(".")
        # A group of commands that is named alone has shown its help, and says no more.
        return _failed(message, hint, error.exit_code) if message else error.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return _refused(error, arguments)
    if code == INTERRUPTED:
        return _failed("interrupted", "".join(_way_on(arguments)), INTERRUPTED)
    return code if isinstance(code, int) else 0


def _refused(error: OSError, arguments: list[str]) -> int:
    """What a path or the machine is at fault for is told; any other error is Upshift's, and raised."""
    if error.errno in _FULL:
        return _failed("the disk is full", "; ".join(["free some space", *_way_on(arguments)]), 1)
    if error.filename is None or error.errno not in (*_OF_PATHS, *_OF_THE_MACHINE):
        raise error
    from upshift.errors import UpshiftError
    from upshift.paths import cache_dir

    hint = "name another path, or let this user use it"
    with contextlib.suppress(UpshiftError):
        if Path(os.fsdecode(error.filename)).absolute().is_relative_to(cache_dir()):
            hint = "Upshift must be able to read and write it; UPSHIFT_CACHE names another folder for what Upshift keeps"
    return _failed(f"{error.filename}: {error.strerror}", hint, 1)


def _failed(message: str, hint: str, code: int) -> int:
    from upshift import console

    console.error(message, hint)
    return code


def _way_on(arguments: list[str]) -> list[str]:
    """How to go on where a command stopped; empty for those that begin again, and for a run that was not begun: the last one
    would be another.
    """
    from upshift.cli.session import opened

    verb, run = next((each for each in arguments if not each.startswith("-")), ""), opened()
    if verb == "optimize" and run:
        return [f"`upshift optimize --resume {run}` goes on where this run stopped"]
    if verb == "study" and run:
        return [f"the same command with --resume {run} goes on where this study stopped"]
    return ["the same command again goes on after the last stage that it finished"] if verb in ("build", "train") else []
