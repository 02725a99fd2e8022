"""How wide an interval to expect, before anything is measured.

The noise of one server in one trial has two parts: the luck of its start, which no further turn in the trial changes, and
that of its turns. Both are given as standard deviations of the logarithm of a *ratio* of two servers, as
``measure.variance.spread`` finds them in samples.

A server's speed wanders on all scales of time alike (flicker noise): how far neighbouring slices lie apart does not depend on
their length (Allan, "Statistics of Atomic Frequency Standards", 1966). Up to ``BLOCK_S``, a short slice is therefore worth as
much as a long one.
"""

from __future__ import annotations

import math

from scipy.special import stdtrit

from upshift.limits import MOST_TRIALS
from upshift.measure.model import Plan
from upshift.measure.statistics import LEVEL
from upshift.values import Value

BLOCK_S = 0.5
"""Slices of 0.02 to 0.4 s spread alike (docs/measurements/2026-11-27-short-turns). Longer ones are taken for as many
independent blocks; how far they average was not measured.
"""


class Noise(Value):
    """How far two servers' ratio spreads, and where that was seen."""

    start_log_sd: float
    pair_log_sd: float
    """Of turns whose slice is ``BLOCK_S`` or shorter."""
    run: str = ""
    """The run that found it; empty: two servers on a quiet 2-CPU guest with contended caches."""


CALM = Noise(start_log_sd=0.055, pair_log_sd=0.2)
"""tests/unit/measure/spread.json says what was measured."""


class Expected(Value):
    """The interval to expect of one comparison of QPS under one load."""

    trials: int
    half_width_percent: float | None
    """None: one trial gives no interval."""
    wall_s: float
    noise: Noise


def blocks(plan: Plan) -> float:
    """How many independent measurements a load's slices in a trial are worth."""
    return plan.rounds * in_blocks(plan.slice_s)


def in_blocks(slice_s: float) -> float:
    """How many independent measurements a slice is worth."""
    return max(1.0, slice_s / BLOCK_S)


def expect(plan: Plan, noise: Noise, *, trial_s: float, pilot_s: float) -> Expected:
    """What the plan's trials give, or those that ``plan.until`` takes and ``plan.budget_s`` leaves room for, or all of these.

    The rule is that of ``measure.until``, which has the first stage's own spread in place of ``noise``.
    """
    one_trial = math.hypot(noise.start_log_sd, noise.pair_log_sd / math.sqrt(blocks(plan)))
    trials = plan.trials
    if plan.budget_s is not None:
        trials = min(MOST_TRIALS, max(trials, int((plan.budget_s - pilot_s) / trial_s)))
    if (plan.first_stage or trials) < 2:
        return Expected(trials=trials, half_width_percent=None, wall_s=pilot_s + trials * trial_s, noise=noise)
    widest = float(stdtrit((plan.first_stage or trials) - 1, 1 - LEVEL / 2)) * one_trial
    if plan.until is not None:
        asked = max(plan.trials, math.ceil((widest / math.log1p(plan.until)) ** 2))
        trials = min(asked, MOST_TRIALS if plan.budget_s is None else trials)
    return Expected(
        trials=trials,
        half_width_percent=100 * math.expm1(widest / math.sqrt(trials)),
        wall_s=pilot_s + trials * trial_s,
        noise=noise,
    )
