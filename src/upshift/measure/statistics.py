"""From slices to intervals and verdicts.

The unit of replication is the trial. Slices of one server start share its luck (memory layout, state of the
caches, the machine's mood that minute), so they are first put together into one value a trial; only trials
are independent.

An arm is compared with the baseline trial by trial: d = ln(arm / baseline) within the same trial, where
both met the same drift. The interval is Student's, exp(mean(d) +- t * s / sqrt(n)) with n - 1 degrees of
freedom (Student, "The Probable Error of a Mean", 1908).

**Verdicts.** *faster* always means *better*: more queries a second, but fewer milliseconds and less CPU
time, so there it goes with a ratio below 1. An arm is faster or slower when the 99 % interval excludes 1
(of a server compared with itself, at most 1 in 100 comparisons says so by chance) unless the whole 95 %
interval lies within 1 % of 1: then it is equivalent, because a difference that small is of no use even when
it is real. All else is inconclusive.

**Fewer than two trials** have no spread: their interval is [0, 1e9], which means "anything" and survives as
JSON.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, get_args

import numpy as np
from scipy.special import stdtrit

from upshift.measure.model import Comparison, Level, Load, Metric, Slice, Verdict

CONFIDENCE = 0.95
SIGNIFICANCE = 0.01
MARGIN = 0.01
"""Half-width of equivalence: ratios from 1 / 1.01 to 1.01 are as good as 1."""
UNBOUNDED_LOW, UNBOUNDED_HIGH = 0.0, 1e9
"""Stand for no limit at all; every interval is clipped to them."""
FIRST_TRIALS = 5
"""Trials asked for where no spread is known yet."""
MOST_TRIALS = 1000
"""More than this many is not worked out: it means never."""

METRICS: tuple[Metric, ...] = get_args(Metric)
HIGHER_IS_BETTER: Mapping[Metric, bool] = {metric: metric == "qps" for metric in METRICS}

Values = dict[tuple[str, Load], dict[Metric, dict[int, float]]]
"""By arm and load, by metric: a trial's value by the trial's number."""


class Interval(NamedTuple):
    """An estimate with the limits that hold the truth with the asked confidence."""

    value: float
    low: float
    high: float


def trial_values(slices: Iterable[Slice]) -> Values:
    """Each trial's value of every metric that it has one for.

    Throughput and latency: the geometric mean over the trial's slices. CPU time per query: the trial's CPU
    time over its queries, as the kernel's ticks are too coarse for one slice. A metric that a slice lacks
    (a driver without latencies, a slice without queries) is left out for that trial, never guessed.
    """
    groups: dict[tuple[str, Load, int], list[Slice]] = {}
    for each in slices:
        load = Load(workload=each.workload, threads=each.threads, held_out=each.held_out)
        groups.setdefault((each.arm, load, each.trial), []).append(each)
    values: Values = {}
    for (arm, load, trial), members in groups.items():
        metrics = values.setdefault((arm, load), {})
        for metric in METRICS:
            value = _TRIAL_VALUE[metric](members)
            if value is not None:
                metrics.setdefault(metric, {})[trial] = value
    return values


def levels(slices: Iterable[Slice]) -> tuple[Level, ...]:
    """Each arm's own figures for each load: geometric means over trials with 95 % intervals."""
    return tuple(
        Level(**load.model_dump(), arm=arm, metric=metric, value=mean.value, ci_low=mean.low, ci_high=mean.high)
        for (arm, load), metrics in trial_values(slices).items()
        for metric, by_trial in metrics.items()
        for mean in [geometric_mean(np.log(list(by_trial.values())))]
    )


def comparisons(slices: Iterable[Slice], *baselines: str) -> tuple[Comparison, ...]:
    """Every other arm against each of ``baselines``, for each load and metric that both have in at least one trial.

    A baseline is itself compared with those named before it.
    """
    values = trial_values(slices)
    return tuple(
        compare(load, metric, arm=arm, baseline=baseline, by_trial=by_trial, base=base[metric])
        for number, baseline in enumerate(baselines)
        for (arm, load), metrics in values.items()
        if arm not in baselines[: number + 1]
        for base in [values.get((baseline, load), {})]
        for metric, by_trial in metrics.items()
        if metric in base and by_trial.keys() & base[metric].keys()
    )


def compare(
    load: Load,
    metric: Metric,
    *,
    arm: str,
    baseline: str,
    by_trial: Mapping[int, float],
    base: Mapping[int, float],
) -> Comparison:
    """One comparison from both arms' trial values; trials that only one of them has do not count."""
    trials = sorted(by_trial.keys() & base.keys())
    logs = np.array([math.log(by_trial[trial] / base[trial]) for trial in trials])
    ratio = geometric_mean(logs)
    verdict = judge(logs, higher_is_better=HIGHER_IS_BETTER[metric])
    return Comparison(
        **load.model_dump(),
        metric=metric,
        arm=arm,
        baseline=baseline,
        ratio=ratio.value,
        ci_low=ratio.low,
        ci_high=ratio.high,
        trials=len(trials),
        verdict=verdict,
        trials_needed=trials_needed(logs) if verdict == "inconclusive" else None,
    )


def geometric_mean(logs: Sequence[float] | np.ndarray, confidence: float = CONFIDENCE) -> Interval:
    """exp of the mean of ``logs`` with Student's interval; with fewer than two of them it is unbounded."""
    mean = float(np.mean(logs))
    half = _half_width(logs, confidence)
    return Interval(math.exp(mean), _exp(mean - half), _exp(mean + half))


def judge(logs: Sequence[float] | np.ndarray, *, higher_is_better: bool) -> Verdict:
    """The verdict on paired log-ratios, by the rules above. *faster* means better whatever the direction."""
    mean = float(np.mean(logs))
    margin = math.log1p(MARGIN)
    if abs(mean) + _half_width(logs, CONFIDENCE) <= margin:
        return "equivalent"
    if abs(mean) > _half_width(logs, 1 - SIGNIFICANCE):
        return "faster" if (mean > 0) == higher_is_better else "slower"
    return "inconclusive"


def trials_needed(logs: Sequence[float] | np.ndarray) -> int:
    """How many trials would decide, should the mean and the standard deviation stay what they are.

    The smallest n greater than the trials done whose 99 % interval would exclude 1, or whose 95 % interval
    would lie within the margin; ``FIRST_TRIALS`` when fewer than two trials were done, at most
    ``MOST_TRIALS``.
    """
    if len(logs) < 2:
        return FIRST_TRIALS
    n = np.arange(len(logs) + 1, MOST_TRIALS + 1)
    mean, error = abs(float(np.mean(logs))), float(np.std(logs, ddof=1)) / np.sqrt(n)
    different = mean > stdtrit(n - 1, 1 - SIGNIFICANCE / 2) * error
    same = mean + stdtrit(n - 1, (1 + CONFIDENCE) / 2) * error <= math.log1p(MARGIN)
    enough = n[different | same]
    return int(enough[0]) if len(enough) else MOST_TRIALS


def _half_width(logs: Sequence[float] | np.ndarray, confidence: float) -> float:
    n = len(logs)
    if n < 2:
        return math.inf
    return float(stdtrit(n - 1, (1 + confidence) / 2) * np.std(logs, ddof=1) / math.sqrt(n))


def _exp(log: float) -> float:
    return UNBOUNDED_HIGH if log >= math.log(UNBOUNDED_HIGH) else max(UNBOUNDED_LOW, math.exp(log))


def _geometric(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None and value > 0]
    return math.exp(math.fsum(map(math.log, known)) / len(known)) if len(known) == len(values) else None


def _per_query_us(cpu_s: float, slices: Sequence[Slice]) -> float | None:
    queries = sum(each.queries for each in slices)
    return cpu_s * 1e6 / queries if queries > 0 and cpu_s > 0 else None


_TRIAL_VALUE: Mapping[Metric, Callable[[Sequence[Slice]], float | None]] = {
    "qps": lambda slices: _geometric([each.queries / each.wall_s for each in slices]),
    "latency_ms_p99": lambda slices: _geometric([each.latency_ms_p99 for each in slices]),
    "user_cpu_us_per_query": lambda slices: _per_query_us(sum(each.user_cpu_s for each in slices), slices),
    "system_cpu_us_per_query": lambda slices: _per_query_us(sum(each.system_cpu_s for each in slices), slices),
}
