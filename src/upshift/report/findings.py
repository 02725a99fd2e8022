"""What an experiment comes down to: which comparisons make the headline, which are losses, and figures by load and arm."""

from __future__ import annotations

from collections.abc import Collection
from typing import get_args

from upshift.measure.model import BASELINE, OPTIMISED, PATCHED, Comparison, Experiment, Flagged, Level, Load, Metric

METRIC_ORDER: tuple[Metric, ...] = get_args(Metric)


class Findings:
    """An experiment, asked by load, arm and metric. Loads keep the experiment's order, training before held out.

    ``rebuilt``: the arms are what `upshift optimize` makes and compares. Otherwise users chose their names, which say nothing.
    """

    def __init__(self, experiment: Experiment, *, rebuilt: bool) -> None:
        self.rebuilt = rebuilt
        self.baseline = experiment.baseline
        self.loads = tuple(sorted(experiment.loads, key=lambda load: load.held_out))
        self.arms = tuple(arm.name for arm in experiment.arms)
        self.contenders = tuple(name for name in self.arms if name != experiment.baseline)
        """All arms but the baseline."""
        self.subjects = (OPTIMISED,) if rebuilt and OPTIMISED in self.contenders else self.contenders
        """The arms that the headline and the losses are about."""
        self._headline_connections = experiment.plan.headline_connections
        self._flags = experiment.flags
        self._transactions = experiment.transactions
        self._levels = {(each.arm, load_of(each), each.metric): each for each in experiment.levels}
        self._comparisons = {
            (each.arm, each.baseline, load_of(each), each.metric): each
            for each in experiment.comparisons
            if rebuilt or each.baseline == experiment.baseline
        }

    def counts_transactions(self, workload: str) -> bool:
        """Whether they are counted in place of queries."""
        return workload in self._transactions

    def level(self, arm: str, load: Load, metric: Metric) -> Level | None:
        return self._levels.get((arm, load, metric))

    def comparison(self, arm: str, load: Load, metric: Metric, baseline: str = "") -> Comparison | None:
        """Against ``baseline``; without one, against the experiment's own."""
        return self._comparisons.get((arm, baseline or self.baseline, load, metric))

    def against_current(self, metric: Metric) -> tuple[Comparison, ...]:
        """The subjects against the server that the user runs today, for each load; empty without one."""
        if self.baseline == BASELINE:
            return ()
        found = (self.comparison(arm, load, metric, BASELINE) for load in self.loads for arm in self.subjects)
        return tuple(each for each in found if each is not None)

    def levers(self) -> tuple[tuple[str, tuple[Comparison, ...]], ...]:
        """What patches bring by themselves at the headline's loads, and the rest upon them; empty without patches."""
        if not self.rebuilt or PATCHED not in self.arms:
            return ()
        names = (*self.workloads(held_out=False), *self.workloads(held_out=True))
        loads = [self._headline_load(name) for name in dict.fromkeys(names)]

        def brought(arm: str, baseline: str) -> tuple[Comparison, ...]:
            found = (self.comparison(arm, load, "qps", baseline) for load in loads)
            return tuple(each for each in found if each is not None)

        return (
            ("The patches alone, compared with the plain server:", brought(PATCHED, self.baseline)),
            ("What was rebuilt, compared with the patched server:", brought(OPTIMISED, PATCHED)),
        )

    def workloads(self, *, held_out: bool) -> tuple[str, ...]:
        return tuple(dict.fromkeys(load.workload for load in self.loads if load.held_out == held_out))

    def loads_of(self, workload: str) -> tuple[Load, ...]:
        """A workload's loads by rising connections."""
        return tuple(sorted((load for load in self.loads if load.workload == workload), key=lambda load: load.connections))

    def headlines(self, *, held_out: bool) -> tuple[Comparison, ...]:
        """For each workload and subject, its throughput at the number of connections that the plan named beforehand."""
        found = [
            self.comparison(arm, self._headline_load(workload), "qps")
            for workload in self.workloads(held_out=held_out)
            for arm in self.subjects
        ]
        return tuple(each for each in found if each is not None)

    def without_figures(self) -> tuple[tuple[str, Load], ...]:
        """The subjects and loads whose throughput was measured and not compared: no trial has figures of both servers."""
        loads = ((arm, load) for load in self.loads for arm in self.subjects)
        return tuple((arm, load) for arm, load in loads if self.comparison(arm, load, "qps") is None)

    def flags_of(self, arms: Collection[str], load: Load) -> tuple[str, ...]:
        """Names of the flags that were raised for one of ``arms`` under ``load``."""
        return tuple(
            flag.name for flag in self._flags if any(each.arm in arms and load_of(each) == load for each in flag.loads)
        )

    def losses(self) -> tuple[Comparison, ...]:
        """Whatever a subject does worse than a baseline: on held-out workloads first, throughput first."""
        lost = [each for each in self._comparisons.values() if each.arm in self.subjects and each.verdict == "slower"]
        return tuple(sorted(lost, key=lambda each: (not each.held_out, METRIC_ORDER.index(each.metric))))

    def has(self, metric: Metric) -> bool:
        return any(key[2] == metric for key in self._levels)

    def _headline_load(self, workload: str) -> Load:
        """The workload at the headline's connections, or at its most where it was not measured with those."""
        loads = self.loads_of(workload)
        return next((load for load in loads if load.connections == self._headline_connections), loads[-1])


def load_of(each: Comparison | Level | Flagged) -> Load:
    """The load that a figure belongs to."""
    return Load(workload=each.workload, connections=each.connections, held_out=each.held_out)
