"""Variance by source: how much of what differs between two measurements is training, layout, start and block.

Nested analysis of variance with equal numbers: trainings, layouts of each, starts of each server, blocks of each start.
A source's variance is its mean square less that of the source below it, over the number of measurements under it, and 0 when
that is negative (Searle, Casella, McCulloch, "Variance Components", chapter 3; Kalibera and Jones, ISMM 2013).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby

import numpy as np

from upshift.measure.model import Slice
from upshift.values import Value

SOURCES = ("training", "layout", "start", "block")


class Component(Value):
    """One source of variance."""

    source: str
    log_sd: float
    """Standard deviation of the logarithm: 0.02 is about 2 %."""
    count: int
    """How many different ones were measured, in each of the source above."""
    share: float
    """Of the variance of a single measurement."""


def components(values: np.ndarray, sources: tuple[str, ...]) -> tuple[Component, ...]:
    """Components of ``values``, logarithms with one axis for each of ``sources``, the outermost first.

    A source with one member alone cannot be told from the one above it, and has none.
    """
    found: dict[str, float] = {}
    below = 0.0
    for axis in reversed(range(values.ndim)):
        if values.shape[axis] < 2:
            continue
        means = values.mean(axis=tuple(range(axis + 1, values.ndim))) if axis + 1 < values.ndim else values
        variance = float(np.mean(np.var(means, axis=axis, ddof=1)))
        found[sources[axis]] = max(0.0, variance - below)
        # What the mean over this source still carries into the variance of the one above.
        below = variance / values.shape[axis]
    whole = sum(found.values()) or 1.0
    return tuple(
        Component(source=source, log_sd=math.sqrt(found[source]), count=values.shape[axis], share=found[source] / whole)
        for axis, source in enumerate(sources)
        if source in found
    )


def spread(slices: Iterable[Slice]) -> Mapping[str, float]:
    """How far rounds and server starts of an experiment lie apart, for what to expect of the next one; empty where no load has
    two trials with a round in which both arms ended queries.

    Of each load and each arm against the first, ln of their ratio in every round of every trial: ``pair_log_sd`` is the
    standard deviation of a round within its trial, ``start_log_sd`` that of a trial's true mean beyond what its rounds explain.
    Both are root mean squares over loads. With one round the two cannot be told apart: all of it counts as ``pair_log_sd``.
    """
    within, between = [], []
    for members in _grouped(slices, lambda each: f"{each.workload} {each.connections}"):
        baseline, *others = _grouped(members, lambda each: each.arm)
        for other in others:
            logs = (_logs(baseline, other, trial) for trial in sorted({each.trial for each in other}))
            trials = [each for each in logs if each]
            if len(trials) < 2:
                continue
            fewest = min(map(len, trials))
            found = {each.source: each.log_sd**2 for each in components(np.array([t[:fewest] for t in trials]), SOURCES[2:])}
            alone = "block" not in found
            within.append(found.get("start", 0.0) if alone else found["block"])
            between.append(0.0 if alone else found.get("start", 0.0))
    if not within:
        return {}
    return {
        "pair_log_sd": round(math.sqrt(np.mean(within)), 4),
        "start_log_sd": round(math.sqrt(np.mean(between)), 4),
    }


def _logs(baseline: list[Slice], other: list[Slice], trial: int) -> list[float]:
    rates = [
        {each.round: each.queries / each.wall_s for each in members if each.trial == trial and each.queries}
        for members in (baseline, other)
    ]
    return [math.log(rates[1][number] / rates[0][number]) for number in sorted(rates[0].keys() & rates[1].keys())]


def _grouped(slices: Iterable[Slice], name: Callable[[Slice], str]) -> Iterator[list[Slice]]:
    """The slices of each name, in the order of the names."""
    for _name, members in groupby(sorted(slices, key=name), key=name):
        yield list(members)
