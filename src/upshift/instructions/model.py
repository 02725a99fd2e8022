"""What was counted, as reports show it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from upshift.values import Value, is_empty


class FunctionCount(Value):
    """What a server executes of one function for a query."""

    program: str
    """The file name of the server or of a library."""
    symbol: str
    """The linkage name."""
    instructions: float
    """Its own and those of what was inlined into it."""
    calls: float


class MissCount(Value):
    """What a processor that valgrind simulates does not find in its caches for a query, or predicts wrongly.

    Its caches have the sizes of this processor's. It fetches nothing ahead, and the kernel and other threads take no room.
    """

    caches: str
    """Their sizes: ``I1 32 KiB, D1 48 KiB, LL 32768 KiB``."""
    code: float
    """Instruction fetches that miss the first cache."""
    data: float
    """Reads and writes that miss the first cache."""
    last_level: float
    """Of both, those that miss the last cache."""
    branches: float
    """Branches that are predicted wrongly."""


class Count(Value):
    """What one server executes for a query of one workload, in user mode.

    In the thread of the client's connection; counted by BOLT, in all threads, without libraries.
    """

    arm: str
    workload: str
    instructions_per_query: float
    calls_per_query: float | None
    """Calls of functions; a function that is inlined is not called. None: what counted does not say."""
    taken_branches_per_query: float | None = None
    """None: what counted does not say."""
    misses: Annotated[MissCount | None, Field(exclude_if=is_empty)] = None
    """None: nobody asked for them."""
    queries: int
    """By the server's own counter: how many the long run had more than the short one."""
    functions: tuple[FunctionCount, ...] = ()
    """They add up to the instructions; empty unless asked for."""


class Ratio(Value):
    """A server's instructions a query over the baseline's, of one workload: below 1 is less work."""

    arm: str
    workload: str
    ratio: float


class Instructions(Value):
    """All that was counted in a run."""

    source: Literal["perf stat", "callgrind", "bolt", "none"]
    """What counted; none: nothing could."""
    version: str = ""
    """Of the tool."""
    baseline: str
    counts: tuple[Count, ...] = ()
    ratios: tuple[Ratio, ...] = ()
    not_counted: tuple[str, ...] = ()
    """What was left out, with the reason, in sentences."""
    transactions: Annotated[tuple[str, ...], Field(exclude_if=is_empty)] = ()
    """Workloads whose committed transactions are counted in place of queries."""


def compared(counts: tuple[Count, ...], baseline: str) -> tuple[Ratio, ...]:
    """Each count over the baseline's of the same workload, where there is one."""
    base = {count.workload: count.instructions_per_query for count in counts if count.arm == baseline}
    return tuple(
        Ratio(arm=count.arm, workload=count.workload, ratio=count.instructions_per_query / base[count.workload])
        for count in counts
        if count.arm != baseline and count.workload in base
    )
