"""CPU time, steal and swap, as the kernel counts them.

A process's total CPU time is exact to the nanosecond, also of threads that have ended. How it divides into user and
system time most kernels only sample, once a tick (usually 10 ms): of 200 ticks in a slice of 2 s, 85 % is known to
2.5 points.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, fields

import psutil

from upshift.errors import ServerFailed

_BUSY = ("user", "nice", "system", "irq", "softirq")
# What clock_getcpuclockid(3) returns on Linux: the process's number, inverted, above three bits of which 2 means
# "nanoseconds on a CPU".
_CPUCLOCK_SCHED = 2


@dataclass(frozen=True)
class Usage:
    """Running totals at one moment; only differences mean anything."""

    total_cpu_s: float
    """Of one process with all of its threads, also those that have ended, to the nanosecond."""
    user_cpu_s: float
    """The part in user mode, by ticks."""
    system_cpu_s: float
    run_delay_s: float
    """Time in which its threads were ready to run and waited for a CPU; of threads that have not ended."""
    machine_busy_cpu_s: float
    """Of all CPUs: everything but idle, waiting for disks, and steal."""
    steal_s: float
    """Of all CPUs: time in which the hypervisor ran something else although a process here was ready to run."""
    swapped_bytes: int
    """In and out, of the whole machine."""

    def __sub__(self, earlier: Usage) -> Usage:
        """What happened since ``earlier``."""
        return Usage(**{each.name: getattr(self, each.name) - getattr(earlier, each.name) for each in fields(self)})


def usage(pid: int) -> Usage:
    """Totals now, for the process ``pid`` and the machine. Raises ServerFailed when there is none."""
    try:
        total_ns = time.clock_gettime_ns(~pid << 3 | _CPUCLOCK_SCHED)
        process = psutil.Process(pid).cpu_times()
    except (OSError, psutil.NoSuchProcess) as error:
        raise ServerFailed(f"the server (process {pid}) is gone", "its log says why") from error
    machine = psutil.cpu_times()
    swap = psutil.swap_memory()
    return Usage(
        total_cpu_s=total_ns / 1e9,
        user_cpu_s=process.user,
        system_cpu_s=process.system,
        run_delay_s=_run_delay_ns(pid) / 1e9,
        machine_busy_cpu_s=sum(getattr(machine, name, 0.0) for name in _BUSY),
        steal_s=getattr(machine, "steal", 0.0),
        swapped_bytes=swap.sin + swap.sout,
    )


def _run_delay_ns(pid: int) -> int:
    """The second field of each thread's schedstat (Linux's Documentation/scheduler/sched-stats.rst)."""
    found = 0
    tasks = f"/proc/{pid}/task"
    with contextlib.suppress(OSError):
        for thread in os.listdir(tasks):  # noqa: PTH208 - a third of the time that Path takes, with hundreds of threads
            # It has ended, or the kernel counts nothing.
            with contextlib.suppress(OSError, IndexError), open(f"{tasks}/{thread}/schedstat", "rb", buffering=0) as file:  # noqa: PTH123
                found += int(file.read().split()[1])
    return found
