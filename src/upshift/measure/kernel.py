"""CPU time, steal and swap, as the kernel counts them.

A server is one process or several, as PostgreSQL with one for each connection: a process and all that it started. Their
total CPU time is exact to the nanosecond, also of threads that have ended. What processes used that have ended the kernel
tells in ticks (usually 10 ms): a slice in which one ends is exact to two ticks. How the total divides into user and
system time most kernels only sample, once a tick: of 200 ticks in a slice of 2 s, 85 % is known to 2.5 points.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path

import psutil

from upshift.errors import ServerFailed
from upshift.measure.model import Plan
from upshift.measure.probe import Probe, Work, probing
from upshift.measure.variant import Variant
from upshift.process import cpu_s, descendants, of_threads

_STAT = Path("/proc/stat")
_COLUMNS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
"""Of a CPU's line, in ticks (Linux's Documentation/filesystems/proc.rst)."""
_BUSY = ("user", "nice", "system", "irq", "softirq")


@dataclass(frozen=True)
class Usage:
    """Running totals at one moment; only differences mean anything."""

    total_cpu_s: float
    """Of all processes of a server with all of their threads, also those that have ended."""
    user_cpu_s: float
    """The part in user mode, by ticks."""
    system_cpu_s: float
    run_delay_s: float
    """Time in which their threads were ready to run and waited for a CPU; of threads that have not ended."""
    machine_busy_cpu_s: float
    """On the plan's CPUs: everything but idle, waiting for disks, and steal."""
    steal_s: float
    """On the plan's CPUs: time in which the hypervisor ran something else although a process here was ready to run."""
    swapped_bytes: int
    """In and out, of the whole machine."""
    probe_units: int = 0
    """Of work that the speed probe did; 0 without one."""
    probe_cpu_s: float = 0.0
    """CPU time that these took."""

    def __sub__(self, earlier: Usage) -> Usage:
        """What happened since ``earlier``."""
        return Usage(**{each.name: getattr(self, each.name) - getattr(earlier, each.name) for each in fields(self)})


@contextlib.contextmanager
def sampling(plan: Plan, arms: Sequence[Variant]) -> Iterator[Callable[[int], Usage]]:
    """Reads ``usage`` of a process; with ``plan.speed_probe``, beside a probe on the CPUs of the ``arms``' servers.

    Raises UsageError where it cannot run.
    """
    if not plan.speed_probe:
        yield partial(usage, cpus=plan.cpus)
        return
    seats = (*plan.duet, *map(plan.seat_of, arms))
    servers = {cpu for seat in seats for cpu in seat.server_cpus}
    with probing(sorted(servers)) as probe:
        yield partial(usage, cpus=plan.cpus, probe=probe)


def usage(pid: int, cpus: Collection[int] = (), probe: Probe | None = None) -> Usage:
    """Totals now, for the process ``pid`` with all that it started, and for ``cpus``; where none is named, for all CPUs;
    and of ``probe`` on the CPUs that the process may use. Raises ServerFailed when there is no such process.
    """
    try:
        total_s, user_s, system_s, run_delay_ns = _of_process(pid)
        may_use = os.sched_getaffinity(pid) if probe else set()
    except (OSError, psutil.NoSuchProcess) as error:
        raise ServerFailed(f"the server (process {pid}) is gone", "its log says why") from error
    for child in descendants(pid):
        with contextlib.suppress(OSError, psutil.NoSuchProcess):  # its parent has it among those that ended
            child_s, child_user_s, child_system_s, child_delay_ns = _of_process(child)
            total_s, run_delay_ns = total_s + child_s, run_delay_ns + child_delay_ns
            user_s, system_s = user_s + child_user_s, system_s + child_system_s
    machine = _of_cpus(cpus)
    swap = psutil.swap_memory()
    work = probe(may_use) if probe else Work(0, 0.0)
    return Usage(
        total_cpu_s=total_s,
        user_cpu_s=user_s,
        system_cpu_s=system_s,
        run_delay_s=run_delay_ns / 1e9,
        machine_busy_cpu_s=sum(machine[name] for name in _BUSY),
        steal_s=machine["steal"],
        swapped_bytes=swap.sin + swap.sout,
        probe_units=work.units,
        probe_cpu_s=work.cpu_s,
    )


def _of_cpus(cpus: Collection[int]) -> dict[str, float]:
    """Seconds by column, summed over ``cpus``; over all where some of these have no line, as in a container whose lxcfs numbers
    its own CPUs anew. By number: an offline CPU has no line, so that a line's place says nothing.
    """
    with _STAT.open() as file:
        lines = {int(name[3:]): ticks for name, *ticks in map(str.split, file) if re.fullmatch(r"cpu\d+", name)}
    wanted = cpus if cpus and lines.keys() >= set(cpus) else lines
    counted = [map(int, lines[cpu]) for cpu in wanted]
    ticks_a_s = os.sysconf("SC_CLK_TCK")
    return {name: sum(ticks) / ticks_a_s for name, *ticks in zip(_COLUMNS, *counted, strict=False)}


def _of_process(pid: int) -> tuple[float, float, float, int]:
    """Total, user and system time in seconds, run delay in nanoseconds; with its children that have ended."""
    times = psutil.Process(pid).cpu_times()
    total_s = cpu_s(pid) + times.children_user + times.children_system
    user_s, system_s = times.user + times.children_user, times.system + times.children_system
    return total_s, user_s, system_s, _run_delay_ns(pid)


def _run_delay_ns(pid: int) -> int:
    """The second field of each thread's schedstat (Linux's Documentation/scheduler/sched-stats.rst)."""
    return sum(int(each.split()[1]) for each in of_threads(pid, "schedstat") if each)
