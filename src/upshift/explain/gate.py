"""perf stat on a running server whose counters are off until they are asked for: what is counted has sharp edges.

perf opens a counter for each thread and event, one after the other, which takes tenths of a second; without a gate nobody
knows how much of that time is counted. See "--control" in perf-stat(1); perf 5.10 and later.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from upshift.shell import Command, Process, Shell

_ANSWER_TIMEOUT_S = 15.0
_LOOK_S = 0.2
_ANSWER = b"ack\n"  # With a zero behind it.


def words(folder: Path) -> tuple[str, ...]:
    """The options of perf stat that leave its counters off, and let ``Gate`` turn them on by files in ``folder``."""
    return ("-D", "-1", "--control", f"fifo:{folder / 'control'},{folder / 'answers'}")


class Gate:
    """The way to the counters of one perf."""

    def __init__(self, process: Process, control: int, answers: int) -> None:
        self._process = process
        self._control, self._answers = control, answers

    def turn(self, state: Literal["enable", "disable"]) -> bool:
        """Turn the counters on or off; whether perf has done it. Turning off what is off says whether perf is ready."""
        os.write(self._control, f"{state}\n".encode())
        said = b""
        for _ in range(round(_ANSWER_TIMEOUT_S / _LOOK_S)):
            if select.select([self._answers], [], [], _LOOK_S)[0]:
                said += os.read(self._answers, 64)
                if _ANSWER in said:
                    return True
            elif self._process.poll() is not None:
                return False
        return False


@contextlib.contextmanager
def counters(shell: Shell, pid: int, options: Sequence[str], output: Path, log: Path) -> Iterator[Gate]:
    """perf stat with these events on a process, its counters off; ``output`` has what it counted after the context's end."""
    folder = output.parent
    pipes = folder / "control", folder / "answers"
    for pipe in pipes:
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe)
    output.unlink(missing_ok=True)
    command = ("perf", "stat", "-x", ",", "-o", str(output), *options, *words(folder), "-p", str(pid))
    process = shell.spawn(Command(command), log=log)
    # Open for both ways, as perf has them: neither side waits for the other, and none meets an end of file.
    control, answers = (os.open(pipe, os.O_RDWR | os.O_NONBLOCK) for pipe in pipes)
    try:
        yield Gate(process, control, answers)
    finally:
        process.signal(signal.SIGINT)
        process.wait(_ANSWER_TIMEOUT_S)
        for end, pipe in zip((control, answers), pipes, strict=True):
            os.close(end)
            pipe.unlink(missing_ok=True)
