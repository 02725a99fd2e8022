"""Figures and verdicts in words, the same on the page and on the terminal."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from upshift.limits import MOST_TRIALS
from upshift.measure.model import BASELINE, PATCHED, Comparison, Experiment, LeadIn, Load, Metric, Plan, Reached, Verdict
from upshift.measure.pilot import in_words
from upshift.measure.placement import Seat
from upshift.measure.statistics import LEVEL, MARGIN, UNBOUNDED_HIGH
from upshift.measure.variant import Surroundings
from upshift.run.record import duration as duration  # noqa: PLC0414  templates take it from here

METRIC_NAMES: Mapping[Metric, str] = {
    "qps": "queries per second",
    "latency_ms_p99": "p99 latency",
    "total_cpu_us_per_query": "CPU per query",
    "typical_cpu_us_per_query": "typical CPU per query",
    "user_cpu_us_per_query": "user CPU per query",
    "system_cpu_us_per_query": "system CPU per query",
    "run_delay_us_per_query": "run-queue delay per query",
}
UNITS: Mapping[Metric, str] = {
    "qps": "QPS",
    "latency_ms_p99": "ms",
    "total_cpu_us_per_query": "µs",
    "typical_cpu_us_per_query": "µs",
    "user_cpu_us_per_query": "µs",
    "system_cpu_us_per_query": "µs",
    "run_delay_us_per_query": "µs",
}
VERDICT_NAMES: Mapping[Verdict, str] = {
    "faster": "better",
    "slower": "worse",
    "equivalent": "the same",
    "inconclusive": "inconclusive",
}
"""For metrics of which less is better, where *faster* would be an odd word."""
_HUGE = 100.0
"""Limits beyond it are rounded to whole numbers."""
_FINE = 0.02
"""Intervals narrower than this get a third decimal."""
_MOST_DECIMALS = 6


def size(count_bytes: float) -> str:
    """Bytes as ``2.5 GB``, ``31 MB``, ``4 kB``, ``12 B``: powers of 1000."""
    for unit, scale, decimals in (("GB", 1e9, 1), ("MB", 1e6, 0), ("kB", 1e3, 0)):
        if count_bytes >= scale:
            return f"{count_bytes / scale:,.{decimals}f} {unit}"
    return f"{count_bytes:,.0f} B"


def figure(value: float) -> str:
    """Three significant digits, whole numbers from 100 on, thousands apart; 0 as ``0.00``."""
    # Rounded first: 99.96 is 100, not 100.0. Infinity has no exponent.
    exponent = int(f"{value:.2e}".partition("e")[2] or 0)
    return f"{value:,.{max(0, 2 - exponent)}f}"


def count(number: int, singular: str, plural: str = "") -> str:
    """``1 trial``, ``1,200 trials``"""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def opened(text: str) -> str:
    """A sentence that was written to follow a colon, with a capital to stand by itself."""
    return text[:1].upper() + text[1:]


def cpus(numbers: tuple[int, ...]) -> str:
    """``CPU 3``, ``CPUs 0–2, 6``; ``any CPU`` for none."""
    if not numbers:
        return "any CPU"
    return f"{'CPU' if len(numbers) == 1 else 'CPUs'} {_ranges(numbers)}"


def known(low: float, high: float) -> bool:
    """Whether an interval says anything at all."""
    return low > 0 and high < UNBOUNDED_HIGH


def ratio(each: Comparison) -> str:
    """Without a unit, such as ``1.34``, with as many decimals as its interval."""
    return ratio_in(each.ratio, each.ci_low, each.ci_high, differs=_differs(each))


def interval(each: Comparison, joint: str = " to ") -> str:
    """``1.31 to 1.38``; ``0 to ∞`` where nothing is known."""
    return limits(each.ci_low, each.ci_high, joint, differs=_differs(each))


def ratio_in(value: float, low: float, high: float | None, *, differs: bool) -> str:
    """A ratio with as many decimals as its interval, see ``limits``."""
    return limit(value, decimals(low, high, told=differs))


def limits(low: float, high: float | None, joint: str = " to ", *, differs: bool) -> str:
    """A ratio's interval: ``1.31 to 1.38``; ``1.31 to any`` without an upper limit. Where both are said to differ, it shows on
    which side of 1 it lies.
    """
    shown = decimals(low, high, told=differs)
    return f"{limit(low, shown)}{joint}{'any' if high is None else limit(high, shown)}"


def ratio_and_limits(value: float, low: float, high: float | None, *, differs: bool) -> str:
    """``0.986 (0.976 to 0.998)``"""
    return f"{ratio_in(value, low, high, differs=differs)} ({limits(low, high, differs=differs)})"


def interval_of(low: float, high: float) -> str:
    """A level's interval, in its unit; empty when one trial cannot give one, or two lie too far apart."""
    return f"{figure(low)} to {figure(high)}" if known(low, high) else ""


def percent(confidence: float) -> str:
    """``95 %``, ``96.3 %``, ``99.87 %``; never rounded up."""
    decimals = 2 if confidence > 0.99 else 1
    return f"{math.floor(confidence * 100 * 10**decimals + 1e-6) / 10**decimals:g} %"


def measured(each: Comparison) -> str:
    """``1.31 to 1.38 at 96.3 %``"""
    return f"{interval(each)} at {percent(each.confidence)}"


def metric_name(metric: Metric, *, transactions: bool) -> str:
    """``queries per second``, or ``transactions per second`` where these are counted in place of queries."""
    name = METRIC_NAMES[metric]
    return name.replace("queries", "transactions").replace("per query", "per transaction") if transactions else name


def unit(metric: Metric, *, transactions: bool) -> str:
    """``QPS``, or ``transactions/s`` where these are counted in place of queries; ``ms`` and ``µs`` are the same of both."""
    return "transactions/s" if transactions and metric == "qps" else UNITS[metric]


def verdict_name(each: Comparison) -> str:
    """``faster`` of throughput, ``better`` of other metrics."""
    return each.verdict if each.metric == "qps" else VERDICT_NAMES[each.verdict]


def still_needed(each: Comparison) -> str:
    """What would settle an inconclusive comparison; empty for others."""
    if each.verdict != "inconclusive" or each.trials_needed is None:
        return ""
    return settled_by(each.trials_needed)


def settled_by(trials: int) -> str:
    """``a new run of about 14 trials would settle it``"""
    if trials >= MOST_TRIALS:
        return "more trials than are practical would be needed"
    return f"a new run of about {count(trials, 'trial')} would settle it"


def trials_needed(each: Comparison) -> str:
    """The same, short enough for a table: ``needs 14 trials``."""
    if each.verdict != "inconclusive" or each.trials_needed is None:
        return ""
    return f"needs {each.trials_needed:,}{' or more' if each.trials_needed >= MOST_TRIALS else ''} trials"


def sentence(each: Comparison, *, name_arm: bool) -> str:
    """A throughput verdict as one sentence, without a full stop."""
    subject = f"{each.workload} on {each.arm}" if name_arm else each.workload
    if each.trials < 2:
        return f"{subject}: {ratio(each)}x the throughput, inconclusive (one trial gives no interval)"
    verdicts = {
        "faster": "",
        "slower": ", slower",
        "equivalent": f", the same within {MARGIN * 100:.0f} %",
        "inconclusive": ", inconclusive",
    }
    return f"{subject}: {ratio(each)}x the throughput{verdicts[each.verdict]} ({measured(each)})"


_FURTHER = {BASELINE: "the server that runs today", PATCHED: "the patched server that was not rebuilt"}
"""What `upshift optimize` compares with beside the experiment's own baseline."""


def loss_sentence(each: Comparison, baseline: str, *, name_arm: bool, transactions: Collection[str]) -> str:
    """A loss in any metric as one sentence, without a full stop. It says which server is compared with, if not ``baseline``.

    ``transactions`` are the workloads of which transactions are counted in place of queries.
    """
    at = f"at {count(each.connections, 'connection')}"
    if each.baseline != baseline:
        at += f", compared with {_FURTHER.get(each.baseline, each.baseline)}"
    if each.metric == "qps":
        return f"{sentence(each, name_arm=name_arm)} {at}"
    on = f" on {each.arm}" if name_arm else ""
    name = metric_name(each.metric, transactions=each.workload in transactions)
    return f"{each.workload}{on}: {ratio(each)}x the {name} ({measured(each)}) {at}"


def how_measured(experiment: Experiment) -> tuple[str, ...]:
    """The plan in sentences, for someone who wants to know whether to believe the figures."""
    plan, arms = experiment.plan, len(experiment.arms)
    compared = len(experiment.comparisons)
    trials = experiment.reached.trials if experiment.reached else plan.trials
    return (
        f"{count(arms, 'server')} {'were' if arms > 1 else 'was'} started {count(trials, 'time')} each. "
        f"One start is one trial, the unit that counts: each start has a random offset until its end.",
        f"Within a trial the servers {_turns(plan, arms)} (seed {plan.seed}): for each workload and number of connections "
        f"{count(plan.rounds, 'turn')} of each, with {plan.slice_s:g} s measured after a lead-in{_lead(experiment)}. "
        f"Connections were kept from turn to turn, and {_between(plan)}. Drift of the machine thus "
        f"affects all of them alike. Before the first load they {_warmed(plan)}; before each load all "
        f"servers finished flushing and purging, or a flag says that they did not.",
        cpus_sentence(plan, {arm.name: arm for arm in experiment.arms}),
        f"The headline is at {count(plan.headline_connections, 'connection')}, fixed before anything was measured.",
        "A ratio is the geometric mean over trials of server / baseline within the same trial; "
        "its interval is Student's t on its logarithm."
        + (" Of throughput, that is the mean of the ratios of slices of the same time." if plan.duet else ""),
        f"Intervals and verdicts have one level, {percent(experiment.confidence)}. Of the {count(compared, 'comparison')} "
        f"at most {LEVEL:.0%} of those called faster or slower are expected to be called so by chance (Benjamini, Hochberg). "
        f"A comparison is equivalent when its interval lies within {MARGIN * 100:.0f} % of 1; otherwise faster or slower when "
        f"it excludes 1; otherwise inconclusive.",
        "The trials that an inconclusive comparison needs are for a new run, which decides in four cases of five. "
        "Adding trials to this one until it decides would call differences that do not exist.",
        "CPU time is the server process's own, from the kernel, over the queries that it counted. "
        f"The total is exact{', before it is carried to the usual speed of the CPUs' if plan.speed_probe else ''}; "
        f"the kernel samples how it divides into user and system.",
        f"The hypervisor gave {experiment.steal_share:.1%} of the CPUs' time to other machines meanwhile; "
        f"{count(experiment.repeated, 'load')} {'was' if experiment.repeated == 1 else 'were'} measured again for that.",
        *(f"{remark}." for remark in remarks(experiment)),
    )


def remarks(experiment: Experiment) -> tuple[str, ...]:
    """What is not the same in each experiment: sentences without full stops."""
    return (
        *((unit_sentence(experiment.transactions),) if experiment.transactions else ()),
        *((lead_in_sentence(experiment.lead_ins),) if experiment.lead_ins else ()),
        *((slowed_sentence(experiment.slowed_share),) if experiment.slowed_share is not None else ()),
        *((reached_sentence(experiment.reached),) if experiment.reached else ()),
    )


def cpus_sentence(plan: Plan, arms: Mapping[str, Surroundings]) -> str:
    """Where servers and loads ran. ``arms`` by name may have CPUs of their own."""
    apart = set(plan.server_cpus).isdisjoint(plan.client_cpus) and plan.server_cpus and plan.client_cpus
    shared = "" if apart else " They share CPUs, so the load's own cost is part of what is seen."
    if plan.duet:
        return f"{duet_sentence(plan.duet)}. For each of the two, {plan.placement}.{shared}"
    own: dict[Seat, list[str]] = {}
    for name, arm in arms.items():
        if arm.server_cpus or arm.client_cpus:
            own.setdefault(plan.seat_of(arm), []).append(name)
    others = "".join(
        f" {', '.join(names)}, by its own settings, ran on {cpus(seat.server_cpus)}, its load on {cpus(seat.client_cpus)}."
        for seat, names in own.items()
    )
    return (
        f"The server ran on {cpus(plan.server_cpus)}, the load on {cpus(plan.client_cpus)}: {plan.placement}.{shared}{others}"
    )


def duet_sentence(duet: Sequence[Seat]) -> str:
    """Which CPUs the two servers of a duet have in which turns, without a full stop."""
    one, other = (f"{cpus(seat.server_cpus)} with its load on {cpus(seat.client_cpus)}" for seat in duet)
    return (
        f"A duet: both servers are loaded at the same time, in one half of the turns one on {one} and the other on {other}, "
        f"in the other half the other way round"
    )


def _turns(plan: Plan, arms: int) -> str:
    if plan.duet:
        return "worked at the same time, each on either set of CPUs in half of the turns"
    return "took turns, every second round in the reverse order of the one before" if arms > 1 else "was loaded"


def _warmed(plan: Plan) -> str:
    return f"were warmed up for {plan.warmup_s:g} s" if plan.warmup_s else "were not warmed up"


def _between(plan: Plan) -> str:
    return "both servers were stopped between turns" if plan.duet else "a server was stopped in the turns of others"


def _lead(experiment: Experiment) -> str:
    return " that a pilot chose" if experiment.lead_ins else f" of {experiment.plan.lead_s:g} s"


def lead_in_sentence(chosen: Sequence[LeadIn]) -> str:
    """What the pilot chose and why, without a full stop."""
    return f"Before the first trial that counts, a pilot chose {'; '.join(map(in_words, chosen))}"


def slowed_sentence(share: float) -> str:
    """What a speed probe saw, without a full stop."""
    return (
        f"A speed probe ran on the servers' CPUs: throughput and CPU time are those at their usual speed. In {share:.0%} of "
        f"the turns, they were slower by a sixth or more"
    )


def unit_sentence(transactions: Sequence[str]) -> str:
    """What is counted for these workloads, without a full stop."""
    return f"For {', '.join(transactions)}, committed transactions are counted in place of queries"


def without_figures(arm: str, baseline: str, load: Load) -> str:
    """Of a load that was measured and not compared, without a full stop."""
    return f"{load.workload} at {count(load.connections, 'connection')} gave no figures for both {arm} and {baseline}"


def reached_sentence(each: Reached) -> str:
    """What came of ``--until``, without a full stop."""
    widest = f"the widest interval of the headline is {figure(each.reached * 100)}% either way"
    if each.reached >= UNBOUNDED_HIGH:
        widest = "not every interval of the headline is known"
    return (
        f"Intervals of {each.asked * 100:g}% either way were asked for: "
        f"{count(each.first_stage, 'trial')} said how far trials spread, {each.trials:,} were measured in all, "
        f"and {widest}"
    )


def _differs(each: Comparison) -> bool:
    return each.verdict in ("faster", "slower")


def decimals(low: float, high: float | None, *, told: bool) -> int:
    """Of an interval of a ratio. One that is ``told`` apart from 1 has as many as show on which side of 1 its limits are."""
    known = [low] if high is None else [low, high]
    least = 3 if high is not None and high - low < _FINE else 2
    if not told:
        return least
    # A verdict beside "0.95 to 1.00" would look wrong: show on which side of 1 the limit is.
    shows = (number for number in range(least, _MOST_DECIMALS) if 1.0 not in (round(limit, number) for limit in known))
    return next(shows, _MOST_DECIMALS)


def limit(value: float, decimals: int) -> str:
    """A ratio, or a limit of its interval; ``∞`` where there is none."""
    if value >= UNBOUNDED_HIGH:
        return "∞"
    if value >= _HUGE:
        return f"{value:,.0f}"
    return "0" if value < 0.5 * 10**-decimals else f"{value:.{decimals}f}"


def _ranges(numbers: tuple[int, ...]) -> str:
    ordered = sorted(numbers)
    spans: list[list[int]] = []
    for number in ordered:
        if spans and number == spans[-1][-1] + 1:
            spans[-1] = [spans[-1][0], number]
        else:
            spans.append([number])
    return ", ".join("–".join(map(str, span)) for span in spans)
