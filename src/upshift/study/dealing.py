"""Rows dealt into groups that run side by side, each with a start of all off of its own.

That start's luck is in all figures of its group. A factor that were on in one whole group and off in another could not be told
from it, so that each level is spread evenly over the groups, and each pair of levels as far as that leaves room.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

import numpy as np

from upshift.study.designs import Row

_SEED, _TIMES = 1, 20
_EXACT = 1e-9
_PAIRS = 1e-3
"""What an uneven pair counts for beside an uneven level: of all ways that are even in the levels, the evenest in pairs."""


def group_count(arms: int, at_once: int) -> int:
    """How many groups ``arms`` run in, of at most ``at_once``, the first of all in each."""
    return max(1, math.ceil((arms - 1) / max(1, at_once - 1)))


def deal(arms: Sequence[tuple[str, Row]], at_once: int) -> tuple[tuple[str, ...], ...]:
    """The names of those that run side by side, the first of all in each group; the same for the same rows."""
    (first, _off), *others = arms
    count = group_count(len(arms), at_once)
    if count == 1:
        return ((first, *(name for name, _row in others)),)
    kin = _kinship([row for _name, row in others])
    start = np.arange(len(others)) % count
    chance = random.Random(_SEED)
    tried = [_settled(kin, start)]
    for _ in range(_TIMES):
        chance.shuffle(shuffled := start.tolist())
        tried.append(_settled(kin, np.array(shuffled)))
    _uneven, dealt = min(tried, key=lambda each: round(each[0], 6))
    return tuple(
        (first, *(name for (name, _row), group in zip(others, dealt, strict=True) if group == number))
        for number in range(count)
    )


def _kinship(rows: Sequence[Row]) -> np.ndarray:
    """How much two rows have in common, in levels and pairs of levels: the sum over a group says how uneven it is."""
    levels = np.array(rows).T
    coded = [np.array([(factor == level) - 1 / (factor.max() + 1) for level in range(factor.max() + 1)]) for factor in levels]
    singles = np.array([column for factor in coded for column in factor])
    pairs = [a * b for one, other in itertools.combinations(coded, 2) for a, b in itertools.product(one, other)]
    both = np.array(pairs) if pairs else np.zeros((1, len(rows)))
    return np.asarray(singles.T @ singles + _PAIRS * both.T @ both)


def _settled(kin: np.ndarray, groups: np.ndarray) -> tuple[float, np.ndarray]:
    """How uneven the groups are once no exchange of two rows makes them more even, and the groups: numbers by row."""
    groups = groups.copy()
    own = np.diag(kin)
    apart = 2 * (own[:, None] + own[None, :] - 2 * kin)
    while True:
        inside = (groups[:, None] == np.arange(groups.max() + 1)).astype(float)
        to_mine = (kin @ inside)[:, groups]  # of each row, to the group of each other row
        to_own = np.diag(to_mine)
        # What it changes that row i leaves for the group of row j, which comes in its place.
        change = apart + 2 * (to_mine.T + to_mine - to_own[:, None] - to_own[None, :])
        change[groups[:, None] == groups[None, :]] = 0
        i, j = np.unravel_index(np.argmin(change), change.shape)
        if change[i, j] > -_EXACT:
            return float(np.sum(inside * (kin @ inside))), groups
        groups[[i, j]] = groups[[j, i]]
