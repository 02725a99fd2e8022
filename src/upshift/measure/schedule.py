"""The order in which slices are measured, and on which CPUs: what makes the machine's drift hit all arms alike."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from itertools import chain

from upshift.measure.model import Load, Plan
from upshift.measure.variant import Variant
from upshift.values import Value

_LARGEST_SEED = 2**31 - 1


class Turns(Value):
    """How one load is measured in a trial."""

    load: Load
    load_seed: int
    """For the driver's own random numbers, 1 to 2^31 - 1: the same for all arms: they do the same work."""
    turns: tuple[tuple[Variant, ...], ...]
    """The arms that are loaded at the same time in each turn, with the CPUs that they have in it. Each arm once in the first
    round, then each once in the second, and so on."""


def turns(plan: Plan, trial: int, arms: Sequence[Variant], loads: Sequence[Load]) -> tuple[Turns, ...]:
    """The loads of one trial in random order, each with the turns of its arms.

    Each order of a load's arms is drawn for two rounds, and the second takes it in reverse (A B B A), over trials as well:
    of any two arms, each goes first as often as the other, and a steady drift cancels out. In a duet an order says who has
    which CPUs, so that the second round swaps them.
    It follows from the plan's seed and the trial alone, so a resumed experiment keeps to it.
    """
    chance = random.Random(f"{plan.seed}/{trial}")
    found: list[Turns] = []
    for load in chance.sample(list(loads), len(loads)):
        name = f"{plan.seed}/{load.workload}/{load.connections}/{load.held_out}"
        rounds = (_turned(arms, name, trial * plan.rounds + number) for number in range(plan.rounds))
        dealt = chain.from_iterable(seated(plan, order) for order in rounds)
        found.append(Turns(load=load, load_seed=chance.randint(1, _LARGEST_SEED), turns=tuple(dealt)))
    return tuple(found)


def seated(plan: Plan, order: Sequence[Variant]) -> tuple[tuple[Variant, ...], ...]:
    """The turns of a round: one for each arm, or in a duet one for both, the first of them on the first CPUs."""
    if plan.duet:
        return (tuple(arm.on(seat) for arm, seat in zip(order, plan.duet, strict=True)),)
    return tuple((arm,) for arm in order)


def start_order(plan: Plan, trial: int, arms: Sequence[Variant]) -> list[Variant]:
    """The order in which the servers of a trial are started and warmed up, turned around from one trial to the next."""
    return list(chain.from_iterable(seated(plan, _turned(arms, f"{plan.seed}/start", trial))))


def _turned(arms: Sequence[Variant], seed: str, number: int) -> list[Variant]:
    """The ``number``-th order: a random one for each even number, its reverse for the odd one that follows."""
    order = random.Random(f"{seed}/{number // 2}").sample(list(arms), len(arms))
    return order[::-1] if number % 2 else order


def loads_of(train_on: Iterable[str], hold_out: Iterable[str], connections: Sequence[int]) -> tuple[Load, ...]:
    """What each arm is loaded with: training workloads at each number of connections, held-out ones at the largest."""
    loads = [Load(workload=name, connections=n, held_out=False) for name in train_on for n in connections]
    loads += [Load(workload=name, connections=max(connections), held_out=True) for name in hold_out]
    return tuple(loads)


def warmup_loads(loads: Sequence[Load]) -> tuple[Load, ...]:
    """What a server is warmed up with: each workload once, at the most connections that it is measured at."""
    widest: dict[str, Load] = {}
    for load in loads:
        if load.workload not in widest or load.connections > widest[load.workload].connections:
            widest[load.workload] = load
    return tuple(widest.values())
