from __future__ import annotations

import itertools
from collections import Counter

import pytest
from fake_bench import READS, WRITES, arm, names, plan

from upshift.measure.model import Load
from upshift.measure.schedule import start_order, turns, warmup_loads
from upshift.measure.variant import Variant

ARMS = [arm("plain"), arm("pgo"), arm("bolt")]
LOADS = [READS, WRITES]


def alone(dealt: tuple[tuple[Variant, ...], ...]) -> list[Variant]:
    """The arms of turns that each are one arm's."""
    assert {len(working) for working in dealt} == {1}
    return [working[0] for working in dealt]


def test_every_round_measures_every_arm_under_every_load_once() -> None:
    found = turns(plan(rounds=3), 0, ARMS, LOADS)
    assert sorted(each.load.workload for each in found) == ["reads", "writes"]
    for each in found:
        rounds = [alone(each.turns[start : start + len(ARMS)]) for start in range(0, len(each.turns), len(ARMS))]
        assert [sorted(names(order)) for order in rounds] == [["bolt", "pgo", "plain"]] * 3


def test_two_rounds_go_there_and_back() -> None:
    for trial in range(20):
        for each in turns(plan(rounds=2), trial, ARMS, LOADS):
            assert each.turns == each.turns[::-1]


def arm_orders(trials: int, rounds: int, load: Load) -> list[list[str]]:
    """The arms of ``load`` in their order, for each round of each trial."""
    found = [each for trial in range(trials) for each in turns(plan(rounds=rounds), trial, ARMS, LOADS) if each.load == load]
    return [
        names(alone(each.turns[number * len(ARMS) : (number + 1) * len(ARMS)])) for each in found for number in range(rounds)
    ]


@pytest.mark.parametrize(("trials", "rounds"), [(6, 1), (3, 2), (2, 4)])
@pytest.mark.parametrize("load", LOADS)
def test_of_two_arms_each_goes_first_as_often_as_the_other(trials: int, rounds: int, load: Load) -> None:
    orders = arm_orders(trials, rounds, load)
    for one, other in itertools.combinations(names(ARMS), 2):
        assert sum(order.index(one) < order.index(other) for order in orders) * 2 == len(orders)
    assert all(late == early[::-1] for early, late in zip(orders[::2], orders[1::2], strict=True))


def test_loads_turn_apart() -> None:
    assert any(arm_orders(40, 1, READS)[at] != arm_orders(40, 1, WRITES)[at] for at in range(0, 40, 2))


def test_orders_are_random_over_trials_and_the_same_for_the_same_seed() -> None:
    first = Counter(turns(plan(), trial, ARMS, LOADS)[0].turns[0][0].name for trial in range(300))
    assert all(70 < first[each.name] < 130 for each in ARMS)
    assert turns(plan(), 5, ARMS, LOADS) == turns(plan(), 5, ARMS, LOADS)
    assert turns(plan(), 5, ARMS, LOADS) != turns(plan(seed=8), 5, ARMS, LOADS)


def test_servers_do_not_always_start_in_the_same_order() -> None:
    assert len({tuple(names(start_order(plan(), trial, ARMS))) for trial in range(40)}) == 6


def test_driver_seeds_are_never_zero_which_sysbench_takes_for_the_time() -> None:
    seeds = [each.load_seed for trial in range(50) for each in turns(plan(), trial, ARMS, LOADS)]
    assert min(seeds) >= 1
    assert max(seeds) < 2**31


def test_warm_up_takes_each_workload_once_at_its_most_threads() -> None:
    wide = Load(workload="reads", connections=64, held_out=False)
    assert warmup_loads([READS, wide, WRITES]) == (wide, WRITES)
