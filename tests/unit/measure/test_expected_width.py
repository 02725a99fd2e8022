"""What half-width to expect before anything is measured."""

from __future__ import annotations

import math

import numpy as np
import pytest
from fake_bench import plan

from upshift.measure.noise import Noise, expect
from upshift.measure.statistics import estimate, half_width

NOISE = Noise(start_log_sd=0.03, pair_log_sd=0.08)


def test_the_half_width_is_that_of_simulated_trials() -> None:
    """The mean of many intervals' squared half-widths, of six trials with two blocks each."""
    chance, asked = np.random.default_rng(1), plan(trials=6, rounds=2, slice_s=0.5)
    starts = chance.normal(0, NOISE.start_log_sd, (4000, 6))
    turns = chance.normal(0, NOISE.pair_log_sd, (4000, 6, 2)).mean(axis=2)
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


def test_one_trial_gives_no_interval() -> None:
    assert expect(plan(trials=1), NOISE, trial_s=10, pilot_s=0).half_width_percent is None
