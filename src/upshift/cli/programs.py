"""`upshift cache`, `load` and a part of `stack`: programs in crates/, built when need be, with the arguments as they stand."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from upshift.shell import Shell

STACK = "upshift-stack"
"""The program of `upshift stack`, in the folder of the others."""
_NO_INSTALL = "--no-install"

CONTEXT_SETTINGS = {
    "ignore_unknown_options": True,
    "allow_extra_args": True,
    # Else click takes `--` away, which tells the program's options from those of the server that it starts.
    "allow_interspersed_args": False,
    "help_option_names": [],
}
"""For the commands' registration: every argument but --no-install is the program's, --help and -- too."""


def cache(context: typer.Context) -> None:
    """Run mysqld with a page cache, watch it and measure it (`upshift cache --help`)."""
    _become("upshift-cache", "upshift cache", context.args)


def load(context: typer.Context) -> None:
    """Load a server and measure what each statement costs (`upshift load --help`)."""
    _become("upshift-load", "upshift load", context.args)


def stack_program(context: typer.Context) -> None:
    """A command of the program's, by the name that was typed."""
    _become(STACK, "upshift stack", [context.info_name or "", *context.args])


def _become(program: str, name: str, arguments: list[str]) -> None:
    from upshift.native.programs import TIER_LIBRARY, require_named
    from upshift.shell import SystemShell

    def say(line: str) -> None:
        from upshift import console

        console.say(f"upshift: {line}")

    arguments, allow_install = _without_no_install(arguments)
    shell = SystemShell()
    try:
        folder = built_programs(shell, allow_install=allow_install, say=say)
    finally:
        shell.close()
    require_named(program)
    os.environ["UPSHIFT_TIER_LIBRARY"] = os.environ.get("UPSHIFT_TIER_LIBRARY") or str(folder / TIER_LIBRARY)
    os.execv(folder / program, [name, *arguments])


def built_programs(shell: Shell, *, allow_install: bool, say: Callable[[str], None]) -> Path:
    """The folder of the programs in crates/, built when need be. Raises what installing and building do."""
    from upshift.native.programs import build_programs, building, programs_are_built
    from upshift.toolchain.system import ensure_packages

    if not programs_are_built():
        with building():
            ensure_packages("native", allow_install=allow_install, shell=shell, say=say)
            build_programs(shell, say=say)
    return build_programs(shell, say=say)


def _without_no_install(arguments: list[str]) -> tuple[list[str], bool]:
    """The program's arguments, and whether packages may be installed. What follows ``--`` is neither's."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    ours = arguments[:end]
    return [each for each in ours if each != _NO_INSTALL] + arguments[end:], _NO_INSTALL not in ours
