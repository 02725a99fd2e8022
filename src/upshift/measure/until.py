"""How many trials an interval of a certain width takes, by Stein's two stages (see ``statistics``)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from upshift.errors import UsageError
from upshift.limits import MOST_TRIALS
from upshift.measure.model import Comparison, Load, Plan, Reached, Slice
from upshift.measure.statistics import LEVEL, UNBOUNDED_HIGH, half_width, pairs

_LEAST_FIRST_STAGE = 2


def refuse_short_first_stage(until: float | None, trials: int) -> None:
    """Raises UsageError where the first stage cannot say how far trials spread."""
    if until is not None and trials < _LEAST_FIRST_STAGE:
        raise UsageError("--until needs at least two trials, to estimate their spread", "raise --trials")


def trials_asked(slices: Sequence[Slice], plan: Plan, baseline: str, pilot_s: float = 0.0) -> tuple[int, float]:
    """How many trials there must be in all, and the half-width to expect of them, as a share; from the first stage's slices.

    The widest interval counts of those that the headline may speak of: QPS against ``baseline`` at
    ``plan.headline_connections``, under the loads that were trained on. ``plan.budget_s`` limits the trials: it is the
    first stage's time that tells how many fit, beside the ``pilot_s`` that the pilot took. Without a width to reach, as many
    are measured as fit: how far they spread says nothing of their number, and all of them say how far they spread.
    """
    first = [each for each in slices if each.trial < plan.trials]
    fit = MOST_TRIALS
    if plan.budget_s is not None and first:
        a_trial_s = max(each.started_s + each.wall_s for each in first) / plan.trials
        fit = min(MOST_TRIALS, max(plan.trials, int((plan.budget_s - pilot_s) / a_trial_s)))
    if plan.until is None:
        return plan.trials if plan.budget_s is None else fit, UNBOUNDED_HIGH
    counted = [
        each
        for each in pairs(first, [baseline])
        if _counts(plan, each.load.held_out, each.load.connections, each.metric) and math.isfinite(each.mean.error)
    ]
    if not counted:
        return plan.trials, UNBOUNDED_HIGH
    # Of a single trial, were the spread known as well as from the first stage; a trial may lack the figure.
    widest = max(half_width(each.mean, 1 - LEVEL) * math.sqrt(len(each.logs)) for each in counted)
    asked = min(fit, max(plan.trials, math.ceil((widest / math.log1p(plan.until)) ** 2)))
    return asked, math.expm1(widest / math.sqrt(asked))


def reached(
    found: Sequence[Comparison],
    plan: Plan,
    baseline: str,
    trials: int,
    expected: float,
    measured: Iterable[tuple[str, Load]] = (),
) -> Reached | None:
    """How wide the widest of these intervals became, one without bounds before all; None when no width was asked for.

    An arm and load that were ``measured`` and are not compared have no bounds.
    """
    if plan.until is None:
        return None
    compared = {(each.arm, each.workload) for each in found if _is_counted(each, plan, baseline)}
    widths = [
        UNBOUNDED_HIGH
        for arm, load in measured
        if arm != baseline and _counts(plan, load.held_out, load.connections, "qps") and (arm, load.workload) not in compared
    ]
    widths += [
        math.sqrt(each.ci_high / each.ci_low) - 1 if each.ci_low > 0 and each.ci_high < UNBOUNDED_HIGH else UNBOUNDED_HIGH
        for each in found
        if _is_counted(each, plan, baseline)
    ]
    return Reached(
        asked=plan.until,
        expected=expected,
        reached=max(widths, default=UNBOUNDED_HIGH),
        first_stage=plan.trials,
        trials=trials,
    )


def _is_counted(each: Comparison, plan: Plan, baseline: str) -> bool:
    return each.baseline == baseline and _counts(plan, each.held_out, each.connections, each.metric)


def _counts(plan: Plan, held_out: bool, connections: int, metric: str) -> bool:
    return metric == "qps" and not held_out and connections == plan.headline_connections
