"""Interrupts by which one CPU wakes or calls another, as the kernel counts them."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from pathlib import Path

_INTERRUPTS = Path("/proc/interrupts")
_BETWEEN_CPUS = re.compile(r"(?:Rescheduling|Function call) interrupts$")
"""Their names on x86 (Linux's arch/x86/kernel/irq.c, which has TLB shootdowns apart) and ARM (arch/arm64/kernel/smp.c)."""


def beside(pid: int) -> int | None:
    """Interrupts so far from CPU to CPU, to those that the process may not use: in a measurement they are the load's.

    To all, where it may use all. None where the kernel does not tell them.
    """
    try:
        own, lines = os.sched_getaffinity(pid), _INTERRUPTS.read_text().splitlines()
    except OSError:
        return None
    return between_cpus(lines, without=own)


def between_cpus(lines: Iterable[str], without: Collection[int]) -> int | None:
    """From the lines of ``/proc/interrupts``, to CPUs that are not in ``without``, or to all where there are no others."""
    header, *rows = [*lines] or [""]
    cpus = [int(name.removeprefix("CPU")) for name in header.split()]
    wanted = set(cpus) - set(without) or set(cpus)
    found = [row.split() for row in rows if _BETWEEN_CPUS.search(row.rstrip())]
    if not found:
        return None
    return sum(int(count) for _name, *counts in found for cpu, count in zip(cpus, counts, strict=False) if cpu in wanted)
