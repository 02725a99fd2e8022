"""CPU time and swap, as the kernel counts them.

Times come in the kernel's ticks (usually 10 ms), which is why CPU per query is formed from sums over a trial.
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
