"""Components of variance come out as they were put in."""

from __future__ import annotations

import numpy as np
import pytest
from fake_bench import one_slice

from upshift.measure.model import Slice
from upshift.measure.variance import SOURCES, components, spread


def nested(chance: np.random.Generator, shape: tuple[int, ...], sds: tuple[float, ...]) -> np.ndarray:
    values = np.zeros(shape)
    for axis, sd in enumerate(sds):
        values += chance.normal(0, sd, shape[: axis + 1]).reshape(*shape[: axis + 1], *[1] * (len(shape) - axis - 1))
    return values


def test_each_source_has_the_variance_that_it_was_given() -> None:
    chance, sds = np.random.default_rng(1), (0.05, 0.04, 0.03, 0.05)
    found = [components(nested(chance, (4, 4, 5, 6), sds), SOURCES) for _ in range(300)]
    for number, sd in enumerate(sds):
        assert np.mean([each[number].log_sd ** 2 for each in found]) == pytest.approx(sd**2, rel=0.15)
    assert [each.source for each in found[0]] == list(SOURCES)
    assert sum(each.share for each in found[0]) == pytest.approx(1)


def test_a_source_with_one_member_is_left_out_and_no_variance_is_negative() -> None:
    chance = np.random.default_rng(2)
    found = components(nested(chance, (1, 4, 50), (0.0, 0.0, 0.1)), ("training", "layout", "start"))
    assert [each.source for each in found] == ["layout", "start"]
    assert found[0].log_sd >= 0
    assert found[1].log_sd == pytest.approx(0.1, rel=0.15)


def test_what_does_not_vary_has_no_share() -> None:
    assert [each.share for each in components(np.zeros((2, 3)), ("layout", "start"))] == [0, 0]


def pair(trial: int, number: int, ratio: float, **changes: object) -> list[Slice]:
    return [
        one_slice(trial=trial, round=number, arm="plain", queries=1_000_000, **changes),
        one_slice(trial=trial, round=number, arm="quick", queries=round(1_000_000 * ratio), **changes),
    ]


def in_turns(trial: int, **changes: object) -> list[Slice]:
    """A trial whose arms never ended a query in the same round: statements longer than a slice."""
    return [
        one_slice(trial=trial, round=number, arm=arm, queries=queries, **changes)
        for number, ended in enumerate(((1, 0), (0, 1)))
        for arm, queries in zip(("plain", "quick"), ended, strict=True)
    ]


def test_a_trial_without_a_common_round_says_nothing_of_the_spread() -> None:
    known = [each for trial, ratio in enumerate((1.0, 1.1, 1.3)) for n in (0, 1) for each in pair(trial, n, ratio + 0.05 * n)]
    expected = spread(known)
    assert expected["start_log_sd"] > 0.05 and expected["pair_log_sd"] > 0.01
    assert spread([*known, *in_turns(3)]) == expected


def test_a_load_with_fewer_than_two_such_trials_says_nothing() -> None:
    known = [each for trial, ratio in enumerate((1.0, 1.1, 1.3)) for n in (0, 1) for each in pair(trial, n, ratio + 0.05 * n)]
    other = [*pair(0, 0, 1.0, workload="slow"), *in_turns(1, workload="slow")]
    assert spread([*known, *other]) == spread(known)
    assert spread(other) == {}
