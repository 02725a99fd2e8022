"""Whether intervals and verdicts keep their promise on a machine that drifts, with the spread that real runs show.

The schedule, the trial values and the comparison are the real ones; only the machine is made up. Its spread comes from
``spread.json``, which ``upshift.study.variance.spread`` finds in a run's samples.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from fake_bench import arm, one_slice, plan
from scipy.signal import lfilter

from upshift.measure.model import Comparison, Load, Slice
from upshift.measure.schedule import turns
from upshift.measure.statistics import LEVEL, comparisons, geometric_mean
from upshift.study.variance import spread

SPREADS = json.loads((Path(__file__).parent / "spread.json").read_text())
EXPERIMENTS = 400
TRIALS = 6
MEMORY = 0.8
"""Correlation of the machine's noise from one slice to the next."""
BETWEEN_TRIALS = 5
"""Slices that would fit into the start and warm-up of a trial's servers."""
ARMS = (arm("plain"), arm("pgo"))
LOADS = tuple(Load(workload="reads", connections=number, held_out=False) for number in (1, 2, 4, 8, 16, 32, 64, 128))


def simulate(seed: int, ratio: float, loads: tuple[Load, ...], rounds: int = 1, machine: str = "calm") -> list[Slice]:
    """Throughput = true speed x random offset of the server's start x drift of the machine x autocorrelated noise.

    Drift: a slope of up to 10 % either way over the experiment and a slow wave of 5 %. Noise: AR(1), as deep as it takes for
    two neighbouring slices to differ as ``spread.json`` says of ``machine``. CPU time a query follows throughput.
    """
    chance = np.random.default_rng(seed)
    measured = plan(trials=TRIALS, rounds=rounds, seed=seed)
    order = [
        (trial, each.load.connections, turn // len(ARMS), arm.name)
        for trial in range(TRIALS)
        for each in turns(measured, trial, ARMS, loads)
        for turn, arm in enumerate(each.arms)
    ]
    moments = [number + BETWEEN_TRIALS * trial for number, (trial, *_turn) in enumerate(order)]
    at = np.array(moments) / moments[-1]
    drift = chance.uniform(-0.1, 0.1) * at + 0.05 * np.sin(2 * math.pi * (3 * at + chance.uniform()))
    lies_apart = SPREADS[machine]
    depth = lies_apart["pair_log_sd"] / math.sqrt(2 * (1 - MEMORY))
    noise = lfilter([1], [1, -MEMORY], chance.normal(0, depth * math.sqrt(1 - MEMORY**2), moments[-1] + 51))[50:]
    starts = chance.normal(0, lies_apart["start_log_sd"] / math.sqrt(2), (TRIALS, len(ARMS)))
    template = one_slice(latency_ms_p99=None)
    slices = []
    for (trial, connections, number, name), slow in zip(order, drift + noise[moments], strict=True):
        mine = name == "pgo"
        log = (math.log(ratio) if mine else 0.0) + starts[trial, int(mine)] + slow
        changes = {
            "trial": trial,
            "round": number,
            "arm": name,
            "connections": connections,
            "queries": round(1e6 * math.exp(log)),
        }
        slices.append(template.model_copy(update=changes))
    return slices


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
