"""Rows that do not fit side by side are dealt evenly, and what their groups do not share is in the intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from simulated import SPREADS, factors, in_groups, truth

from upshift.study.attribution import Attribution, attribute
from upshift.study.dealing import deal, group_count
from upshift.study.designs import Design, Factor, Kind, make_design, signs
from upshift.study.intervals import LEVEL, servers_of, spreads
from upshift.study.power import half_width

STUDIES = 400
ALL_BUT = LEVEL + 3 * math.sqrt(LEVEL * (1 - LEVEL) / STUDIES)
"""Three standard errors of so many studies above 1 in 100."""

Groups = list[list[int]]


def dealt(design: Design, at_once: int) -> Groups:
    """Numbers of rows, without the first one, which is in each group."""
    names = [design.name(row) for row in design.rows]
    return [[names.index(name) for name in group[1:]] for group in deal(list(zip(names, design.rows, strict=True)), at_once)]


def every(count: int, rows: int) -> Groups:
    """As rows come: a factor that changes from row to row is on in one group and off in the other."""
    return [list(range(1, rows))[number::count] for number in range(count)]


def judged(design: Design, values: np.ndarray, groups: Sequence[Sequence[int]]) -> Attribution:
    names = [design.name(row) for row in design.rows]
    of = {names[row]: number for number, group in enumerate(groups) for row in group}
    servers = servers_of(names, names[0], of)
    return attribute(design, design.rows, values, higher_is_better=True, servers=servers)


@pytest.mark.parametrize(("count", "at_once"), [(3, 5), (4, 9), (4, 5), (4, 6), (5, 9), (6, 9), (7, 9), (8, 9), (8, 5)])
def test_every_factor_is_on_in_half_of_each_group(count: int, at_once: int) -> None:
    design = make_design("auto", factors(count))
    groups = dealt(design, at_once)
    assert len(groups) == group_count(len(design.rows), at_once)
    assert sorted(row for group in groups for row in group) == list(range(1, len(design.rows)))
    assert max(map(len, groups)) < at_once and max(map(len, groups)) - min(map(len, groups)) <= 1
    for column in signs(design.rows).T:
        assert all(abs(column[group].sum()) <= 1 for group in groups)


def test_two_groups_of_four_factors_are_even_in_pairs_too() -> None:
    design = make_design("full", factors(4))
    groups, columns = dealt(design, 9), signs(design.rows)
    for i in range(4):
        for j in range(i):
            assert all(abs((columns[:, i] * columns[:, j])[group].sum()) <= 1 for group in groups)


def test_levels_are_dealt_evenly_too() -> None:
    design = make_design("full", [Factor(name="pool", levels=("off", "2G", "4G")), *factors(2)])
    for group in dealt(design, 7):
        found = [design.rows[row][0] for row in group]
        assert max(map(found.count, range(3))) - min(map(found.count, range(3))) <= 1


def test_rows_that_fit_side_by_side_are_one_group_in_their_order() -> None:
    assert deal([("a", (0, 0)), ("b", (0, 1)), ("c", (1, 0))], 8) == (("a", "b", "c"),)
    assert deal([("a", (0,)), ("b", (1,)), ("c", (2,))], 2) == (("a", "b"), ("a", "c"))


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("evenly", [True, False])
def test_what_does_nothing_is_named_in_one_study_of_a_hundred(count: int, evenly: bool) -> None:
    """With groups dealt as they are, and as badly as can be: the intervals know how the groups are made."""
    design = make_design("full", factors(4))
    groups = dealt(design, math.ceil(15 / count) + 1) if evenly else every(count, 16)
    assert len(groups) == count
    chance = np.random.default_rng(count)
    named = [0, 0]
    for _ in range(STUDIES):
        found = judged(design, in_groups(chance, truth(design, [0.0] * 4), groups, trials=4), groups)
        named[0] += any(each.verdict in ("faster", "slower") for each in found.factors)
        named[1] += bool(found.does_not_add_up())
    assert max(named) / STUDIES <= ALL_BUT


def test_the_error_of_a_factor_that_is_dealt_unevenly_is_that_of_its_groups() -> None:
    """Eight rows with it and seven without, each lot beside a start of its own: eight times the variance of the others."""
    design = make_design("full", factors(4))
    groups, errors = every(2, 16), []
    chance = np.random.default_rng(1)
    names = [design.name(row) for row in design.rows]
    servers = servers_of(names, names[0], {names[row]: number for number, group in enumerate(groups) for row in group})
    weights = signs(design.rows).T / 8
    for _ in range(STUDIES):
        values = in_groups(chance, truth(design, [0.0] * 4), groups, trials=8)
        errors.append([spread.error for spread in spreads(values, weights, servers=servers)])
    first, *_others, last = np.sqrt(np.mean(np.array(errors) ** 2, axis=0))
    assert last / first == pytest.approx(math.sqrt(8), rel=0.05)


def test_rows_in_different_groups_differ_by_both_starts() -> None:
    """Of four servers: two rows and two starts of all off."""
    servers = servers_of(["off", "a", "b"], "off", {"a": 0, "b": 1})
    apart, beside = (np.array(each) for each in ([0, 1, -1], [-1, 1, 0]))
    assert [float(np.sum((each @ servers) ** 2)) for each in (apart, beside)] == [4, 2]
    together = servers_of(["off", "a", "b"], "off", {"a": 0, "b": 0})
    assert float(np.sum((apart @ together) ** 2)) == 2


def test_the_rows_of_a_duet_each_have_a_start_of_their_own() -> None:
    design = make_design("full", factors(2))
    groups = dealt(design, 2)
    chance = np.random.default_rng(2)
    named = sum(
        any(
            each.verdict in ("faster", "slower")
            for each in judged(design, in_groups(chance, truth(design, [0.0] * 2), groups, trials=5), groups).factors
        )
        for _ in range(STUDIES)
    )
    assert groups == [[1], [2], [3]]
    assert named / STUDIES <= ALL_BUT


def test_contrasts_that_depend_on_those_before_them_say_nothing_of_their_own() -> None:
    """Three contrasts of two servers, the dependent one in the middle: the noise of two, whatever their order."""
    values = np.random.default_rng(3).normal(0, 1, (6, 3))
    one, other = [-1.0, 1.0, 0.0], [-1.0, 0.0, 1.0]
    for weights in ([one, [-2.0, 2.0, 0.0], other], [one, other, [-2.0, 2.0, 0.0]]):
        first, *_rest = spreads(values, np.array(weights))
        assert first.freedom == spreads(values, np.array([one, other]))[0].freedom
        assert first.error == pytest.approx(spreads(values, np.array([one, other]))[0].error)


@pytest.mark.parametrize(
    ("kind", "count", "at_once", "wider"),
    [("steps", 3, 2, 2.0), ("full", 2, 2, 1.5), ("full", 4, 9, 1.0), ("full", 4, 16, 1.0)],
)
def test_the_half_width_to_expect_is_that_of_the_groups(kind: Kind, count: int, at_once: int, wider: float) -> None:
    """Two steps of a duet are two pairs: four servers, where two are in a step of rows that run side by side."""
    design, trials = make_design(kind, factors(count)), 3000
    groups = dealt(design, at_once)
    noise = {name: SPREADS["calm"][name] for name in ("start_log_sd", "pair_log_sd")}
    named = [[design.name(design.rows[row]) for row in group] for group in groups]
    expected = half_width(design, trials, blocks=24, groups=named, **noise)
    assert expected / half_width(design, trials, blocks=24, **noise) == pytest.approx(math.sqrt(wider))
    values = in_groups(np.random.default_rng(4), truth(design, [0.0] * count), groups, trials=trials)
    shares = [each.share for each in judged(design, values, groups).factors]
    widest = max(math.log(each.ci_high / each.ci_low) / 2 for each in shares if each)
    assert widest == pytest.approx(expected, rel=0.05)
