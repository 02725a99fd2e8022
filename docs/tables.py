"""Draws the tables of the documents from the result.json of a measurement, or from a patch series.

`python docs/tables.py`; `--check` changes nothing.

A document marks where a table stands and what it is drawn from:

    <!-- gains docs/measurements/2026-11-22-main-job/result.json -->
    ...
    <!-- end -->

In a TOML file both marks are comments. The word names one of ``KINDS``. A name behind a ``#`` chooses a part of the result,
such as one patch.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import table_rows as table
import tables_of_drivers
import tables_of_explanations
import tables_of_patches
import tables_of_proofs
import tables_of_stack
import tables_of_studies

from upshift.card import rows
from upshift.card.model import MachineCard
from upshift.card.sentences import sentences
from upshift.report import words

ROOT = Path(__file__).resolve().parents[1]
MARKED = re.compile(r"(<!-- (\w+) (\S+) -->\n).*?((?:# )?<!-- end -->)", re.S)


def overview(result: dict[str, Any]) -> Iterator[str]:
    """A row a workload, against the plain server: throughput at each number of connections, CPU time a query at the largest."""
    yield from _overview(result, "plain")


def overview_baseline(result: dict[str, Any]) -> Iterator[str]:
    """The same against the server of --baseline."""
    yield from _overview(result, "baseline")


def _overview(result: dict[str, Any], baseline: str) -> Iterator[str]:
    found = _against(result, baseline)
    loads = result["experiment"]["loads"]
    connections = sorted({load["connections"] for load in loads})
    columns = [("qps", number) for number in connections] + [("total_cpu_us_per_query", connections[-1])]
    yield from table.head("workload", *(f"{table.METRICS[metric]}, {table.connections(number)}" for metric, number in columns))
    for workload, held_out in dict.fromkeys((load["workload"], load["held_out"]) for load in loads):
        ratios = {(one["metric"], one["connections"]): table.ratio(one) for one in found if one["workload"] == workload}
        yield table.row(table.named(workload, held_out), *(ratios.get(column, "") for column in columns))


def worst(result: dict[str, Any]) -> Iterator[str]:
    """The smallest gain of a workload that was held out of training, in a sentence."""
    one = min((one for one in _against(result, "plain", "qps") if one["held_out"]), key=lambda one: one["ratio"])
    interval = f"{one['ci_low']:.2f} to {one['ci_high']:.2f}"
    yield (
        f"The worst workload held out of training is {one['workload']}: {one['ratio']:.2f}x the throughput ({interval}) "
        f"at {table.connections(one['connections'])}."
    )


def gains(result: dict[str, Any]) -> Iterator[str]:
    """A row a load: the optimised server against the plain one."""
    yield from _gains(_against(result, "plain"))


def against_baseline(result: dict[str, Any]) -> Iterator[str]:
    """The same against the server of --baseline, or in a result of `measure` against its first server."""
    named = any(one["baseline"] == "baseline" for one in result["comparisons"])
    yield from _gains(_against(result, "baseline" if named else result["experiment"]["baseline"]))


def _gains(found: list[dict[str, Any]]) -> Iterator[str]:
    metrics = [name for name in table.METRICS if any(one["metric"] == name for one in found)]
    yield from table.head("workload", "connections", *(table.METRICS[name] for name in metrics))
    for workload, connections, held_out in dict.fromkeys(
        (one["workload"], one["connections"], one["held_out"]) for one in found
    ):
        ratios = {
            one["metric"]: table.ratio(one) for one in found if (one["workload"], one["connections"]) == (workload, connections)
        }
        yield table.row(table.named(workload, held_out), connections, *(ratios.get(metric, "") for metric in metrics))


def stages(result: dict[str, Any]) -> Iterator[str]:
    """A row a stage: what it took."""
    yield from table.head("stage", "wall", "CPU", "peak memory")
    for stage in result["stages"]:
        kept = ", kept from an earlier run" if stage["cached"] else ""
        memory_gib = stage["peak_memory_bytes"] / 2**30
        yield table.row(
            f"{stage['name']}{kept}", table.time(stage["wall_s"]), table.time(stage["cpu_s"]), f"{memory_gib:.1f} GiB"
        )


def wall_uncounted(result: dict[str, Any]) -> Iterator[str]:
    """What all stages took but the counting of instructions, for machines without valgrind."""
    stages = [one for one in result["stages"] if one["name"] != "instructions"]
    for line in wall({**result, "stages": stages}):
        yield line.replace("All stages", "All stages but the counting of instructions")


def tests(result: dict[str, Any]) -> Iterator[str]:
    """What the server's own tests came to, as a list. A test that fails on the optimised server alone ends a run."""
    verify = result["verify"]
    counted = f"{verify['tests_run']} tests run on the optimised server, {verify['tests_passed']} passed"
    yield f"- suite `{verify['suite']}`: {counted}"
    yield f"- failed on both servers: {table.names(verify['failed_on_both'])}"
    yield f"- failed, and passed when run again: {table.names(verify.get('passed_again', ()))}"
    yield "- failed on the optimised server alone: none"


def executed(result: dict[str, Any]) -> Iterator[str]:
    """What a run's servers execute for a query: a row a workload."""
    found = result["instructions"]
    counts = {(one["workload"], one["arm"]): one["instructions_per_query"] for one in found["counts"]}
    arms = tuple(dict.fromkeys(arm for _workload, arm in counts))
    ratios = {(one["workload"], one["arm"]): one["ratio"] for one in found["ratios"]}
    others = tuple(dict.fromkeys(arm for _workload, arm in ratios))
    named = ("ratio",) if len(others) == 1 else tuple(f"{arm} / {found['baseline']}" for arm in others)
    yield from table.head("instructions a query", *arms, *named)
    for workload in dict.fromkeys(workload for workload, _arm in ratios):
        figures = (f"{counts[workload, arm]:,.0f}" for arm in arms)
        yield table.row(workload, *figures, *(f"{ratios[workload, arm]:.3f}" for arm in others))


def wall(result: dict[str, Any]) -> Iterator[str]:
    """The wall time of all stages beside that of the plain build, in a sentence."""
    total_s = sum(stage["wall_s"] for stage in result["stages"])
    plain_s = next(stage["wall_s"] for stage in result["stages"] if stage["name"] == "plain build")
    yield f"All stages took {table.time(total_s)}, {total_s / plain_s:.2f}x the plain build's {table.time(plain_s)}."


def series(result: dict[str, Any]) -> Iterator[str]:
    """A row a patch, with a link to its page where it has one."""
    yield from table.head("patch", "what it does", "variable", "versions", "needs")
    for one in result["patch"]:
        page = f"patches/{one['name']}.md"
        name = f"[{one['name']}]({page})" if (ROOT / "docs" / "reference" / page).is_file() else one["name"]
        switch = f"`{one['variable']}`" if one.get("variable") else ""
        yield table.row(name, one["what"], switch, f"`{one['versions']}`", ", ".join(one.get("needs", ())))


def builds(result: dict[str, Any]) -> Iterator[str]:
    """A row a medium and size of a read: two builds of the page cache."""
    yield from table.on_machine(result)
    yield from table.head("medium", "read", "IOPS before", "IOPS after", "after / before")
    for one in sorted(result["compared"], key=lambda one: (one["medium"], one["block_size_bytes"])):
        size = f"{one['block_size_bytes'] // 1024} KiB"
        yield table.row(one["medium"], size, f"{one['iops_before']:,.0f}", f"{one['iops_after']:,.0f}", table.ratio(one))


def clients(result: dict[str, Any]) -> Iterator[str]:
    """A row a load: upshift-load beside sysbench."""
    yield from table.on_machine(result)
    yield from table.head("load", "connections", "client CPU a statement", "throughput", "p50 latency")
    for one in result["loads"]:
        ratios = (table.ratio(one["ratios"][name]) for name in ("cpu_us", "qps", "p50_us"))
        yield table.row(one["load"], one["connections"], *ratios)


def proxied(result: dict[str, Any]) -> Iterator[str]:
    """A row a load: throughput through the capturing proxy beside that without it, and what the proxy measured of itself."""
    yield from table.on_machine(result)
    ways = list(result["loads"][0]["rounds"][0])
    names = {"direct": "QPS direct", "through": "QPS through the proxy", "plain": "QPS through the proxy, without TLS"}
    ratios = {"through": ("qps", "ratio"), "plain": ("qps_plain", "ratio without TLS")}
    shown = [ratios[way] for way in ways if way in ratios]
    yield from table.head("load", "connections", *(names[way] for way in ways), *(name for _key, name in shown))
    for one in result["loads"]:
        qps = (statistics.median(each[way]["qps"] for each in one["rounds"]) for way in ways)
        cells = (*(f"{each:,.0f}" for each in qps), *(table.ratio(one[key]) for key, _name in shown))
        yield table.row(one["load"], one["connections"], *cells)
    capture = result["capture"]
    proxy, requests = capture["proxy"], capture["requests"]
    each_bytes = capture["trace_bytes"] / requests
    yield ""
    yield f"- {requests:,} requests captured, {capture['lost_requests']} lost, {each_bytes:.1f} bytes of trace each"
    yield f"- added by the proxy to each message: {proxy['added_us_p50']:.1f} us (median), {proxy['added_us_p99']:.1f} us (p99)"
    yield f"- traffic waited for the trace: {proxy['waited_s']:.3f} s"


def card(result: dict[str, Any]) -> Iterator[str]:
    """The machine card of the quietest of several runs: its two tables, and what is known without measuring."""
    quietest = _cards(result)[0]
    yield from table.head(*rows.MEMORY_HEAD)
    yield from (table.row(*row) for row in rows.memory_rows(quietest.card))
    yield ""
    yield from table.head(*rows.OTHER_HEAD)
    yield from (table.row(*row) for row in rows.other_rows(quietest.card))
    yield ""
    yield from (f"- {name}: {value}" for name, value in (*rows.machine_facts(quietest.machine), *rows.facts(quietest.card)))


def says(result: dict[str, Any]) -> Iterator[str]:
    """The sentences of that card."""
    yield from (f"- {said}" for said in sentences(_cards(result)[0].card))


def agreement(result: dict[str, Any]) -> Iterator[str]:
    """A row a figure: its medians in several runs of the card, the quietest first."""
    cards = [one.card for one in _cards(result)]
    yield from table.head("median of", *(f"run {number}" for number in range(1, len(cards) + 1)), "largest / least")
    runs = [{f"{name}, {unit}": statistics.median(each) for name, each, unit in rows.figures(one) if each} for one in cards]
    for name in dict.fromkeys(name for run in runs for name in run):
        medians = [run[name] for run in runs if name in run]
        shown = (words.figure(run[name]) if name in run else "not measured" for run in runs)
        yield table.row(name, *shown, f"{max(medians) / max(min(medians), 1e-9):.2f}")
    yield table.row("used by other programs", *(f"{one.other_cpu_share:.0%}" for one in cards), "")
    yield table.row("steal", *(f"{one.steal_share:.1%}" for one in cards), "")
    yield table.row("took, s", *(f"{one.took_s:.1f}" for one in cards), "")


def counts(result: dict[str, Any]) -> Iterator[str]:
    """A row a workload and server: instructions a query over several runs of `upshift count`, and how far the runs agree."""
    runs = result["runs"]
    yield from table.on_machine(result)
    yield from table.head("workload", "server", "instructions a query", "spread", "calls a query", "ratio", "spread")
    for workload, arm in dict.fromkeys((one["workload"], one["arm"]) for one in runs[0]["counts"]):
        found = [one for run in runs for one in run["counts"] if (one["workload"], one["arm"]) == (workload, arm)]
        executed = [one["instructions_per_query"] for one in found]
        calls = statistics.median(one["calls_per_query"] for one in found)
        ratios = [one["ratio"] for run in runs for one in run["ratios"] if (one["workload"], one["arm"]) == (workload, arm)]
        ratio = (f"{statistics.median(ratios):.4f}", _over_least(ratios)) if ratios else ("", "")
        yield table.row(workload, arm, f"{statistics.median(executed):,.0f}", _over_least(executed), f"{calls:,.0f}", *ratio)
    yield ""
    cpu_s = [stage["cpu_s"] for stage in result["stages"]]
    yield (
        f"Medians of {len(runs)} runs; the spread is the largest over the smallest, less one. "
        f"A run took {min(cpu_s):.0f} to {max(cpu_s):.0f} s of CPU."
    )


def conditions(result: dict[str, Any]) -> Iterator[str]:
    """The machine and what the figures hold under, as a list."""
    plan = result["experiment"]["plan"]
    settings = result["experiment"]["arms"][0]["settings"]
    flags = sorted({flag["name"] for flag in result["experiment"]["flags"]})
    compilers = ", ".join(dict.fromkeys(build["compiler"] for build in result["builds"]))
    server, client = (", ".join(map(str, plan[name])) for name in ("server_cpus", "client_cpus"))
    made = (f"MySQL {version}" if (version := result["source"]["version"]) else "", compilers)
    yield "- " + ", ".join((result["started_at"][:10], f"run `{result['run']}`", *filter(None, made)))
    yield f"- {table.machine(result)}"
    yield f"- server on CPU {server}, load on CPU {client}"
    confidence_percent = 100 * result["experiment"]["confidence"]
    trials = (result["experiment"].get("reached") or plan)["trials"]
    turns = f"{plan['rounds']} slice{'s' if plan['rounds'] > 1 else ''} of {plan['slice_s']:g} s a load"
    # 99.5 % is not 100 %.
    confidence = f"{confidence_percent:.1f}" if confidence_percent > 99 else f"{confidence_percent:.0f}"
    yield f"- {trials} trials, {turns}; intervals of {confidence} % confidence"
    named = ", ".join(f"`{name}={value}`" for name, value in sorted(settings.items()))
    yield f"- settings: {named or 'not recorded'}"
    pool = "larger than the pool" if "buffer-pool-smaller-than-data" in flags else "within the buffer pool"
    yield f"- data {pool}; what the report flags: {', '.join(flags) or 'nothing'}"


def conditions_in_brief(result: dict[str, Any]) -> Iterator[str]:
    """The same in one line."""
    yield "Conditions: " + "; ".join(each.removeprefix("- ") for each in conditions(result)) + "."


KINDS: dict[str, Callable[[dict[str, Any]], Iterator[str]]] = {
    kind.__name__: kind
    for kind in (
        *(
            overview,
            overview_baseline,
            worst,
            gains,
            against_baseline,
            stages,
            wall,
            wall_uncounted,
            executed,
            tests,
            conditions,
            conditions_in_brief,
            builds,
            clients,
            proxied,
            counts,
            card,
            says,
            agreement,
        ),
        series,
        *tables_of_explanations.KINDS,
        *tables_of_studies.KINDS,
        *tables_of_drivers.KINDS,
        *tables_of_patches.KINDS,
        *tables_of_proofs.KINDS,
        *tables_of_stack.KINDS,
    )
}


def drawn(text: str) -> str:
    """A document with all its tables as their results have them."""

    def draw(found: re.Match[str]) -> str:
        file, _, part = found[3].partition("#")
        lines = KINDS[found[2]](_read(ROOT / file) | ({"of": part} if part else {}))
        return found[1] + "\n".join(lines) + "\n" + found[4]

    return MARKED.sub(draw, text)


def _read(file: Path) -> dict[str, Any]:
    text = file.read_text()
    found: dict[str, Any] = tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)
    return found


def documents() -> list[Path]:
    """All that may hold a table."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "server").rglob("series.toml")])


def _cards(result: dict[str, Any]) -> list[MachineCard]:
    """Those of several runs, the quietest first: the one beside which other programs and machines used the least.

    Of a run that measured servers its own.
    """
    found = result["cards"] if "cards" in result else [{"machine": result["machine"], "card": result["card"]}]
    cards = [MachineCard.model_validate(one) for one in found]
    return sorted(cards, key=lambda one: one.card.other_cpu_share + one.card.steal_share)


def _against(result: dict[str, Any], baseline: str, *metrics: str) -> list[dict[str, Any]]:
    """Comparisons of the optimised server."""
    found = [one for one in result["comparisons"] if one["arm"] == "optimised" and one["baseline"] == baseline]
    return [one for one in found if one["metric"] in (metrics or table.METRICS)]


def _over_least(figures: list[float]) -> str:
    return f"{100 * (max(figures) / min(figures) - 1):.3f} %"


def main(check: bool) -> int:
    """0 when all tables are as their results have them, or were drawn; 1 when ``check`` finds others."""
    stale = [file for file in documents() if drawn(text := file.read_text()) != text]
    for file in stale:
        sys.stdout.write(f"{file.relative_to(ROOT)}: {'not as its result.json has it' if check else 'drawn'}\n")
        if not check:
            file.write_text(drawn(file.read_text()))
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
