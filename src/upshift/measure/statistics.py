"""From slices to intervals and verdicts.

The unit of replication is the trial. Slices of one server start share its luck (memory layout, state of the
caches, the machine's mood that minute), so they are first put together into one value a trial; only trials
are independent.

An arm is compared with the baseline trial by trial: d = ln(arm / baseline) within the same trial, where
both met the same drift. The interval is Student's, exp(mean(d) +- t * s / sqrt(n)) with n - 1 degrees of
freedom (Student, "The Probable Error of a Mean", 1908).

**One level for all.** Of n comparisons, those that differ are found by Benjamini and Hochberg's procedure ("Controlling
the False Discovery Rate", 1995) at 5 %: at most 5 % of what is called faster or slower is expected to be called so by
chance, and where no arm differs at all, 95 % of reports call nothing. With R of them found, every interval has the
confidence 1 - 5 % * max(R, 1) / n, as Benjamini and Yekutieli ("False Discovery Rate-Adjusted Multiple Confidence
Intervals", 2005) show for those that were found. So an interval leaves 1 out exactly when the procedure found its
comparison: what is printed and what is said never differ. Where everything differs, intervals are 95 %.

**Verdicts.** *faster* always means *better*: more queries a second, but fewer milliseconds and less CPU
time, so there it goes with a ratio below 1. A comparison is equivalent when its interval lies within 1 % of 1, because a
difference that small is of no use even when it is real; else faster or slower when the interval leaves 1 out; else
inconclusive.

**Trials whose number follows from the data.** ``--until`` asks for an interval of a certain width. A first stage of fixed
size says how far trials spread, and with that how many there must be; every interval and verdict then takes the spread,
and its degrees of freedom, of the first stage alone, with the mean of all trials (Stein, "A Two-Sample Test for a Linear
Hypothesis Whose Power is Independent of the Variance", 1945). Its confidence is exact, as the first stage's spread says
nothing of the mean. To look at the width after each trial would stop when the spread happens to look small.

**Latencies are steps.** A driver's percentile is the limit of a bucket: sysbench's are 1.8 % apart, other drivers' closer.
Where all trials differ by the same number of buckets, their spread is 0 and says nothing. So no latency counts as known
better than by sysbench's buckets: the standard deviation of a trial's value is at least that of a uniform error, and of a
ratio that of two.

**Fewer than two trials** have no spread: their interval is [0, 1e9], which means "anything" and survives as
JSON.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, get_args

import numpy as np
from scipy.special import nctdtr, stdtr, stdtrit

from upshift.limits import MOST_TRIALS
from upshift.measure.model import Comparison, Level, Load, Metric, Slice, Verdict
from upshift.measure.speed import at_usual_speed

LEVEL = 0.05
"""The share of false calls among all that a report calls faster or slower, at most."""
POWER = 0.80
MARGIN = 0.01
"""Half-width of equivalence: ratios from 1 / 1.01 to 1.01 are as good as 1."""
UNBOUNDED_LOW, UNBOUNDED_HIGH = 0.0, 1e9
"""Stand for no limit at all; every interval is clipped to them."""
FIRST_TRIALS = 6
"""Trials asked for where no spread is known yet."""

_MOST_EXPONENT = 600.0
"""More overflows. Of so many trials, one would have nearly all of the time."""
_BUCKET_LOG = math.log(1e8) / 1024
"""sysbench's histogram: 1024 buckets from 1 us to 100 s (src/sb_histogram.c, sysbench.c)."""
LEAST_LOG_SD: Mapping[Metric, float] = {"latency_ms_p99": _BUCKET_LOG * math.sqrt(2 / 12)}
"""Of a ratio of two values of one trial."""

METRICS: tuple[Metric, ...] = get_args(Metric)
TYPICAL_TURNS = 3
"""The fewest turns of a trial of which one is typical: the median of two is their mean."""
DESCRIBED: frozenset[Metric] = frozenset({"run_delay_us_per_query"})
"""These have levels and are not compared: they explain a throughput, and each comparison more makes all intervals wider."""
HIGHER_IS_BETTER: Mapping[Metric, bool] = {metric: metric == "qps" for metric in METRICS}

Logs = Sequence[float] | np.ndarray
Spent = Mapping[int, tuple[float, int]]
"""By a trial's number: seconds, and the queries that they were spent on."""
Turns = dict[tuple[Load, int], dict[str, dict[int, float]]]
"""By load and trial, by arm and round: the logarithm of a turn's figure; NaN where it has none."""
Values = dict[tuple[str, Load], dict[Metric, dict[int, float]]]
"""By arm and load, by metric: a trial's value by the trial's number."""


class Estimate(NamedTuple):
    """A mean of logarithms, and how well it is known."""

    mean: float
    error: float
    """Its standard error; infinite where no spread is known."""
    freedom: int
    """Degrees of freedom of the error."""


class Interval(NamedTuple):
    """An estimate with the limits that hold the truth with the asked confidence."""

    value: float
    low: float
    high: float


class Pair(NamedTuple):
    """An arm and a baseline under one load, in one metric."""

    load: Load
    metric: Metric
    arm: str
    baseline: str
    logs: np.ndarray
    """ln(arm / baseline) of each trial that both have."""
    mean: Estimate


def trial_values(slices: Iterable[Slice]) -> Values:
    """Each trial's value of every metric that it has one for.

    Throughput and latency: the geometric mean over the trial's slices. Where any arm's slice has no query, throughput is the
    queries of all slices over their time instead, for all arms: a geometric mean of small counts is less than that. CPU time
    and run-queue delay per query: the trial's time over its queries, as the kernel's ticks are too coarse for one slice. Where
    any arm's trial met no tick at all, see ``_around_the_sums``, for all arms; for the typical CPU time, see ``_typical``. A
    metric that a trial lacks (a driver without latencies, no queries at all) is left out for it, never guessed; so is a time
    that is 0 in all trials: the kernel may not say it. Beside a speed probe, all of
    this is at the usual speed of the servers' CPUs.
    """
    groups: dict[tuple[str, Load, int], list[Slice]] = {}
    few: set[tuple[Load, int]] = set()
    turns: Turns = {}
    spent: dict[tuple[Load, Metric], dict[str, dict[int, tuple[float, int]]]] = {}
    for each in at_usual_speed(slices):
        load = Load(workload=each.workload, connections=each.connections, held_out=each.held_out)
        groups.setdefault((each.arm, load, each.trial), []).append(each)
        if not each.queries:
            few.add((load, each.trial))
        log = math.log(each.total_cpu_s * 1e6 / each.queries) if each.queries and each.total_cpu_s > 0 else math.nan
        turns.setdefault((load, each.trial), {}).setdefault(each.arm, {})[each.round] = log
    values: Values = {}
    for (arm, load, trial), members in groups.items():
        metrics = values.setdefault((arm, load), {})
        for metric, of in _TRIAL_VALUE.items():
            value = _per_s(members) if metric == "qps" and (load, trial) in few else of(members)
            if value is not None:
                metrics.setdefault(metric, {})[trial] = value
        queries = sum(each.queries for each in members)
        for metric, time_s in _TIME_S.items() if queries > 0 else ():
            by_trial = spent.setdefault((load, metric), {}).setdefault(arm, {})
            by_trial[trial] = sum(time_s(each) for each in members), queries
    for (load, trial), of_arms in turns.items():
        for arm, typical in _typical(of_arms).items():
            values[arm, load].setdefault("typical_cpu_us_per_query", {})[trial] = typical
    for (load, metric), arms in spent.items():
        some_met_none = any(time_s <= 0 for by_trial in arms.values() for time_s, _queries in by_trial.values())
        for arm, by_trial in arms.items():
            if found := _around_the_sums(by_trial) if some_met_none else _each_by_itself(by_trial):
                values[arm, load][metric] = found
    return values


def levels(slices: Iterable[Slice], confidence: float, first_stage: int | None = None) -> tuple[Level, ...]:
    """Each arm's own figures for each load: geometric means over trials with their intervals."""
    return tuple(
        Level(**load.model_dump(), arm=arm, metric=metric, value=mean.value, ci_low=mean.low, ci_high=mean.high)
        for (arm, load), metrics in trial_values(slices).items()
        for metric, by_trial in metrics.items()
        for logs in [np.log([by_trial[trial] for trial in sorted(by_trial)])]
        for found in [estimate(logs, _of_first_stage(by_trial, first_stage))]
        for mean in [interval(_at_least(LEAST_LOG_SD.get(metric, 0.0) / math.sqrt(2), found, len(logs)), confidence)]
    )


def comparisons(
    slices: Iterable[Slice], *baselines: str, first_stage: int | None = None, judged: Metric | None = None
) -> tuple[Comparison, ...]:
    """Every other arm against each of ``baselines``, for each load and metric that both have in at least one trial.

    A baseline is itself compared with those named before it. All have one confidence, see above. With ``first_stage``,
    that many trials say how far trials spread. ``judged`` is compared though it be one of ``DESCRIBED``.
    """
    found = pairs(slices, baselines, first_stage, judged)
    confidence = common_confidence([pair.mean for pair in found])
    return tuple(_compare(pair, confidence) for pair in found)


def pairs(
    slices: Iterable[Slice], baselines: Sequence[str], first_stage: int | None = None, judged: Metric | None = None
) -> list[Pair]:
    """What is compared with what, in the order of the comparisons."""
    values = trial_values(slices)
    return [
        Pair(load, metric, arm, baseline, logs, _at_least(LEAST_LOG_SD.get(metric, 0.0), found, len(logs)))
        for number, baseline in enumerate(baselines)
        for (arm, load), metrics in values.items()
        if arm not in baselines[: number + 1]
        for base in [values.get((baseline, load), {})]
        for metric, by_trial in metrics.items()
        if metric not in DESCRIBED or metric == judged
        for both in [by_trial.keys() & base.get(metric, {}).keys()]
        if both
        for logs in [np.array([math.log(by_trial[trial] / base[metric][trial]) for trial in sorted(both)])]
        for found in [estimate(logs, _of_first_stage(both, first_stage))]
    ]


def _at_least(log_sd: float, mean: Estimate, trials: int) -> Estimate:
    """With the error that the figure's own steps leave, which have this standard deviation."""
    return mean._replace(error=max(mean.error, log_sd / math.sqrt(trials)))


def estimate(logs: Logs, first_stage: int | None = None) -> Estimate:
    """The mean of one log-ratio a trial; with ``first_stage``, the spread is that of so many trials alone."""
    spread = logs[:first_stage]
    if len(spread) < 2:
        return Estimate(float(np.mean(logs)) if len(logs) else 0.0, math.inf, 1)
    return Estimate(float(np.mean(logs)), float(np.std(spread, ddof=1)) / math.sqrt(len(logs)), len(spread) - 1)


def common_confidence(compared: Iterable[Estimate]) -> float:
    """The confidence of all intervals and verdicts of a report, from the log-ratios of its comparisons."""
    return joint_confidence(_chance(mean) for mean in compared if math.isfinite(mean.error))


def joint_confidence(chances: Iterable[float]) -> float:
    """The confidence of all intervals of a table, from their p-values, by Benjamini and Hochberg's procedure, see above."""
    rising = sorted(chances)
    found = max((number for number, each in enumerate(rising, 1) if each <= LEVEL * number / len(rising)), default=1)
    return 1 - LEVEL * found / max(1, len(rising))


def geometric_mean(logs: Logs, confidence: float) -> Interval:
    """exp of the mean of ``logs`` with Student's interval; with fewer than two of them it is unbounded."""
    return interval(estimate(logs), confidence)


def interval(mean: Estimate, confidence: float) -> Interval:
    """exp of the mean with Student's interval."""
    half = half_width(mean, confidence)
    return Interval(math.exp(mean.mean), bounded_exp(mean.mean - half), bounded_exp(mean.mean + half))


def bounded_exp(log: float) -> float:
    """exp, within what stands for unbounded."""
    return UNBOUNDED_HIGH if log >= math.log(UNBOUNDED_HIGH) else max(UNBOUNDED_LOW, math.exp(log))


def half_width(mean: Estimate, confidence: float) -> float:
    """Of Student's interval, in logarithms."""
    return float(stdtrit(mean.freedom, (1 + confidence) / 2)) * mean.error


def judge(at: Estimate, confidence: float, *, higher_is_better: bool) -> Verdict:
    """The verdict on paired log-ratios, by the rules above. *faster* means better whatever the direction."""
    mean, half = at.mean, half_width(at, confidence)
    if abs(mean) + half <= math.log1p(MARGIN):
        return "equivalent"
    if abs(mean) > half:
        return "faster" if (mean > 0) == higher_is_better else "slower"
    return "inconclusive"


def trials_needed(logs: Logs, confidence: float, least_log_sd: float = 0.0) -> int:
    """How many trials a new experiment would need to decide with 80 % power, were mean and spread as they came out.

    The smallest n whose interval leaves 1 out, or lies within the margin of 1, in four experiments of five;
    ``FIRST_TRIALS`` when fewer than two trials were done, at most ``MOST_TRIALS``. It is a plan for another experiment:
    to add trials to this one until it decides would call differences that are not there.
    """
    if len(logs) < 2:
        return FIRST_TRIALS
    mean, deviation = abs(float(np.mean(logs))), max(float(np.std(logs, ddof=1)), least_log_sd, 1e-12)

    def decides(trials: int) -> bool:
        error = deviation / math.sqrt(trials)
        limit = float(stdtrit(trials - 1, (1 + confidence) / 2))
        # scipy 1.17 gives NaN for some shifts of 35 and more, where next to nothing is left below the limit.
        different = not float(nctdtr(trials - 1, mean / error, limit)) > 1 - POWER
        # Either limit may leave the margin: each with half of what may fail.
        same = mean + (limit + float(stdtrit(trials - 1, (1 + POWER) / 2))) * error <= math.log1p(MARGIN)
        return different or same

    return bisect_left(range(MOST_TRIALS), True, lo=2, key=decides)


def trials_to_place(each: Comparison, passes: float, fails: float, first_stage: int | None = None) -> int:
    """How many trials a new experiment would need to say with 80 % power that the ratio is ``passes`` or more, or that it is
    less than ``fails``, were mean and spread as they came out. ``passes`` is at most ``fails``.

    It says so by its lower limit, or its upper one, at the confidence of ``each``, whose spread is that of ``first_stage``
    trials where there was one. ``FIRST_TRIALS`` when no spread is known, at most ``MOST_TRIALS``.
    """
    spread = min(first_stage or each.trials, each.trials)
    if spread < 2 or each.ci_high >= UNBOUNDED_HIGH or each.ci_low <= UNBOUNDED_LOW:
        return FIRST_TRIALS
    half = math.log(each.ci_high / each.ci_low) / 2
    deviation = max(half / float(stdtrit(spread - 1, (1 + each.confidence) / 2)) * math.sqrt(each.trials), 1e-12)
    away = max(math.log(each.ratio / passes), math.log(fails / each.ratio))

    def decides(trials: int) -> bool:
        limit = float(stdtrit(trials - 1, (1 + each.confidence) / 2))
        # NaN as in trials_needed.
        return not float(nctdtr(trials - 1, away / (deviation / math.sqrt(trials)), limit)) > 1 - POWER

    return bisect_left(range(MOST_TRIALS), True, lo=2, key=decides) if away > 0 else MOST_TRIALS


def _of_first_stage(trials: Iterable[int], first_stage: int | None) -> int | None:
    """How many of these trials belong to the first stage: one may lack the figure."""
    return None if first_stage is None else sum(trial < first_stage for trial in trials)


def _compare(pair: Pair, confidence: float) -> Comparison:
    ratio = interval(pair.mean, confidence)
    verdict = judge(pair.mean, confidence, higher_is_better=HIGHER_IS_BETTER[pair.metric])
    return Comparison(
        **pair.load.model_dump(),
        metric=pair.metric,
        arm=pair.arm,
        baseline=pair.baseline,
        ratio=ratio.value,
        ci_low=ratio.low,
        ci_high=ratio.high,
        confidence=confidence,
        trials=len(pair.logs),
        verdict=verdict,
        trials_needed=trials_needed(pair.logs, confidence, LEAST_LOG_SD.get(pair.metric, 0.0))
        if verdict == "inconclusive"
        else None,
    )


def _chance(at: Estimate) -> float:
    """The two-sided p-value of Student's test that the mean is 0."""
    if at.error == 0:
        return float(at.mean == 0)
    return float(2 * stdtr(at.freedom, -abs(at.mean) / at.error))


def _geometric(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None and value > 0]
    return math.exp(math.fsum(map(math.log, known)) / len(known)) if len(known) == len(values) else None


def _per_s(slices: Sequence[Slice]) -> float | None:
    queries = sum(each.queries for each in slices)
    return queries / math.fsum(each.wall_s for each in slices) if queries > 0 else None


def _typical(turns: Mapping[str, Mapping[int, float]]) -> dict[str, float]:
    """Each arm's CPU time in the median of a trial's rounds, with its turn beside those of the others in the same round.

    A turn's logarithm is taken from the mean of all arms' turns in its round, and the median of these differences is the arm's.
    Of two arms, the ratio is then the median of their rounds' ratios. It leaves out what fewer than half of the rounds have,
    such as the bursts of a virtual machine's neighbours, which come and go within a second, and make a mean of few trials
    uncertain. It leaves out bursts of the server's own as well, which the mean has: it takes no other figure's place.
    Empty where there are fewer than ``TYPICAL_TURNS``, or where a turn has no figure.
    """
    rounds = sorted(set.intersection(*(set(each) for each in turns.values())))
    logs = np.array([[each[number] for number in rounds] for each in turns.values()])
    if len(rounds) < TYPICAL_TURNS or not np.isfinite(logs).all():
        return {}
    means = logs.mean(axis=0)
    typical = np.exp(np.median(means) + np.median(logs - means, axis=1))
    return dict(zip(turns, map(float, typical), strict=True))


def _each_by_itself(by_trial: Spent) -> dict[int, float]:
    """Each trial's microseconds a query."""
    return {trial: time_s * 1e6 / queries for trial, (time_s, queries) in by_trial.items()}


def _around_the_sums(by_trial: Spent) -> dict[int, float]:
    """Values of the trials whose geometric mean is the time of all trials over the queries of all.

    A time of 0 has no logarithm. To leave such trials out would keep those that happened to meet a tick, and their mean is too
    high: with a tick in every third trial, nearly 3x the true one. The ratio R of the sums has all trials in it, and no such
    bias. A trial's logarithm is ln R and the trial's residual, (time - R * queries) / (R * mean queries). Residuals sum to 0,
    and their spread says how well ln R is known (the linearised ratio: Cochran, "Sampling Techniques", 1977, chapter 6). Those
    of two arms are paired trial by trial, as other logarithms are. Empty where no trial met any.
    """
    total_s = math.fsum(time_s for time_s, _queries in by_trial.values())
    all_queries = sum(queries for _time_s, queries in by_trial.values())
    if total_s <= 0:
        return {}
    ratio, usual_s = total_s / all_queries, total_s / len(by_trial)
    residuals = {trial: (time_s - ratio * queries) / usual_s for trial, (time_s, queries) in by_trial.items()}
    return {trial: ratio * 1e6 * math.exp(min(each, _MOST_EXPONENT)) for trial, each in residuals.items()}


_TRIAL_VALUE: Mapping[Metric, Callable[[Sequence[Slice]], float | None]] = {
    "qps": lambda slices: _geometric([each.queries / each.wall_s for each in slices]),
    "latency_ms_p99": lambda slices: _geometric([each.latency_ms_p99 for each in slices]),
}
_TIME_S: Mapping[Metric, Callable[[Slice], float]] = {
    "total_cpu_us_per_query": lambda each: each.total_cpu_s,
    "user_cpu_us_per_query": lambda each: each.user_cpu_s,
    "system_cpu_us_per_query": lambda each: each.system_cpu_s,
    "run_delay_us_per_query": lambda each: each.run_delay_s,
}
