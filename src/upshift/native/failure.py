"""What a program of crates/ says when it fails: ``ERROR: MESSAGE``, ``hint: TEXT`` and an exit code, as Upshift itself."""

from __future__ import annotations

import signal

from upshift.errors import UpshiftError, UsageError
from upshift.shell import Completed

_USAGE_ERROR = 2


def failure_of(done: Completed, what: str) -> UpshiftError:
    """What it said as an exception; ``what`` failed where it said nothing."""
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        return UpshiftError(f"{what} was ended by {name}", "memory may have run out, or the disk be full or have hung")
    said = {key: text for line in done.stdout.splitlines() for key, _, text in [line.partition(": ")]}
    message = said.get("ERROR") or f"{what} failed with exit code {done.returncode}: {done.stdout[-300:].strip()}"
    kind = UsageError if done.returncode == _USAGE_ERROR else UpshiftError
    return kind(message, said.get("hint", ""))
