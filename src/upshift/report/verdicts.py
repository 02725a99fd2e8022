"""The result in sentences: what is faster, what is slower, and by how much."""

from __future__ import annotations

from upshift.measure.model import Comparison
from upshift.report.result import Result

# An interval this wide says nothing: one trial has no interval at all.
_NO_INTERVAL = 1e6


def headline(result: Result) -> tuple[Comparison, ...]:
    """QPS on each training workload at the most threads measured, a line of the verdict each."""
    return _at_most_threads([each for each in result.experiment.comparisons if not each.held_out])


def losses(result: Result) -> tuple[Comparison, ...]:
    """What the optimised server does worse, held-out workloads first: shown before any gain."""
    lost = [each for each in result.experiment.comparisons if each.verdict == "slower"]
    return tuple(sorted(lost, key=lambda each: (not each.held_out, each.metric != "qps", each.workload)))


def held_out(result: Result) -> tuple[Comparison, ...]:
    return _at_most_threads([each for each in result.experiment.comparisons if each.held_out])


def sentence(one: Comparison) -> str:
    """``oltp_read_write, 8 threads: 1.34 times the QPS (95 % interval 1.31 to 1.38): faster``."""
    what = {
        "qps": "the QPS",
        "latency_ms_p99": "the p99 latency",
        "user_cpu_us_per_query": "the user CPU per query",
        "system_cpu_us_per_query": "the system CPU per query",
    }[one.metric]
    note = " (held out of training)" if one.held_out else ""
    more = f", about {one.trials_needed} trials would tell" if one.trials_needed else ""
    threads = f"{one.threads} thread{'s' if one.threads > 1 else ''}"
    return f"{one.workload}{note}, {threads}: {one.ratio:.2f} times {what} ({interval(one)}): {one.verdict}{more}"


def interval(one: Comparison) -> str:
    if one.ci_high > _NO_INTERVAL:
        return "no interval from one trial"
    return f"95 % interval {one.ci_low:.2f} to {one.ci_high:.2f}"


def _at_most_threads(found: list[Comparison]) -> tuple[Comparison, ...]:
    qps = [each for each in found if each.metric == "qps"]
    most = {each.workload: max(other.threads for other in qps if other.workload == each.workload) for each in qps}
    return tuple(each for each in qps if each.threads == most[each.workload])
