"""Designs have the rows that their literature says, and name what they cannot tell apart."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from upshift.errors import UsageError
from upshift.study.designs import Factor, Kind, chains, make_design, signs


def factors(count: int, levels: int = 2) -> list[Factor]:
    return [Factor(name=letter, levels=("off", *map(str, range(1, levels)))) for letter in "ABCDEFGHIJKLMNOPQ"[:count]]


@pytest.mark.parametrize(
    ("count", "kind", "rows"),
    [
        (1, "full", 2),
        (4, "full", 16),
        (5, "fractional", 16),
        (8, "fractional", 16),
        (9, "plackett-burman", 12),
        (11, "plackett-burman", 12),
        (12, "plackett-burman", 16),
        (15, "plackett-burman", 16),
    ],
)
def test_the_number_of_factors_chooses_the_design(count: int, kind: str, rows: int) -> None:
    design = make_design("auto", factors(count))
    assert (design.kind, len(design.rows)) == (kind, rows)
    assert design.rows[0] == (0,) * count


@pytest.mark.parametrize("count", range(2, 16))
def test_each_factor_is_on_in_half_of_the_rows_and_independent_of_the_others(count: int) -> None:
    columns = signs(make_design("auto", factors(count)).rows)
    assert np.array_equal(columns.T @ columns, len(columns) * np.eye(count))


def test_five_factors_have_resolution_v() -> None:
    design = make_design("auto", factors(5))
    columns = signs(design.rows)
    terms = [columns[:, n] for n in range(5)] + [columns[:, i] * columns[:, j] for i, j in itertools.combinations(range(5), 2)]
    matrix = np.array([np.ones(16), *terms])
    assert np.array_equal(matrix @ matrix.T, 16 * np.eye(16))
    (fitted,) = design.aliases
    assert "what three factors do only together is taken for nothing" in fitted


def test_eight_factors_have_resolution_iv_seven_chains_of_four_and_all_on() -> None:
    design = make_design("auto", factors(8))
    assert (1,) * 8 in design.rows
    columns = signs(design.rows)
    for one, (i, j) in itertools.product(range(8), itertools.combinations(range(8), 2)):
        assert columns[:, one] @ (columns[:, i] * columns[:, j]) == 0
    found = chains(design.rows, [factor.name for factor in design.factors])
    assert [len(chain) for chain in found] == [4] * 7
    assert len(design.aliases) == 8 and "three factors" in design.aliases[0]
    assert any("A with B = C with G" in each and "E with F" in each for each in design.aliases)


def test_one_at_a_time_has_each_level_alone_and_all_on() -> None:
    assert make_design("one-at-a-time", factors(3)).rows == ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1))
    assert make_design("one-at-a-time", factors(2, levels=3)).rows == ((0, 0), (1, 0), (2, 0), (0, 1), (0, 2))


@pytest.mark.parametrize(
    ("given", "said"), [(factors(3), True), (factors(1), False), (factors(1, 3), False), (factors(2, 3), False)]
)
def test_one_at_a_time_says_what_all_together_do_only_where_all_on_is_measured(given: list[Factor], said: bool) -> None:
    design = make_design("one-at-a-time", given)
    (told,) = design.aliases
    assert "measured alone" in told and ("all together" in told) == said
    assert (len(design.rows) > sum(len(factor.levels) - 1 for factor in given) + 1) == said


def test_steps_come_on_top_of_each_other() -> None:
    design = make_design("steps", factors(3))
    assert design.rows == ((0, 0, 0), (1, 0, 0), (1, 1, 0), (1, 1, 1))
    assert not design.pairs and "another order" in design.aliases[0]


def test_many_levels_are_taken_in_full_while_they_are_few() -> None:
    assert len(make_design("auto", factors(2, levels=4)).rows) == 16
    assert make_design("auto", factors(3, levels=3)).kind == "one-at-a-time"


def test_more_factors_than_any_other_design_takes_are_taken_one_at_a_time() -> None:
    assert make_design("auto", factors(15)).kind == "plackett-burman"
    assert make_design("auto", factors(16)).kind == "one-at-a-time"
    with pytest.raises(UsageError, match='"one-at-a-time" has 79 rows, at most 64') as error:
        make_design("auto", factors(2, levels=40))
    assert error.value.hint and "auto" not in error.value.hint


def test_a_grid_has_its_own_rows_once_and_all_off_first() -> None:
    design = make_design("grid", factors(2), [(1, 0), (1, 1), (1, 0)])
    assert design.rows == ((0, 0), (1, 0), (1, 1))
    assert [design.name(row) for row in design.rows] == ["off", "A", "A+B"]


def test_a_level_is_named_where_there_are_several() -> None:
    assert make_design("full", factors(1, levels=3)).name((2,)) == "A=2"


@pytest.mark.parametrize(
    ("kind", "count", "levels", "message"),
    [
        ("full", 7, 2, "128 rows"),
        ("fractional", 4, 2, "5 to 8"),
        ("fractional", 5, 3, "two levels"),
        ("plackett-burman", 16, 2, "2 to 15"),
        ("grid", 2, 2, "needs rows"),
        ("steps", 2, 3, "two levels"),
    ],
)
def test_a_design_that_does_not_fit_is_refused(kind: Kind, count: int, levels: int, message: str) -> None:
    with pytest.raises(UsageError, match=message) as error:
        make_design(kind, factors(count, levels))
    assert error.value.hint
