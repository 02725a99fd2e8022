"""What the tables of the documents share: rows in Markdown, and how figures are written in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

METRICS = {
    "qps": "QPS",
    "latency_ms_p99": "p99 latency",
    "total_cpu_us_per_query": "CPU a query",
    "typical_cpu_us_per_query": "typical CPU a query",
    "user_cpu_us_per_query": "user CPU a query",
    "system_cpu_us_per_query": "kernel CPU a query",
    "client_cpu_us_per_query": "the client's CPU a query",
    "run_delay_us_per_query": "run-queue delay a query",
    "instructions_per_query": "instructions a query",
}


def row(*cells: object) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def head(*names: str) -> Iterator[str]:
    yield row(*names)
    yield "|---" * len(names) + "|"


def ratio(one: dict[str, Any]) -> str:
    return f"{one['ratio']:.2f} ({one['ci_low']:.2f} to {one['ci_high']:.2f})"


def time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.1f} min"


def machine(result: dict[str, Any]) -> str:
    found = result["machine"]
    return f"{found['cpus']} x {found['cpu']}, {found['memory_bytes'] / 2**30:.0f} GiB, {found['os']}"


def on_machine(result: dict[str, Any], more: str = "") -> Iterator[str]:
    """The sentence above a table: where its figures were measured, and ``more`` of how."""
    yield f"{machine(result)}{more}:"
    yield ""


def named(workload: str, held_out: bool) -> str:
    return f"{workload}, held out" if held_out else workload


def connections(number: int) -> str:
    return "1 connection" if number == 1 else f"{number} connections"


def names(listed: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in listed) or "none"
