"""How to divide the time between server starts and turns in each of them.

A trial's value spreads by the luck of its start, which no further turn changes, and by its turns, which average out. A start
costs time, and so does a turn. Where starts are dear and turns spread more than starts do, more turns of fewer starts give the
narrower interval in the same time (Cochran, "Sampling Techniques", 3rd edition, section 10.6: subsampling with a cost for each
stage). Short slices spread no more than long ones (``noise``), so that many short ones are better than few long ones. Both are
chosen before anything is measured: all trials then spread alike, as Stein's two stages need.
"""

from __future__ import annotations

from collections.abc import Sequence

from upshift.measure.duration import pilot_s, trial_s
from upshift.measure.model import Load, Plan
from upshift.measure.noise import CALM, Noise, expect

ROUNDS = 2
"""Where the number of trials is given, too: each order of turns and its reverse."""
SHORT_SLICE_S = 0.1
"""Counters are read three times in a turn, which takes some milliseconds: shorter slices save little time."""
_MOST_ROUNDS = 64
"""With more, little is left to gain, and a trial that the machine disturbs costs much."""


def divided(plan: Plan, arms: int, loads: Sequence[Load], noise: Noise = CALM, *, shorten: bool) -> Plan:
    """The plan with the turns that narrow the interval most within ``plan.budget_s``, or reach that of ``plan.until`` first.

    Their number is even. With ``shorten``, slices become short where there are more turns than ``ROUNDS``. No number above
    ``ROUNDS`` makes the first stage's trials outlast the budget. ``noise`` is of a quiet machine; on a noisier one turns
    spread even more than starts do.
    """
    slice_s = min(plan.slice_s, SHORT_SLICE_S) if shorten else plan.slice_s
    more = (plan.model_copy(update={"rounds": rounds, "slice_s": slice_s}) for rounds in range(ROUNDS + 2, _MOST_ROUNDS + 1, 2))

    def rank(planned: Plan) -> tuple[float, float]:
        found = expect(planned, noise, trial_s=trial_s(planned, arms, loads), pilot_s=pilot_s(planned, arms, loads))
        late = planned.rounds > ROUNDS and plan.budget_s is not None and found.wall_s > plan.budget_s
        half_width = found.half_width_percent
        if half_width is None or late:
            return float("inf"), float(planned.rounds)
        return max(half_width, 100 * (plan.until or 0.0)), found.wall_s

    return min((plan.model_copy(update={"rounds": ROUNDS}), *more), key=rank)
