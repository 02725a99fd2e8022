"""Draws what the patches bring: instructions a query with each patch alone, and with each one left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import table_rows as table


def patches(result: dict[str, Any]) -> Iterator[str]:
    """A row a patch: alone is with it against none, last is with all against all others."""
    found = {(one["arm"], one["workload"]): one["instructions_per_query"] for one in result["count"]["counts"]}
    workloads = list(dict.fromkeys(workload for _, workload in found))
    yield f"{table.machine(result)}, {result['started_at'][:10]}:"
    yield ""
    yield from table.head("patch", *(f"{workload}, {which}" for workload in workloads for which in ("alone", "last")))
    for name in (arm.removeprefix("alone-") for arm in dict.fromkeys(arm for arm, _ in found) if arm.startswith("alone-")):
        pairs = ((f"alone-{name}", "off"), ("on", f"without-{name}"))
        yield table.row(name, *(_change(found, workload, *pair) for workload in workloads for pair in pairs))
    yield table.row("all", *(cell for workload in workloads for cell in (_change(found, workload, "on", "off"), "")))
    yield ""
    yield from table.head("workload", "unpatched", "patched, all off", "patched, all on", "on / unpatched")
    for workload in workloads:
        unpatched, off, on = (found[arm, workload] for arm in ("unpatched", "off", "on"))
        yield table.row(workload, f"{unpatched:,.0f}", f"{off:,.0f}", f"{on:,.0f}", f"{on / unpatched:.3f}")


def _change(found: dict[tuple[str, str], float], workload: str, arm: str, base: str) -> str:
    if (arm, workload) not in found or (base, workload) not in found:
        return "not counted"
    percent = 100 * (found[arm, workload] / found[base, workload] - 1)
    return f"{percent:+.1f} %" if abs(percent) >= 0.05 else "0.0 %"


KINDS = (patches,)
