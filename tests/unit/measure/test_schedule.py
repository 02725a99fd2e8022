from __future__ import annotations

from collections import Counter

from fake_bench import READS, WRITES, arm, names, plan

from upshift.measure.model import Load
from upshift.measure.schedule import start_order, turns, warmup_loads

ARMS = [arm("plain"), arm("pgo"), arm("bolt")]
LOADS = [READS, WRITES]


def test_every_round_measures_every_arm_under_every_load_once() -> None:
    found = Counter((turn.round, turn.arm.name, turn.load) for turn in turns(plan(rounds=3), 0, ARMS, LOADS))
    assert set(found.values()) == {1}
    assert len(found) == 3 * len(ARMS) * len(LOADS)


def test_the_arms_of_a_load_follow_each_other_at_once() -> None:
    found = turns(plan(), 0, ARMS, LOADS)
    for start in range(0, len(found), len(ARMS)):
        block = found[start : start + len(ARMS)]
        assert len({(turn.round, turn.load, turn.load_seed) for turn in block}) == 1


def test_every_second_round_turns_the_order_around() -> None:
    found = turns(plan(rounds=4), 0, ARMS, [READS])
    orders = [names([turn.arm for turn in found if turn.round == number]) for number in range(4)]
    assert orders[1] == orders[0][::-1]
    assert orders[3] == orders[2][::-1]


def test_orders_are_random_over_trials_and_the_same_for_the_same_seed() -> None:
    first = Counter(turns(plan(), trial, ARMS, LOADS)[0].arm.name for trial in range(300))
    assert all(70 < first[each.name] < 130 for each in ARMS)
    assert turns(plan(), 5, ARMS, LOADS) == turns(plan(), 5, ARMS, LOADS)
    assert turns(plan(), 5, ARMS, LOADS) != turns(plan(seed=8), 5, ARMS, LOADS)


def test_servers_do_not_always_start_in_the_same_order() -> None:
    assert len({tuple(names(start_order(plan(), trial, ARMS))) for trial in range(40)}) == 6


def test_driver_seeds_are_never_zero_which_sysbench_takes_for_the_time() -> None:
    seeds = [turn.load_seed for trial in range(50) for turn in turns(plan(), trial, ARMS, LOADS)]
    assert min(seeds) >= 1
    assert max(seeds) < 2**31


def test_warm_up_takes_each_workload_once_at_its_most_threads() -> None:
    wide = Load(workload="reads", threads=64, held_out=False)
    assert warmup_loads([READS, wide, WRITES]) == (wide, WRITES)
