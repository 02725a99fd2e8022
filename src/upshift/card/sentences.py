"""What a card's figures mean for a server, a sentence each. A rule that lacks a figure says nothing, or that it is lacking.

Two figures are called different only when they are ``apart``. Whether something pays is for a measurement to say: the card
says what is worth one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from upshift.card.model import Card, Layout, Pages, Repeated, apart, middle
from upshift.card.rows import figures, size
from upshift.report.words import figure

LITTLE_CACHE = 0.5
"""A cache that takes more than this share of memory's own time to answer is hardly one."""
DATA_BYTES = 64 << 20
"""Stands for a server's hot rows and indexes: beyond what caches and the TLB hold, within any buffer pool."""
WORTH_TRYING = 1.15
"""From this ratio on a change is worth a measurement: a server spends a part of its time on such loads and calls, and a tenth
of a part is lost in noise."""
DEAR_WAKE_UP = 3.0
"""A wake-up of another CPU that takes so many times one on the same CPU decides what one connection gets."""
WORTH_A_TIER_US = 20.0
"""Ten times a hit of the page cache in a file, rounded: docs/measurements/2026-11-22-tier-builds has 581,431 a second."""
STEAL_MUCH = 0.02
OTHERS_MUCH = 0.05
"""From these shares of the CPUs' time on, figures are those of a machine that was not its own."""
IN_MEMORY = ("tmpfs", "ramfs")
"""File systems that have no disk."""
Effect = Literal["cheaper", "little", "unclear"]
"""Of a change: worth a measurement, not, or the repetitions do not agree."""
UNSTEADY = 0.25
"""Repetitions that lie further apart than this share of their median are named."""


def sentences(card: Card) -> tuple[str, ...]:
    """All that can be said, in the order of the table."""
    return tuple(said for rule in RULES if (said := rule(card)))


def caches(card: Card) -> str:
    """Loads from the nearest cache to memory, and whether the last cache works."""
    found = {bytes_: each for bytes_ in card.footprints_bytes if (each := _loads(card, bytes_))}
    if len(found) < 2:
        return ""
    near, far = min(found), max(found)
    memory_ns = middle(found[far])
    ends = f"{_ns(found[near])} in {size(near)} and {_ns(found[far])} in {size(far)}"
    within = _within_last_cache(card, tuple(found))
    if within is None:
        return f"A load costs {ends}."
    last_bytes, footprint = within
    cost = f"In {size(footprint)}, within the {size(last_bytes)} of the last cache, it costs {_ns(found[footprint])}"
    costs = f"A load costs {ends}. {cost}"
    share = middle(found[footprint]) / memory_ns
    if share < LITTLE_CACHE:
        return f"{costs}."
    return (
        f"{costs}, {share:.0%} of what memory costs. This machine has little of that cache. Smaller or denser code and "
        "data are worth a measurement."
    )


def data_pages(card: Card) -> str:
    """Huge pages for data."""
    small, huge = card.load_ns(DATA_BYTES, "small"), card.load_ns(DATA_BYTES, "huge")
    where = size(DATA_BYTES)
    if not small:
        return ""
    if not huge:
        return f"A load in {where} costs {_ns(small)}. The kernel gave no huge pages: what they would bring is not known."
    both = f"a load in {where} costs {_ns(small)} without and {_ns(huge)} with them"
    return {
        "cheaper": f"Huge pages make loads cheaper here: {both}. For the buffer pool they are worth a measurement.",
        "little": f"Huge pages bring little for data here: {both}.",
        "unclear": f"Whether huge pages help data here cannot be told: {both}, and the repetitions do not agree.",
    }[_beside(huge, small)]


def code_layout(card: Card) -> str:
    """Layout of code, and huge pages under it."""
    if not card.function_counts:
        return ""
    count = card.function_counts[-1]

    def of(layout: Layout, pages: Pages) -> Repeated:
        return card.call_ns(count, layout, pages)

    packed, spread = of("packed", "small"), of("spread", "small")
    if not (packed and spread):
        return ""
    both = (
        f"a call of one of {count:,} functions in random order costs {_ns(packed)} when they lie side by side, and "
        f"{_ns(spread)} when each lies in a page of its own"
    )
    layout = {
        "cheaper": f"Layout of code matters here: {both}.",
        "little": f"Layout of code matters little here: {both}.",
        "unclear": f"Whether layout of code matters here cannot be told: {both}, and the repetitions do not agree.",
    }[_beside(packed, spread)]
    found = code_pages(card)
    if found is None:
        return f"{layout} The kernel gave no huge pages for code."
    _small, huge, effect = found
    pages = {
        "cheaper": f"Huge pages make that {_ns(huge)}: under the server's code they are worth a measurement.",
        "little": f"Huge pages change little about that ({_ns(huge)}).",
        "unclear": f"Whether huge pages change that cannot be told ({_ns(huge)}).",
    }[effect]
    return f"{layout} {pages}"


def code_pages(card: Card) -> tuple[Repeated, Repeated, Effect] | None:
    """What a call of one of many functions costs, each in a page of its own, with small and with huge pages, and what huge ones
    do to it; None where one of the two is not known.
    """
    if not card.function_counts:
        return None
    small, huge = (card.call_ns(card.function_counts[-1], "spread", pages) for pages in ("small", "huge"))
    return (small, huge, _beside(huge, small)) if small and huge else None


def system_call(card: Card) -> str:
    """An empty one, in nanoseconds."""
    calls = card.system_call_ns
    if not calls:
        return ""
    return (
        f"An empty system call costs {_ns(calls)}. A statement from a socket takes at least two, one to "
        "receive it and one to answer."
    )


def exchanges(card: Card) -> str:
    """What a server's own code does to its system calls, from no code between them to several times a second-level cache."""
    found = [each for each in card.exchanges if each.exchange_ns]
    if len(found) < 2:
        return ""
    first, *_, last = found
    costs = (
        f"To hand over a request and send an answer the kernel takes {_ns(first.exchange_ns)} when no other code ran before, "
        f"and {_ns(last.exchange_ns)} after {size(last.code_bytes)} of it"
    )
    return {
        "cheaper": f"{costs}: the kernel's code and data leave the caches. A server that runs through less code is "
        "faster in the kernel, too.",
        "little": f"{costs}: code of the server changes little about it.",
        "unclear": f"{costs}, in repetitions that do not agree.",
    }[_beside(first.exchange_ns, last.exchange_ns)]


def wake_up(card: Card) -> str:
    """Round trips between two threads, in microseconds, on one CPU and on two; whether one connection waits for them."""
    same, two = card.same_cpu_round_trip_us, card.two_cpus_round_trip_us
    if not same:
        return ""
    alone = f"A wake-up round trip between two threads takes {_us(same)} on one CPU"
    if not two:
        return f"{alone}; there is no second CPU."
    both = f"{alone} and {_us(two)} on two"
    if apart(same, two) and middle(two) >= DEAR_WAKE_UP * middle(same):
        halts = (
            " Idle CPUs of this virtual machine halt at once, and a CPU that has halted is woken through the hypervisor. The "
            "kernel's default, to poll for 200 µs first, is worth a measurement (haltpoll's guest_halt_poll_ns)."
        )
        return (
            f"{both}.{halts if card.idle_poll_ns == 0 else ''} With one connection each statement waits that long when client "
            "and server have CPUs of their own, so that throughput at one connection says little about the server here. With "
            "many connections a thread pool, where the server has one, is worth a measurement: its threads go on to the next "
            "statement, and sleep less."
        )
    return f"{both}."


def context_switch(card: Card) -> str:
    """One between threads on a CPU, in microseconds."""
    if not card.context_switch_us:
        return ""
    return (
        f"A context switch costs {_us(card.context_switch_us)} beside its system calls. With more busy connections than CPUs, "
        "each switch between connections costs that."
    )


def disk_reads(card: Card) -> str:
    """Reads of 4 KiB, in microseconds, and whether they are dear enough for a page cache."""
    p50, p99 = card.read_us_p50, card.read_us_p99
    if card.file_system in IN_MEMORY:
        return f"{card.folder} lies in memory ({card.file_system}): no disk was measured."
    if not (p50 and p99):
        return f"What a read from the disk costs is not known: {card.file_system or 'the file system'} refuses direct I/O."
    said = f"A page of 4 KiB that is not in memory costs {_us(p50)} from this disk, one in a hundred {_us(p99)} or more."
    if min(p50) < WORTH_A_TIER_US:
        return said
    return f"{said} For data larger than the buffer pool, a page cache (`upshift cache`) is worth a measurement."


def commits(card: Card) -> str:
    """Writes with fsync and fdatasync, in microseconds, and how many commits a second they leave to one connection."""
    file, data = card.fsync_us_p50, card.fdatasync_us_p50
    if not (file and data) or card.file_system in IN_MEMORY:
        return ""
    most = 1e6 / max(min(middle(file), middle(data)), 1e-3)
    return (
        f"A small write reaches the disk in {_us(file)} with fsync and {_us(data)} with fdatasync: one connection that syncs "
        f"at each commit commits at most {figure(most)} times a second."
    )


def disturbed(card: Card) -> str:
    """Whether the machine was busy with something else."""
    said = []
    if card.steal_share >= STEAL_MUCH:
        said.append(f"the hypervisor gave {card.steal_share:.0%} of the CPUs' time to other machines")
    if card.other_cpu_share >= OTHERS_MUCH:
        said.append(f"other programs used {card.other_cpu_share:.0%} of the CPUs' time")
    return f"While this was measured, {' and '.join(said)}: a quiet machine has other figures." if said else ""


def unsteady(card: Card) -> str:
    """The figures whose repetitions do not agree."""
    # The slowest operation of a hundred differs from one time to the next on every disk.
    names = [name for name, each, _unit in figures(card) if each and _unsteady(each) and not name.endswith("p99")]
    if not names:
        return ""
    return f"Read these with care, their repetitions lie more than {UNSTEADY:.0%} apart: {'; '.join(names)}."


RULES: tuple[Callable[[Card], str], ...] = (
    *(caches, data_pages, code_layout, system_call, exchanges, wake_up, context_switch),
    *(disk_reads, commits, disturbed, unsteady),
)


def _loads(card: Card, size_bytes: int) -> Repeated:
    """With huge pages if there are any: then the caches are what is seen, and not the TLB."""
    return card.load_ns(size_bytes, "huge") or card.load_ns(size_bytes, "small")


def _within_last_cache(card: Card, sizes: tuple[int, ...]) -> tuple[int, int] | None:
    """The last cache's size, and the least footprint that it alone holds: twice the cache before it at least, half of the last
    at most. None without such."""
    levels = sorted({each.level for each in card.caches if each.kind != "Instruction"})
    if len(levels) < 2:
        return None
    largest = {each.level: each.size_bytes for each in card.caches if each.kind != "Instruction"}
    before, last = largest[levels[-2]], largest[levels[-1]]
    fitting = [each for each in sizes if 2 * before <= each <= last // 2]
    # What is to stand for memory must be far beyond the cache.
    return (last, min(fitting)) if fitting and max(sizes) >= 4 * last else None


def _beside(one: Repeated, other: Repeated) -> Effect:
    """Whether the first figure is so much less than the second that it is worth a measurement."""
    if middle(other) >= WORTH_TRYING * middle(one):
        return "cheaper" if apart(one, other) else "unclear"
    return "unclear" if _unsteady(one) or _unsteady(other) else "little"


def _unsteady(each: Repeated) -> bool:
    return max(each) - min(each) > UNSTEADY * middle(each)


def _ns(each: Repeated) -> str:
    return f"{figure(middle(each))} ns"


def _us(each: Repeated) -> str:
    return f"{figure(middle(each))} µs"
