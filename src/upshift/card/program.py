"""Runs the program that measures the machine."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from upshift.card.model import Card
from upshift.errors import UpshiftError
from upshift.native.failure import failure_of
from upshift.shell import Command, Shell

LEAST_S, MOST_S = 5.0, 600.0
"""What the program takes: crates/machinecard/src/budget.rs."""


def measure_card(shell: Shell, program: Path, folder: Path, seconds: float) -> Card:
    """Measure this machine, and the disk of ``folder``, in about as many seconds.

    Raises UsageError or UpshiftError with the program's own message and hint, UpshiftError when it does not end.
    """
    # The card names its folder to those who read it elsewhere: `check` asks which file system that is.
    command = Command((str(program), "--folder", str(folder.resolve()), "--seconds", f"{seconds:g}"))
    # A disk that takes seconds for a write is what makes it last longer.
    done = shell.run(command, check=False, timeout_s=5 * min(MOST_S, seconds) + 60)
    if done.returncode != 0:
        raise failure_of(done, "measuring the machine")
    try:
        return Card.model_validate_json(done.stdout)
    except ValidationError as error:
        raise UpshiftError(
            f"{program.name} printed no machine card: {done.stdout[:200]}", "remove it: Upshift then builds it again"
        ) from error
