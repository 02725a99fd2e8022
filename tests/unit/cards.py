"""Machine cards to test with. EVERY FIGURE HERE IS INVENTED: none was measured, none may be quoted."""

from __future__ import annotations

from typing import Any

from upshift.card.model import Card, Repeated
from upshift.machine import Machine

KIB, MIB = 1 << 10, 1 << 20

MACHINE = Machine(cpu="Invented CPU", cpus=2, memory_bytes=16 << 30, os="Some Linux", kernel="6.1.0", virtual="kvm", pmu=False)


def steady(value: float) -> Repeated:
    """Repetitions that agree within 2 %."""
    return tuple(value * factor for factor in (1.0, 0.99, 1.01, 1.0, 1.005))


def wild(value: float) -> Repeated:
    """Repetitions of this median that say little."""
    return tuple(value * factor for factor in (1.0, 0.5, 2.0, 0.7, 1.4))


def loads(footprint_bytes: int, small_ns: Repeated, huge_ns: Repeated, *, had: bool = True) -> list[dict[str, Any]]:
    """With both kinds of pages; huge ones ``had`` or refused."""
    huge_bytes = max(footprint_bytes, 2 * MIB) if had else 0
    return [
        {"footprint_bytes": footprint_bytes, "pages": "small", "huge_bytes": 0, "load_ns": small_ns},
        {"footprint_bytes": footprint_bytes, "pages": "huge", "huge_bytes": huge_bytes, "load_ns": huge_ns},
    ]


def calls(packed: Repeated, spread: Repeated, huge: Repeated, *, had: bool = True) -> list[dict[str, Any]]:
    """Of 4096 functions."""
    rows = (("packed", "small", 0, packed), ("spread", "small", 0, spread), ("spread", "huge", 16 * MIB if had else 0, huge))
    return [
        {"functions": 4096, "layout": layout, "pages": pages, "huge_bytes": huge_bytes, "call_ns": call_ns}
        for layout, pages, huge_bytes, call_ns in rows
    ]


def exchanges(medians_ns: dict[int, float]) -> list[dict[str, Any]]:
    """By bytes of code."""
    return [{"code_bytes": code_bytes, "exchange_ns": steady(median)} for code_bytes, median in medians_ns.items()]


def card(**changes: Any) -> Card:
    """A quiet machine with a cache that works, huge pages that help data and not code, changed as asked."""
    given = {
        "schema_version": 1,
        "budget_s": 20.0,
        "took_s": 18.5,
        "cpus": (0, 1),
        "threads_per_core": 1,
        "numa_nodes": 1,
        "caches": [
            {"level": 1, "kind": "Data", "size_bytes": 48 * KIB, "cpus": "0"},
            {"level": 1, "kind": "Instruction", "size_bytes": 32 * KIB, "cpus": "0"},
            {"level": 2, "kind": "Unified", "size_bytes": MIB, "cpus": "0"},
            {"level": 3, "kind": "Unified", "size_bytes": 32 * MIB, "cpus": "0-1"},
        ],
        "transparent_huge_pages": "madvise",
        "product": "Some Cloud m1.large",
        "instruction_counter": False,
        "instruction_counter_refusal": "No such file or directory (os error 2)",
        "huge_page_bytes": 2 * MIB,
        "clock_ghz": steady(3.1),
        "loads": [
            *loads(16 * KIB, steady(1.3), steady(1.3)),
            *loads(4 * MIB, steady(16.0), steady(14.0)),
            *loads(64 * MIB, steady(120.0), steady(80.0)),
            *loads(256 * MIB, steady(160.0), steady(100.0)),
        ],
        "calls": calls(steady(12.0), steady(31.0), steady(30.0)),
        "exchanges": exchanges({0: 2000.0, MIB: 5600.0, 4 * MIB: 16000.0}),
        "system_call_ns": steady(140.0),
        "same_cpu_round_trip_us": steady(4.0),
        "two_cpus_round_trip_us": steady(60.0),
        "context_switch_us": steady(1.5),
        "folder": "/srv/data",
        "file_system": "ext4",
        "direct_io": True,
        "file_bytes": 256 * MIB,
        "reads": 30000,
        "read_us_p50": steady(90.0),
        "read_us_p99": steady(400.0),
        "fsyncs": 900,
        "fsync_us_p50": steady(1000.0),
        "fsync_us_p99": steady(3000.0),
        "fdatasyncs": 1800,
        "fdatasync_us_p50": steady(500.0),
        "fdatasync_us_p99": steady(2000.0),
        "steal_share": 0.001,
        "other_cpu_share": 0.01,
        "notes": (),
    }
    return Card.model_validate({**given, **changes})
