"""The recommended set has what helps, drops what harms beside it, and may be empty."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from simulated import factors, simulate, truth

from upshift.study.attribution import Attribution, attribute
from upshift.study.designs import Design, Factor, Row, make_design
from upshift.study.recommend import recommend


def recommended(
    effects: list[float], pairs: Mapping[tuple[int, int], float] = {}, *, kind: str = "auto", higher: bool = True
) -> Row | None:
    design = make_design(kind, factors(len(effects)))  # type: ignore[arg-type]
    values = simulate(np.random.default_rng(1), truth(design, effects, pairs), trials=30)
    found = attribute(design, design.rows, values, higher_is_better=higher)
    return recommend(design, found, higher_is_better=higher)


def test_what_helps_is_on_and_the_rest_is_off() -> None:
    assert recommended([0.1, 0.0, -0.1, 0.05]) == (1, 0, 0, 1)


def test_less_is_better_for_cpu_time() -> None:
    assert recommended([0.1, 0.0, -0.1], higher=False) == (0, 0, 1)


def test_two_that_harm_each_other_are_not_both_recommended() -> None:
    assert recommended([0.1, 0.06, 0.0], {(0, 1): -0.12}) == (1, 0, 0)


def test_two_that_help_only_together_are_both_recommended() -> None:
    assert recommended([0.0, 0.0, 0.0], {(0, 2): 0.1}) == (1, 0, 1)


def test_two_that_harm_only_together_are_not_recommended_for_what_is_not_told_of_them() -> None:
    assert recommended([0.001, 0.001], {(0, 1): -0.2}) is None


def test_steps_are_taken_as_far_as_they_lead_to_the_best() -> None:
    assert recommended([0.05, -0.1, 0.2, 0.0], kind="steps") == (1, 1, 1, 0)
    assert recommended([0.1, -0.1, 0.05, 0.0], kind="steps") == (1, 0, 0, 0), "all three are worse than the first alone"
    assert recommended([0.1, -0.2, 0.05], kind="steps", higher=False) == (1, 1, 0)
    assert recommended([-0.2, 0.05], kind="steps") is None


def test_steps_lead_to_no_row_behind_one_that_died() -> None:
    """A step on both sides of the dead row is not told. Its loss of a quarter must not pass for none."""
    design = make_design("steps", factors(4))
    living = [0, 1, 3, 4]
    values = simulate(np.random.default_rng(1), np.array([0.0, 0.05, -0.30, -0.20]), trials=8, blocks=400)
    rows = [design.rows[number] for number in living]
    found = attribute(design, rows, values, higher_is_better=True)
    assert [each.verdict for each in found.factors] == ["faster", "inconclusive", "inconclusive", "faster"]
    assert recommend(design, found, higher_is_better=True, without=[design.rows[2]]) == (1, 0, 0, 0)


def test_steps_whose_first_row_died_lead_nowhere() -> None:
    design = make_design("steps", factors(3))
    values = simulate(np.random.default_rng(1), np.array([0.0, 0.2, 0.4]), trials=8)
    found = attribute(design, [design.rows[number] for number in (0, 2, 3)], values, higher_is_better=True)
    assert recommend(design, found, higher_is_better=True, without=[design.rows[1]]) is None


@pytest.mark.parametrize("kind", ["auto", "one-at-a-time", "steps"])
def test_nothing_helps(kind: str) -> None:
    assert recommended([0.0, -0.1, 0.0], kind=kind) is None


def test_of_several_levels_the_best_is_taken() -> None:
    design = make_design("one-at-a-time", [Factor(name="pool", levels=("off", "2G", "4G")), *factors(1)])
    true = np.array([0.1 * row[0] for row in design.rows])
    values = simulate(np.random.default_rng(1), true, trials=30)
    assert recommend(design, attribute(design, design.rows, values, higher_is_better=True), higher_is_better=True) == (2, 0)


def test_a_row_whose_server_died_is_never_taken() -> None:
    """All three help, and a server with all three does not live: the best two of them are next."""
    design, dead = make_design("full", factors(3)), (1, 1, 1)
    living = [number for number, row in enumerate(design.rows) if row != dead]
    values = simulate(np.random.default_rng(1), truth(design, [0.2, 0.3, 0.1]), trials=30)[:, living]
    found = attribute(design, [design.rows[number] for number in living], values, higher_is_better=True)
    assert recommend(design, found, higher_is_better=True) == dead
    assert recommend(design, found, higher_is_better=True, without=[dead]) == (1, 1, 0)
    single = make_design("full", factors(1))
    alone = attribute(single, single.rows, values[:, :2], higher_is_better=True)
    assert recommend(single, alone, higher_is_better=True) == (1,)
    assert recommend(single, alone, higher_is_better=True, without=[(1,)]) is None


def attributed(design: Design, true: list[float], noise: float) -> Attribution:
    """Rows that lie exactly so over five trials, but for ``noise``, which each second row has the other way round."""
    rows = np.array([0, *(noise * (-1) ** number for number in range(len(true) - 1))])
    values = np.array(true) + rows * np.array([[-1], [1], [-1], [1], [0]])
    return attribute(design, design.rows, values, higher_is_better=True)


def exactly(design: Design, true: list[float], noise: float = 0.001) -> Row | None:
    return recommend(design, attributed(design, true, noise), higher_is_better=True)


def test_one_at_a_time_names_none_for_what_all_together_lack() -> None:
    """Alone each is 0.1 % better by luck; together they are 20 % worse, which is found."""
    design, lucky = make_design("one-at-a-time", factors(4)), [0, 0.001, 0.001, 0.001, 0.001, -0.2]
    found = attributed(design, lucky, 0.006)
    assert len(found.does_not_add_up()) == 1 and not {each.verdict for each in found.factors} & {"faster", "slower"}
    assert exactly(design, lucky, 0.006) is None


def test_one_at_a_time_recommends_not_all_where_all_together_lose() -> None:
    """Which two harm each other was not measured: the best alone is what is known."""
    design = make_design("one-at-a-time", factors(3))
    assert exactly(design, [0, 0.05, 0.06, 0.04, -0.1]) == (0, 1, 0)
    assert exactly(design, [0, 0.05, 0.06, 0.04, 0.14]) == (1, 1, 1), "a small part of the gain is missing"
    assert exactly(design, [0, 0.0, 0.0, 0.0, 0.14]) == (1, 1, 1), "only together, as it was measured"


def test_one_at_a_time_the_row_with_all_on_counts_as_it_was_measured() -> None:
    """One factor helps by 3 %, five cost 1.2 % each, which is too little to be found; all on is 1.5 % better."""
    design = make_design("one-at-a-time", factors(6))
    true = np.array([0.0, 0.03, *[-0.012] * 5, 0.015])
    for seed in range(20):
        values = true + np.random.default_rng(seed).normal(0, 0.008, (6, len(true)))
        found = attribute(design, design.rows, values, higher_is_better=True)
        assert found.total
        chosen = recommend(design, found, higher_is_better=True)
        assert chosen != (1,) * 6, seed


def test_one_at_a_time_all_on_is_not_taken_where_it_is_not_told_apart_from_off() -> None:
    """That each alone harms, and all together do not, is no gain."""
    design = make_design("one-at-a-time", factors(3))
    true = [0, -0.10, -0.10, -0.10, 0.0005]
    assert attributed(design, true, 0.001).does_not_add_up()
    assert exactly(design, true) is None


def test_groups_of_a_grid_that_do_not_add_up_name_none_of_their_factors() -> None:
    """A and B together harm beside C: that is no pair of factors."""
    design = make_design("grid", factors(3), [(1, 0, 0), (0, 1, 0), (1, 1, 0), (0, 0, 1), (1, 1, 1)])
    lucky = [0, 0.001, 0.001, 0.002, 0.001, -0.2]
    (beyond,) = attributed(design, lucky, 0.006).does_not_add_up()
    assert (beyond.first, beyond.second) == (("A", "B"), ("C",))
    assert exactly(design, lucky, 0.006) is None


def test_a_pair_of_levels_counts_where_factors_have_several() -> None:
    """4G and A are each better alone, and harm each other: 4G by itself is the best, though A helps on the whole."""
    design = make_design("full", [Factor(name="pool", levels=("off", "2G", "4G")), *factors(1)])
    true = [(0.0, 0.05, 0.15)[pool] + 0.06 * more - 0.14 * (pool == 2) * more for pool, more in design.rows]
    found = attributed(design, true, 0.001)
    assert [each.verdict for each in found.factors] == ["faster"] * 3
    assert exactly(design, true) == (2, 0)


def test_many_factors_are_chosen_from_at_once() -> None:
    """Thirty that all help: no walk through all their combinations."""
    design = make_design("one-at-a-time", [Factor(name=f"f{number}", levels=("off", "on")) for number in range(30)])
    assert exactly(design, [0.05 * sum(row) for row in design.rows]) == (1,) * 30


def test_the_estimate_of_a_chosen_set_is_too_high() -> None:
    """Why only what is confirmed is published: of eight factors that do nothing, those that seem to help do so by luck."""
    design = make_design("auto", factors(8))
    chance = np.random.default_rng(2)
    seeming = []
    for _ in range(100):
        values = simulate(chance, truth(design, [0.0] * 8), trials=4)
        found = attribute(design, design.rows, values, higher_is_better=True)
        shares = [each.share.ratio for each in found.factors if each.share]
        seeming.append(np.prod([ratio for ratio in shares if ratio > 1]))
        assert (
            recommend(design, found, higher_is_better=True) is None
            or min(each.share.chance for each in found.factors if each.share) < 0.01
        )
    assert np.mean(seeming) > 1.01
