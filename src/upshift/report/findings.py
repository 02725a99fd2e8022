"""What an experiment comes down to: which comparisons make the headline, which are losses, and figures by load and arm."""

from __future__ import annotations

import math
from collections.abc import Iterable

from upshift.measure.model import BASELINE, Comparison, Experiment, Level, Load, Metric

OPTIMISED = "optimised"
"""The arm that `upshift optimize` makes; the headline speaks of it alone when it is there."""

METRIC_ORDER: tuple[Metric, ...] = ("qps", "latency_ms_p99", "user_cpu_us_per_query", "system_cpu_us_per_query")


class Findings:
    """An experiment, asked by load, arm and metric. Loads keep the experiment's order, training before held out."""

    def __init__(self, experiment: Experiment) -> None:
        self.baseline = experiment.baseline
        self.loads = tuple(sorted(experiment.loads, key=lambda load: load.held_out))
        self.arms = tuple(arm.name for arm in experiment.arms)
        self.contenders = tuple(name for name in self.arms if name != experiment.baseline)
        """All arms but the baseline."""
        self.subjects = (OPTIMISED,) if OPTIMISED in self.contenders else self.contenders
        """The arms that the headline and the losses are about."""
        self._levels = {(each.arm, load_of(each), each.metric): each for each in experiment.levels}
        self._comparisons = {(each.arm, each.baseline, load_of(each), each.metric): each for each in experiment.comparisons}

    def level(self, arm: str, load: Load, metric: Metric) -> Level | None:
        return self._levels.get((arm, load, metric))

    def comparison(self, arm: str, load: Load, metric: Metric, baseline: str = "") -> Comparison | None:
        """Against ``baseline``; without one, against the experiment's own."""
        return self._comparisons.get((arm, baseline or self.baseline, load, metric))

    def against_todays(self, metric: Metric) -> tuple[Comparison, ...]:
        """The subjects against the server that the user runs today, for each load; empty without one."""
        if self.baseline == BASELINE:
            return ()
        found = (self.comparison(arm, load, metric, BASELINE) for load in self.loads for arm in self.subjects)
        return tuple(each for each in found if each is not None)

    def workloads(self, *, held_out: bool) -> tuple[str, ...]:
        return tuple(dict.fromkeys(load.workload for load in self.loads if load.held_out == held_out))

    def loads_of(self, workload: str) -> tuple[Load, ...]:
        """A workload's loads by rising threads."""
        return tuple(sorted((load for load in self.loads if load.workload == workload), key=lambda load: load.threads))

    def headlines(self, *, held_out: bool) -> tuple[Comparison, ...]:
        """For each workload and subject, its throughput at the thread count that was measured best."""
        found = [
            best_measured(self.comparison(arm, load, "qps") for load in self.loads_of(workload) if load.held_out == held_out)
            for workload in self.workloads(held_out=held_out)
            for arm in self.subjects
        ]
        return tuple(each for each in found if each is not None)

    def losses(self) -> tuple[Comparison, ...]:
        """Whatever a subject does worse than a baseline: on held-out workloads first, throughput first."""
        lost = [each for each in self._comparisons.values() if each.arm in self.subjects and each.verdict == "slower"]
        return tuple(sorted(lost, key=lambda each: (not each.held_out, METRIC_ORDER.index(each.metric))))

    def has(self, metric: Metric) -> bool:
        return any(key[2] == metric for key in self._levels)


def best_measured(comparisons: Iterable[Comparison | None]) -> Comparison | None:
    """The one with the narrowest interval, as a ratio; of equals the one with more threads. Never chosen by its ratio."""
    known = [each for each in comparisons if each is not None]
    return min(known, key=lambda each: (_width(each), -each.threads)) if known else None


def load_of(each: Comparison | Level) -> Load:
    return Load(workload=each.workload, threads=each.threads, held_out=each.held_out)


def _width(each: Comparison) -> float:
    return math.log(each.ci_high / each.ci_low) if each.ci_low > 0 else math.inf
