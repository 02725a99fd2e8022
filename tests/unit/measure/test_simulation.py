"""Whether intervals and verdicts keep their promise on a machine that drifts, with the spread that real runs show.

The schedule, the trial values and the comparison are the real ones; only the machine is made up (``simulated.py``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pytest
from scipy.special import stdtrit
from simulated_trials import LOADS, SPREADS, simulate

from upshift.measure.model import Comparison, Slice
from upshift.measure.statistics import LEVEL, comparisons, geometric_mean
from upshift.measure.variance import spread

EXPERIMENTS = 400


@pytest.mark.parametrize("machine", SPREADS)
def test_a_run_shows_the_spread_that_it_was_made_with(machine: str) -> None:
    """What ``spread.json`` says comes out of samples again, by the function that it was made with."""
    found = [spread(simulate(seed, 1.3, LOADS, rounds=4, machine=machine))["pair_log_sd"] for seed in range(20)]
    assert np.mean(found) == pytest.approx(SPREADS[machine]["pair_log_sd"], rel=0.2)


def holding(found: Iterable[Comparison], ratio: float) -> float:
    held = [each.ci_low <= ratio <= each.ci_high for each in found]
    return sum(held) / len(held)


def throughput(slices: list[Slice]) -> list[Comparison]:
    """Compared by throughput alone: as if nothing else had been measured."""
    without = {"total_cpu_s": 0.0, "user_cpu_s": 0.0, "system_cpu_s": 0.0}
    return list(comparisons([each.model_copy(update=without) for each in slices], "plain"))


def naive_holds(slices: list[Slice], ratio: float) -> bool:
    """Each slice taken for a replicate: the first of one arm against the first of the other, and so on."""
    logs = {name: np.log([each.queries for each in slices if each.arm == name]) for name in ("plain", "pgo")}
    interval = geometric_mean(logs["pgo"] - logs["plain"], 0.95)
    return interval.low <= ratio <= interval.high


@pytest.mark.parametrize("machine", SPREADS)
@pytest.mark.parametrize(("ratio", "rounds"), [(1.3, 1), (1.3, 4)])
def test_the_interval_of_a_single_comparison_covers_the_true_ratio_at_its_level(
    ratio: float, rounds: int, machine: str
) -> None:
    found = [each for seed in range(1500) for each in throughput(simulate(seed, ratio, LOADS[3:4], rounds, machine))]
    assert {each.confidence for each in found} == {0.95}
    assert 0.93 <= holding(found, ratio) <= 0.97


def test_slices_taken_for_replicates_would_not() -> None:
    slices = [simulate(seed, 1.3, LOADS[3:4], rounds=12) for seed in range(300)]
    assert sum(naive_holds(each, 1.3) for each in slices) / len(slices) < 0.93


@pytest.mark.parametrize("machine", SPREADS)
def test_a_report_without_a_difference_calls_one_no_more_often_than_the_level(machine: str) -> None:
    reports = [comparisons(simulate(seed, 1.0, LOADS, machine=machine), "plain") for seed in range(EXPERIMENTS)]
    called = [any(each.verdict in ("faster", "slower") for each in report) for report in reports]
    # Three standard errors of 400 experiments.
    assert sum(called) / EXPERIMENTS <= LEVEL + 0.033


@pytest.mark.parametrize("ratio", [1.15, 1.5, 1.9])
def test_intervals_of_a_whole_report_cover_at_least_at_the_level_and_none_is_called_the_wrong_way(ratio: float) -> None:
    found = [
        each
        for seed in range(EXPERIMENTS // 4)
        for each in comparisons(simulate(seed, ratio, LOADS), "plain")
        if each.metric == "qps"
    ]
    assert holding(found, ratio) >= 0.93
    assert sum(each.verdict == "slower" for each in found) / len(found) <= 0.002


def test_the_headline_covers_the_true_ratio_at_its_level() -> None:
    """It is the load with the most connections, whatever came out: the narrowest interval would select lucky spreads."""
    reports = [throughput(simulate(seed, 1.9, LOADS[:4])) for seed in range(EXPERIMENTS)]
    assert 0.93 <= holding((report[-1] for report in reports), 1.9) <= 0.98
    narrowest = [min(report, key=lambda each: each.ci_high / each.ci_low) for report in reports]
    assert holding(narrowest, 1.9) < 0.90


def test_a_spread_pooled_over_loads_that_share_the_luck_of_their_starts_would_not() -> None:
    """Five loads of six trials are not 26 trials of one. Were the luck each load's own, they would know as much."""
    trials, experiments = 6, 20_000
    chance, machine = np.random.default_rng(1), SPREADS["calm"]

    def pooled_cover(blocks: int, own_luck: bool) -> float:
        luck = chance.normal(0, machine["start_log_sd"], (experiments, trials, 5 if own_luck else 1))
        logs = luck + chance.normal(0, machine["pair_log_sd"] / math.sqrt(blocks), (experiments, trials, 5))
        error = np.sqrt(np.var(logs, axis=1, ddof=1).mean(axis=1) / trials)
        return float(np.mean(np.abs(logs[:, :, 0].mean(axis=1)) <= stdtrit(5 * (trials - 1), 0.975) * error))

    for blocks in (24, 96):
        assert 0.945 <= pooled_cover(blocks, own_luck=True) <= 0.955
        assert 0.915 <= pooled_cover(blocks, own_luck=False) < 0.94
