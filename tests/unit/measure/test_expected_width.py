"""What half-width to expect before anything is measured."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from fake_bench import plan

from upshift.measure.duration import pilot_s
from upshift.measure.model import Load
from upshift.measure.noise import Noise, expect
from upshift.measure.pilot import pilot_load_s
from upshift.measure.schedule import loads_of
from upshift.measure.statistics import estimate, half_width

NOISE = Noise(start_log_sd=0.03, pair_log_sd=0.08)


@pytest.mark.parametrize("slice_s", [2.0, 0.5, 0.1])
def test_the_half_width_is_that_of_simulated_trials(slice_s: float) -> None:
    """The mean of many intervals' squared half-widths, of six trials with two slices each."""
    chance, asked = np.random.default_rng(1), plan(trials=6, rounds=2, slice_s=slice_s)
    starts = chance.normal(0, NOISE.start_log_sd, (4000, 6))
    # A slice of 2 s is worth four of half a second, and a shorter one as much as one of these.
    halves = max(1, round(slice_s / 0.5))
    turns = chance.normal(0, NOISE.pair_log_sd, (4000, 6, 2 * halves)).mean(axis=2)
    widths = [half_width(estimate(list(logs)), 0.95) for logs in starts + turns]
    found = expect(asked, NOISE, trial_s=10, pilot_s=0)
    assert (found.trials, found.wall_s) == (6, 60)
    assert found.half_width_percent is not None
    assert math.log1p(found.half_width_percent / 100) == pytest.approx(math.sqrt(np.mean(np.square(widths))), rel=0.02)


def test_until_takes_the_trials_that_it_needs_and_the_budget_leaves_room_for() -> None:
    free = expect(plan(trials=6, until=0.01), NOISE, trial_s=10, pilot_s=30)
    assert free.trials > 100 and free.wall_s == 30 + 10 * free.trials
    assert free.half_width_percent and 0.99 < free.half_width_percent <= 1
    held = expect(plan(trials=6, until=0.01, budget_s=230), NOISE, trial_s=10, pilot_s=30)
    assert (held.trials, held.wall_s) == (20, 230)
    assert held.half_width_percent and held.half_width_percent > 1
    # The first stage is measured in any case.
    assert expect(plan(trials=6, until=0.01, budget_s=20), NOISE, trial_s=10, pilot_s=30).trials == 6
    # One that is narrow enough is all.
    assert expect(plan(trials=6, until=0.5), NOISE, trial_s=10, pilot_s=0).trials == 6


def test_a_budget_alone_is_filled_and_all_trials_say_how_far_they_spread() -> None:
    alone = expect(plan(trials=6, budget_s=230), NOISE, trial_s=10, pilot_s=30)
    assert alone == expect(plan(trials=20), NOISE, trial_s=10, pilot_s=30)


def test_the_pilot_that_is_expected_is_the_one_that_the_budget_leaves_room_for() -> None:
    loads = loads_of(["a", "b", "c"], [], [8])
    assert pilot_s(plan(pilot_turns=12, budget_s=120.0), 2, loads) == 0
    without_turns_s = pilot_s(plan(pilot_turns=12), 2, loads) - turns_s(12, loads)
    assert 0 < pilot_s(plan(pilot_turns=12, budget_s=600.0), 2, loads) - without_turns_s <= 0.2 * 600


def turns_s(count: int, loads: Sequence[Load]) -> float:
    return sum(pilot_load_s(plan(), count, 2, each.connections) for each in loads)


def test_one_trial_gives_no_interval() -> None:
    assert expect(plan(trials=1), NOISE, trial_s=10, pilot_s=0).half_width_percent is None
