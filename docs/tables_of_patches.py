"""Draws what the patches bring: instructions with each patch alone and with each left out, and servers beside each other."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import table_rows as table


def patches(result: dict[str, Any]) -> Iterator[str]:
    """A row a patch: alone is with it against none, last is with all against all others."""
    found = {(one["arm"], one["workload"]): one["instructions_per_query"] for one in result["count"]["counts"]}
    workloads = list(dict.fromkeys(workload for _, workload in found))
    yield from table.on_machine(result, f", {result['started_at'][:10]}")
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


def brings(result: dict[str, Any]) -> Iterator[str]:
    """A row a workload: what one patch does to the instructions of a query, beside none and beside all others.

    A workload behind the patch's name and a slash has a row by itself.
    """
    name, _, chosen = result["of"].partition("/")
    found, alone, pairs = _pairs(result | {"of": name})
    yield from table.head("instructions a query", *pairs)
    for workload in dict.fromkeys(workload for arm, workload in found if arm == alone and chosen in ("", workload)):
        yield table.row(workload, *(_change(found, workload, *pair) for pair in pairs.values()))


def measured(result: dict[str, Any]) -> Iterator[str]:
    """The same as a key of the series: ratios of instructions a query, with the patch to without it."""
    found, alone, pairs = _pairs(result)
    rows = []
    for workload in dict.fromkeys(workload for arm, workload in found if arm == alone):
        counted = {name: [found.get((each, workload)) for each in pair] for name, pair in pairs.items()}
        cells = [f"{name} = {arm / base:.4f}" for name, (arm, base) in counted.items() if arm and base]
        rows.append(f"{workload} = {{ {', '.join(cells)} }}")
    yield f"measured = {{ {', '.join(rows)} }}"


def timed(result: dict[str, Any]) -> Iterator[str]:
    """Throughput and CPU time a query with a switch on to off, as a key of the series: each ratio with its interval."""
    names = {"qps": "qps", "total_cpu_us_per_query": "cpu"}
    cells: dict[str, list[str]] = {}
    for one in result["comparisons"]:
        if one["metric"] in names:
            figures = ", ".join(f"{one[key]:.3f}" for key in ("ratio", "ci_low", "ci_high"))
            cells.setdefault(one["workload"], []).append(f"{names[one['metric']]} = [{figures}]")
    rows = ", ".join(f"{json.dumps(workload)} = {{ {', '.join(figures)} }}" for workload, figures in cells.items())
    yield f"timed = {{ {rows} }}"


def _pairs(result: dict[str, Any]) -> tuple[dict[tuple[str, str], float], str, dict[str, tuple[str, str]]]:
    """The counts by server and workload, the server with this patch alone, and the pairs of servers that are compared."""
    found = {(one["arm"], one["workload"]): one["instructions_per_query"] for one in result["count"]["counts"]}
    alone, without = f"alone-{result['of']}", f"without-{result['of']}"
    last = {"last": ("on", without)} if any(arm == without for arm, _ in found) else {}
    return found, alone, {"alone": (alone, "off")} | last


def beside(result: dict[str, Any]) -> Iterator[str]:
    """A row an arm and load: each arm compared with the first, or with the one that the mark names."""
    base = result.get("of") or result["comparisons"][0]["baseline"]
    found = [one for one in result["comparisons"] if one["baseline"] == base]
    metrics = [name for name in table.METRICS if any(one["metric"] == name for one in found)]
    yield from table.head(f"compared with {base}", "workload", "connections", *(table.METRICS[name] for name in metrics))
    for arm, workload, connections in dict.fromkeys((one["arm"], one["workload"], one["connections"]) for one in found):
        of_load = {
            one["metric"]: table.ratio(one)
            for one in found
            if (one["arm"], one["workload"], one["connections"]) == (arm, workload, connections)
        }
        yield table.row(arm, workload, connections, *(of_load.get(metric, "") for metric in metrics))


def dropped(result: dict[str, Any]) -> Iterator[str]:
    """A line an idea that a series has no patch of, and why."""
    for one in result["dropped"]:
        link = f" ([measured]({os.path.relpath(one['result'], 'docs/reference')}))" if one.get("result") else ""
        yield f"- `{one['name']}`: {one['what']} {one['why']}{link}"


def system_calls(result: dict[str, Any]) -> Iterator[str]:
    """A row a server: the system calls of the connection's thread for a statement, by name."""
    rows = result["rows"]
    names = sorted({name for one in rows for name, calls in one["calls_per_statement"].items() if calls >= _FEWEST_CALLS})
    yield from table.on_machine(result, f", {result['workload']} prepared, one connection")
    yield from table.head("server", *(f"`{name}`" for name in names), "all system calls a statement")
    for one in rows:
        each = (f"{one['calls_per_statement'].get(name, 0):.2f}" for name in names)
        yield table.row(one["server"], *each, f"{one['all_per_statement']:.2f}")


_FEWEST_CALLS = 0.005
"""Calls a statement that a column shows."""


def stalls(result: dict[str, Any]) -> Iterator[str]:
    """A row a state of a switch: how fast transactions are, and how many of them stall."""
    rows = result["rows"]
    yield from table.on_machine(
        result, f"; {result['connections']} connections, {rows[0]['seconds']:.0f} s of each state in turns"
    )
    switch = f"`{result['switch']}`"
    yield from table.head(switch, "transactions/s", *(f"{name}, ms" for name in rows[0]["latency_us"]), "100 ms or longer")
    for one in rows:
        latencies = (f"{us / 1000:.1f}" for us in one["latency_us"].values())
        long = f"{one['at_least_100_ms']:,} of {one['transactions']:,}"
        yield table.row(one["state"], f"{one['transactions_per_s']:,.0f}", *latencies, long)


def merges(result: dict[str, Any]) -> Iterator[str]:
    """A row a state of merge_slack: what InnoDB does to pages of indexes a transaction, and what that costs and leaves."""
    rows = result["rows"]
    where = f"{table.machine(result)}; {result['connections']} connections"
    yield f"{where}, {rows[0]['seconds']:.0f} s of each state, on fresh data:"
    yield ""
    counted = tuple(name for name in ("attempts", "merges", "splits", "reorganisations", "pages_read") if name in rows[0])
    tail = ("purge CPU, µs", "transactions/s", "p99, ms", "leaf pages before", "leaf pages after")
    yield from table.head("`merge_slack`", *(f"{name.replace('_', ' ')} a transaction" for name in counted), *tail)
    for one in rows:
        figures = (f"{one['purge_cpu_us']:.1f}", f"{one['transactions_per_s']:,.0f}", f"{one['latency_ms_p99']:.1f}")
        pages = (f"{one['leaf_pages_before']:,}", f"{one['leaf_pages_after']:,}")
        yield table.row(one["state"], *(f"{one[name]:.3f}" for name in counted), *figures, *pages)


def profiles(result: dict[str, Any]) -> Iterator[str]:
    """A row a workload: instructions a query with the server's own profile, and with one of another source."""
    found = {(one["arm"], one["workload"]): one["instructions_per_query"] for one in result["counts"]}
    yield from table.on_machine(result, f", counted by {result['source']}")
    yield from table.head("workload", "own profile", "foreign profile", "foreign / own")
    for workload in dict.fromkeys(workload for _, workload in found):
        own, foreign = found["own", workload], found["foreign", workload]
        yield table.row(workload, f"{own:,.0f}", f"{foreign:,.0f}", f"{foreign / own:.3f}")


def allocations(result: dict[str, Any]) -> Iterator[str]:
    """A row a server and workload: how often it allocates and frees."""
    made, freed = ("malloc", "calloc", "realloc", "aligned_alloc", "posix_memalign", "memalign"), ("free",)
    yield from table.head("server", "workload", "queries a transaction", "allocations a transaction", "freed a transaction")
    for one in result["rows"]:
        calls = one["calls_per_transaction"]
        sums = (f"{abs(sum(calls[name] for name in names)):.1f}" for names in (made, freed))
        yield table.row(one["server"], one["workload"], f"{one['queries_per_transaction']:.0f}", *sums)


def allocators(result: dict[str, Any]) -> Iterator[str]:
    """A row a function that allocates: its calls a transaction, by server and workload."""
    rows = result["rows"]
    found: dict[str, list[float]] = {}
    for place, one in enumerate(rows):
        for caller in one["callers"]:
            name, *chain = caller["chain"]
            if name != "free" and caller["calls_per_transaction"] > 0:
                who = next(each for each in chain if not each.startswith(_PASSED_THROUGH))
                found.setdefault(f"`{who}`", [0.0] * len(rows))[place] += caller["calls_per_transaction"]
    yield from table.head("allocates", *(f"{one['server']}, {one['workload']}" for one in rows))
    for who, calls in sorted(found.items(), key=lambda item: (-max(item[1]), item[0])):
        if max(calls) >= _FEWEST or calls[0] >= 1:
            yield table.row(who, *(f"{each:.1f}" for each in calls))


_FEWEST = 4
"""Calls a transaction with which a function gets a row; in the first row of the result, one is enough."""
_PASSED_THROUGH = ("my_internal_malloc", "std::", "ut::", "MEM_ROOT::", "mem_heap_", "bitmap_init", "String::")


def _change(found: dict[tuple[str, str], float], workload: str, arm: str, base: str) -> str:
    if (arm, workload) not in found or (base, workload) not in found:
        return "not counted"
    percent = 100 * (found[arm, workload] / found[base, workload] - 1)
    return f"{percent:+.1f} %" if abs(percent) >= 0.05 else "0.0 %"


KINDS = (allocations, allocators, beside, brings, dropped, measured, merges, patches, profiles, stalls, system_calls, timed)
