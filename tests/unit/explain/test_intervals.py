"""Ratios of counts: their limits, and what they promise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binomtest

from upshift.explain.intervals import Counts, Noise, chance, dispersion, log_ratios, noise, ratio
from upshift.measure.statistics import joint_confidence


def test_the_limits_are_clopper_and_pearsons() -> None:
    share = binomtest(30, 80).proportion_ci(0.95, method="exact")
    found = ratio(Counts(before=50, after=30), 1.0, 0.95)
    assert found.value == pytest.approx(30 / 50)
    assert (found.low, found.high) == pytest.approx((share.low / (1 - share.low), share.high / (1 - share.high)))


def test_twice_the_exposure_is_half_the_ratio() -> None:
    once, twice = (ratio(Counts(40, 40), exposure, 0.95) for exposure in (1.0, 2.0))
    assert [2 * each for each in twice] == pytest.approx(list(once))


def test_what_was_never_seen_before_has_no_upper_limit() -> None:
    found = ratio(Counts(0, 20), 1.0, 0.95)
    assert math.isinf(found.value) and math.isinf(found.high) and found.low > 1
    gone = ratio(Counts(20, 0), 1.0, 0.95)
    assert gone.value == gone.low == 0 and gone.high < 1


@pytest.mark.parametrize("counts", [Counts(30, 12), Counts(10, 11), Counts(3, 0), Counts(100, 160)])
@pytest.mark.parametrize("confidence", [0.9, 0.99])
@pytest.mark.parametrize("common", [Noise(1.5), Noise(1.5, 0.03, 3), Noise(1.0, 0.2, 1), Noise(1.0, math.inf, 1)])
def test_an_interval_leaves_one_out_exactly_when_chance_says_so(counts: Counts, confidence: float, common: Noise) -> None:
    found = ratio(counts, 1.3, confidence, common)
    assert (found.low > 1 or found.high < 1) == (chance(counts, 1.3, common) < 1 - confidence)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    draw = np.random.default_rng(3)
    pairs = zip(draw.poisson(40, 2000), draw.poisson(40 * 0.7, 2000), strict=True)
    found = [ratio(Counts(int(before), int(after)), 1.0, 0.95) for before, after in pairs]
    assert 0.94 < sum(each.low <= 0.7 <= each.high for each in found) / len(found) < 0.985


@pytest.mark.parametrize("samples", [40, 2500])
@pytest.mark.parametrize("blocks", [2, 8])
def test_intervals_hold_the_truth_when_blocks_have_good_and_bad_moments(samples: int, blocks: int) -> None:
    """A row has so many samples a block; CPU time a query moves by 5 % from block to block, that of all rows alike."""
    draw, held, blind = np.random.default_rng(6), 0, 0
    for _experiment in range(600):
        before_us, after_us = draw.lognormal(0, 0.05, (2, blocks)) * [[100], [70]]
        counts = Counts(*(int(draw.poisson(samples * us / 100).sum()) for us in (before_us, after_us)))
        common = noise(1.0, list(before_us), list(after_us))
        held, blind = (
            number + (found.low <= 0.7 <= found.high)
            for number, found in ((held, ratio(counts, 1.0, 0.95, common)), (blind, ratio(counts, 1.0, 0.95)))
        )
    assert held / 600 > 0.93
    if samples == 2500:
        assert blind / 600 < 0.85, "this noise would be no test"


def test_no_number_of_samples_makes_up_for_blocks_that_disagree() -> None:
    common = noise(1.0, [100.0, 105.0, 95.0], [100.0, 95.0, 105.0])
    few, many = (ratio(Counts(count, count), 1.0, 0.95, common) for count in (10**4, 10**8))
    # Student's interval of the three pairs is what is left when samples are as many as that; Clopper and Pearson's is wider
    # than it must be by some hundredths.
    logs = log_ratios([100.0, 105.0, 95.0], [100.0, 95.0, 105.0])
    half = 4.302653 * np.std(logs, ddof=1) / math.sqrt(3)
    assert half < math.log(many.high) < math.log(few.high) and math.log(many.high) < 1.05 * half
    assert math.isinf(ratio(Counts(50, 50), 1.0, 0.95, noise(1.0, [100.0], [90.0])).high), "one pair has no spread"


def test_counts_that_vary_more_than_chance_alone_widen_intervals() -> None:
    draw = np.random.default_rng(4)
    means = [300, 120, 60, 40]
    steady = [{str(each): int(draw.poisson(mean)) for each, mean in enumerate(means)} for _block in range(40)]
    moody = [
        {str(each): int(draw.poisson(mean * draw.gamma(20, 1 / 20))) for each, mean in enumerate(means)} for _block in range(40)
    ]
    assert dispersion(steady) < 1.4 and dispersion(moody) > 3
    assert dispersion([]) == dispersion(steady[:1]) == 1
    plain, wide = (ratio(Counts(40, 40), 1.0, 0.95, Noise(spread)) for spread in (1.0, 4.0))
    assert wide.low < plain.low and wide.high > plain.high


def test_with_nothing_to_find_nineteen_of_twenty_tables_find_nothing() -> None:
    draw = np.random.default_rng(5)
    found = 0
    for _table in range(400):
        counts = [Counts(int(before), int(after)) for before, after in draw.poisson(30, (60, 2))]
        confidence = joint_confidence(chance(each, 1.0) for each in counts)
        found += any(each.low > 1 or each.high < 1 for each in (ratio(each, 1.0, confidence) for each in counts))
    assert found <= 30
