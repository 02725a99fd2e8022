"""A machine card: figures, each with its repetitions, and what is known of the machine without measuring."""

from __future__ import annotations

from itertools import pairwise
from statistics import median
from typing import Literal

from upshift.machine import Machine
from upshift.values import Value

SCHEMA_VERSION = 1

Pages = Literal["small", "huge"]
"""Of 4 KiB or of 2 MiB."""
Layout = Literal["packed", "spread"]
"""Functions side by side, or one in each page of 4 KiB."""
_BYTES_A_FUNCTION = {"packed": 64, "spread": 4096}
Repeated = tuple[float, ...]
"""A figure's repetitions in its unit; empty when it was not measured."""


class Loads(Value):
    """What a load costs whose address the load before it brought, in memory of one size."""

    footprint_bytes: int
    pages: Pages
    """The pages that were asked for."""
    huge_bytes: int
    """How much of the memory lay in huge pages."""
    load_ns: Repeated
    """CPU time of a load."""

    @property
    def as_asked(self) -> bool:
        """Whether the memory had the pages that were asked for."""
        return self.pages == "small" or self.huge_bytes >= self.footprint_bytes


class Calls(Value):
    """What a call costs to a function that the processor could not foresee."""

    functions: int
    """How many there are: a line of code each, of 64 bytes."""
    layout: Layout
    pages: Pages
    huge_bytes: int
    call_ns: Repeated
    """CPU time of a call. A branch that was predicted wrongly is part of it, the same for every layout."""

    @property
    def as_asked(self) -> bool:
        """Whether all of the code had the pages that were asked for."""
        return self.pages == "small" or self.huge_bytes >= self.functions * _BYTES_A_FUNCTION[self.layout]


class Exchange(Value):
    """What the kernel takes to hand over a waiting request and to send an answer, over a socket."""

    code_bytes: int
    """Other code that ran before, every line of it once: it pushes the kernel's own out of the caches."""
    exchange_ns: Repeated


class Cache(Value):
    """A cache of the first CPU, as the kernel lists it; a guest is told what its hypervisor likes."""

    level: int
    kind: str
    size_bytes: int
    cpus: str
    """Those that share it, such as ``0-1``."""


class Card(Value):
    """What `upshift-card` prints."""

    schema_version: int
    budget_s: float
    took_s: float
    cpus: tuple[int, ...]
    """Those that the program was allowed to use."""
    threads_per_core: int
    numa_nodes: int
    caches: tuple[Cache, ...]
    transparent_huge_pages: str
    """The kernel's setting: ``always``, ``madvise``, ``never``; empty without them."""
    idle_poll_ns: int | None = None
    """How long an idle CPU of a virtual machine polls before it halts; None where the kernel's governor is not haltpoll, and in
    cards of an earlier Upshift.
    """
    product: str
    """What the firmware says that the machine is; empty when it says nothing."""
    instruction_counter: bool
    """Whether the processor's counters count instructions here."""
    instruction_counter_refusal: str
    huge_page_bytes: int
    clock_ghz: Repeated
    """Dependent additions a nanosecond of CPU time."""
    loads: tuple[Loads, ...]
    calls: tuple[Calls, ...]
    exchanges: tuple[Exchange, ...] = ()
    """By growing code; empty where that was not measured, and in cards of an earlier Upshift."""
    system_call_ns: Repeated
    """CPU time of getppid."""
    same_cpu_round_trip_us: Repeated
    """A thread wakes another on its own CPU and is woken by it."""
    two_cpus_round_trip_us: Repeated
    """The same between two CPUs; empty where there is one."""
    context_switch_us: Repeated
    """Half of a round trip on one CPU, less the system calls of it."""
    folder: str
    file_system: str
    direct_io: bool
    """Whether the file system lets reads go past the kernel's cache."""
    file_bytes: int
    reads: int
    read_us_p50: Repeated
    """4 KiB from a random place of the file, past the kernel's cache, one at a time."""
    read_us_p99: Repeated
    fsyncs: int
    fsync_us_p50: Repeated
    """512 bytes written over old ones, then fsync."""
    fsync_us_p99: Repeated
    fdatasyncs: int
    fdatasync_us_p50: Repeated
    fdatasync_us_p99: Repeated
    steal_share: float
    """Share of the CPUs' time that the hypervisor gave to other machines meanwhile."""
    other_cpu_share: float
    """Share of the CPUs' time that other programs used meanwhile."""
    notes: tuple[str, ...]
    """What was not measured, and why."""

    def load_ns(self, footprint_bytes: int, pages: Pages) -> Repeated:
        """Empty where that was not measured, or not with these pages."""
        found = (each for each in self.loads if (each.footprint_bytes, each.pages) == (footprint_bytes, pages))
        return next((each.load_ns for each in found if each.as_asked), ())

    def call_ns(self, functions: int, layout: Layout, pages: Pages) -> Repeated:
        """Empty where that was not measured, or not with these pages."""
        asked = (functions, layout, pages)
        found = (each for each in self.calls if (each.functions, each.layout, each.pages) == asked)
        return next((each.call_ns for each in found if each.as_asked), ())

    def exchange_ns(self, code_bytes: float) -> float | None:
        """What an exchange takes after so much code, on straight lines between the medians; None beyond what was measured."""
        known = [(each.code_bytes, middle(each.exchange_ns)) for each in self.exchanges if each.exchange_ns]
        for (from_bytes, low), (to_bytes, high) in pairwise(known):
            if from_bytes <= code_bytes <= to_bytes:
                return low + (high - low) * (code_bytes - from_bytes) / (to_bytes - from_bytes)
        return None

    @property
    def footprints_bytes(self) -> tuple[int, ...]:
        return tuple(sorted({each.footprint_bytes for each in self.loads}))

    @property
    def function_counts(self) -> tuple[int, ...]:
        return tuple(sorted({each.functions for each in self.calls}))


class MachineCard(Value):
    """What `upshift card --json` prints."""

    schema_version: int = SCHEMA_VERSION
    machine: Machine
    card: Card


def middle(figure: Repeated) -> float:
    """The median of a figure's repetitions, of which there is one at least."""
    return median(figure)


def apart(one: Repeated, other: Repeated) -> bool:
    """Whether two figures differ beyond their repetitions: no repetition of one lies among those of the other.

    With five repetitions each, chance alone puts them apart in 2 cases of C(10, 5) = 252.
    """
    return bool(one and other) and (max(one) < min(other) or max(other) < min(one))
