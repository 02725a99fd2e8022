"""`upshift test`: Upshift's own checks: lint, types, tests."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from upshift.cli.parameters import NoInstall

if TYPE_CHECKING:
    from upshift.cli.counting import Count
    from upshift.shell import Command, Shell
    from upshift.toolchain.system import Purpose

CONTEXT_SETTINGS = {"ignore_unknown_options": True}
"""For the command's registration: options that are not ours are pytest's."""

SIDE_BY_SIDE = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder")
"""For pytest: two workers, since the pipeline's tests wait for half of their time. A file stays with one of them. The folders
keep their order: the pipeline's files take the longest and come first.
"""
CARGO_THREADS = "--test-threads=4"
"""For the tests of each crate: more at once than two CPUs get by default, since those of servers mostly wait."""

SLOWEST = ("--durations=20",)
"""For pytest: which tests took longest."""

MYSQLD = "UPSHIFT_TEST_MYSQLD"
"""Names the MySQL of the tests that need one."""
PATCHED_MYSQLD = "UPSHIFT_TEST_PATCHED_MYSQLD"
"""Names the same with all patches."""
_BUILDS = {MYSQLD: (), PATCHED_MYSQLD: ("--patches", "all")}

FULL = "UPSHIFT_TEST_FULL"
"""Set where pytest also runs the tests of tests/full."""


def test(
    arguments: Annotated[list[str] | None, typer.Argument(metavar="[PYTEST ARGS]...", help="Passed on to pytest.")] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Also build MySQL, and run its innodb suite under the tier (hours).")
    ] = False,
    no_install: NoInstall = False,
) -> None:
    """Test Upshift itself: ruff, mypy, cargo fmt, clippy, cargo test and pytest. Missing packages are installed first.

    All checks run even if one fails. The last lines on stdout name the tests that were not run and count those that passed,
    failed and were not run.
    """
    from upshift import console
    from upshift.cli.counting import Count
    from upshift.shell import SystemShell
    from upshift.toolchain.system import ensure_packages

    shell = SystemShell()
    total = Count()
    failed: list[str] = []
    try:
        for purpose in PURPOSES[full]:
            ensure_packages(purpose, allow_install=not no_install, shell=shell, say=_say)
        for name, check in _checks(shell, full, arguments or []).items():
            _say(name)
            began_s = time.monotonic()
            passed, count = check()
            _say(f"{name} took {time.monotonic() - began_s:.0f} s")
            total.add(count)
            if not passed:
                failed.append(name)
                # One that names no test, as an error of the compiler does, is a failure too.
                total.failed += not count.failed
    finally:
        shell.close()
    if failed:
        _say(f"failed: {', '.join(failed)}")
    for each in total.why:
        console.result(f"not run: {each}")
    console.result(total.closing_line())
    if failed:
        raise typer.Exit(1)


PURPOSES: dict[bool, tuple[Purpose, ...]] = {False: ("test",), True: ("test", "mysql")}
"""What packages the tests need, without and with ``--full``."""


def _checks(shell: Shell, full: bool, arguments: list[str]) -> dict[str, Callable[[], tuple[bool, Count]]]:
    """The checks by name, in their order: each says whether it passed, and what its tests came to."""
    from upshift.cli.counting import Count
    from upshift.native.programs import cargo

    def plain(command: Command) -> Callable[[], tuple[bool, Count]]:
        return lambda: (_run(shell, command), Count())

    checks = {
        "ruff": plain(_python("ruff", "check")),
        "ruff format": plain(_python("ruff", "format", "--check")),
        "mypy": plain(_python("mypy")),
        "cargo fmt": plain(_cargo_fmt()),
        "clippy": plain(cargo("clippy", "--workspace", "--all-targets", "--", "-D", "warnings")),
    }
    for variable, options in _BUILDS.items() if full else ():
        if variable not in os.environ:
            checks[" ".join(("a build of MySQL", *options))] = partial(_build_mysql, shell, variable, options)
    return {
        **checks,
        "cargo test": lambda: _cargo_test(shell),
        "pytest": lambda: _pytest(shell, full, arguments),
    }


def _python(*argv: str) -> Command:
    from upshift.paths import CHECKOUT
    from upshift.shell import Command

    return Command((sys.executable, "-m", *argv), cwd=CHECKOUT)


def _cargo_fmt() -> Command:
    from upshift.paths import CHECKOUT
    from upshift.shell import Command

    return Command(("cargo", "fmt", "--all", "--check"), cwd=CHECKOUT)


def _build_mysql(shell: Shell, variable: str, options: tuple[str, ...]) -> tuple[bool, Count]:
    """Build MySQL as `upshift build plain` does, and name it to the tests."""
    from upshift.cli.counting import Count

    last = ""

    def line(text: str) -> bool:
        nonlocal last
        last = text or last
        return True

    if not _run(shell, _python("upshift", "build", "plain", *options, "--no-install"), line) or not Path(last).is_file():
        return False, Count()
    os.environ[variable] = last
    return True, Count()


def _cargo_test(shell: Shell) -> tuple[bool, Count]:
    """All tests, those too that are ignored for what they need: without it they pass and print NOT RUN."""
    from upshift.cli.counting import CargoOutput
    from upshift.native.programs import cargo

    output = CargoOutput()
    command = cargo(
        "test", "--workspace", "--no-fail-fast", "--", "--include-ignored", "--show-output", CARGO_THREADS, quiet=False
    )
    return _run(shell, command, output.line), output.count


def _pytest(shell: Shell, full: bool, arguments: list[str]) -> tuple[bool, Count]:
    """The full tests measure MySQL: nothing runs beside them."""
    from upshift.cli.counting import PytestOutput

    output = PytestOutput()
    if full:
        os.environ[FULL] = "1"
    how = () if full else SIDE_BY_SIDE
    passed = _run(shell, _python("pytest", "-rs", "--no-fold-skipped", *SLOWEST, *how, *arguments), output.line)
    return passed, output.count


def _run(shell: Shell, command: Command, on_line: Callable[[str], bool] = lambda _: True) -> bool:
    """Whether a command succeeds; its lines are shown but for those that ``on_line`` says no to. One that is missing fails."""
    from upshift import console
    from upshift.errors import MissingTool

    def line(text: str) -> None:
        if on_line(text):
            console.result(text)

    try:
        return shell.run(command, on_line=line, check=False).returncode == 0
    except MissingTool as error:
        console.error(error.message, error.hint)
        return False


def _say(line: str) -> None:
    from upshift import console

    console.say(f"upshift: {line}")
