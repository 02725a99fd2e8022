from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from fake_bench import READS, one_slice
from scipy import stats

from upshift.limits import MOST_TRIALS
from upshift.measure.model import Comparison, Level, Slice
from upshift.measure.statistics import (
    FIRST_TRIALS,
    TYPICAL_TURNS,
    common_confidence,
    comparisons,
    estimate,
    geometric_mean,
    judge,
    levels,
    trial_values,
    trials_needed,
    trials_to_place,
)


def trials(ratios: list[float], **plain: object) -> list[Slice]:
    """A pair of slices a trial, whose throughput has the given ratios to that of the plain arm."""
    return [
        one_slice(trial=trial, arm=arm, queries=round(1_000_000 * ratio), **plain)
        for trial, each in enumerate(ratios)
        for arm, ratio in (("plain", 1.0), ("pgo", each))
    ]


def qps(found: tuple[Comparison, ...]) -> Comparison:
    return next(each for each in found if each.metric == "qps")


def test_the_interval_is_students_on_paired_logs() -> None:
    ratios = [1.20, 1.25, 1.22, 1.30]
    found = qps(comparisons(trials(ratios), "plain"))
    assert found.confidence == pytest.approx(1 - 0.05 * 4 / 5), "latency, the fifth, does not differ"
    low, high = stats.t.interval(found.confidence, 3, loc=np.mean(np.log(ratios)), scale=stats.sem(np.log(ratios)))
    assert found.ratio == pytest.approx(math.exp(np.mean(np.log(ratios))), rel=1e-6)
    assert (found.ci_low, found.ci_high) == pytest.approx((math.exp(low), math.exp(high)), rel=1e-5)
    assert (found.verdict, found.trials, found.trials_needed) == ("faster", 4, None)


def test_trials_are_paired_so_that_drift_between_them_does_not_widen_the_interval() -> None:
    drifting = [
        one_slice(trial=trial, arm=arm, queries=int(scale * ratio))
        for trial, scale in enumerate((1e6, 2e6, 4e6))
        for arm, ratio in (("plain", 1.0), ("pgo", 1.1))
    ]
    found = qps(comparisons(drifting, "plain"))
    assert found.ci_low == pytest.approx(1.1, rel=1e-4) == found.ci_high


def test_slices_of_one_trial_are_one_replicate_however_many() -> None:
    few, many = (
        [each.model_copy(update={"round": number}) for number in range(rounds) for each in trials([1.2, 1.1])]
        for rounds in (TYPICAL_TURNS, 50)
    )
    assert qps(comparisons(many, "plain")).ci_low == pytest.approx(qps(comparisons(few, "plain")).ci_low)
    assert qps(comparisons(many, "plain")).trials == 2


def test_fewer_than_two_trials_say_nothing() -> None:
    found = qps(comparisons(trials([1.5]), "plain"))
    assert (found.ci_low, found.ci_high) == (0.0, 1e9)
    assert (found.verdict, found.trials_needed) == ("inconclusive", FIRST_TRIALS)
    assert Comparison.model_validate_json(found.model_dump_json()) == found


def test_wild_trials_keep_a_finite_interval() -> None:
    interval = geometric_mean([0.0, 20.0], 0.95)
    assert interval.low >= 0.0
    assert interval.high == 1e9


@pytest.mark.parametrize(
    ("logs", "verdict"),
    [
        ([0.100, 0.105, 0.095, 0.100], "faster"),
        ([-0.100, -0.105, -0.095, -0.100], "slower"),
        ([0.004, 0.005, 0.006, 0.005], "equivalent"),  # Real, but of no use.
        ([0.0, 0.0, 0.0], "equivalent"),
        ([0.05, -0.05, 0.06, -0.04], "inconclusive"),
        ([0.02, 0.05, 0.08], "inconclusive"),  # p = 0.10
        ([0.02, 0.05, 0.06, 0.07], "faster"),  # p = 0.020
    ],
)
def test_verdicts(logs: list[float], verdict: str) -> None:
    assert judge(estimate(logs), 0.95, higher_is_better=True) == verdict


def test_a_verdict_and_its_interval_are_of_one_level() -> None:
    logs = [0.02, 0.05, 0.06, 0.07]
    assert judge(estimate(logs), 0.99, higher_is_better=True) == "inconclusive"
    assert geometric_mean(logs, 0.99).low < 1 < geometric_mean(logs, 0.95).low


# Of three trials around 0.1 each, with p-values of about 0.0001, 0.02, 0.03 and 0.5.
SURE, FAIR, WEAK, NONE = (estimate([0.1 - spread, 0.1, 0.1 + spread]) for spread in (0.0012, 0.024, 0.031, 0.2))


def test_the_level_is_divided_among_all_comparisons_when_nothing_was_found() -> None:
    assert common_confidence([NONE] * 20) == pytest.approx(1 - 0.05 / 20)
    assert common_confidence([FAIR] + [NONE] * 19) == pytest.approx(1 - 0.05 / 20)


def test_the_level_is_that_of_one_comparison_when_everything_was_found() -> None:
    assert common_confidence([SURE, FAIR, WEAK]) == pytest.approx(0.95)
    assert common_confidence([FAIR]) == pytest.approx(0.95)


def test_what_was_found_carries_the_level_of_the_rest() -> None:
    # 0.0001 <= 1/4 of 5 %; 0.02 <= 2/4; 0.03 <= 3/4; 0.5 is not.
    assert common_confidence([NONE, WEAK, SURE, FAIR]) == pytest.approx(1 - 0.05 * 3 / 4)


def test_comparisons_without_a_spread_do_not_count() -> None:
    assert common_confidence([FAIR, estimate([0.1]), estimate([])]) == pytest.approx(0.95)
    assert common_confidence([]) == common_confidence([estimate([0.5])]) == 0.95


@pytest.mark.parametrize("seed", range(20))
def test_no_interval_contradicts_its_verdict(seed: int) -> None:
    chance = np.random.default_rng(seed)
    slices = [
        each
        for connections in (1, 2, 4, 8, 16, 32)
        for each in trials(list(np.exp(chance.normal(0.01 * connections, 0.1, 5))), connections=connections)
    ]
    found = comparisons(slices, "plain")
    assert len({each.confidence for each in found}) == 1
    for each in found:
        leaves_out_one = each.ci_high < 1 or each.ci_low > 1
        assert leaves_out_one == (each.verdict in ("faster", "slower")) or each.verdict == "equivalent"
        assert each.verdict != "equivalent" or (each.ci_low >= 1 / 1.01 and each.ci_high <= 1.01)


def test_faster_means_better_where_less_is_better() -> None:
    half = [
        one_slice(
            trial=trial,
            arm=arm,
            latency_ms_p99=3.0 * ratio,
            total_cpu_s=1 + ratio,
            user_cpu_s=ratio,
            system_cpu_s=1 / ratio,
        )
        for trial, each in enumerate((0.50, 0.51, 0.49, 0.50))
        for arm, ratio in (("plain", 1.0), ("pgo", each))
    ]
    verdicts = {each.metric: each.verdict for each in comparisons(half, "plain")}
    assert verdicts == {
        "qps": "equivalent",
        "latency_ms_p99": "faster",
        "total_cpu_us_per_query": "faster",
        "user_cpu_us_per_query": "faster",
        "system_cpu_us_per_query": "slower",
    }


def share_decided(mean: float, deviation: float, trials: int, confidence: float) -> float:
    chance = np.random.default_rng(1)
    made = chance.normal(mean, deviation, (1000, trials))
    return sum(judge(estimate(logs), confidence, higher_is_better=True) != "inconclusive" for logs in made) / 1000


@pytest.mark.parametrize("confidence", [0.95, 0.99])
def test_trials_needed_decide_in_four_experiments_of_five(confidence: float) -> None:
    logs = [-0.10, 0.02, 0.05, 0.17]
    needed = trials_needed(logs, confidence)
    mean, deviation = float(np.mean(logs)), float(np.std(logs, ddof=1))
    assert 0.76 < share_decided(mean, deviation, needed, confidence) < 0.84
    assert share_decided(mean, deviation, needed // 2, confidence) < 0.65


def test_trials_needed_know_that_no_difference_is_an_answer_too() -> None:
    logs = [0.02, -0.02, 0.02, -0.02]
    needed = trials_needed(logs, 0.95)
    assert 20 < needed < 100
    assert share_decided(0.0, float(np.std(logs, ddof=1)), needed, 0.95) > 0.76


def test_trials_needed_stop_somewhere() -> None:
    assert trials_needed([2.0, -2.0, 2.0, -2.0001], 0.95) == MOST_TRIALS


def compared(logs: list[float]) -> Comparison:
    return qps(comparisons(trials([math.exp(each) for each in logs], latency_ms_p99=None), "plain"))


@pytest.mark.parametrize(
    ("passes", "fails", "often_enough"),
    [
        (1.176, 1.2, lambda low, _high: low >= math.log(1.176)),
        (1.274, 1.3, lambda _low, high: high < math.log(1.3)),
        (1.22, 1.27, lambda low, high: low >= math.log(1.22) or high < math.log(1.27)),
    ],
)
def test_trials_to_place_a_ratio_are_for_the_limits_in_question(
    passes: float, fails: float, often_enough: Callable[[float, float], bool]
) -> None:
    """A ratio of 1.22 is soon told apart from 1, and not from 1.2."""
    chance = np.random.default_rng(1)
    spread = np.array([-0.2, 0.2, -0.1, 0.1, -0.3, 0.3])
    found = compared(list(spread + math.log(1.22)))
    needed = trials_to_place(found, passes, fails)
    assert trials_needed(list(spread + math.log(1.22)), found.confidence) < needed / 4

    def share(trials: int) -> float:
        made = chance.normal(math.log(1.22), np.std(spread, ddof=1), (1000, trials))
        intervals = (geometric_mean(logs, found.confidence) for logs in made)
        return sum(often_enough(math.log(each.low), math.log(each.high)) for each in intervals) / 1000

    assert 0.76 < share(needed) < 0.84
    assert share(needed // 2) < 0.65


def test_trials_to_place_a_ratio_take_the_spread_of_the_first_stage() -> None:
    logs = [0.1, 0.0, 0.2, 0.05, 0.15, *[0.1] * 20]
    found = qps(comparisons(trials([math.exp(each) for each in logs], latency_ms_p99=None), "plain", first_stage=5))
    alone = compared(logs[:5]).model_copy(update={"confidence": found.confidence})
    assert alone.ratio == pytest.approx(found.ratio)
    assert trials_to_place(found, 1.07, 1.08, 5) == trials_to_place(alone, 1.07, 1.08)


def test_trials_to_place_a_ratio_where_no_number_is_told() -> None:
    assert trials_to_place(compared([0.1]), 0.98, 1.0) == FIRST_TRIALS
    at_the_limit = compared([0.1, -0.1]).model_copy(update={"ratio": 1.0})
    assert trials_to_place(at_the_limit, 1.0, 1.0) == MOST_TRIALS


def test_a_driver_without_latencies_is_not_compared_by_them() -> None:
    found = comparisons(trials([1.2, 1.2], latency_ms_p99=None), "plain")
    assert "latency_ms_p99" not in {each.metric for each in found}
    assert "qps" in {each.metric for each in found}


def test_a_metric_that_one_arm_lacks_is_not_compared() -> None:
    slices = [each.model_copy(update={"latency_ms_p99": None}) if each.arm == "pgo" else each for each in trials([1.2, 1.2])]
    assert "latency_ms_p99" not in {each.metric for each in comparisons(slices, "plain")}


def test_run_queue_delay_is_described_and_not_compared() -> None:
    slices = [each.model_copy(update={"run_delay_s": 0.1}) for each in trials([1.2, 1.2])]
    assert "run_delay_us_per_query" not in {each.metric for each in comparisons(slices, "plain")}
    judged = comparisons(slices, "plain", judged="run_delay_us_per_query")
    assert [each.verdict for each in judged if each.metric == "run_delay_us_per_query"] == ["faster"]
    (level,) = [each for each in levels(slices, 0.95) if (each.arm, each.metric) == ("plain", "run_delay_us_per_query")]
    assert level.value == pytest.approx(0.1 * 1e6 / slices[0].queries, rel=0.2)


def test_only_trials_of_both_arms_count() -> None:
    slices = [*trials([1.2, 1.2, 1.2]), one_slice(trial=3, arm="pgo")]
    assert qps(comparisons(slices, "plain")).trials == 3


def test_cpu_per_query_is_summed_over_a_trial_so_that_a_slice_below_a_tick_counts() -> None:
    slices = [one_slice(round=0, system_cpu_s=0.0), one_slice(round=1, system_cpu_s=0.4)]
    values = trial_values(slices)["plain", READS]
    assert values["system_cpu_us_per_query"] == {0: pytest.approx(100.0)}


def ticks(arm: str, *counts: int, queries: Sequence[int] = ()) -> list[Slice]:
    """Trials that met so many ticks of 10 ms in system mode."""
    queries = queries or [1000] * len(counts)
    return [
        one_slice(trial=trial, arm=arm, queries=of, system_cpu_s=count / 100)
        for trial, (count, of) in enumerate(zip(counts, queries, strict=True))
    ]


def system(found: Sequence[Level], arm: str) -> Level:
    return next(each for each in found if (each.arm, each.metric) == (arm, "system_cpu_us_per_query"))


def test_trials_that_met_no_tick_count_in_a_mean() -> None:
    """Left out, they made a mean nearly 3 times as high."""
    chance = np.random.default_rng(7)
    met = {arm: chance.poisson(rate, 1000) for arm, rate in (("plain", 0.4), ("slow", 0.8))}
    assert (met["plain"] == 0).sum() > 600
    slices = [each for arm, counts in met.items() for each in ticks(arm, *counts)]
    of = {arm: system(levels(slices, 0.95), arm) for arm in met}
    assert of["plain"].value == pytest.approx(4.0, rel=0.1) and of["plain"].ci_low < 4.0 < of["plain"].ci_high
    assert of["slow"].value == pytest.approx(10 * np.mean(met["slow"]))
    compared = next(each for each in comparisons(slices, "plain") if each.metric == "system_cpu_us_per_query")
    assert compared.ci_low < 2.0 < compared.ci_high and (compared.trials, compared.verdict) == (1000, "slower")


def test_intervals_hold_where_most_trials_met_no_tick() -> None:
    chance = np.random.default_rng(8)
    held = calls = 0
    for _ in range(150):
        slices = [each for arm in ("plain", "pgo") for each in ticks(arm, *chance.poisson(0.5, 20))]
        level = system(levels(slices, 0.95), "plain")
        held += level.ci_low < 5.0 < level.ci_high
        logs = [np.log(list(trial_values(slices)[arm, READS]["system_cpu_us_per_query"].values())) for arm in ("plain", "pgo")]
        found = geometric_mean(logs[1] - logs[0], 0.95)
        calls += not found.low < 1 < found.high
    assert held > 0.92 * 150 and calls < 0.08 * 150


def test_one_trial_without_a_tick_makes_sums_of_all_arms() -> None:
    slices = [*ticks("plain", 0, 3, 3, queries=(500, 1000, 1500)), *ticks("fast", 1, 4, 4)]
    found = levels(slices, 0.95)
    assert system(found, "plain").value == pytest.approx(6e4 / 3000)
    assert system(found, "fast").value == pytest.approx(9e4 / 3000)
    alone = system(levels(ticks("fast", 1, 4, 4), 0.95), "fast")
    assert alone.value == pytest.approx(10 * 16 ** (1 / 3)), "no trial is without one: as ever"


def test_times_that_are_never_met_are_no_figures() -> None:
    values = trial_values([*ticks("plain", 0, 0), *ticks("fast", 2, 0)])
    assert "system_cpu_us_per_query" not in values["plain", READS]
    assert "run_delay_us_per_query" not in values["fast", READS]
    assert "system_cpu_us_per_query" in values["fast", READS]
    # One in a thousand: the residual's exponential would overflow.
    (most, *_) = trial_values(ticks("plain", 1, *[0] * 999))["plain", READS]["system_cpu_us_per_query"].values()
    assert math.isfinite(most)


def test_a_trial_in_which_a_slice_has_no_query_counts_the_queries_of_all_slices_for_each_arm() -> None:
    counts = {"plain": (1000, 0), "fast": (1000, 4000)}
    slices = [one_slice(arm=arm, round=round, queries=each) for arm, of in counts.items() for round, each in enumerate(of)]
    values = trial_values([*slices, one_slice(arm="fast", trial=1), one_slice(arm="fast", trial=1, round=1, queries=4000)])
    assert values["plain", READS]["qps"] == {0: pytest.approx(250.0)}
    assert values["fast", READS]["qps"] == {0: pytest.approx(1250.0), 1: pytest.approx(1000 * math.sqrt(2))}


def test_a_trial_without_any_query_is_left_out() -> None:
    slices = [one_slice(queries=0), one_slice(round=1, queries=0), one_slice(trial=1)]
    assert trial_values(slices)["plain", READS]["qps"] == {1: pytest.approx(1000.0)}


def test_levels_are_geometric_means_over_trials() -> None:
    slices = [one_slice(trial=trial, queries=queries) for trial, queries in enumerate((1000, 4000))]
    level = next(each for each in levels(slices, 0.95) if each.metric == "qps")
    assert level.value == pytest.approx(1000.0)
    # Two trials as far apart as 4 say next to nothing: t(0.975, 1) = 12.7.
    assert level.ci_low < 1.0
    assert level.ci_high > 100_000


def test_loads_are_compared_apart() -> None:
    slices = trials([1.1, 1.1]) + trials([1.3, 1.3], connections=32)
    ratios = {each.connections: each.ratio for each in comparisons(slices, "plain") if each.metric == "qps"}
    assert ratios == {8: pytest.approx(1.1), 32: pytest.approx(1.3)}


def test_a_second_baseline_is_compared_with_what_was_built_and_with_the_first() -> None:
    both = trials([1.5, 1.5])
    todays = [each.model_copy(update={"arm": "baseline"}) for each in both if each.arm == "plain"]
    pairs = {(each.arm, each.baseline) for each in comparisons([*both, *todays], "plain", "baseline")}
    built = next(each.arm for each in both if each.arm != "plain")
    assert pairs == {(built, "plain"), ("baseline", "plain"), (built, "baseline")}


def test_trials_needed_where_the_distribution_is_not_worked_out() -> None:
    """scipy's nctdtr is NaN for some large shifts: where next to nothing is left on the other side."""
    logs = [0.7177, 0.2332, 0.3434]
    assert trials_needed(logs, 0.9975) == 10
    mean, deviation = float(np.mean(logs)), float(np.std(logs, ddof=1))
    assert share_decided(mean, deviation, 10, 0.9975) > 0.76 > share_decided(mean, deviation, 8, 0.9975)


@pytest.mark.parametrize(("count", "verdict"), [(2, "inconclusive"), (3, "inconclusive"), (12, "slower")])
def test_latencies_that_differ_by_one_bucket_in_all_trials_are_not_known_exactly(count: int, verdict: str) -> None:
    """sysbench tells 5.99 ms, and then 6.09: the spread of the trials is 0."""
    slices = [
        one_slice(trial=trial, arm=name, latency_ms_p99=latency_ms)
        for trial in range(count)
        for name, latency_ms in (("plain", 5.99), ("pgo", 6.10))
    ]
    (found,) = (each for each in comparisons(slices, "plain") if each.metric == "latency_ms_p99")
    assert found.ci_low < found.ratio < found.ci_high and found.verdict == verdict
