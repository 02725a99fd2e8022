"""The typical CPU time a query: that of the median turn."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from fake_bench import READS, one_slice

from upshift.measure.model import Comparison, Slice
from upshift.measure.statistics import comparisons, trial_values

TYPICAL, MEAN = "typical_cpu_us_per_query", "total_cpu_us_per_query"
QUERIES = 10_000


def slices(us: Mapping[str, np.ndarray]) -> list[Slice]:
    """Turns with these CPU times a query in µs, by arm: a row a trial, a column a round."""
    return [
        one_slice(trial=trial, arm=arm, round=round, queries=QUERIES, total_cpu_s=float(each) * QUERIES / 1e6)
        for arm, trials in us.items()
        for trial, turns in enumerate(trials)
        for round, each in enumerate(turns)
    ]


def found(us: Mapping[str, np.ndarray], metric: str = TYPICAL, arm: str = "new") -> Comparison:
    return next(each for each in comparisons(slices(us), "old") if (each.metric, each.arm) == (metric, arm))


def bursts(chance: np.random.Generator, often: float) -> np.ndarray:
    """A machine whose turns spread by 3 %, and whose neighbours slow some of them down."""
    shape = (12, 15)
    return np.exp(chance.normal(0, 0.03, shape)) * np.where(chance.random(shape) < often, 1.45, 1.0)


def test_bursts_of_the_machine_widen_the_mean_and_not_the_typical_time() -> None:
    chance = np.random.default_rng(1)
    widths: dict[str, list[float]] = {TYPICAL: [], MEAN: []}
    held = 0
    for _ in range(150):
        us = {"old": 20 * bursts(chance, 0.15), "new": 20.4 * bursts(chance, 0.15)}
        for metric, of in widths.items():
            each = found(us, metric)
            of.append(np.log(each.ci_high / each.ci_low))
        typical = found(us)
        held += typical.ci_low < 1.02 < typical.ci_high
    assert np.median(widths[TYPICAL]) < 0.5 * np.median(widths[MEAN])
    # Of at least 95 %: intervals are wider where nothing is called.
    assert held > 0.92 * 150


def test_bursts_of_the_server_itself_are_in_the_mean_alone() -> None:
    chance = np.random.default_rng(2)
    us = {"old": 20 * bursts(chance, 0.0), "new": 20 * bursts(chance, 0.15)}
    assert found(us, MEAN).verdict == "slower" and found(us, MEAN).ratio > 1.05
    assert found(us).ratio == pytest.approx(1.0, abs=0.02)


def test_the_ratio_of_two_is_the_median_of_their_rounds_ratios() -> None:
    """What slows both servers of a round is none of either."""
    old = np.array([[10.0, 20.0, 40.0, 10.0, 10.0]] * 2)
    us = {"old": old, "new": old * np.array([1.1, 1.1, 1.1, 3.0, 0.5])}
    assert found(us).ratio == pytest.approx(1.1)


def test_each_of_several_servers_is_beside_the_mean_of_its_round() -> None:
    machine = bursts(np.random.default_rng(3), 0.5)
    us = {"old": 10 * machine, "new": 8 * machine, "other": 12 * machine}
    assert [found(us, arm=arm).ratio for arm in ("new", "other")] == pytest.approx([0.8, 1.2])


@pytest.mark.parametrize("changes", [{"round": 0}, {"queries": 0}, {"total_cpu_s": 0.0}])
def test_two_turns_and_turns_without_a_figure_have_no_typical_time(changes: dict[str, int]) -> None:
    made = slices({"old": np.full((1, 3), 20.0), "new": np.full((1, 3), 20.0)})
    assert TYPICAL in trial_values(made)["old", READS]
    made[-1] = made[-1].model_copy(update=changes)
    assert TYPICAL not in trial_values(made)["old", READS]
