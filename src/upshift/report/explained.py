"""What an explanation says, in words, the same on the page and on the terminal."""

from __future__ import annotations

from collections.abc import Mapping

from upshift.card.model import Card, middle
from upshift.card.sentences import code_pages
from upshift.explain.model import CauseKind, Change, ChangeMetric, Explained, Explanation, Inlined, Row
from upshift.explain.origin import Origin
from upshift.report import words

METRICS: Mapping[ChangeMetric, str] = {
    "cpu": "CPU time a query",
    "user": "in user mode",
    "system": "in the kernel",
    "instructions": "instructions a query, in user mode",
    "time per instruction": "time per instruction, in user mode",
}
CAUSES: Mapping[CauseKind, str] = {
    "inlined": "inlined into its callers",
    "takes in": "takes in what it called",
    "same instructions": "same instructions, elsewhere",
    "compiled otherwise": "compiled otherwise",
    "seen no more": "seen no more",
    "not in both": "one server alone has it",
    "not examined": "",
}
SLOTS: Mapping[str, str] = {
    "retiring": "slots of the processor that retired an instruction",
    "bad_speculation": "spent on a wrong path",
    "frontend_bound": "empty: fetching was too slow",
    "backend_bound": "empty: waiting for data or a unit",
    "smt_contention": "taken by the core's other thread",
}
MISSES: Mapping[str, str] = {
    "code": "misses of the first cache for code a query",
    "data": "misses of the first cache for data a query",
    "last_level": "misses of the last cache a query",
    "branches": "branches predicted wrongly a query",
}
FIRST_TLB_PAGES = 64
"""Entries of the first TLB for code in AMD's Zen (Software Optimization Guide); Intel's have more."""
PAGE_FILE = "explanation.html"
REPORT_ROWS = 8
"""Of a table, in the report of a run that measured; the page has all."""
FIRST_ROWS = 40
"""Rows that are shown at once; the others are behind them."""


def headline(explanation: Explanation) -> str:
    """The answer in a sentence."""
    before, after = explanation.before.name, explanation.after.name
    if explanation.nothing_differs:
        return f"Nothing differs: {before} and {after} are the same program in the same surroundings."
    parts = [f"{ratio(load.changes[0])}x under {load.workload}" for load in explanation.loads]
    return f"CPU time a query of {after}, to that of {before}: {', '.join(parts)}."


def about_unit(load: Explained) -> str:
    """What stands for a query in all figures, where it is none; empty for queries."""
    return f"{words.unit_sentence((load.workload,))}." if load.unit == "transaction" else ""


def about_sources(explanation: Explanation) -> str:
    """Whether both servers come from one source, and what follows; empty where that is not known, or nothing follows."""
    before, after = explanation.before_source, explanation.after_source
    if not before or not after:
        return ""
    if before.sha256 == after.sha256:
        shown = ", ".join(after.patches)
        return f"Both servers have the patches {shown}: their effect is not among the differences." if shown else ""
    named = (explanation.before.name, before), (explanation.after.name, after)
    built = "; ".join(f"{name} is built from {_source(each)}" for name, each in named)
    return (
        f"The sources differ: {built}. That affects all figures, and cannot be separated from the effects of compilers and "
        "linkers."
    )


def _source(each: Origin) -> str:
    patched = f", with the patches {', '.join(each.patches)}" if each.patches else ", without patches"
    return f"{each.sha256[:12]}{patched}"


def figure(change: Change, value: float) -> str:
    if change.metric == "instructions":
        return f"{value:,.0f}"
    return f"{value * 1000:.3f} ns" if change.metric == "time per instruction" else f"{value:.1f} µs"


def calls_a_query(calls: float) -> str:
    """Some functions are called once in many queries."""
    return f"{calls:,.1f}" if calls >= 10 else f"{calls:.2f}"


def further(load: Explained) -> list[tuple[str, str, str]]:
    """Figures of both servers that are not compared: a name, before, after."""
    before, after = load.before, load.after
    rows = [("switches of threads a query", f"{before.switches_per_query:.2f}", f"{after.switches_per_query:.2f}")]
    if waits := _both(before.voluntary_switches_per_query, after.voluntary_switches_per_query):
        rows.append(("of these to wait: for a statement, a lock, a disk", f"{waits[0]:.2f}", f"{waits[1]:.2f}"))
    if delays := _both(before.run_delay_us_per_query, after.run_delay_us_per_query):
        rows.append(("ready to run, and waiting for a CPU, a query", f"{delays[0]:.1f} µs", f"{delays[1]:.1f} µs"))
    if jumps := _both(before.taken_branches_per_query, after.taken_branches_per_query):
        rows.append(("taken branches a query, in user mode", f"{jumps[0]:,.0f}", f"{jumps[1]:,.0f}"))
    if before.misses and after.misses:
        rows += [
            (f"{shown}, simulated", f"{getattr(before.misses, name):,.1f}", f"{getattr(after.misses, name):,.1f}")
            for name, shown in MISSES.items()
        ]
    rows.append(("samples", f"{before.samples:,}", f"{after.samples:,}"))
    if before.slots and after.slots:
        for name, shown in SLOTS.items():
            shares = getattr(before.slots, name), getattr(after.slots, name)
            if any(shares) or name != "smt_contention":
                rows.append((shown, f"{shares[0]:.1%}", f"{shares[1]:.1%}"))
    return rows


def about_slots(load: Explained) -> str:
    """How the processor's slots were counted, or why they were not; empty for results of an earlier Upshift."""
    if load.before.slots and load.after.slots:
        return (
            "Slots are perf's top-down figures, level 1, with the kernel's where perf may count them: shares of all, from a "
            "turn of their own, without intervals."
        )
    return f"Top-down figures are not available here: {load.slots_lacking}." if load.slots_lacking else ""


def about_misses(load: Explained) -> str:
    """What simulated misses are worth; empty where nobody simulated them."""
    if not load.before.misses or not load.after.misses:
        return ""
    return (
        "Misses are of a processor that valgrind simulates, with caches as large as this one's "
        f"({load.after.misses.caches}). It fetches nothing ahead, predicts branches simply, and shares its caches with nobody: "
        "its misses are indications of where to look, and no verdict on speed."
    )


def interval(change: Change) -> str:
    if change.ci_low is None or change.ci_high is None:
        return {"instructions": "a count", "time per instruction": "follows from both"}.get(change.metric, "not replicated")
    return words.limits(change.ci_low, change.ci_high, differs=_leaves_1_out(change.ci_low, change.ci_high))


def ratio(change: Change) -> str:
    """With as many decimals as its interval."""
    if change.ci_low is None or change.ci_high is None:
        return f"{change.ratio:.2f}"
    low, high = change.ci_low, change.ci_high
    return words.ratio_in(change.ratio, low, high, differs=_leaves_1_out(low, high))


def _leaves_1_out(low: float, high: float) -> bool:
    return not low <= 1 <= high


def row_interval(row: Row) -> str:
    """The ratio of a row with its interval."""
    if row.ratio is None or row.ci_low is None:
        return "not sampled before"
    return words.ratio_and_limits(row.ratio, row.ci_low, row.ci_high, differs=row.verdict != "not told apart")


def cause(row: Row) -> str:
    return CAUSES[row.cause] if row.home == "server" else "not rebuilt"


def calls(each: Inlined) -> str:
    """What became of the calls: ``1 → 0``."""
    before = "through a pointer" if each.indirect else str(each.calls_before)
    cold = f" and {each.cold_calls_after} in its cold part" if each.cold_calls_after else ""
    return f"{before} → {each.calls_after}{cold}"


def executed(each: Inlined) -> str:
    """How often a query calls the callee, ``19.5 → 0``; empty where nobody counted it."""
    before, after = each.calls_per_query_before, each.calls_per_query_after
    return "" if before is None or after is None else f"{calls_a_query(before)} → {calls_a_query(after)}"


def evidence(each: Inlined) -> str:
    """What shows that it was inlined, and how strong that is."""
    said = []
    if each.symbol_gone:
        said.append("the function exists nowhere else any more")
    if each.moved_calls:
        shown = ", ".join(short(name) for name in each.moved_calls[:3])
        more = f" and {len(each.moved_calls) - 3} more" if len(each.moved_calls) > 3 else ""
        said.append(f"the caller now makes its calls: {shown}{more}")
    if each.proof == "samples":
        said.append("the function was seen no more")
    return "; ".join(said) or "the call alone is gone"


PROOFS: Mapping[str, str] = {"code": "the code", "samples": "samples, too", "call gone": "the call alone"}


def short(name: str, most: int = 70) -> str:
    """A function's name without what would not fit: the inner of template arguments."""
    name = name.replace("(anonymous namespace)::", "")
    kept, depth = [], 0
    for at, letter in enumerate(name):
        opens = letter == "<" and not name[:at].endswith(("operator", "operator<"))
        if opens and depth == 0:
            kept.append("<…>")
        depth += opens
        if depth == 0:
            kept.append(letter)
        depth -= letter == ">" and depth > 0
    text = "".join(kept)
    return text if len(text) <= most else text[: most - 1] + "…"


def place(line: str) -> str:
    """FILE:LINE with the file's last folder alone."""
    return "/".join(line.rsplit("/", 2)[-2:])


def about_pages(load: Explained, card: Card | None = None) -> str:
    """Whether huge pages under the second server's code are worth a measurement, by its samples and by the machine's card."""
    server, spread = load.after.server, load.layout[1]
    where = f"99 % of the samples in {server}'s own code lie in {words.count(spread.pages_99, 'page')} of 4 KiB"
    if spread.pages_99 <= FIRST_TLB_PAGES:
        return f"{where}, no more than a processor finds at once: huge pages under the code promise little."
    measure = "`text_huge_pages` in a variant measures what they bring"
    found = code_pages(card) if card else None
    if found is None:
        return f"{where}, more than a processor finds at once. What that costs here `upshift card` says; {measure}."
    small, huge, effect = found
    costs = (
        f"a call to another page costs {words.figure(middle(small))} ns here, and {words.figure(middle(huge))} ns on huge pages"
    )
    return {
        "cheaper": f"{where}, and {costs}: huge pages under the code are worth a measurement; {measure}.",
        "little": f"{where}, but {costs}: huge pages under the code promise little.",
        "unclear": f"{where}, and {costs}, in repetitions that do not agree; {measure}.",
    }[effect]


def unchanged(load: Explained) -> list[Row]:
    """Rows with at least a hundredth of the time whose change chance alone could make."""
    found = [row for row in load.rows if row.verdict == "not told apart" and max(row.before_share, row.after_share) >= 0.01]
    return sorted(found, key=lambda row: -row.before_us)


def unsure(load: Explained) -> list[str]:
    """What the explanation does not know."""
    said = [
        *_about_rest(sum(row.functions for row in load.rows if row.is_rest)),
        f"Rows have intervals of {words.percent(load.confidence)} confidence, widened for what changed between blocks: shares "
        f"varied {load.dispersion:.1f} times as much as chance alone makes them{_shared(load)}.",
        "Each server was started once: what the luck of a start changes is in no interval.",
        _about_waits(load),
    ]
    if lost := load.before.lost + load.after.lost:
        said.append(f"The kernel dropped {words.count(lost, 'sample')}.")
    return said + [f"{note}." for note in load.notes]


def _about_rest(small: int) -> tuple[str, ...]:
    if small > 1:
        many = words.count(small, "", "functions and ways into the kernel")
        return (f"{many} had too few samples for rows of their own; they are in the rows of others.",)
    one = "1 function or way into the kernel had too few samples for a row of its own; it is in a row of others."
    return (one,) if small else ()


def _shared(load: Explained) -> str:
    if load.shared_error is None:
        return ""
    return f", and all rows share the standard error of CPU time a query, {load.shared_error:.1%} of its ratio"


def _about_waits(load: Explained) -> str:
    if load.before.voluntary_switches_per_query is None:
        return "Time off the CPU (waits for locks, disks, the network) is not sampled."
    return (
        "Time off the CPU is not sampled: how often threads left it to wait, and how long they then stood in its queue, is "
        "counted, but not what they waited for (locks, disks, the network), nor how long."
    )


def _both(before: float | None, after: float | None) -> tuple[float, float] | None:
    return None if before is None or after is None else (before, after)
