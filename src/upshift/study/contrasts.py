"""Contrasts of a design: weights of its rows that add up to 0, whose sums of logarithms are what the factors do."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from upshift.study.designs import Design, Row, signs

Weights = np.ndarray
_EXACT = 1e-9


@dataclass
class Contrasts:
    """Weights of rows, by what they tell."""

    alone: dict[tuple[int, int], Weights] = field(default_factory=dict)
    last: dict[tuple[int, int], Weights] = field(default_factory=dict)
    share: dict[tuple[int, int], Weights] = field(default_factory=dict)
    together: dict[tuple[Row, Row], Weights] = field(default_factory=dict)
    shared: set[tuple[Row, Row]] = field(default_factory=set)
    total: Weights | None = None
    without_pairs: bool = False
    """Whether rows are missing, so that shares are fitted as if the factors did nothing together."""


def contrasts_of(design: Design, measured: tuple[Row, ...]) -> Contrasts:
    """All that these rows of a design tell; nothing without the row that has all off."""
    at = {row: number for number, row in enumerate(measured)}
    made = Contrasts()
    off = (0,) * len(design.factors)
    if off not in at:
        return made
    _between_rows(design, at, off, made)
    if design.kind == "one-at-a-time":
        _missing_part(design, off, made)
    elif design.kind == "steps":
        _one_after_another(design, at, made)
    elif design.kind == "grid":
        _squares(at, off, made)
        made.share = _fitted(design, measured)
    elif design.two_levels:
        _main_effects(design, measured, made)
    else:
        _margins(design, measured, made)
    # A grid is fitted so whatever its rows are.
    if design.pairs and design.kind != "grid" and not made.share and (fitted := _fitted(design, measured)):
        made.share, made.without_pairs = fitted, True
        made.together, made.shared = {}, set()
    return made


def _between_rows(design: Design, at: Mapping[Row, int], off: Row, made: Contrasts) -> None:
    """What rows that differ in one factor alone tell directly."""
    on = tuple(1 for _ in off)
    for number, factor in enumerate(design.factors):
        for level in range(1, len(factor.levels)):
            if (alone := with_level(off, number, level)) in at:
                made.alone[number, level] = difference(at, alone, off)
        if design.two_levels and on in at and (without := with_level(on, number, 0)) in at:
            made.last[number, 1] = difference(at, on, without)
    if design.two_levels and on in at:
        made.total = difference(at, on, off)


def _missing_part(design: Design, off: Row, made: Contrasts) -> None:
    """One at a time: what all together do beyond the sum, in equal parts."""
    if made.total is None or len(made.alone) < len(design.factors):
        return
    beyond = made.total - sum(made.alone.values())
    made.share = {key: alone + beyond / len(design.factors) for key, alone in made.alone.items()}
    on = tuple(1 for _ in off)
    if len(design.factors) > 1:
        made.together[on, off] = beyond


def _one_after_another(design: Design, at: Mapping[Row, int], made: Contrasts) -> None:
    """Steps: each row against the one before it. They add up to the total whatever the factors do together."""
    for number, (before, row) in enumerate(itertools.pairwise(design.rows)):
        if before in at and row in at:
            made.share[number, 1] = difference(at, row, before)


def _squares(at: Mapping[Row, int], off: Row, made: Contrasts) -> None:
    """A grid: every two groups of factors that stand in a row each, and in one together."""
    rows = [row for row in at if row != off]
    for first, second in itertools.combinations(rows, 2):
        if not any(a and b for a, b in zip(first, second, strict=True)):
            both = tuple(a or b for a, b in zip(first, second, strict=True))
            if both in at:
                made.together[first, second] = difference(at, both, first) - difference(at, second, off)


def _margins(design: Design, measured: tuple[Row, ...], made: Contrasts) -> None:
    """A full design with more than two levels: means over all rows that have a level, less those that have it off."""
    if set(measured) != set(design.rows):
        return
    rows = np.array(measured)

    def mean(*chosen: tuple[int, int]) -> Weights:
        inside = np.all([rows[:, number] == level for number, level in chosen], axis=0)
        return np.asarray(inside / inside.sum())

    levels = [(n, level) for n, factor in enumerate(design.factors) for level in range(1, len(factor.levels))]
    off = (0,) * len(design.factors)
    for number, level in levels:
        made.share[number, level] = mean((number, level)) - mean((number, 0))
    for (i, a), (j, b) in itertools.combinations(levels, 2):
        if i != j:
            beyond = mean((i, a), (j, b)) - mean((i, a), (j, 0)) - mean((i, 0), (j, b)) + mean((i, 0), (j, 0))
            made.together[with_level(off, i, a), with_level(off, j, b)] = beyond


def _fitted(design: Design, measured: tuple[Row, ...]) -> dict[tuple[int, int], Weights]:
    """Least squares as if the factors did nothing together: each level that the rows tell, beside its factor's off."""
    levels = [(number, level) for number, factor in enumerate(design.factors) for level in range(1, len(factor.levels))]
    on = [[float(row[number] == level) for number, level in levels] for row in measured]
    solve, _seen, clear = _solved(np.column_stack([np.ones(len(measured)), on]))
    return {each: solve[1 + n] for n, each in enumerate(levels) if clear[1 + n]}


def _solved(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[bool]]:
    """Of all solutions by least squares the shortest; what it sees of each column; and which are clear of all others."""
    solve = np.linalg.pinv(matrix)
    seen = solve @ matrix
    return solve, seen, [bool(np.allclose(row, one, atol=_EXACT)) for row, one in zip(seen, np.eye(len(seen)), strict=True)]


def _main_effects(design: Design, measured: tuple[Row, ...], made: Contrasts) -> None:
    """Least squares on factors coded -1 and 1; of all solutions the shortest, which shares out what cannot be told apart."""
    count = len(design.factors)
    off = (0,) * count
    columns = signs(measured)
    named = list(itertools.combinations(range(count), 2)) if design.pairs else []
    matrix = np.column_stack([np.ones(len(columns)), columns, *(columns[:, i] * columns[:, j] for i, j in named)])
    solve, seen, clear = _solved(matrix)
    pair_weights = {pair: 4 * solve[1 + count + n] for n, pair in enumerate(named)}
    untold: set[int] = set()
    for pair, weights in pair_weights.items():
        # A pair is one figure with others, or mixed with main effects when rows are missing: then it is not told at all.
        mixed = np.abs(seen[1 + count + named.index(pair), : 1 + count]).max() > _EXACT
        if mixed:
            untold.update(pair)
        else:
            key = (with_level(off, pair[0], 1), with_level(off, pair[1], 1))
            made.together[key] = weights
            if not clear[1 + count + named.index(pair)]:
                made.shared.add(key)
    shares = {number: 2 * solve[1 + number] for number in range(count) if clear[1 + number]}
    for number, share in shares.items():
        made.share[number, 1] = share
        mine = [weights for pair, weights in pair_weights.items() if number in pair]
        if design.pairs and number not in untold:
            made.alone[number, 1] = share - sum(mine, np.zeros_like(share)) / 2
            made.last[number, 1] = share + sum(mine, np.zeros_like(share)) / 2
    if len(shares) == count:
        made.total = sum(shares.values(), np.zeros(len(columns)))


def difference(at: Mapping[Row, int], row: Row, other: Row) -> Weights:
    """Of a row less another; ``at`` has the number of each."""
    weights = np.zeros(len(at))
    weights[at[row]] += 1
    weights[at[other]] -= 1
    return weights


def with_level(row: Row, number: int, level: int) -> Row:
    """The row with another level of one factor."""
    return (*row[:number], level, *row[number + 1 :])
