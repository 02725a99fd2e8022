"""How many turns a trial has where the time is given, or the width."""

from __future__ import annotations

import numpy as np
from fake_bench import plan

from upshift.measure.allocation import ROUNDS, SHORT_SLICE_S, divided
from upshift.measure.duration import pilot_s, trial_s
from upshift.measure.model import Plan
from upshift.measure.noise import CALM, Expected, Noise, expect
from upshift.measure.schedule import loads_of

ONE = loads_of(["a"], [], [8])
MANY = loads_of(["a", "b", "c"], ["d", "e"], [1, 8])


def planned(**more: float) -> Plan:
    given = {"trials": 12, "slice_s": 0.4, "lead_s": 0.3, "warmup_s": 4.0, "pilot_turns": 12, "until": 0.005, "budget_s": 600.0}
    return plan(**{**given, **more})


def expected(made: Plan, noise: Noise = CALM) -> Expected:
    return expect(made, noise, trial_s=trial_s(made, 2, ONE), pilot_s=pilot_s(made, 2, ONE))


def simulated_error(rounds: int, trials: int) -> float:
    """The standard deviation of the mean of so many trials' logarithms."""
    chance = np.random.default_rng(1)
    starts = chance.normal(0, CALM.start_log_sd, (4000, trials))
    turns = chance.normal(0, CALM.pair_log_sd, (4000, trials, rounds)).mean(axis=2)
    return float((starts + turns).mean(axis=1).std())


def test_more_and_shorter_turns_in_fewer_trials_narrow_the_interval_in_the_same_time() -> None:
    usual = planned(rounds=ROUNDS)
    made = divided(usual, 2, ONE, shorten=True)
    few, many = expected(usual), expected(made)
    assert made.rounds > ROUNDS and made.rounds % 2 == 0 and made.slice_s == SHORT_SLICE_S
    assert many.trials < few.trials and max(few.wall_s, many.wall_s) <= 600
    assert simulated_error(made.rounds, many.trials) < 0.65 * simulated_error(ROUNDS, few.trials)


def test_a_slice_that_was_asked_for_keeps_its_length() -> None:
    made = divided(planned(), 2, ONE, shorten=False)
    assert made.slice_s == 0.4 and made.rounds > ROUNDS


def test_a_slice_that_is_short_already_keeps_its_length() -> None:
    assert divided(planned(slice_s=0.05), 2, ONE, shorten=True).slice_s == 0.05


def test_the_width_that_was_asked_for_is_reached_sooner() -> None:
    usual = planned(until=0.02, rounds=ROUNDS).model_copy(update={"budget_s": None})
    few, many = expected(usual), expected(divided(usual, 2, ONE, shorten=True))
    assert few.half_width_percent is not None and many.half_width_percent is not None
    assert max(few.half_width_percent, many.half_width_percent) <= 2
    assert many.wall_s < 0.5 * few.wall_s


def test_a_first_stage_that_fills_the_budget_has_the_usual_turns() -> None:
    asked = planned(budget_s=300.0)
    assert divided(asked, 2, MANY, shorten=True) == asked.model_copy(update={"rounds": ROUNDS})


def test_where_starts_make_all_of_the_noise_more_turns_bring_nothing() -> None:
    found = divided(planned(), 2, ONE, Noise(start_log_sd=0.05, pair_log_sd=0.0), shorten=True)
    assert (found.rounds, found.slice_s) == (ROUNDS, 0.4)


def test_more_turns_pay_less_where_many_loads_share_a_start() -> None:
    asked = planned(budget_s=7200.0)
    of_many, of_one = (divided(asked, 2, loads, shorten=True).rounds for loads in (MANY, ONE))
    assert ROUNDS < of_many < of_one
