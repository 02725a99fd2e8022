"""Whether a duet finds what turns find, on a machine that drifts with the spread that real runs show.

The schedule, the trial values and the comparison are the real ones; only the machine is made up (``simulated_trials.py``).
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from simulated_trials import LOADS, SPREADS, TRIALS, simulate

from upshift.measure.model import Comparison, Slice
from upshift.measure.statistics import comparisons, trial_values
from upshift.measure.variance import spread

ONE_LOAD = LOADS[3:4]
RATIO = 1.3
EXPERIMENTS = 400


def throughput(slices: list[Slice]) -> Comparison:
    """By throughput alone: as if nothing else had been measured."""
    without = {"total_cpu_s": 0.0, "user_cpu_s": 0.0, "system_cpu_s": 0.0}
    (found,) = comparisons([each.model_copy(update=without) for each in slices], "plain")
    return found


def measured(count: int, machine: str, **changes: object) -> list[Comparison]:
    return [throughput(simulate(seed, RATIO, ONE_LOAD, 2, machine, **changes)) for seed in range(count)]  # type: ignore[arg-type]


def half_width(found: list[Comparison]) -> float:
    return float(np.median([math.log(each.ci_high / each.ci_low) / 2 for each in found]))


def logs(found: list[Comparison]) -> np.ndarray:
    return np.log([each.ratio for each in found])


@pytest.mark.parametrize("machine", SPREADS)
def test_a_duet_agrees_with_turns(machine: str) -> None:
    in_turns, duets = measured(EXPERIMENTS, machine), measured(EXPERIMENTS, machine, duet=True, own_log_sd=0.05)
    differences = logs(duets) - logs(in_turns)
    assert abs(np.mean(differences)) < 3 * np.std(differences, ddof=1) / math.sqrt(EXPERIMENTS)
    assert np.mean(logs(duets)) == pytest.approx(math.log(RATIO), abs=3 * np.std(logs(duets)) / math.sqrt(EXPERIMENTS))


@pytest.mark.parametrize("machine", SPREADS)
def test_noise_that_meets_both_at_once_cancels(machine: str) -> None:
    """What is left is the luck of the starts, which no way to load servers takes away."""
    duet = spread(simulate(1, RATIO, LOADS, rounds=4, machine=machine, duet=True))
    in_turns = spread(simulate(1, RATIO, LOADS, rounds=4, machine=machine))
    assert in_turns["pair_log_sd"] > 0.1 and duet["pair_log_sd"] < 0.001
    starts_alone = 2.57 * SPREADS[machine]["start_log_sd"] / math.sqrt(TRIALS)
    widths = half_width(measured(100, machine, duet=True)), half_width(measured(100, machine))
    assert widths[0] == pytest.approx(starts_alone, rel=0.25)
    assert widths[0] < 0.6 * widths[1]


def test_noise_that_does_not_does_not() -> None:
    own = SPREADS["calm"]["pair_log_sd"] / math.sqrt(2)
    widths = half_width(measured(100, "calm", duet=True, own_log_sd=own)), half_width(measured(100, "calm"))
    assert widths[0] > 0.8 * widths[1]


@pytest.mark.parametrize("machine", SPREADS)
def test_the_interval_of_a_duet_covers_the_true_ratio_at_its_level(machine: str) -> None:
    found = measured(1500, machine, duet=True, slower_seat=0.8, own_log_sd=0.05)
    assert {each.confidence for each in found} == {0.95}
    assert 0.93 <= sum(each.ci_low <= RATIO <= each.ci_high for each in found) / len(found) <= 0.97


def test_cpus_that_are_slower_change_neither_ratio_nor_width() -> None:
    even, slower = (measured(100, "calm", duet=True, slower_seat=share) for share in (1.0, 0.7))
    assert [each.ratio for each in slower] == pytest.approx([each.ratio for each in even], rel=1e-4)
    assert half_width(slower) == pytest.approx(half_width(even), rel=1e-3)


def test_without_a_swap_they_would() -> None:
    """A server that always has the slower CPUs is slower; one that swaps from trial to trial has wide intervals."""
    slices = simulate(1, RATIO, LOADS, rounds=4, duet=True, slower_seat=0.7)
    kept = [each for each in slices if (each.arm == "pgo") == (each.seat == 1)]
    assert throughput([each for each in kept if each.connections == 8]).ratio < 1.1 < RATIO
    once = [throughput(simulate(seed, RATIO, ONE_LOAD, 1, duet=True, slower_seat=0.7)) for seed in range(100)]
    assert half_width(once) > 4 * half_width(measured(100, "calm", duet=True, slower_seat=0.7))


def test_the_ratio_of_a_trial_is_the_mean_of_ratios_of_slices_of_the_same_time() -> None:
    slices = simulate(1, RATIO, ONE_LOAD, rounds=4, duet=True, own_log_sd=0.3)
    values = trial_values(slices)
    for trial in range(TRIALS):
        of = {(each.arm, each.round): math.log(each.queries / each.wall_s) for each in slices if each.trial == trial}
        pairs = [of["pgo", number] - of["plain", number] for number in range(4)]
        plain, pgo = (values[name, ONE_LOAD[0]]["qps"][trial] for name in ("plain", "pgo"))
        assert math.log(pgo / plain) == pytest.approx(np.mean(pairs))
