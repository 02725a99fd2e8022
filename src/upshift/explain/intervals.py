"""How sure counts of samples are: the rates behind two servers' counts, compared."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import beta

from upshift.measure.statistics import LEVEL

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


def ratio(counts: Counts, exposure: float, confidence: float, dispersion: float = 1.0) -> Ratio:
    """How the rates behind two counts compare; infinite where nothing was seen before.

    ``exposure`` says how many times more samples a unit of the rate stands for after than before. Given their sum, one of two
    Poisson counts is binomial; the limits are Clopper and Pearson's ("The use of confidence or fiducial limits", 1934) on its
    share. Counts are divided by ``dispersion`` first, which says how much more they vary than Poisson's.
    """
    before, after = (count / dispersion for count in counts)
    tail = (1 - confidence) / 2
    low = float(beta.ppf(tail, after, before + 1)) if after else 0.0
    high = float(beta.ppf(1 - tail, after + 1, before)) if before else 1.0
    return Ratio(*(_odds(share) / exposure for share in (after / (before + after), low, high)))


def chance(counts: Counts, exposure: float, dispersion: float = 1.0) -> float:
    """The two-sided p-value that both rates are the same, by the limits of ``ratio``."""
    before, after = (count / dispersion for count in counts)
    same = exposure / (1 + exposure)
    below = float(beta.cdf(same, after, before + 1)) if after else 1.0
    above = float(beta.sf(same, after + 1, before)) if before else 1.0
    return min(1.0, 2 * min(below, above))


def common_confidence(chances: Iterable[float]) -> float:
    """The confidence of all intervals of a table, by Benjamini and Hochberg's procedure; see ``upshift.measure.statistics``."""
    rising = sorted(chances)
    found = max((number for number, each in enumerate(rising, 1) if each <= LEVEL * number / len(rising)), default=1)
    return 1 - LEVEL * found / max(1, len(rising))


def dispersion(blocks: Sequence[Mapping[str, int]]) -> float:
    """How much more counts vary from block to block than Poisson's would, at least 1.

    Pearson's chi square a degree of freedom, over all functions that have five expected samples in each block.
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
