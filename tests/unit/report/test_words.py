"""Figures and verdicts in words."""

from __future__ import annotations

import pytest
from example import comparison, example

from upshift.measure.model import LeadIn, Reached
from upshift.report import words
from upshift.report.charts import Axis
from upshift.report.findings import Findings


def test_a_win() -> None:
    assert words.sentence(comparison(), name_arm=False) == ("oltp_read_write: 1.34x the throughput (1.31 to 1.38 at 95 %)")


def test_a_loss_never_says_faster() -> None:
    said = words.sentence(comparison(ratio=0.94, ci_low=0.92, ci_high=0.96, verdict="slower"), name_arm=True)
    assert said == "oltp_read_write on optimised: 0.94x the throughput, slower (0.92 to 0.96 at 95 %)"


def test_a_loss_in_latency_names_it() -> None:
    each = comparison(metric="latency_ms_p99", ratio=1.2, ci_low=1.1, ci_high=1.3, verdict="slower", connections=1)
    assert words.loss_sentence(each, "plain", name_arm=False, transactions=()) == (
        "oltp_read_write: 1.20x the p99 latency (1.10 to 1.30 at 95 %) at 1 connection"
    )


def test_a_loss_in_cpu_time_is_that_of_what_its_workload_counts() -> None:
    each = comparison(metric="total_cpu_us_per_query", ratio=1.2, ci_low=1.1, ci_high=1.3, verdict="slower", connections=1)
    for counted, name in (((), "CPU per query"), (("oltp_read_write",), "CPU per transaction")):
        said = words.loss_sentence(each, "plain", name_arm=False, transactions=counted)
        assert said == f"oltp_read_write: 1.20x the {name} (1.10 to 1.30 at 95 %) at 1 connection"


def test_a_figure_is_named_by_what_its_workload_counts() -> None:
    assert words.metric_name("total_cpu_us_per_query", transactions=False) == "CPU per query"
    assert words.metric_name("total_cpu_us_per_query", transactions=True) == "CPU per transaction"
    assert words.metric_name("qps", transactions=True) == "transactions per second"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (12_345.6, "12,346"),
        (100, "100"),
        (99.96, "100"),
        (15.24, "15.2"),
        (9.996, "10.0"),
        (1.5, "1.50"),
        (0.9996, "1.00"),
        (0.21, "0.210"),
        (0.0042, "0.00420"),
        (0, "0.00"),
        (-0.0042, "-0.00420"),
        (float("inf"), "inf"),
    ],
)
def test_a_figure_has_three_significant_digits(value: float, shown: str) -> None:
    assert words.figure(value) == shown


@pytest.mark.parametrize(("asked", "shown"), [(0.0004, "0.04%"), (0.0225, "2.25%"), (0.01, "1%")])
def test_the_width_that_was_asked_for_is_told_as_it_was_asked(asked: float, shown: str) -> None:
    said = words.reached_sentence(Reached(asked=asked, expected=asked, reached=0.00038, first_stage=6, trials=14))
    assert said.startswith(f"Intervals of {shown} either way were asked for: 6 trials")
    assert said.endswith("the widest interval of the headline is 0.0380% either way")


def test_narrow_intervals_get_a_third_decimal() -> None:
    assert words.interval(comparison(ratio=1.001, ci_low=0.9972, ci_high=1.0048)) == "0.997 to 1.005"


def test_a_limit_that_rounds_to_one_shows_on_which_side_it_is() -> None:
    each = comparison(ratio=0.97, ci_low=0.9454, ci_high=0.9971, metric="user_cpu_us_per_query")
    assert words.interval(each) == "0.945 to 0.997"


def test_a_limit_very_near_to_one_shows_on_which_side_it_is() -> None:
    assert words.interval(comparison(ratio=0.97, ci_low=0.9454, ci_high=0.99971, verdict="slower")) == "0.9454 to 0.9997"


def test_two_trials_whose_interval_has_no_limit_are_not_called_one() -> None:
    said = words.sentence(comparison(ci_low=0.0, ci_high=1e9, trials=2, verdict="inconclusive"), name_arm=False)
    assert said == "oltp_read_write: 1.34x the throughput, inconclusive (0 to ∞ at 95 %)"


def test_limits_that_know_nothing() -> None:
    each = comparison(ci_low=0.0, ci_high=1e9, trials=1, verdict="inconclusive", trials_needed=5)
    assert words.interval(each) == "0 to ∞"
    assert "95 %" not in words.sentence(each, name_arm=False)
    assert words.still_needed(each) == "a new run of about 5 trials would settle it"


def test_two_trials_far_apart_have_huge_limits_that_still_read() -> None:
    assert words.interval(comparison(ci_low=2e-5, ci_high=53_211.7)) == "0 to 53,212"


def test_more_trials_than_anyone_does() -> None:
    each = comparison(verdict="inconclusive", trials_needed=1000)
    assert words.still_needed(each) == "more trials than are practical would be needed"


def test_cpus_in_ranges() -> None:
    assert words.cpus((0, 1, 2, 6)) == "CPUs 0–2, 6"
    assert words.cpus((3,)) == "CPU 3"
    assert words.cpus(()) == "any CPU"


def test_servers_on_cpus_of_their_own_are_named() -> None:
    experiment = example().experiment
    tuned = experiment.arms[1].model_copy(update={"client_cpus": (2, 3)})
    (said,) = [
        line
        for line in words.how_measured(experiment.model_copy(update={"arms": (experiment.arms[0], tuned)}))
        if "CPU 0" in line
    ]
    assert said.endswith("optimised, by its own settings, ran on CPU 0, its load on CPUs 2–3.")
    assert not any("own settings" in line for line in words.how_measured(experiment))


def test_trials_that_until_added_are_starts() -> None:
    experiment = example().experiment
    reached = Reached(asked=0.01, expected=0.01, reached=0.012, first_stage=6, trials=14)
    assert "started 14 times each" in words.how_measured(experiment.model_copy(update={"reached": reached}))[0]
    assert "started 6 times each" in words.how_measured(experiment)[0]


def test_shared_cpus_are_admitted() -> None:
    experiment = example().experiment
    shared = experiment.model_copy(update={"plan": experiment.plan.model_copy(update={"client_cpus": (0,)})})
    assert any("share CPUs" in line for line in words.how_measured(shared))
    assert not any("share CPUs" in line for line in words.how_measured(experiment))


@pytest.mark.parametrize(
    ("confidence", "said"), [(0.95, "95 %"), (0.9625, "96.2 %"), (0.99, "99 %"), (0.99875, "99.87 %"), (0.95 + 1e-12, "95 %")]
)
def test_a_level_is_never_rounded_up(confidence: float, said: str) -> None:
    assert words.percent(confidence) == said


def test_the_headline_is_at_the_connections_that_the_plan_named_whatever_came_out() -> None:
    experiment = example().experiment
    for number in (1, 4, 16):
        plan = experiment.plan.model_copy(update={"headline_connections": number})
        found = Findings(experiment.model_copy(update={"plan": plan}), rebuilt=True)
        assert {each.connections for each in found.headlines(held_out=False)} == {number}
        assert {each.connections for each in found.headlines(held_out=True)} == {16}, "measured with those alone"


def test_the_users_own_server_is_no_loss_of_ours() -> None:
    findings = Findings(example(third_arm=True).experiment, rebuilt=True)
    assert findings.contenders == ("optimised", "baseline")
    assert findings.losses() == ()


def test_an_axis_holds_one_and_all_estimates_but_no_endless_interval() -> None:
    axis = Axis.over([comparison(ci_low=0.0, ci_high=1e9), comparison(ratio=3.0)], name_arm=False)
    assert 0.5 < axis.low < 1
    assert 3 < axis.high < 6


@pytest.mark.parametrize(
    ("why", "said"),
    [
        ("no difference", "a lead-in of 0.2 s for reads: behind it the servers' ratio stays as it is, within 1.3%"),
        ("noise", "a lead-in of 0.2 s for reads: with noise of 1.3%, the pilot cannot tell whether a shorter one would do"),
        ("longest", "a lead-in of 0.2 s for reads, the longest: the servers' ratio still moves by 4.0% behind it"),
    ],
)
def test_a_report_says_which_lead_in_the_pilot_chose_and_why(why: str, said: str) -> None:
    chosen = LeadIn.model_validate({"workload": "reads", "lead_s": 0.2, "why": why, "moved": -0.04, "noise": 0.013})
    experiment = example().experiment
    lines = words.how_measured(experiment.model_copy(update={"lead_ins": (chosen,)}))
    assert f"Before the first trial that counts, a pilot chose {said}." in lines
    assert any("after a lead-in that a pilot chose." in line for line in lines)
    assert any("after a lead-in of 0.3 s." in line for line in words.how_measured(experiment))


def test_a_report_says_in_how_many_turns_a_speed_probe_saw_slow_cpus() -> None:
    experiment = example().experiment
    said = "In 26% of the turns, they were slower by a sixth or more."
    probed = words.how_measured(experiment.model_copy(update={"slowed_share": 0.26}))
    assert any(line.endswith(said) for line in probed)
    assert not any("probe" in line for line in words.how_measured(experiment))


def test_a_width_that_is_not_known_is_no_percentage() -> None:
    reached = Reached(asked=0.01, expected=0.01, reached=1e9, first_stage=6, trials=6)
    assert words.reached_sentence(reached).endswith("6 were measured in all, and not every interval of the headline is known")
