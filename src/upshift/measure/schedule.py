"""The order in which slices are measured: what makes the machine's drift hit all arms alike."""

from __future__ import annotations

import random
from collections.abc import Sequence

from upshift.measure.model import Load, Plan
from upshift.measure.variant import Variant
from upshift.values import Value

_LARGEST_SEED = 2**31 - 1


class Turn(Value):
    """One slice that is to be measured."""

    round: int
    arm: Variant
    load: Load
    load_seed: int
    """For the driver's own random numbers, 1 to 2^31 - 1: the same for all arms: they do the same work."""


def turns(plan: Plan, trial: int, arms: Sequence[Variant], loads: Sequence[Load]) -> tuple[Turn, ...]:
    """The slices of one trial in their order.

    A round takes the loads in random order, and for each load all arms one after the other. Each order of a load's arms
    is drawn for two rounds, and the second takes it in reverse, over trials as well: of any two arms, each goes first
    as often as the other, and a steady drift cancels out.
    It follows from the plan's seed and the trial alone, so a resumed experiment keeps to it.
    """
    chance = random.Random(f"{plan.seed}/{trial}")
    found: list[Turn] = []
    for number in range(plan.rounds):
        for load in chance.sample(list(loads), len(loads)):
            load_seed = chance.randint(1, _LARGEST_SEED)
            name = f"{load.workload}/{load.connections}/{load.held_out}"
            order = _turned(arms, f"{plan.seed}/{name}", trial * plan.rounds + number)
            found += [Turn(round=number, arm=arm, load=load, load_seed=load_seed) for arm in order]
    return tuple(found)


def start_order(plan: Plan, trial: int, arms: Sequence[Variant]) -> list[Variant]:
    """The order in which the servers of a trial are started and warmed up, turned around from one trial to the next."""
    return _turned(arms, f"{plan.seed}/start", trial)


def _turned(arms: Sequence[Variant], seed: str, number: int) -> list[Variant]:
    """The ``number``-th order: a random one for each even number, its reverse for the odd one that follows."""
    order = random.Random(f"{seed}/{number // 2}").sample(list(arms), len(arms))
    return order[::-1] if number % 2 else order


def warmup_loads(loads: Sequence[Load]) -> tuple[Load, ...]:
    """What a server is warmed up with: each workload once, at the most connections that it is measured at."""
    widest: dict[str, Load] = {}
    for load in loads:
        if load.workload not in widest or load.connections > widest[load.workload].connections:
            widest[load.workload] = load
    return tuple(widest.values())
