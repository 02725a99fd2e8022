"""Whether the intervals keep their promise on a machine that drifts, with noise that remembers.

The schedule, the trial values and the comparison are the real ones; only the machine is made up.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from fake_bench import READS, arm, one_slice, plan
from scipy.signal import lfilter

from upshift.measure.model import Comparison, Slice
from upshift.measure.schedule import turns
from upshift.measure.statistics import compare, geometric_mean, trial_values

EXPERIMENTS = 1000
ARMS = (arm("plain"), arm("pgo"))


def simulate(seed: int, ratio: float) -> list[Slice]:
    """Throughput = true speed x luck of the server's start x drift of the machine x noise that remembers.

    Drift: a slope of up to 10 % either way over the experiment and a slow wave of 5 %. Noise: AR(1)
    with 0.8 from slice to slice, 3 % deep. Luck of each start: 1 %.
    """
    chance = np.random.default_rng(seed)
    measured = plan(trials=5, rounds=4, seed=seed)
    order = [(trial, turn) for trial in range(measured.trials) for turn in turns(measured, trial, ARMS, [READS])]
    at = np.linspace(0, 1, len(order))
    drift = chance.uniform(-0.1, 0.1) * at + 0.05 * np.sin(2 * math.pi * (3 * at + chance.uniform()))
    noise = lfilter([1], [1, -0.8], chance.normal(0, 0.03 * math.sqrt(1 - 0.8**2), len(order) + 50))[50:]
    luck = chance.normal(0, 0.01, (measured.trials, len(ARMS)))
    slices = []
    for (trial, turn), slow in zip(order, drift + noise, strict=True):
        mine = turn.arm.name == "pgo"
        log = (math.log(ratio) if mine else 0.0) + luck[trial, int(mine)] + slow
        queries = round(1e6 * math.exp(log))
        slices.append(one_slice(trial=trial, round=turn.round, arm=turn.arm.name, queries=queries))
    return slices


def compared(slices: list[Slice]) -> Comparison:
    values = trial_values(slices)
    return compare(
        READS,
        "qps",
        arm="pgo",
        baseline="plain",
        by_trial=values["pgo", READS]["qps"],
        base=values["plain", READS]["qps"],
    )


def naive_holds(slices: list[Slice], ratio: float) -> bool:
    """Each slice taken for a replicate: the first of one arm against the first of the other, and so on."""
    logs = {name: np.log([each.queries for each in slices if each.arm == name]) for name in ("plain", "pgo")}
    interval = geometric_mean(logs["pgo"] - logs["plain"])
    return interval.low <= ratio <= interval.high


@pytest.fixture(scope="module")
def with_a_gain() -> list[list[Slice]]:
    return [simulate(seed, 1.05) for seed in range(EXPERIMENTS)]


def test_95_of_100_intervals_hold_the_truth(with_a_gain: list[list[Slice]]) -> None:
    found = [compared(slices) for slices in with_a_gain]
    held = sum(each.ci_low <= 1.05 <= each.ci_high for each in found) / EXPERIMENTS
    assert 0.93 <= held <= 0.97
    assert sum(each.verdict == "slower" for each in found) == 0


def test_slices_taken_for_replicates_would_not_hold_it(with_a_gain: list[list[Slice]]) -> None:
    assert sum(naive_holds(slices, 1.05) for slices in with_a_gain) / EXPERIMENTS < 0.93


def test_a_server_against_itself_is_hardly_ever_different() -> None:
    found = [compared(simulate(seed, 1.0)) for seed in range(EXPERIMENTS, 2 * EXPERIMENTS)]
    wrong = sum(each.verdict in {"faster", "slower"} for each in found) / EXPERIMENTS
    assert wrong <= 0.02
    assert sum(each.verdict == "equivalent" for each in found) > 0
