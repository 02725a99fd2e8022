"""How fast the servers' CPUs are while a slice is measured: a probe does a small fixed piece of work on each, over and over.

A virtual machine's neighbours slow its CPUs down in bursts of a tenth of a second to minutes, which the hypervisor does not
report as steal. A server does less in a burst, and so does the probe: its unit of work takes more CPU time. The unit needs no
memory beyond registers and a few lines of the first cache, so that how long it takes says little about the server itself.

The probe is a process of its own (``probe_process``), with a thread for each CPU and the least real-time priority: busy servers
do not keep it waiting.
"""

from __future__ import annotations

import errno
import mmap
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from upshift.errors import UpshiftError, UsageError
from upshift.measure import probe_process
from upshift.measure.probe_process import BYTES, FIELDS, READY, take_priority
from upshift.measure.variant import Surroundings

_LEAVE_OUT = "or leave the speed probe out"


class Work(NamedTuple):
    """What the probe has done up to now, on some of its CPUs; only differences mean anything."""

    units: int
    cpu_s: float
    """CPU time of these units."""


class Probe:
    """A running probe."""

    def __init__(self, cpus: Sequence[int], counters: memoryview, child: subprocess.Popen[str]) -> None:
        self._at = {cpu: number * FIELDS for number, cpu in enumerate(cpus)}
        self._counters = counters
        self._child = child

    def __call__(self, cpus: Collection[int]) -> Work:
        """Its counters on those of ``cpus`` that it runs on. Raises UpshiftError where it has ended."""
        if self._child.poll() is not None:
            raise UpshiftError(
                "the speed probe ended by itself", "something killed it: see the kernel's log, and resume the run"
            )
        at = [self._at[cpu] for cpu in cpus if cpu in self._at]
        return Work(sum(self._counters[each] for each in at), sum(self._counters[each + 1] for each in at) / 1e9)


@contextmanager
def probing(cpus: Sequence[int]) -> Iterator[Probe]:
    """A probe on each of these CPUs.

    Raises UsageError where the user may not give a process real-time priority, or may not use one of the CPUs.
    """
    with tempfile.TemporaryFile() as file:
        file.truncate(BYTES * FIELDS * len(cpus))
        command = [sys.executable, "-P", str(Path(probe_process.__file__)), str(file.fileno()), *map(str, cpus)]
        with (
            mmap.mmap(file.fileno(), 0) as shared,
            memoryview(shared).cast("q") as counters,
            subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                pass_fds=[file.fileno()],
                start_new_session=True,
            ) as child,
        ):
            try:
                assert child.stdout is not None
                said = child.stdout.readline().strip()
                if said != READY:
                    number, _, why = said.partition(" ")
                    if not why:
                        raise UsageError("the speed probe ended at once", f"its message is above; {_LEAVE_OUT}")
                    raise UsageError(f"the speed probe cannot run: {why}", _hint(int(number)))
                yield Probe(cpus, counters, child)
            finally:
                child.kill()


def refuse_without_right() -> None:
    """Raises UsageError where the user may not give a process real-time priority."""
    failed: list[OSError] = []

    def attempt() -> None:
        try:
            take_priority()
        except OSError as error:
            failed.append(error)

    # A thread has a priority of its own, which ends with it.
    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    if failed:
        hint = _hint(failed[0].errno or 0)
        raise UsageError(f"the speed probe cannot have real-time priority: {failed[0].strerror}", hint)


def refuse_other_cpus(arms: Sequence[tuple[str, Surroundings]]) -> None:
    """Raises UsageError where servers, by their names, run on unlike CPUs: the probe would take how these differ for bursts."""
    first, *others = arms
    for name, arm in others:
        if set(arm.server_cpus) != set(first[1].server_cpus):
            raise UsageError(
                f"the speed probe is for servers on the same CPUs, and {name} names others than {first[0]} (server_cpus)",
                f"name the same server_cpus for all; {_LEAVE_OUT}",
            )


def _hint(number: int) -> str:
    """What to do about an error of this number."""
    if number != errno.EPERM:
        return f"the CPU is offline, or outside of this process's cpuset: see `nproc` and `lscpu -e`; {_LEAVE_OUT}"
    if os.geteuid() != 0:
        return f"run as root, or with the capability CAP_SYS_NICE; {_LEAVE_OUT}"
    return f"in a container, add the capability CAP_SYS_NICE; in a cgroup of version 1, set cpu.rt_runtime_us; {_LEAVE_OUT}"
