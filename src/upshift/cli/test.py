"""`upshift test`: Upshift's own checks: lint, types, tests."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from upshift.shell import Command, Shell
    from upshift.toolchain.system import Purpose

CONTEXT_SETTINGS = {"ignore_unknown_options": True}
"""For the command's registration: options that are not ours are pytest's."""


def test(
    arguments: Annotated[list[str] | None, typer.Argument(metavar="[PYTEST ARGS]...", help="For pytest.")] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Build a real MySQL too, and run its innodb suite under the tier (hours).")
    ] = False,
    no_install: Annotated[bool, typer.Option("--no-install", help="Install no system packages.")] = False,
) -> None:
    """Check Upshift itself, after installing what that needs: ruff, mypy, cargo fmt, clippy, cargo test and pytest.

    All of them run even if one fails; the last line on stdout says how many tests passed.
    """
    from upshift.shell import SystemShell
    from upshift.toolchain.system import ensure_packages

    shell = SystemShell()
    try:
        for purpose in PURPOSES[full]:
            ensure_packages(purpose, allow_install=not no_install, shell=shell, say=_say)
        checks = commands(full, arguments or [])
        done = {name: _run(shell, name, command) for name, command in checks.items()}
    finally:
        shell.close()
    failed = [name for name, each in done.items() if not each.passed]
    if failed:
        _say(f"failed: {', '.join(failed)}")
    counts = ", ".join(f"{each.tests_passed} by {name}" for name, each in done.items() if each.tests_passed)
    typer.echo(f"{sum(each.tests_passed for each in done.values())} passed: {counts}")
    if failed:
        raise typer.Exit(1)


PURPOSES: dict[bool, tuple[Purpose, ...]] = {False: ("test",), True: ("test", "mysql")}
"""What packages the tests need, without and with ``--full``."""


@dataclass(frozen=True)
class Check:
    """How one check ended, and how many tests it counted as passed (0 for what is no test)."""

    passed: bool
    tests_passed: int


def commands(full: bool, arguments: list[str]) -> dict[str, Command]:
    """The checks by name, in their order. A ``-m`` of the user's wins over ours."""
    from upshift.native.programs import cargo
    from upshift.paths import CHECKOUT
    from upshift.shell import Command

    def python(*argv: str) -> Command:
        return Command((sys.executable, "-m", *argv), cwd=CHECKOUT)

    chosen = () if full else ("-m", "not full")
    return {
        "ruff": python("ruff", "check"),
        "mypy": python("mypy"),
        "cargo fmt": Command(("cargo", "fmt", "--all", "--check"), cwd=CHECKOUT),
        "clippy": cargo("clippy", "--workspace", "--all-targets", "--", "-D", "warnings"),
        "cargo test": cargo("test", "--workspace", "--no-fail-fast", "--", "--include-ignored"),
        "pytest": python("pytest", *chosen, *arguments),
    }


def _run(shell: Shell, name: str, command: Command) -> Check:
    counted = 0

    def line(text: str) -> None:
        nonlocal counted
        typer.echo(text)
        found = _COUNT.search(text)
        counted += int(found[1]) if found else 0

    _say(name)
    done = shell.run(command, on_line=line, check=False)
    return Check(done.returncode == 0, counted)


# cargo: "test result: ok. 12 passed; 0 failed; ...", one for each crate; pytest: "3 failed, 12 passed in 4.5s".
_COUNT = re.compile(r"^(?:test result: .*?|=+ .*?|\d+ failed, |)\b(\d+) passed\b")


def _say(line: str) -> None:
    typer.echo(f"upshift: {line}", err=True)
