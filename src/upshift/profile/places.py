"""Where trainings run side by side: as many as CPUs and memory hold, and all of them stopped together."""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from upshift.control_groups import memory_available_bytes, usable_cpus
from upshift.errors import ServerFailed
from upshift.server.kind import ServerKind
from upshift.shell import Command, Completed, Process, Shell
from upshift.workload.model import Workload

# What a server and its load take beside the server's own pool of pages.
_BESIDE_POOL_BYTES = 1_000_000_000
# A server and its load seldom use a CPU whole, and what they leave would be idle in the last round of trainings.
MOST_A_CPU = 2


class Places:
    """Sets of CPUs, each for one server with its load; an empty set stands for all CPUs."""

    def __init__(self, sets: Sequence[tuple[int, ...]]) -> None:
        self._sets = tuple(sets)
        self._free: queue.SimpleQueue[tuple[int, ...]] = queue.SimpleQueue()
        for cpus in self._sets:
            self._free.put(cpus)

    @classmethod
    def for_workloads(cls, kind: ServerKind, workloads: Sequence[Workload], a_cpu: int = MOST_A_CPU) -> Places:
        """As many as there are workloads, at most ``a_cpu`` a usable CPU, and no more than the free memory holds.

        Each has CPUs of its own, if there are as many: a profile counts what was executed, not how fast.
        """
        pools = [kind.pool_bytes({**kind.settings(), **workload.settings}) or 0 for workload in workloads]
        by_memory = memory_available_bytes() // (max(pools, default=0) + _BESIDE_POOL_BYTES)
        cpus = sorted(os.sched_getaffinity(0))
        return cls(divided(cpus, min(len(workloads), by_memory, a_cpu * usable_cpus())))

    def __len__(self) -> int:
        return len(self._sets)

    @contextlib.contextmanager
    def taken(self) -> Iterator[tuple[int, ...]]:
        """A set that nobody else has; waits for one."""
        cpus = self._free.get()
        try:
            yield cpus
        finally:
            self._free.put(cpus)


def divided(cpus: Sequence[int], parts: int) -> list[tuple[int, ...]]:
    """``cpus`` in ``parts`` sets of neighbours, at least one, whose sizes differ by one at most.

    A single set, or more sets than CPUs, are empty, which stands for all: nothing need be pinned then.
    """
    if parts <= 1 or parts > len(cpus):
        return [()] * max(1, parts)
    edges = [len(cpus) * part // parts for part in range(parts + 1)]
    return [tuple(cpus[start:end]) for start, end in itertools.pairwise(edges)]


class Trainees:
    """A shell that remembers what it started in the background, so that all of it can be stopped at once."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._lock = threading.Lock()
        self._started: list[Process] = []
        self._stopped = False

    def run(
        self,
        command: Command,
        *,
        log: Path | None = None,
        timeout_s: float | None = None,
        on_line: Callable[[str], None] | None = None,
        check: bool = True,
    ) -> Completed:
        """Raises ServerFailed once the others have been stopped."""
        self._refuse_stopped()
        return self._shell.run(command, log=log, timeout_s=timeout_s, on_line=on_line, check=check)

    def spawn(self, command: Command, *, log: Path) -> Process:
        """Raises ServerFailed once the others have been stopped."""
        with self._lock:
            self._refuse_stopped()
            process = self._shell.spawn(command, log=log)
            self._started.append(process)
            return process

    def _refuse_stopped(self) -> None:
        if self._stopped:
            raise ServerFailed("the training was stopped", "another workload's training failed or was interrupted")

    def stop(self) -> None:
        """Kill what still runs, with all that it started; nothing further starts."""
        with self._lock:
            self._stopped = True
            for process in self._started:
                if process.poll() is None:
                    process.signal(signal.SIGKILL)
                    process.stop()
