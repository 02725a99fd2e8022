"""Intervals of contrasts between rows: Student's over trials, with variances that the contrasts lend each other.

A trial has every row, so that each contrast has one value a trial, and only trials are independent. With few trials a single
contrast's own variance is badly known; those of all contrasts, each divided by its squared weights, estimate the same noise.
Rows that did not fit side by side were compared with different starts of all off: the weights are then those of the servers.
They are pulled together by Smyth's moderation ("Linear Models and Empirical Bayes Methods for Assessing Differential
Expression", 2004): as far as they agree beyond chance, and not at all where they do not.

Factors are judged by Holm's procedure ("A Simple Sequentially Rejective Multiple Test Procedure", 1979) at ``LEVEL``: the
chance that a study names any factor that does nothing is at most 1 in 100. All intervals of a family have the confidence at
which an interval leaves 1 out exactly when Holm's procedure found its factor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import polygamma, stdtr, stdtrit

from upshift.measure.model import Verdict
from upshift.measure.statistics import MARGIN, bounded_exp
from upshift.values import Value

LEVEL = 0.01
"""The chance that anything that does nothing is named, over all factors of a study."""
_NEWTON_STEPS = 50
_DEPENDENT = 1e-9


class Effect(Value):
    """What a change does to the metric, as a ratio: 0.97 is 3 % less. Without two trials the interval is [0, 1e9]."""

    ratio: float
    ci_low: float
    ci_high: float
    chance: float
    """The two-sided p-value of no effect, by itself."""

    @property
    def told(self) -> bool:
        """Whether the interval leaves 1 out."""
        return not self.ci_low <= 1 <= self.ci_high


class Spread(Value):
    """How well one contrast is known: the standard error of its logarithm, and the degrees of freedom of that."""

    log: float
    error: float
    freedom: float

    @property
    def chance(self) -> float:
        if not self.error > 0 or not math.isfinite(self.error):
            return 1.0 if self.log == 0 or math.isinf(self.error) else 0.0
        return float(2 * stdtr(self.freedom, -abs(self.log) / self.error))

    def effect(self, confidence: float) -> Effect:
        half = math.inf
        if math.isfinite(self.error):
            half = float(stdtrit(self.freedom, (1 + confidence) / 2)) * self.error if self.error > 0 else 0.0
        return Effect(
            ratio=math.exp(self.log),
            ci_low=bounded_exp(self.log - half),
            ci_high=bounded_exp(self.log + half),
            chance=self.chance,
        )

    def verdict(self, confidence: float, *, found: bool, higher_is_better: bool) -> Verdict:
        """By the interval of ``confidence``, and whether Holm's procedure ``found`` it."""
        effect = self.effect(confidence)
        if effect.ci_low >= 1 / (1 + MARGIN) and effect.ci_high <= 1 + MARGIN:
            return "equivalent"
        if not found:
            return "inconclusive"
        return "faster" if (self.log > 0) == higher_is_better else "slower"


def spreads(
    values: np.ndarray,
    weights: np.ndarray,
    known_sd: float | None = None,
    servers: np.ndarray | None = None,
    least_sd: float = 0.0,
) -> list[Spread]:
    """The contrasts ``weights`` (contrasts x rows) of ``values``, logarithms by trial and row (trials x rows).

    The weights of a contrast add up to 0, so that what all rows of a trial share drops out. ``known_sd`` is the standard
    deviation of a value where it is known beforehand: then one trial is enough. ``servers`` (rows x servers) says
    which servers' noise a value has, and how often; None: each row is a server of its own. ``least_sd`` is the least standard
    deviation of a server's noise: what the figure's own steps leave unknown.
    """
    noise = weights if servers is None else weights @ servers
    sizes = np.sum(noise**2, axis=1)
    # Rows of the same servers differ by exactly nothing, which rounding must not turn into something.
    found = np.where(sizes > _DEPENDENT, values @ weights.T, 0.0)
    means, trials = found.mean(axis=0), len(values)
    if known_sd is not None:
        exact = np.abs(found).max(axis=0) == 0
        errors = np.where(exact, 0.0, known_sd * np.sqrt(sizes / trials))
        return [
            Spread(log=float(mean), error=float(error), freedom=math.inf) for mean, error in zip(means, errors, strict=True)
        ]
    if trials < 2:
        return [Spread(log=float(mean), error=math.inf, freedom=1.0) for mean in means]
    own = np.divide(np.var(found, axis=0, ddof=1), sizes, out=np.zeros(len(sizes)), where=sizes > _DEPENDENT)
    lent = np.var(found @ np.linalg.pinv(noise.T) @ _independent(noise).T, axis=0, ddof=1)
    prior, freedom = _prior(lent[lent > _DEPENDENT**2], trials - 1)
    # Rows that are the same server differ by nothing, and say nothing of the noise.
    most = float((trials - 1) * max(1, int((lent > _DEPENDENT**2).sum())))
    if math.isinf(freedom):
        pulled, total = np.full(len(own), prior), most
    else:
        pulled = (freedom * prior + (trials - 1) * own) / (freedom + trials - 1)
        total = min(freedom + trials - 1, most)
    # Rows of other servers that differ by the same steps in all trials are not known exactly.
    errors = np.where(sizes > _DEPENDENT, np.sqrt(np.maximum(pulled, least_sd**2) * sizes / trials), 0.0)
    return [Spread(log=float(mean), error=float(error), freedom=total) for mean, error in zip(means, errors, strict=True)]


def servers_of(names: Sequence[str], base: str, groups: Mapping[str, int]) -> np.ndarray:
    """The noise of which servers is in each row's ratio to all off (rows x servers): its arm's, and less that of its group's
    start of all off. Rows that share an arm share its noise; all off itself has none.
    """
    arms = {name: number for number, name in enumerate(dict.fromkeys(name for name in names if name != base))}
    starts = {group: len(arms) + number for number, group in enumerate(dict.fromkeys(groups[name] for name in arms))}
    servers = np.zeros((len(names), len(arms) + len(starts)))
    for row, name in enumerate(names):
        if name != base:
            servers[row, arms[name]], servers[row, starts[groups[name]]] = 1, -1
    return servers


def holm(chances: Sequence[float], level: float = LEVEL) -> tuple[frozenset[int], float]:
    """Which of these Holm's procedure finds, and the confidence at which intervals say the same."""
    found: set[int] = set()
    for number in sorted(range(len(chances)), key=lambda n: chances[n]):
        if chances[number] > level / (len(chances) - len(found)):
            break
        found.add(number)
    return frozenset(found), 1 - level / max(1, len(chances) - len(found))


def _independent(weights: np.ndarray) -> np.ndarray:
    """Orthogonal contrasts of length 1 that these are made of; the first ones stay as they are where they are orthogonal."""
    basis = np.zeros((0, weights.shape[1]))
    for each in weights:
        rest = each
        for _ in range(2):  # Once more for what rounding left.
            rest = rest - basis.T @ (basis @ rest)
        if (size := np.linalg.norm(rest)) > _DEPENDENT:
            basis = np.vstack([basis, rest / size])
    return basis


def _prior(variances: np.ndarray, freedom: int) -> tuple[float, float]:
    """The variance that the contrasts have in common, and how many degrees of freedom it is worth to each: 0 when they have
    nothing in common, infinity when they differ by chance alone.
    """
    if len(variances) < 3:
        return 0.0, 0.0
    logs = np.log(variances) - _digamma(freedom / 2) + math.log(freedom / 2)
    beyond = float(np.var(logs, ddof=1)) - float(polygamma(1, freedom / 2))
    if beyond <= 0:
        return float(np.mean(variances)), math.inf
    prior_freedom = 2 * _trigamma_inverse(beyond)
    return float(np.exp(np.mean(logs) + _digamma(prior_freedom / 2) - math.log(prior_freedom / 2))), prior_freedom


def _digamma(x: float) -> float:
    return float(polygamma(0, x))


def _trigamma_inverse(y: float) -> float:
    """By Newton's method, from Smyth's appendix."""
    x = 0.5 + 1 / y
    for _ in range(_NEWTON_STEPS):
        trigamma = float(polygamma(1, x))
        step = trigamma * (1 - trigamma / y) / float(polygamma(2, x))
        x += step
        if -step / x < 1e-8:
            break
    return x
