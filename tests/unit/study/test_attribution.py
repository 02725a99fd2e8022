"""Attribution finds what was planted, with the spread that real runs show, and its shares add up to the whole."""

from __future__ import annotations

import math

import numpy as np
import pytest
from simulated import SPREADS, factors, simulate, truth

from upshift.study.attribution import Attribution, attribute, judged_effect
from upshift.study.designs import Design, Factor, make_design
from upshift.study.intervals import LEVEL, holm
from upshift.study.power import half_width
from upshift.study.recommend import recommend

STUDIES = 300


def attributed(design: Design, values: np.ndarray) -> Attribution:
    return attribute(design, design.rows, values, higher_is_better=True)


def exact(design: Design, true: np.ndarray) -> Attribution:
    return attributed(design, np.tile(true, (3, 1)))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_alone_last_and_share_are_those_of_the_model(count: int) -> None:
    design = make_design("auto", factors(count))
    effects = [0.05, -0.02, 0.0, 0.1, 0.03][:count]
    pairs = {(0, 1): -0.04} if count > 1 else {}
    found = exact(design, truth(design, effects, pairs))
    for number, each in enumerate(found.factors):
        beyond = math.log1p(-0.04) if pairs and number < 2 else 0.0
        alone = math.log1p(effects[number])
        assert each.alone and each.last and each.share
        assert math.log(each.alone.ratio) == pytest.approx(alone, abs=1e-12)
        assert math.log(each.last.ratio) == pytest.approx(alone + beyond, abs=1e-12)
        assert math.log(each.share.ratio) == pytest.approx(alone + beyond / 2, abs=1e-12)


@pytest.mark.parametrize("count", [2, 4, 5, 6, 8, 9, 12, 15])
@pytest.mark.parametrize("kind", ["auto", "one-at-a-time", "steps"])
def test_shares_add_up_to_the_total(kind: str, count: int) -> None:
    design = make_design(kind, factors(count))  # type: ignore[arg-type]
    values = simulate(np.random.default_rng(count), truth(design, [0.02] * count, {(0, 1): -0.05}), trials=4)
    found = attributed(design, values)
    assert found.total
    shares = [each.share for each in found.factors]
    assert math.fsum(math.log(share.ratio) for share in shares if share) == pytest.approx(math.log(found.total.ratio))
    assert None not in shares


def test_shares_of_eight_factors_are_clear_of_pairs_and_chains_are_shared_out_equally() -> None:
    design = make_design("auto", factors(8))
    found = exact(design, truth(design, [0.0] * 8, {(0, 1): 0.08}))
    assert found.total and found.factors[0].share
    assert found.factors[0].share.ratio == pytest.approx(1.08**0.5)
    assert found.factors[2].share and found.factors[2].share.ratio == pytest.approx(1.0)
    chain = [each for each in found.together if each.effect.ratio != pytest.approx(1)]
    assert len(chain) == 4 and all(each.shared and each.effect.ratio == pytest.approx(1.08**0.25) for each in chain)
    assert all(each.shared_pairs for each in found.factors)


def test_two_factors_that_do_not_add_up_are_named() -> None:
    design = make_design("auto", factors(3))
    values = simulate(np.random.default_rng(1), truth(design, [0.1, 0.1, 0.0], {(0, 1): -0.1}), trials=30)
    (found,) = attributed(design, values).does_not_add_up()
    assert (found.first, found.second, found.verdict) == (("A",), ("B",), "slower")


def test_one_at_a_time_says_what_all_together_lack() -> None:
    design = make_design("one-at-a-time", factors(3))
    found = exact(design, truth(design, [0.1, 0.1, 0.0], {(0, 1): -0.1}))
    (beyond,) = found.together
    assert beyond.first == ("A", "B", "C") and beyond.effect.ratio == pytest.approx(0.9)


def test_levels_of_a_factor_each_have_an_effect() -> None:
    design = make_design("auto", [Factor(name="pool", levels=("off", "2G", "4G")), *factors(1)])
    true = np.array([math.log(1 + 0.1 * row[0] + 0.05 * row[1]) for row in design.rows])
    found = exact(design, true)
    assert [(each.factor, each.level) for each in found.factors] == [("pool", "2G"), ("pool", "4G"), ("A", "on")]
    assert [each.alone and round(each.alone.ratio, 6) for each in found.factors] == [1.1, 1.2, 1.05]
    assert found.factors[1].share and found.factors[1].share.ratio == pytest.approx(math.sqrt(1.2 * 1.25 / 1.05))


def test_a_row_that_is_missing_takes_only_what_it_tells() -> None:
    design = make_design("full", factors(2))
    values = np.tile(truth(design, [0.1, 0.2]), (3, 1))
    whole = [number for number, row in enumerate(design.rows) if row != (1, 1)]
    found = attribute(design, [design.rows[n] for n in whole], values[:, whole], higher_is_better=True)
    assert [each.alone and round(each.alone.ratio, 6) for each in found.factors] == [1.1, 1.2]
    assert found.together == () and found.total is None


def test_a_grid_tells_each_level_that_its_rows_tell() -> None:
    factors_ = [Factor(name="fast", levels=("off", "on")), Factor(name="feedback", levels=("off", "reads", "commit"))]
    design = make_design("grid", factors_, [(1, 0), (1, 1), (1, 2)])
    true = np.array([0.1 * (row[0] > 0) + (0.0, 0.2, 0.05)[row[1]] for row in design.rows])
    found = exact(design, true)
    assert [each.share and round(math.log(each.share.ratio), 9) for each in found.factors] == [0.1, 0.2, 0.05]
    assert recommend(design, found, higher_is_better=True) == (1, 1)
    assert not found.without_pairs
    # Two factors that are always on together are told apart by no row, and no row is missing.
    design = make_design("grid", factors(2), [(1, 1)])
    found = exact(design, np.array([0.0, 0.1]))
    assert [each.share for each in found.factors] == [None, None] and not found.without_pairs


@pytest.mark.parametrize("count", [5, 8])
def test_a_fractional_design_without_one_row_still_tells_each_factor(count: int) -> None:
    design = make_design("auto", factors(count))
    values = np.tile(truth(design, [0.1] + [0.0] * (count - 1)), (3, 1))
    left = [number for number in range(len(design.rows)) if number != 5]
    found = attribute(design, [design.rows[n] for n in left], values[:, left], higher_is_better=True)
    assert found.without_pairs and found.together == ()
    assert [each.share and round(each.share.ratio, 6) for each in found.factors] == [1.1] + [1.0] * (count - 1)
    assert not exact(design, truth(design, [0.1] + [0.0] * (count - 1))).without_pairs


def test_levels_are_told_when_a_row_of_a_full_design_is_missing() -> None:
    design = make_design("auto", [Factor(name="pool", levels=("off", "2G", "4G")), *factors(1)])
    values = np.tile([0.1 * row[0] + 0.05 * row[1] for row in design.rows], (3, 1))
    found = attribute(design, design.rows[:-1], values[:, :-1], higher_is_better=True)
    assert [each.share and round(math.log(each.share.ratio), 9) for each in found.factors] == [0.1, 0.2, 0.05]


@pytest.mark.parametrize(("count", "trials"), [(4, 33), (8, 36), (11, 50)])
def test_effects_of_two_percent_are_found_and_false_ones_are_not(count: int, trials: int) -> None:
    """With as many trials as find 2 % in nineteen studies of twenty; half of the factors do nothing."""
    design = make_design("auto", factors(count))
    real = count // 2
    chance = np.random.default_rng(count)
    right, false, wrong = 0, 0, 0
    true = truth(design, [0.02] * real + [0.0] * (count - real))
    for _ in range(STUDIES):
        verdicts = [each.verdict for each in attributed(design, simulate(chance, true, trials=trials)).factors]
        right += sum(each == "faster" for each in verdicts[:real])
        wrong += sum(each == "slower" for each in verdicts[:real])
        false += any(each in ("faster", "slower") for each in verdicts[real:])
    assert right >= 0.9 * STUDIES * real
    assert wrong == 0
    # Three standard errors of 300 studies above 1 in 100.
    assert false / STUDIES <= LEVEL + 0.017


def covers(chance: np.random.Generator, *, fresh_layouts: bool) -> float:
    """How often the 95 % interval of a share holds the truth, when each server's layout is worth 2 % either way."""
    design = make_design("auto", factors(4))
    true = truth(design, [0.02, -0.01, 0.0, 0.05])
    held = []
    for _ in range(STUDIES):
        values = simulate(chance, true, trials=6, layout_sd=0.02, fresh_layouts=fresh_layouts, blocks=96)
        for each, effect in zip(attributed(design, values).factors, [0.02, -0.01, 0.0, 0.05], strict=True):
            assert each.share
            spread = attributed_spread(values, design, each.factor)
            held.append(spread[0] <= math.log1p(effect) <= spread[1])
    return sum(held) / len(held)


def attributed_spread(values: np.ndarray, design: Design, name: str) -> tuple[float, float]:
    """A share's 95 % interval, before Holm's procedure widens it."""
    from upshift.study.intervals import spreads

    rows = np.array(design.rows) * 2 - 1
    number = [factor.name for factor in design.factors].index(name)
    weights = np.array([rows[:, n] for n in range(4)] + [rows[:, i] * rows[:, j] for i in range(4) for j in range(i)]) / 8
    effect = spreads(values, weights)[number].effect(0.95)
    return math.log(effect.ci_low), math.log(effect.ci_high)


def test_intervals_cover_with_a_fresh_layout_for_each_trial_and_not_when_layout_is_ignored() -> None:
    assert 0.93 <= covers(np.random.default_rng(1), fresh_layouts=True) <= 0.97
    assert covers(np.random.default_rng(1), fresh_layouts=False) < 0.90


def test_intervals_cover_where_one_factor_is_far_noisier_than_the_others() -> None:
    """Variances are pulled together only as far as they agree: a tier's starts spread by more than a flag's."""
    design = make_design("auto", factors(4))
    chance, held, called = np.random.default_rng(3), 0, 0
    loud = np.array([row[0] for row in design.rows])
    for _ in range(STUDIES):
        values = simulate(chance, truth(design, [0.0] * 4), trials=8)
        values += loud * chance.normal(0, 0.3, (8, 1))
        low, high = attributed_spread(values, design, "A")
        held += low <= 0 <= high
        called += attributed(design, values).factors[0].verdict in ("faster", "slower")
    assert held / STUDIES >= 0.90
    assert called / STUDIES <= 0.03


def test_one_trial_says_nothing() -> None:
    design = make_design("auto", factors(2))
    found = attributed(design, truth(design, [0.5, 0.5])[None, :])
    assert [each.verdict for each in found.factors] == ["inconclusive"] * 2
    assert all(each.share and (each.share.ci_low, each.share.ci_high) == (0, 1e9) for each in found.factors)


def test_holm_goes_on_until_the_first_that_it_does_not_find() -> None:
    assert holm([0.004, 0.9, 0.002, 0.0051], 0.01) == (frozenset({2}), 1 - 0.01 / 3)
    assert holm([0.001, 0.002], 0.01) == (frozenset({0, 1}), 0.99)
    assert holm([], 0.01) == (frozenset(), 0.99)


def test_the_half_width_to_expect_comes_out() -> None:
    design = make_design("auto", factors(4))
    chance, spread = np.random.default_rng(5), SPREADS["calm"]
    expected = half_width(design, 8, start_log_sd=spread["start_log_sd"], pair_log_sd=spread["pair_log_sd"], blocks=24)
    found = []
    for _ in range(40):
        for each in attributed(design, simulate(chance, truth(design, [0.0] * 4), trials=8)).factors:
            assert each.share
            found.append(math.log(each.share.ci_high / each.share.ci_low) / 2)
    assert np.median(found) == pytest.approx(expected, rel=0.2)


def test_one_at_a_time_judges_each_factor_alone_whatever_all_together_lack() -> None:
    design = make_design("one-at-a-time", factors(3))
    chance = np.random.default_rng(4)
    found = attributed(design, simulate(chance, truth(design, [0.2, 0.2, 0.0], {(0, 1): -0.3}), trials=20, blocks=200))
    assert [each.verdict for each in found.factors[:2]] == ["faster", "faster"]
    assert found.factors[2].verdict not in ("faster", "slower")
    assert [judged_effect(design, each) for each in found.factors] == [each.alone for each in found.factors]


def test_a_share_is_judged_where_the_design_has_pairs_and_what_a_factor_does_alone_where_no_share_is_told() -> None:
    design = make_design("full", factors(2))
    each = exact(design, truth(design, [0.2, 0.1], {(0, 1): -0.1})).factors[0]
    assert each.share != each.alone
    assert judged_effect(design, each) == each.share
    assert judged_effect(design, each.model_copy(update={"share": None})) == each.alone


def test_alone_and_last_are_not_told_from_pairs_that_the_rows_do_not_tell() -> None:
    """Rows of arms that died are missing: a with b, and a with c, are then mixed with what single factors do."""
    design = make_design("full", factors(3))
    true = truth(design, [0.10, 0.0, 0.0], {(0, 1): 0.20, (0, 2): 0.10})
    kept = [number for number, row in enumerate(design.rows) if row not in ((1, 0, 0), (1, 1, 1))]
    rows = [design.rows[number] for number in kept]
    found = attribute(design, rows, np.tile(true[kept], (3, 1)), higher_is_better=True)
    assert found.factors[0].alone is None and found.factors[0].last is None
