"""`upshift test`: Upshift's own checks: lint, types, tests."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from upshift.shell import Shell

CONTEXT_SETTINGS = {"ignore_unknown_options": True}
"""For the command's registration: options that are not ours are pytest's."""


def test(
    arguments: Annotated[list[str] | None, typer.Argument(metavar="[PYTEST ARGS]...", help="For pytest.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Build a real MySQL too (an hour or more).")] = False,
    no_install: Annotated[bool, typer.Option("--no-install", help="Install no system packages.")] = False,
) -> None:
    """Check Upshift itself: ruff, mypy and pytest, after installing what they need.

    All three run even if one of them fails; the last line on stdout is pytest's count.
    """
    from upshift.shell import SystemShell
    from upshift.toolchain.system import ensure_packages

    shell = SystemShell()
    try:
        ensure_packages("mysql" if full else "test", allow_install=not no_install, shell=shell, say=_say)
        failed = [name for name, argv in commands(full, arguments or []) if not _passes(shell, name, argv)]
    finally:
        shell.close()
    if failed:
        _say(f"failed: {', '.join(failed)}")
        raise typer.Exit(1)


def commands(full: bool, arguments: list[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The checks in order, pytest last, with their command lines. A ``-m`` of the user's wins over ours."""
    python = (sys.executable, "-m")
    chosen = () if full else ("-m", "not full")
    return (
        ("ruff", (*python, "ruff", "check")),
        ("mypy", (*python, "mypy")),
        ("pytest", (*python, "pytest", *chosen, *arguments)),
    )


def _passes(shell: Shell, name: str, argv: tuple[str, ...]) -> bool:
    from upshift.paths import CHECKOUT
    from upshift.shell import Command

    _say(name)
    done = shell.run(Command(argv, cwd=CHECKOUT), on_line=typer.echo, check=False)
    return done.returncode == 0


def _say(line: str) -> None:
    typer.echo(f"upshift: {line}", err=True)
