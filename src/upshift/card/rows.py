"""A card as two small tables of text, the same on the page, on the terminal and in the documents."""

from __future__ import annotations

from collections.abc import Mapping

from upshift.card.model import Calls, Card, Exchange, Loads, Pages, Repeated, middle
from upshift.machine import Machine
from upshift.report import words
from upshift.report.words import figure

_PAGES: Mapping[Pages, str] = {"small": "4 KiB pages", "huge": "2 MiB pages"}
MEMORY_HEAD = ("CPU time of", *_PAGES.values())
OTHER_HEAD = ("", "median", "repetitions")
_NOT_HAD = "not had"
_MIB = 1 << 20


def memory_rows(card: Card) -> tuple[tuple[str, str, str], ...]:
    """What loads and calls cost, with small and with huge pages: the median, and the least and the largest repetition."""
    cells: dict[str, dict[str, str]] = {}
    for each in card.loads:
        cells.setdefault(loads_name(each), {})[each.pages] = _ns(each.load_ns, each.as_asked)
    for call in card.calls:
        cells.setdefault(calls_name(call), {})[call.pages] = _ns(call.call_ns, call.as_asked)
    return tuple((name, row.get("small", ""), row.get("huge", "")) for name, row in cells.items())


def other_rows(card: Card) -> tuple[tuple[str, str, str], ...]:
    """The kernel and the disk: a figure with its unit, and its least and largest repetition."""
    return tuple(
        (name, f"{figure(middle(each))} {unit}", _range(each)) if each else (name, "not measured", "")
        for name, each, unit in _others(card)
    )


def figures(card: Card) -> tuple[tuple[str, Repeated, str], ...]:
    """Every figure: its name, its repetitions (none where it was not measured, or not as asked), its unit."""
    loads = ((f"{loads_name(one)}, {_PAGES[one.pages]}", one.load_ns if one.as_asked else (), "ns") for one in card.loads)
    calls = ((f"{calls_name(one)}, {_PAGES[one.pages]}", one.call_ns if one.as_asked else (), "ns") for one in card.calls)
    return (*loads, *calls, *_others(card))


def _others(card: Card) -> tuple[tuple[str, Repeated, str], ...]:
    return (
        ("clock, by dependent additions", card.clock_ghz, "GHz"),
        ("system call", card.system_call_ns, "ns"),
        *((exchange_name(each), each.exchange_ns, "ns") for each in card.exchanges),
        ("wake-up and back, one CPU", card.same_cpu_round_trip_us, "µs"),
        ("wake-up and back, two CPUs", card.two_cpus_round_trip_us, "µs"),
        ("context switch", card.context_switch_us, "µs"),
        ("random read of 4 KiB, p50", card.read_us_p50, "µs"),
        ("random read of 4 KiB, p99", card.read_us_p99, "µs"),
        ("write of 512 B and fsync, p50", card.fsync_us_p50, "µs"),
        ("write of 512 B and fsync, p99", card.fsync_us_p99, "µs"),
        ("write of 512 B and fdatasync, p50", card.fdatasync_us_p50, "µs"),
        ("write of 512 B and fdatasync, p99", card.fdatasync_us_p99, "µs"),
    )


def machine_facts(machine: Machine) -> tuple[tuple[str, str], ...]:
    """Which machine it is, for where no report says so."""
    return (
        ("CPU", f"{machine.cpus} x {machine.cpu}"),
        ("memory", words.size(machine.memory_bytes)),
        ("system", f"{machine.os}, kernel {machine.kernel}, virtualised by {machine.virtual}"),
    )


def facts(card: Card) -> tuple[tuple[str, str], ...]:
    """What the card knows without measuring, and what else went on."""
    nearby = ", ".join(f"L{each.level} {each.kind.lower()} {size(each.size_bytes)}" for each in card.caches)
    cores = f"{words.count(card.threads_per_core, 'thread')} per core, {words.count(card.numa_nodes, 'NUMA node')}"
    counter = "yes" if card.instruction_counter else f"no: {card.instruction_counter_refusal}"
    polls = () if card.idle_poll_ns is None else (("idle CPUs", f"poll {card.idle_poll_ns / 1000:g} µs before they halt"),)
    return (
        ("product", card.product or "not named"),
        ("cores", cores),
        ("caches", nearby or "not listed"),
        ("transparent huge pages", card.transparent_huge_pages or "none"),
        *polls,
        ("counts instructions", counter),
        ("disk", f"{card.folder}, {card.file_system or 'unknown file system'}{'' if card.direct_io else ', no direct I/O'}"),
        ("meanwhile", f"steal {card.steal_share:.1%}, other programs {card.other_cpu_share:.1%} of the CPUs"),
    )


def loads_name(each: Loads) -> str:
    return f"load in {size(each.footprint_bytes)}"


def calls_name(each: Calls) -> str:
    return f"call of {each.functions:,} functions, {each.layout}"


def exchange_name(each: Exchange) -> str:
    return f"request and answer, {f'after {size(each.code_bytes)} of code' if each.code_bytes else 'no code between'}"


def size(size_bytes: int) -> str:
    return f"{size_bytes / _MIB:,.6g} MiB" if size_bytes >= _MIB else f"{size_bytes / 1024:,.6g} KiB"


def _ns(each: Repeated, as_asked: bool) -> str:
    if not as_asked:
        return _NOT_HAD
    return f"{figure(middle(each))} ns ({_range(each)})" if each else "not measured"


def _range(each: Repeated) -> str:
    return f"{figure(min(each))} to {figure(max(each))}"
