"""CPU time and swap, as the kernel counts them.

A process's total is exact to the kernel's tick (usually 10 ms). How it divides into user and system time most
kernels only sample, once a tick: of 200 ticks in a slice of 2 s, 85 % is known to 2.5 points. So CPU time per
query is formed from sums over a trial; what error is left is in the interval over trials.
"""

from __future__ import annotations

from dataclasses import dataclass

import psutil

from upshift.errors import ServerFailed

# Steal is time that the hypervisor gave to another machine: on a virtual machine that is other load as well.
_BUSY = ("user", "nice", "system", "irq", "softirq", "steal")


@dataclass(frozen=True)
class Usage:
    """Running totals at one moment; only differences mean anything."""

    user_cpu_s: float
    """Of one process with all of its threads, in user mode, also of threads that have ended."""
    system_cpu_s: float
    machine_busy_cpu_s: float
    """Of all CPUs: everything but idle and waiting for disks, with what other virtual machines stole."""
    swapped_bytes: int
    """In and out, of the whole machine."""

    def __sub__(self, earlier: Usage) -> Usage:
        """What happened since ``earlier``."""
        return Usage(
            user_cpu_s=self.user_cpu_s - earlier.user_cpu_s,
            system_cpu_s=self.system_cpu_s - earlier.system_cpu_s,
            machine_busy_cpu_s=self.machine_busy_cpu_s - earlier.machine_busy_cpu_s,
            swapped_bytes=self.swapped_bytes - earlier.swapped_bytes,
        )


def usage(pid: int) -> Usage:
    """Totals now, for the process ``pid`` and the machine. Raises ServerFailed when there is none."""
    try:
        process = psutil.Process(pid).cpu_times()
    except psutil.NoSuchProcess as error:
        raise ServerFailed(f"the server (process {pid}) is gone", "its log says why") from error
    machine = psutil.cpu_times()
    swap = psutil.swap_memory()
    return Usage(
        user_cpu_s=process.user,
        system_cpu_s=process.system,
        machine_busy_cpu_s=sum(getattr(machine, name, 0.0) for name in _BUSY),
        swapped_bytes=swap.sin + swap.sout,
    )
