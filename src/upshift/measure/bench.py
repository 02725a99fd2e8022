"""What an experiment needs from the outside: arms that run, loads that can be put on them, and the time."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from typing import Protocol

from upshift.errors import LoadFailed
from upshift.measure.model import Load
from upshift.measure.variant import Variant
from upshift.workload.reports import LoadReport


class RunningArm(Protocol):
    """A server of one arm that answers queries."""

    @property
    def pid(self) -> int: ...

    def queries(self) -> int:
        """Statements since its start. Raises ServerFailed when it is gone."""
        ...

    def quiet(self) -> bool:
        """Whether background work (flushing, purge) has calmed down. Raises ServerFailed when the server is gone."""
        ...

    def pause(self) -> None:
        """Stop all of its work, background work too, until ``resume``. Once paused, it must not be asked anything."""
        ...

    def resume(self) -> None: ...


class LoadHandle(Protocol):
    """A load in the background."""

    def answered(self) -> int:
        """What its server has done since its start: statements, or what else the workload counts. Raises ServerFailed."""
        ...

    def ended(self) -> bool: ...

    def pause(self) -> None:
        """Stop the driver, its connections kept, until ``resume``. Its time goes on meanwhile."""
        ...

    def resume(self) -> None: ...

    def finish(self) -> LoadReport:
        """Wait for its end. Raises LoadFailed."""
        ...


def finished(load: LoadHandle, server: RunningArm) -> LoadReport:
    """What the driver says at its end, which this waits for. Raises LoadFailed; ServerFailed where the server is gone, which is
    the better explanation of a load that failed.
    """
    try:
        return load.finish()
    except LoadFailed:
        server.queries()
        raise


class Bench(Protocol):
    """Starts arms and loads them. The pipeline brings the real one; unit tests bring a fake."""

    def arm(self, arm: Variant, trial: int) -> AbstractContextManager[RunningArm]:
        """A fresh server for ``arm`` on its own copy of the data; stopped at the context's end."""
        ...

    def place(self, running: RunningArm, load: LoadHandle | None, arm: Variant) -> None:
        """Move a running arm, and its load, to the CPUs that ``arm`` has now; nothing where it has them already.

        Both may be paused. Raises ServerFailed where the machine does not let them.
        """
        ...

    def check(self, running: RunningArm) -> None:
        """Raises ServerFailed where a running arm is no longer what its variant asks for."""
        ...

    def begin(self, running: RunningArm, load: Load, seconds: float, seed: int) -> LoadHandle:
        """Start ``load`` on a running arm, for at least ``seconds``, on the CPUs of the arm's client."""
        ...


class Clock(Protocol):
    """The passing of time, so that tests need not wait for it."""

    def now_s(self) -> float:
        """Seconds since any fixed moment; never goes back."""
        ...

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's own monotonic clock."""

    def now_s(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds))
