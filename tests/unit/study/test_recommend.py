"""The recommended set has what helps, drops what harms beside it, and may be empty."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from simulated import factors, simulate, truth

from upshift.study.attribution import attribute
from upshift.study.designs import Factor, Row, make_design
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
