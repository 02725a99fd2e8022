"""Driving ninja, with progress, and reading the commands that it knows."""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from upshift.errors import CommandFailed, UpshiftError
from upshift.shell import Command, Shell
from upshift.workbench import Workbench

_STEP = re.compile(r"^\[(\d+)/(\d+)\] (.*)")


@dataclass(frozen=True)
class Step:
    """One compile or link command of a build folder; it runs in that folder."""

    argv: tuple[str, ...]
    output: str
    """As the command names it: relative to the build folder."""
    source: str
    """The file compiled; empty for a link."""


def run_ninja(bench: Workbench, tree: Path, targets: Sequence[str], jobs: int, *, before: int = 0, after: int = 0) -> None:
    """Build ``targets`` in ``tree``; steps done go to the progress, with so many ``before`` these and so many ``after`` them.
    Raises CommandFailed with the compiler's message.
    """

    def on_line(line: str) -> None:
        if step := _STEP.match(line):
            bench.progress.update(before + int(step[1]), before + int(step[2]) + after, _short(step[3]))

    command = Command(
        ("ninja", "-C", str(tree), "-j", str(jobs), *targets),
        env={"NINJA_STATUS": "[%f/%t] "},
        # Killed outright it would leave its compilers behind.
        when_orphaned=signal.SIGTERM,
    )
    try:
        bench.shell.run(command, log=bench.log, on_line=on_line)
    except CommandFailed as error:
        if error.returncode == -9 or "Killed" in error.log or "signal 9" in error.log:
            raise CommandFailed(
                f"a compiler was killed while building in {tree}: memory ran out, most likely",
                "run the same command with fewer --jobs: it continues from what is compiled",
                log=error.log,
            ) from error
        raise


def steps(shell: Shell, tree: Path, *targets: str) -> tuple[Step, ...]:
    """All compile and link steps that the targets need, in order; the last one links the last of them."""
    done = shell.run(Command(("ninja", "-C", str(tree), "-t", "commands", *targets)))
    found = []
    for line in done.stdout.splitlines():
        # A link line is ": && COMMAND && :", some with further commands after the link.
        for part in line.split(" && "):
            argv = _argv(part)
            if "-o" in argv[:-1]:
                found.append(Step(argv, argv[argv.index("-o") + 1], _source(argv)))
                break
    if not found:
        raise UpshiftError(f"ninja has no commands for {targets[-1]} in {tree}", "delete the folder and build again")
    return tuple(found)


def _argv(line: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(line))
    except ValueError:
        return ()


def _source(argv: tuple[str, ...]) -> str:
    return argv[argv.index("-c") + 1] if "-c" in argv[:-1] else ""


def _short(text: str) -> str:
    return text.rsplit("/", 1)[-1].removesuffix(".o")
