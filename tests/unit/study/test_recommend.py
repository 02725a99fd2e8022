"""The recommended set has what helps, drops what harms beside it, and may be empty."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from simulated import factors, simulate, truth

from upshift.study.attribution import attribute
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


def test_steps_are_taken_up_to_the_last_that_helped() -> None:
    assert recommended([0.1, -0.1, 0.05, 0.0], kind="steps") == (1, 1, 1, 0)
    assert recommended([0.1, -0.1, 0.05], kind="steps", higher=False) == (1, 1, 0)


@pytest.mark.parametrize("kind", ["auto", "one-at-a-time", "steps"])
def test_nothing_helps(kind: str) -> None:
    assert recommended([0.0, -0.1, 0.0], kind=kind) is None


def test_of_several_levels_the_best_is_taken() -> None:
    design = make_design("one-at-a-time", [Factor(name="pool", levels=("off", "2G", "4G")), *factors(1)])
    true = np.array([0.1 * row[0] for row in design.rows])
    values = simulate(np.random.default_rng(1), true, trials=30)
    assert recommend(design, attribute(design, design.rows, values, higher_is_better=True), higher_is_better=True) == (2, 0)


def exactly(design: Design, true: np.ndarray, noise: np.ndarray) -> Row | None:
    """What is recommended of rows that lie exactly so, but for what each trial has of ``noise``."""
    values = true + noise * np.array([[-1], [1], [-1], [1], [0]])
    return recommend(design, attribute(design, design.rows, values, higher_is_better=True), higher_is_better=True)


def test_one_at_a_time_names_none_for_what_all_together_lack() -> None:
    """Alone each is 0.1 % better by luck; together they are 20 % worse, which is found."""
    design = make_design("one-at-a-time", factors(4))
    lucky = np.array([0, 0.001, 0.001, 0.001, 0.001, -0.2])
    noise = np.array([0.004, -0.004, 0.003, -0.003, 0.002, -0.002])
    found = attribute(design, design.rows, lucky + noise * np.array([[-1], [1], [-1], [1], [0]]), higher_is_better=True)
    assert len(found.does_not_add_up()) == 1 and all(each.verdict == "inconclusive" for each in found.factors)
    assert exactly(design, lucky, noise) is None


def test_one_at_a_time_recommends_not_all_where_all_together_lose() -> None:
    """Which two harm each other was not measured: the best alone is what is known."""
    design = make_design("one-at-a-time", factors(3))
    noise = np.array([0.001, -0.001, 0.001, -0.001, 0.001])
    assert exactly(design, np.array([0, 0.05, 0.06, 0.04, -0.1]), noise) == (0, 1, 0)
    assert exactly(design, np.array([0, 0.05, 0.06, 0.04, 0.14]), noise) == (1, 1, 1), "a small part of the gain is missing"
    assert exactly(design, np.array([0, 0.0, 0.0, 0.0, 0.14]), noise) == (1, 1, 1), "only together, as it was measured"


def test_groups_of_a_grid_that_do_not_add_up_name_none_of_their_factors() -> None:
    rows = [(1, 1, 0, 0), (0, 0, 1, 1), (1, 1, 1, 1)]
    design = make_design("grid", factors(4), rows)
    lucky, noise = np.array([0, 0.001, 0.001, -0.2]), np.array([0.004, -0.004, 0.003, -0.003])
    values = lucky + noise * np.array([[-1], [1], [-1], [1], [0]])
    assert len(attribute(design, design.rows, values, higher_is_better=True).does_not_add_up()) == 1
    assert exactly(design, lucky, noise) is None


def test_a_pair_of_levels_counts_where_factors_have_several() -> None:
    """Each is better alone, 4G and A together are not; 2G and A are."""
    design = make_design("full", [Factor(name="pool", levels=("off", "2G", "4G")), *factors(1)])
    pool, harm = (0.0, 0.05, 0.08), {(2, 1): -0.12}
    true = np.array([pool[row[0]] + 0.06 * row[1] + harm.get(row, 0.0) for row in design.rows])
    assert exactly(design, true, np.array([0.001, -0.001, 0.001, -0.001, 0.001, -0.001])) == (1, 1)


def test_many_factors_are_chosen_from_at_once() -> None:
    """Thirty that all help: no walk through all their combinations."""
    design = make_design("one-at-a-time", [Factor(name=f"f{number}", levels=("off", "on")) for number in range(30)])
    true = np.array([0.05 * sum(row) for row in design.rows])
    assert exactly(design, true, np.tile([0.001, -0.001], 16)) == (1,) * 30


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
