"""Figures and verdicts in words."""

from __future__ import annotations

import pytest
from example import comparison, example

from upshift.measure.model import Plan
from upshift.report import words
from upshift.report.charts import Axis
from upshift.report.findings import Findings, best_measured


def test_a_win() -> None:
    assert words.sentence(comparison(), name_arm=False) == ("oltp_read_write is 1.34 times faster (95 % interval 1.31 to 1.38)")


def test_a_loss_never_says_faster() -> None:
    said = words.sentence(comparison(ratio=0.94, ci_low=0.92, ci_high=0.96, verdict="slower"), name_arm=True)
    assert said == "oltp_read_write on optimised is slower: 0.94 times the throughput (95 % interval 0.92 to 0.96)"


def test_a_loss_in_latency_names_it() -> None:
    each = comparison(metric="latency_ms_p99", ratio=1.2, ci_low=1.1, ci_high=1.3, verdict="slower", threads=1)
    assert words.loss_sentence(each, name_arm=False) == (
        "oltp_read_write takes 1.20 times the p99 latency (95 % interval 1.10 to 1.30) at 1 thread"
    )


def test_narrow_intervals_get_a_third_decimal() -> None:
    assert words.interval(comparison(ratio=1.001, ci_low=0.9972, ci_high=1.0048)) == "0.997 to 1.005"


def test_a_limit_that_rounds_to_one_shows_on_which_side_it_is() -> None:
    each = comparison(ratio=0.97, ci_low=0.9454, ci_high=0.9971, metric="user_cpu_us_per_query")
    assert words.interval(each) == "0.945 to 0.997"


def test_limits_that_know_nothing() -> None:
    each = comparison(ci_low=0.0, ci_high=1e9, trials=1, verdict="inconclusive", trials_needed=5)
    assert words.interval(each) == "0 to ∞"
    assert "95 %" not in words.sentence(each, name_arm=False)
    assert words.still_needed(each) == "about 5 trials would settle it"


def test_two_trials_far_apart_have_huge_limits_that_still_read() -> None:
    assert words.interval(comparison(ci_low=2e-5, ci_high=53_211.7)) == "0 to 53,212"


def test_more_trials_than_anyone_does() -> None:
    each = comparison(verdict="inconclusive", trials_needed=1000)
    assert words.still_needed(each) == "more trials than are practical would be needed"


@pytest.mark.parametrize(("seconds", "said"), [(2.44, "2.4 s"), (59.6, "60 s"), (61, "1 min 01 s"), (4260, "1 h 11 min")])
def test_durations(seconds: float, said: str) -> None:
    assert words.duration(seconds) == said


def test_cpus_in_ranges() -> None:
    assert words.cpus((0, 1, 2, 6)) == "CPUs 0–2, 6"
    assert words.cpus((3,)) == "CPU 3"
    assert words.cpus(()) == "any CPU"


def test_shared_cpus_are_admitted() -> None:
    plan = Plan(trials=6, rounds=1, slice_s=2.5, warmup_s=10, seed=1, server_cpus=(0,), client_cpus=(0,))
    assert any("share CPUs" in line for line in words.how_measured(plan, 2))
    apart = plan.model_copy(update={"client_cpus": (1,)})
    assert not any("share CPUs" in line for line in words.how_measured(apart, 2))


def test_the_headline_is_chosen_by_its_interval_not_by_its_ratio() -> None:
    wide = comparison(ratio=2.0, ci_low=1.5, ci_high=2.6, threads=16)
    narrow = comparison(ratio=1.3, ci_low=1.29, ci_high=1.31, threads=4)
    assert best_measured([wide, None, narrow]) is narrow
    assert best_measured([None]) is None


def test_without_intervals_the_headline_is_at_the_most_threads() -> None:
    assert {each.threads for each in Findings(example(trials=1).experiment).headlines(held_out=False)} == {16}


def test_the_users_own_server_is_no_loss_of_ours() -> None:
    findings = Findings(example(third_arm=True).experiment)
    assert findings.contenders == ("optimised", "baseline")
    assert findings.losses() == ()


def test_an_axis_holds_one_and_all_estimates_but_no_endless_interval() -> None:
    axis = Axis.over([comparison(ci_low=0.0, ci_high=1e9), comparison(ratio=3.0)], name_arm=False)
    assert 0.5 < axis.low < 1
    assert 3 < axis.high < 6
