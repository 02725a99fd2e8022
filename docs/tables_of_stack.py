"""The tables of what `upshift stack examine` and `prove` said of a client."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import table_rows as table


def investigated(result: dict[str, Any]) -> Iterator[str]:
    """A row a capture: what was mended before, what `examine` named, and which of these was mended next."""
    yield f"{table.machine(result)}."
    yield ""
    yield from table.head(
        "capture", "named, with its share at most", "mended next", "round trips a transaction", "a replay of it"
    )
    for number, step in enumerate(result["steps"]):
        named = ", ".join(f"{suspect} {100 * share:.0f} %" for suspect, share in step["named"].items())
        trips = step["budget"]["round_trips"] / step["budget"]["transactions"]
        proof = result["proofs"].get(step["next"])
        yield table.row(number + 1, named or "nobody", step["next"] or "–", f"{trips:.1f}", _proof(proof) if proof else "–")


def innocents(result: dict[str, Any]) -> Iterator[str]:
    """How many runs named whom, in sentences."""
    runs = result["runs"]
    least = min(each["transactions"] for each in runs)
    yield (
        f"{table.machine(result)}; {len(runs)} runs of {result['seconds']} s with {table.connections(result['connections'])}, "
        f"{result['busy_loops']} busy loops besides; at least {least} transactions each."
    )
    yield ""
    named = Counter(suspect for each in runs for suspect in each["named"])
    if not named:
        yield f"No suspect was named in any of the {len(runs)} runs."
    else:
        yield from table.head("suspect", "runs that named it", "largest share")
    for suspect, count in sorted(named.items()):
        largest = max(each["named"].get(suspect, 0.0) for each in runs)
        yield table.row(suspect, f"{count} of {len(runs)}", f"{100 * largest:.0f} %")
    blind = sorted(Counter(suspect for each in runs for suspect in each["unseen"]).items())
    yield ""
    yield f"Not seen: {', '.join(f'{suspect} in {count} of {len(runs)} runs' for suspect, count in blind) or 'nobody'}."


def replays(result: dict[str, Any]) -> Iterator[str]:
    """A row a replay of tests/benches/replays.py: what was answered, counted and ended otherwise, where order is known."""
    asked, first = result["asked"], result["replays"][0]
    options = ", ".join(f"`{option}`" for option in result["other_options"]) or "none"
    has_other = any(each["server"] == "other" for each in result["replays"])
    other = f" Options of the other server: {options}." if has_other else ""
    if "table_size" in asked:
        data = f"oltp_{asked['workload']} on 4 tables of {asked['table_size']:,} rows"
    else:
        data = f"{asked['warehouses']} warehouses"
    yield (
        f"{table.machine(result)}; MySQL {result['version']['version']}; {first['transactions']} transactions recorded with "
        f"{table.connections(8)} at {asked['rate_per_s']:g} a second, {data}; "
        f"{first['overlapped']} of them overlapped another one.{other}"
    )
    yield ""
    yield from table.head(
        "server",
        "`--order`",
        "transactions",
        "answered otherwise",
        "other counts of rows",
        "ended otherwise",
        "of those that overlapped",
    )
    for each in result["replays"]:
        overlapped = sum(value for name, value in each.items() if name.endswith("_overlapped"))
        counts = (each[name] for name in ("transactions", "differences", "counted_otherwise", "ended_otherwise"))
        yield table.row(each["server"], f"`{each['order']}`", *counts, overlapped)


def differences_in_order(result: dict[str, Any]) -> Iterator[str]:
    """A row for each answer of tests/benches/replays.py that differed in order: in how many replays each server gave it."""
    servers = Counter(each["server"] for each in result["replays"])
    answers = Counter(
        (one["statement"], one["request"], one["now"]["hash"], each["server"])
        for each in result["replays"]
        for one in each["differing"]
    )
    columns = [f"{server}, of {count} replays" for server, count in servers.items()]
    yield from table.head("statement", "request", "hash of the answer", *columns)
    for statement, request, answer in sorted({key[:3] for key in answers}):
        counts = (answers[statement, request, answer, server] for server in servers)
        yield table.row(f"`{statement}`", request, f"`{answer}`", *counts)


def same_engine(result: dict[str, Any]) -> Iterator[str]:
    """A row for all comparisons of a program with itself, and one for the control, whose B is slower on purpose."""
    runs = result["runs"]
    loads = [each["load_1m"] for each in runs]
    times_ms = [ms for each in runs for ms in each["a_ms"]]
    yield (
        f"{table.machine(result)}; {result['server']}; {len(runs)} comparisons of {result['statements']} statements that take "
        f"{min(times_ms):.1f} to {max(times_ms):.0f} ms, in "
        f"{result['rounds']} rounds, {result['busy_loops']} busy loops besides; a load average of {min(loads):.0f} to "
        f"{max(loads):.0f}."
    )
    yield ""
    yield from table.head(
        "comparison",
        "named, in how many runs",
        "answers that differ",
        "intervals that exclude 1",
        "ratios of B's time over A's",
    )
    for name, those in (("a server with itself", runs), ("the control", [result["control"]])):
        named = Counter(suspect for each in those for suspect in each["named"])
        ratios = [ratio for each in those for ratio in each["ratios"]]
        yield table.row(
            name,
            ", ".join(f"{suspect} {count} of {len(those)}" for suspect, count in sorted(named.items())) or "nobody",
            sum(each["answers_differ"] for each in those),
            f"{sum(each['excludes_1'] for each in those)} of {len(ratios)}",
            f"{min(ratios):.2f} to {max(ratios):.2f}",
        )


def stack_proofs(result: dict[str, Any]) -> Iterator[str]:
    """A row a case of tests/benches/stack_proofs.py: whom `examine` named, what was changed, and what `prove` came to."""
    asked = result["asked"]
    yield (
        f"{table.machine(result)}; MySQL {result['server']}; a capture of {asked['capture_seconds']:g} s with "
        f"{table.connections(asked['connections'])}, and at most {asked['budget']} of measuring a proof."
    )
    yield ""
    yield from table.head("case", "named by `examine`", "proven", "change", "expected", "verdict, throughput with the change")
    for one in result["stack_proofs"]:
        change = f"`{one['sql']}`" if one["sql"] else f"`{' '.join(one['change']['client'])}`"
        yield table.row(one["case"], " ".join(one["named"]), one["suspect"], change, one["expected"], _proof(one))


def _proof(said: dict[str, Any]) -> str:
    ratios = map(table.ratio, said["measured"] or ())
    return " ".join((f"{said['verdict']}:" if said["measured"] else said["verdict"], *ratios))


KINDS = (differences_in_order, investigated, innocents, replays, same_engine, stack_proofs)
