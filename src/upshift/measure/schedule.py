"""The order in which slices are measured: what makes the machine's drift hit all arms alike."""

from __future__ import annotations

import random
from collections.abc import Sequence

from upshift.measure.model import Arm, Load, Plan
from upshift.values import Value

_LARGEST_SEED = 2**31 - 1


class Turn(Value):
    """One slice that is to be measured."""

    round: int
    arm: Arm
    load: Load
    load_seed: int
    """For the driver's own random numbers, 1 to 2^31 - 1: the same for all arms: they do the same work."""


def turns(plan: Plan, trial: int, arms: Sequence[Arm], loads: Sequence[Load]) -> tuple[Turn, ...]:
    """The slices of one trial in their order.

    A round takes the loads in random order, and for each load all arms one after the other, in random order.
    Every second round takes the arms of a load in reverse: a steady drift then cancels out.
    It follows from the plan's seed and the trial alone, so a resumed experiment keeps to it.
    """
    chance = random.Random(f"{plan.seed}/{trial}")
    orders: dict[Load, list[Arm]] = {}
    found: list[Turn] = []
    for number in range(plan.rounds):
        for load in chance.sample(list(loads), len(loads)):
            reverse = number % 2 == 1
            orders[load] = orders[load][::-1] if reverse else chance.sample(list(arms), len(arms))
            load_seed = chance.randint(1, _LARGEST_SEED)
            found += [Turn(round=number, arm=arm, load=load, load_seed=load_seed) for arm in orders[load]]
    return tuple(found)


def start_order(plan: Plan, trial: int, arms: Sequence[Arm]) -> list[Arm]:
    """The order in which the servers of a trial are started and warmed up: another one each trial."""
    return random.Random(f"{plan.seed}/{trial}/start").sample(list(arms), len(arms))


def warmup_loads(loads: Sequence[Load]) -> tuple[Load, ...]:
    """What a server is warmed up with: each workload once, at the most threads that it is measured at."""
    widest: dict[str, Load] = {}
    for load in loads:
        if load.workload not in widest or load.threads > widest[load.workload].threads:
            widest[load.workload] = load
    return tuple(widest.values())
