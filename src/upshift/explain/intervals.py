"""How sure counts of samples are: the rates behind two servers' counts, compared."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import beta, norm, t

from upshift.measure.statistics import LEVEL, estimate

_LEAST_EXPECTED = 5


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


def noise(dispersion: float, before_us: Sequence[float], after_us: Sequence[float]) -> Noise:
    """From CPU time a query by block, of both servers in the order in which they took turns."""
    shared = estimate(log_ratios(before_us, after_us))
    return Noise(dispersion, shared.error, shared.freedom)


def log_ratios(before: Sequence[float], after: Sequence[float]) -> list[float]:
    """ln(after / before) of each pair of neighbouring blocks that has the figure."""
    return [math.log(new / old) for old, new in zip(before, after, strict=True) if old > 0 and new > 0]


def ratio(counts: Counts, exposure: float, confidence: float, noise: Noise = Noise()) -> Ratio:
    """How the rates behind two counts compare; infinite where nothing was seen before.

    ``exposure`` says how many times more samples a unit of the rate stands for after than before. Given their sum, one of two
    Poisson counts is binomial; the limits are Clopper and Pearson's ("The use of confidence or fiducial limits", 1934) on its
    share. Counts are divided by their dispersion first, and the limits are those of Student's distribution, by ``_of_row``.
    """
    value = _odds(counts.after / sum(counts)) / exposure
    spread, freedom = _of_row(counts, noise)
    if math.isinf(spread):
        return Ratio(value, 0.0, math.inf)
    before, after = (count / spread for count in counts)
    tail = float(norm.sf(_quantile((1 - confidence) / 2, freedom)))
    low = float(beta.ppf(tail, after, before + 1)) if after else 0.0
    high = float(beta.isf(tail, after + 1, before)) if before else 1.0
    return Ratio(value, _odds(low) / exposure, _odds(high) / exposure)


def chance(counts: Counts, exposure: float, noise: Noise = Noise()) -> float:
    """The two-sided p-value that both rates are the same, by the limits of ``ratio``."""
    spread, freedom = _of_row(counts, noise)
    if math.isinf(spread):
        return 1.0
    before, after = (count / spread for count in counts)
    same = exposure / (1 + exposure)
    below = float(beta.cdf(same, after, before + 1)) if after else 1.0
    above = float(beta.sf(same, after + 1, before)) if before else 1.0
    return min(1.0, 2 * _tail(float(norm.isf(min(below, above))), freedom))


def _of_row(counts: Counts, noise: Noise) -> tuple[float, float]:
    """How many times more than Poisson's a row's ratio varies, and the degrees of freedom of that.

    The variances of ln(ratio) add up: that of the counts, and the one that all rows share. The freedom is Welch's and
    Satterthwaite's ("The Generalization of 'Student's' Problem", 1947): the counts' variance is known, the shared one is not.
    """
    if not noise.shared_error or not all(counts):
        return noise.dispersion, math.inf
    own, shared = noise.dispersion * sum(1 / count for count in counts), noise.shared_error**2
    if math.isinf(shared):
        return math.inf, noise.freedom
    return noise.dispersion * (own + shared) / own, noise.freedom * ((own + shared) / shared) ** 2


def _quantile(tail: float, freedom: float) -> float:
    return float(norm.isf(tail) if math.isinf(freedom) else t.isf(tail, freedom))


def _tail(quantile: float, freedom: float) -> float:
    return float(norm.sf(quantile) if math.isinf(freedom) else t.sf(quantile, freedom))


def common_confidence(chances: Iterable[float]) -> float:
    """The confidence of all intervals of a table, by Benjamini and Hochberg's procedure; see ``upshift.measure.statistics``."""
    rising = sorted(chances)
    found = max((number for number, each in enumerate(rising, 1) if each <= LEVEL * number / len(rising)), default=1)
    return 1 - LEVEL * found / max(1, len(rising))


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
