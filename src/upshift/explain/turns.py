"""A server's turn: the other one is stopped, and perf attaches to it under its load."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import psutil

from upshift.measure.bench import RunningArm
from upshift.shell import Process

# The other server has slept and its caches have cooled: the first moments of a turn are not those of a steady load.
LEAD_S = 1.0
# perf attaches to each thread by itself: some tenths of a second, or longer on a busy machine.
ATTACH_S = 1.0
ATTACH_TIMEOUT_S = 15.0


@contextlib.contextmanager
def paused(other: RunningArm) -> Iterator[None]:
    """Its background work must not take time, or caches, from who has the turn."""
    try:
        other.pause()
        yield
    finally:
        other.resume()


def begun(process: Process, timeout_s: float) -> bool:
    """Whether perf has begun its command, which is `sleep`: it does when it has attached to all threads."""
    _await(lambda: _sleeps(process.pid) or process.poll() is not None, timeout_s)
    return _sleeps(process.pid)


def _await(done: Callable[[], bool], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and not done():
        time.sleep(0.01)


def _sleeps(pid: int) -> bool:
    with contextlib.suppress(psutil.Error):
        return any(child.name() == "sleep" for child in psutil.Process(pid).children())
    return False
