"""Designs: which combinations of levels are measured, and which effects these rows cannot tell apart.

A row names a level of each factor by its number; level 0 is ``off``, the factor left as it is. The first row of each design
is all off: it is what the others are compared with.

Sources: Plackett and Burman, "The Design of Optimum Multifactorial Experiments" (1946); Box, Hunter and Hunter, "Statistics
for Experimenters", chapter 6, for the fractions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from upshift.errors import UsageError
from upshift.values import Value

Kind = Literal["full", "fractional", "plackett-burman", "one-at-a-time", "steps", "grid"]
Row = tuple[int, ...]

MOST_ROWS = 64
"""More rows than this are refused: they would share a budget of hours in slices of minutes."""
_MOST_FULL = 16
_MOST_SCREENED = 15
_TWELVE = (1, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0)
"""The cyclic first row of Plackett and Burman's design for up to 11 factors in 12 rows."""
_HIGH, _LOW = 1, -1


class Factor(Value):
    """Something that is varied, with its levels; the first is ``off``."""

    name: str
    levels: tuple[str, ...]


class Design(Value):
    """The rows that are measured."""

    kind: Kind
    factors: tuple[Factor, ...]
    rows: tuple[Row, ...]
    """All off first, each row once."""
    pairs: bool
    """Whether effects of two factors together are told from those of one."""
    aliases: tuple[str, ...]
    """What the rows cannot tell apart, in sentences; empty when everything is clear."""

    def name(self, row: Row) -> str:
        """``off``, or the factors that are not: ``builtin+unroll``, ``allocator=jemalloc``."""
        on = [_level_name(factor, level) for factor, level in zip(self.factors, row, strict=True) if level]
        return "+".join(on) or "off"

    @property
    def two_levels(self) -> bool:
        return all(len(factor.levels) == 2 for factor in self.factors)


def make_design(kind: Kind | Literal["auto"], factors: Sequence[Factor], listed: Sequence[Row] = ()) -> Design:
    """The rows for these factors; ``listed`` are a grid's own. Raises UsageError when the design does not fit the factors."""
    factors = tuple(factors)
    chosen = _automatic(factors) if kind == "auto" else kind
    rows = _with_base(_ROWS[chosen](factors, tuple(listed)), len(factors))
    if len(rows) > MOST_ROWS:
        raise UsageError(
            f'design = "{chosen}" has {len(rows)} rows, at most {MOST_ROWS} are measured',
            "leave factors, levels or rows out",
        )
    pairs = chosen not in ("plackett-burman", "one-at-a-time", "steps")
    return Design(kind=chosen, factors=factors, rows=rows, pairs=pairs, aliases=_aliases(chosen, factors, rows))


def signs(rows: Sequence[Row]) -> np.ndarray:
    """Rows as a matrix of -1 (off) and 1 (on), for factors of two levels."""
    return np.where(np.array(rows) > 0, _HIGH, _LOW)


def alike(first: np.ndarray, second: np.ndarray) -> int:
    """1 or -1 when two columns are the same, or opposite; else 0."""
    product = first * second
    return int(product[0]) if np.all(product == product[0]) else 0


def chains(rows: Sequence[Row], factors: Sequence[str]) -> tuple[tuple[tuple[str, str], ...], ...]:
    """Pairs of factors that always go together, in groups of two or more."""
    columns = signs(rows)
    groups: list[list[tuple[int, int]]] = []
    for pair in itertools.combinations(range(len(factors)), 2):
        mine = columns[:, pair[0]] * columns[:, pair[1]]
        for group in groups:
            first = group[0]
            if alike(columns[:, first[0]] * columns[:, first[1]], mine):
                group.append(pair)
                break
        else:
            groups.append([pair])
    return tuple(tuple((factors[i], factors[j]) for i, j in group) for group in groups if len(group) > 1)


def _automatic(factors: tuple[Factor, ...]) -> Kind:
    if math.prod(len(factor.levels) for factor in factors) <= _MOST_FULL:
        return "full"
    if any(len(factor.levels) > 2 for factor in factors) or len(factors) > _MOST_SCREENED:
        return "one-at-a-time"
    return "fractional" if len(factors) <= 8 else "plackett-burman"


def _full(factors: tuple[Factor, ...], _listed: tuple[Row, ...]) -> list[Row]:
    size = math.prod(len(factor.levels) for factor in factors)
    if size > MOST_ROWS:
        raise UsageError(
            f'design = "full" has {size} rows, at most {MOST_ROWS} are measured', 'choose design = "auto", or leave factors out'
        )
    return list(itertools.product(*(range(len(factor.levels)) for factor in factors)))


def _fractional(factors: tuple[Factor, ...], _listed: tuple[Row, ...]) -> list[Row]:
    """Five factors in 16 rows, resolution V, the fifth opposite to the product of the others so that all off is among the
    rows; six to eight in 16 rows, resolution IV, by E=BCD F=ACD G=ABC H=ABD, which has all off and all on.
    """
    _need_two_levels("fractional", factors, least=5, most=8)
    rows = []
    for base in itertools.product((_LOW, _HIGH), repeat=4):
        a, b, c, d = base
        further = (-a * b * c * d,) if len(factors) == 5 else (b * c * d, a * c * d, a * b * c, a * b * d)
        rows.append(tuple(int(sign > 0) for sign in (*base, *further))[: len(factors)])
    return rows


def _screening(factors: tuple[Factor, ...], _listed: tuple[Row, ...]) -> list[Row]:
    """Up to 11 factors in 12 rows, up to 15 in 16."""
    _need_two_levels("plackett-burman", factors, least=2, most=_MOST_SCREENED)
    if len(factors) <= len(_TWELVE):
        full = [tuple(_TWELVE[(column - shift) % 11] for column in range(11)) for shift in range(11)] + [(0,) * 11]
    else:
        # The columns of the 16-row design are all products of four; an odd sign keeps all off among the rows.
        subsets = [part for size in range(1, 5) for part in itertools.combinations(range(4), size)]
        full = [
            tuple(int(_LOW ** (len(part) + 1) * math.prod(base[n] for n in part) > 0) for part in subsets)
            for base in itertools.product((_LOW, _HIGH), repeat=4)
        ]
    return [row[: len(factors)] for row in full]


def _one_at_a_time(factors: tuple[Factor, ...], _listed: tuple[Row, ...]) -> list[Row]:
    """Each level alone; with two levels each, also all on: whether they add up shows there."""
    off = (0,) * len(factors)
    rows = [(*off[:n], level, *off[n + 1 :]) for n, factor in enumerate(factors) for level in range(1, len(factor.levels))]
    if _has_all_on(factors):
        rows.append((1,) * len(factors))
    return rows


def _has_all_on(factors: tuple[Factor, ...]) -> bool:
    """Whether one at a time there is a row with all on: of one factor it would be that alone, and levels leave a choice."""
    return len(factors) > 1 and all(len(factor.levels) == 2 for factor in factors)


def _steps(factors: tuple[Factor, ...], _listed: tuple[Row, ...]) -> list[Row]:
    """Each factor on top of those before it, in the order of the file."""
    _need_two_levels("steps", factors, least=1, most=MOST_ROWS - 1)
    return [tuple(int(number < on) for number in range(len(factors))) for on in range(1, len(factors) + 1)]


def _grid(_factors: tuple[Factor, ...], listed: tuple[Row, ...]) -> list[Row]:
    if not listed:
        raise UsageError('design = "grid" needs rows', 'list them: rows = [[], ["first"], ["first", "second"]]')
    return list(listed)


_ROWS = {
    "full": _full,
    "fractional": _fractional,
    "plackett-burman": _screening,
    "one-at-a-time": _one_at_a_time,
    "steps": _steps,
    "grid": _grid,
}


def _with_base(rows: Sequence[Row], count: int) -> tuple[Row, ...]:
    return tuple(dict.fromkeys([(0,) * count, *rows]))


def _need_two_levels(kind: str, factors: tuple[Factor, ...], *, least: int, most: int) -> None:
    if any(len(factor.levels) > 2 for factor in factors):
        raise UsageError(
            f'design = "{kind}" takes factors of two levels, and {_many(factors)} has more',
            'choose design = "full" or "one-at-a-time"',
        )
    if not least <= len(factors) <= most:
        raise UsageError(f'design = "{kind}" takes {least} to {most} factors, not {len(factors)}', 'choose design = "auto"')


def _many(factors: tuple[Factor, ...]) -> str:
    return next(f"'{factor.name}'" for factor in factors if len(factor.levels) > 2)


def _aliases(kind: Kind, factors: tuple[Factor, ...], rows: tuple[Row, ...]) -> tuple[str, ...]:
    if kind == "one-at-a-time":
        missing = " Where all together give another sum, each factor bears an equal part of what is missing."
        return ("Each factor is measured alone; pairs are not." + missing * _has_all_on(factors),)
    if kind == "plackett-burman":
        return ("Each factor's effect is mixed with pairs of the others, which are taken for nothing.",)
    if kind == "steps":
        return ("Each factor is switched on beside those before it, and that is its share: in another order it has another.",)
    if kind == "grid":
        return ("Rows as listed: only rows that differ in one factor, or in one group of factors, tell what it does.",)
    if any(len(factor.levels) > 2 for factor in factors):
        return ()
    found = chains(rows, [factor.name for factor in factors])
    told = [" = ".join(" with ".join(pair) for pair in chain) for chain in found]
    fitted = (
        "Alone, last and all together are fitted over all rows, where these tell all pairs: what three factors do only "
        "together is taken for nothing."
    )
    return (
        *((fitted,) if len(factors) > 2 else ()),
        *(f"These pairs are one figure, which they share equally: {chain}." for chain in told),
    )


def _level_name(factor: Factor, level: int) -> str:
    return factor.name if len(factor.levels) == 2 else f"{factor.name}={factor.levels[level]}"
