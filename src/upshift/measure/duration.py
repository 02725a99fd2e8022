"""How long trials and the pilot last, before anything is measured."""

from __future__ import annotations

import math
from collections.abc import Sequence

from upshift.measure.model import Load, Plan
from upshift.measure.pilot import pilot_load_s, turns_within
from upshift.measure.schedule import warmup_loads
from upshift.measure.slice import load_s
from upshift.measure.turn import connect_s

_AFTER_LOAD_S = 2.0


def trial_s(plan: Plan, arms: int, loads: Sequence[Load]) -> float:
    """Seconds of a trial. Beside the turns: flushing after writes, and the drivers' ends; starts, warm-up and stops."""
    return math.fsum(load_s(plan, arms, each.connections) + _AFTER_LOAD_S for each in loads) + _servers_s(plan, arms, loads)


def pilot_s(plan: Plan, arms: int, loads: Sequence[Load]) -> float:
    """Seconds of the pilot that the budget leaves room for; 0 without one."""
    count = turns_within(plan, arms, loads)
    if not count:
        return 0.0
    turns_s = (pilot_load_s(plan, count, arms, each.connections) for each in warmup_loads(loads))
    return math.fsum(each + _AFTER_LOAD_S for each in turns_s) + _servers_s(plan, arms, loads)


def _servers_s(plan: Plan, arms: int, loads: Sequence[Load]) -> float:
    """All arms are warmed up at once, and their drivers connect on the same CPUs."""
    connecting_s = math.fsum(arms * connect_s(each.connections) for each in warmup_loads(loads)) if plan.warmup_s else 0.0
    return arms * 4 + plan.warmup_s + connecting_s + 2
