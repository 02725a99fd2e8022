"""How sure counts of samples are: the rates behind two servers' counts, compared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc, betaincc, betainccinv, betaincinv, ndtri, stdtrit

from upshift.measure.statistics import estimate

_LEAST_EXPECTED = 5
_LEAST_TAIL, _MOST_TAIL = 1e-12, 0.4999


class Counts(NamedTuple):
    """What one function, or system call, was seen at."""

    before: int
    after: int


class Ratio(NamedTuple):
    """After / before, with the limits that hold the truth with the asked confidence."""

    value: float
    low: float
    high: float


class Noise(NamedTuple):
    """What moves counts beyond Poisson's chance."""

    dispersion: float = 1.0
    """How many times more than Poisson's a row's share of its block varies, from block to block."""
    shared_error: float = 0.0
    """Standard error of ln(after / before) of CPU time a query: a block that is slow is slow in all rows, so that no number of
    samples makes it less. Infinite where no spread is known."""
    freedom: int = 0
    """Degrees of freedom of ``shared_error``."""


_CHANCE_ALONE = Noise()


def noise(dispersion: float, before_us: Sequence[float], after_us: Sequence[float]) -> Noise:
    """From CPU time a query by block, of both servers in the order in which they took turns."""
    shared = estimate(log_ratios(before_us, after_us))
    return Noise(dispersion, shared.error, shared.freedom)


def log_ratios(before: Sequence[float], after: Sequence[float]) -> list[float]:
    """ln(after / before) of each pair of neighbouring blocks that has the figure."""
    return [math.log(new / old) for old, new in zip(before, after, strict=True) if old > 0 and new > 0]


def ratio(counts: Counts, exposure: float, confidence: float, noise: Noise = _CHANCE_ALONE) -> Ratio:
    """How the rates behind two counts compare; infinite where nothing was seen before.

    ``exposure`` says how many times more samples a unit of the rate stands for after than before. Given their sum, one of two
    Poisson counts is binomial; the limits are Clopper and Pearson's ("The use of confidence or fiducial limits", 1934) on its
    share. Counts are divided first by how much more than Poisson's their ratio varies.
    """
    value, tail = _odds(counts.after / sum(counts)) / exposure, (1 - confidence) / 2
    if math.isinf(noise.shared_error):
        return Ratio(value, 0.0, math.inf)
    before, after = (count / _spread(counts, noise, tail) for count in counts)
    low = float(betaincinv(after, before + 1, tail)) if after else 0.0
    high = float(betainccinv(after + 1, before, tail)) if before else 1.0
    return Ratio(value, _odds(low) / exposure, _odds(high) / exposure)


def chance(counts: Counts, exposure: float, noise: Noise = _CHANCE_ALONE) -> float:
    """The two-sided p-value that both rates are the same, by the limits of ``ratio``: at less confidence they leave 1 out."""
    if math.isinf(noise.shared_error):
        return 1.0
    if not _shares(counts, noise):
        return min(1.0, 2 * _beyond(counts, exposure, noise, _MOST_TAIL))

    def more(tail: float) -> float:
        return _beyond(counts, exposure, noise, tail) - tail

    # The less the tail, the wider the spread, and so the more lies beyond: there is one place where both are the same.
    if more(_MOST_TAIL) >= 0:
        return 1.0
    return 2 * (_LEAST_TAIL if more(_LEAST_TAIL) <= 0 else float(brentq(more, _LEAST_TAIL, _MOST_TAIL)))


def _beyond(counts: Counts, exposure: float, noise: Noise, tail: float) -> float:
    """How likely counts are at least so far from equal rates, with the spread of this tail."""
    before, after = (count / _spread(counts, noise, tail) for count in counts)
    same = exposure / (1 + exposure)
    below = float(betainc(after, before + 1, same)) if after else 1.0
    above = float(betaincc(after + 1, before, same)) if before else 1.0
    return min(below, above)


def _shares(counts: Counts, noise: Noise) -> bool:
    """Whether the row has part in what all rows share: a function that was not seen at all in one server has no ratio."""
    return noise.shared_error > 0 and all(counts)


def _spread(counts: Counts, noise: Noise, tail: float) -> float:
    """How many times more than Poisson's a row's ratio varies, for limits with this tail.

    Half the interval of ln(ratio) is the root of both halves' squares, the normal one of the counts and Student's of what all
    rows share. It holds the truth at least as often as it says, however few blocks there are (Banerjee, "Approximate confidence
    interval for linear functions of means of k populations when the population variances are not equal", 1960).
    """
    if not _shares(counts, noise):
        return noise.dispersion
    own = noise.dispersion * sum(1 / count for count in counts)
    wider = float(stdtrit(noise.freedom, tail) / ndtri(tail))
    return noise.dispersion * (1 + (wider * noise.shared_error) ** 2 / own)


def dispersion(blocks: Sequence[Mapping[str, int]]) -> float:
    """How much more functions' shares of their blocks vary than Poisson's counts would, at least 1.

    Pearson's chi square a degree of freedom, over all functions that have five expected samples in each block. What moves a
    whole block is not in it: one factor for all rows could not hold that, as it grows with a row's samples. ``noise`` has it.
    """
    totals = np.array([sum(block.values()) for block in blocks], dtype=float)
    chi_square, degrees = 0.0, 0
    for name in sorted({name for block in blocks for name in block}):
        counts = np.array([block.get(name, 0) for block in blocks], dtype=float)
        expected = totals * counts.sum() / totals.sum()
        if expected.min() >= _LEAST_EXPECTED:
            chi_square += float(((counts - expected) ** 2 / expected).sum())
            degrees += len(blocks) - 1
    return max(1.0, chi_square / degrees) if degrees else 1.0


def _odds(share: float) -> float:
    return share / (1 - share) if share < 1 else math.inf
