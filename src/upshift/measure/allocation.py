"""How to divide the time between server starts and turns in each of them.

A trial's value spreads by the luck of its start, which no further turn changes, and by its turns, which average out. A start
costs time, and so does a turn. Where starts are dear and turns spread more than starts do, more turns of fewer starts give the
narrower interval in the same time (Cochran, "Sampling Techniques", 3rd edition, section 10.6: subsampling with a cost for each
stage). The number of turns is chosen before anything is measured: all trials then spread alike, as Stein's two stages need.
"""

from __future__ import annotations

from collections.abc import Sequence

from upshift.measure.duration import pilot_s, trial_s
from upshift.measure.model import Load, Plan
from upshift.measure.noise import CALM, Noise, expect

ROUNDS = 2
"""Where the number of trials is given, too: each order of turns and its reverse."""
_MOST_ROUNDS = 16
"""With more, little is left to gain, and a trial that the machine disturbs costs much."""


def rounds_within(plan: Plan, arms: int, loads: Sequence[Load], noise: Noise = CALM) -> int:
    """The even number of turns that narrows the interval of ``plan.until`` most within ``plan.budget_s``, or reaches it first.

    No number above ``ROUNDS`` makes the first stage's trials outlast the budget. ``noise`` is of a quiet machine; on a
    noisier one turns spread even more than starts do.
    """

    def rank(rounds: int) -> tuple[float, float]:
        planned = plan.model_copy(update={"rounds": rounds})
        found = expect(planned, noise, trial_s=trial_s(planned, arms, loads), pilot_s=pilot_s(planned, arms, loads))
        late = rounds > ROUNDS and plan.budget_s is not None and found.wall_s > plan.budget_s
        half_width = found.half_width_percent
        if plan.until is None or half_width is None or late:
            return float("inf"), float(rounds)
        return max(half_width, 100 * plan.until), found.wall_s

    return min(range(ROUNDS, _MOST_ROUNDS + 1, 2), key=rank)
