"""Attribution: what each factor does to the logarithm of the metric, alone, last, and as its share of the whole.

With b_i for each factor and b_ij for each pair: a factor *alone* does b_i, *last* (all others on already) b_i + sum of b_ij,
and its *share* is b_i + half of its pairs. Shares are Shapley's values ("A Value for n-Person Games", 1953) of that model: they
add up to the total exactly. On factors coded -1 and 1 the share is the ordinary main effect, so that designs whose pairs are
mixed with each other still give clear shares; pairs that the rows cannot tell apart are shared out equally.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from upshift.measure.model import Verdict
from upshift.study.designs import Design, Row, signs
from upshift.study.intervals import LEVEL, Effect, Spread, holm, spreads
from upshift.values import Value

Weights = np.ndarray
_EXACT = 1e-9


class FactorEffect(Value):
    """What one level of one factor does. An effect is None where the rows do not tell it."""

    factor: str
    level: str
    alone: Effect | None
    last: Effect | None
    share: Effect | None
    shared_pairs: bool
    """Whether alone and last rest on pairs that are shared out equally, see the design's aliases."""
    verdict: Verdict
    """Of the share; of the factor alone where there is no share, and in a design of one at a time."""


class Together(Value):
    """What two groups of factors do together beyond what each does without the other: 1 when they add up."""

    first: tuple[str, ...]
    second: tuple[str, ...]
    effect: Effect
    shared: bool
    """Whether it is an equal part of a figure that several pairs have in common."""
    verdict: Verdict


class Step(Value):
    """From one measured row to another that has ``changed`` on in addition to ``before``."""

    changed: tuple[str, ...]
    before: tuple[str, ...]
    effect: Effect


class Attribution(Value):
    """What the factors of a study do under one load, or over all of them."""

    total: Effect | None
    """All factors on against all off."""
    factors: tuple[FactorEffect, ...]
    together: tuple[Together, ...]
    confidence: float
    """Of the factors' intervals; ``together_confidence`` of the others."""
    together_confidence: float

    def does_not_add_up(self) -> tuple[Together, ...]:
        return tuple(each for each in self.together if each.verdict in ("faster", "slower"))


@dataclass
class _Contrasts:
    """Weights of rows, by what they tell."""

    alone: dict[tuple[int, int], Weights] = field(default_factory=dict)
    last: dict[tuple[int, int], Weights] = field(default_factory=dict)
    share: dict[tuple[int, int], Weights] = field(default_factory=dict)
    together: dict[tuple[Row, Row], Weights] = field(default_factory=dict)
    shared: set[tuple[Row, Row]] = field(default_factory=set)
    total: Weights | None = None


def attribute(
    design: Design,
    measured: Sequence[Row],
    values: np.ndarray,
    *,
    higher_is_better: bool,
    known_sd: float | None = None,
    servers: np.ndarray | None = None,
) -> Attribution:
    """``values`` are logarithms of the metric (trials x ``measured``), each relative to anything that its trial shares.

    ``measured`` are the design's rows that there are values for: an arm that died has none. ``known_sd`` and ``servers``
    are as for ``intervals.spreads``.
    """
    contrasts = _contrasts(design, tuple(measured))
    known = _estimated(contrasts, values, known_sd, servers)
    levels = [(n, level) for n, factor in enumerate(design.factors) for level in range(1, len(factor.levels))]
    # One at a time, a share has a part of what all together lack: that is no factor's own doing.
    by = ("alone",) if design.kind == "one-at-a-time" else ("share", "alone")
    judged = [next((spread for what in by if (spread := known.get((what, each)))), None) for each in levels]
    found, confidence = holm([each.chance for each in judged if each])
    calls = iter(number in found for number in range(len(levels)))
    effects = []
    for each, spread in zip(levels, judged, strict=True):
        number, level = each
        factor = design.factors[number]
        effects.append(
            FactorEffect(
                factor=factor.name,
                level=factor.levels[level],
                **{
                    what: spread_.effect(confidence) if (spread_ := known.get((what, each))) else None
                    for what in ("alone", "last", "share")
                },
                shared_pairs=any(number in _on(row) for pair in contrasts.shared for row in pair),
                verdict=spread.verdict(confidence, found=next(calls), higher_is_better=higher_is_better)
                if spread
                else "inconclusive",
            )
        )
    together, together_confidence = _together(design, contrasts, known, higher_is_better)
    total = known.get(("total", None))
    return Attribution(
        total=total.effect(confidence) if total else None,
        factors=tuple(effects),
        together=together,
        confidence=confidence,
        together_confidence=together_confidence,
    )


def steps(
    design: Design,
    measured: Sequence[Row],
    values: np.ndarray,
    confidence: float = 1 - LEVEL,
    servers: np.ndarray | None = None,
) -> tuple[Step, ...]:
    """What each group of factors that some row adds to all off does wherever two rows differ in that group alone."""
    at = {row: number for number, row in enumerate(measured)}
    added = [row for row in measured if any(row)]
    pairs = [
        (group, row, both)
        for group in added
        for row in measured
        if not any(a and b for a, b in zip(group, row, strict=True))
        and (both := tuple(a or b for a, b in zip(group, row, strict=True))) in at
    ]
    if not pairs:
        return ()
    found = spreads(values, np.array([_difference(at, both, row) for _group, row, both in pairs]), servers=servers)
    return tuple(
        Step(changed=_names(design, group), before=_names(design, row), effect=spread.effect(confidence))
        for (group, row, _both), spread in zip(pairs, found, strict=True)
    )


def _estimated(
    contrasts: _Contrasts, values: np.ndarray, known_sd: float | None, servers: np.ndarray | None
) -> dict[tuple[str, object], Spread]:
    weights: dict[tuple[str, object], Weights] = {}
    for what in ("share", "together", "alone", "last"):
        weights |= {(what, key): value for key, value in getattr(contrasts, what).items()}
    if contrasts.total is not None:
        weights["total", None] = contrasts.total
    if not weights:
        return {}
    return dict(zip(weights, spreads(values, np.array(list(weights.values())), known_sd, servers), strict=True))


def _together(
    design: Design, contrasts: _Contrasts, known: Mapping[tuple[str, object], Spread], higher_is_better: bool
) -> tuple[tuple[Together, ...], float]:
    pairs = list(contrasts.together)
    estimates = [known["together", pair] for pair in pairs]
    found, confidence = holm([each.chance for each in estimates])
    return tuple(
        Together(
            first=_names(design, pair[0]),
            second=_names(design, pair[1]),
            effect=spread.effect(confidence),
            shared=pair in contrasts.shared,
            verdict=spread.verdict(confidence, found=number in found, higher_is_better=higher_is_better),
        )
        for number, (pair, spread) in enumerate(zip(pairs, estimates, strict=True))
    ), confidence


def _contrasts(design: Design, measured: tuple[Row, ...]) -> _Contrasts:
    at = {row: number for number, row in enumerate(measured)}
    made = _Contrasts()
    off = (0,) * len(design.factors)
    if off not in at:
        return made
    _between_rows(design, at, off, made)
    if design.kind == "one-at-a-time":
        _missing_part(design, at, off, made)
    elif design.kind == "steps":
        _one_after_another(design, at, made)
    elif design.kind == "grid":
        _squares(at, off, made)
        _main_effects(design, measured, made, pairs=False)
    elif not design.two_levels:
        _margins(design, measured, at, made)
    else:
        _main_effects(design, measured, made, pairs=design.pairs)
    return made


def _between_rows(design: Design, at: Mapping[Row, int], off: Row, made: _Contrasts) -> None:
    """What rows that differ in one factor alone tell directly."""
    on = tuple(1 for _ in off)
    for number, factor in enumerate(design.factors):
        for level in range(1, len(factor.levels)):
            if (alone := _with(off, number, level)) in at:
                made.alone[number, level] = _difference(at, alone, off)
        if design.two_levels and on in at and (without := _with(on, number, 0)) in at:
            made.last[number, 1] = _difference(at, on, without)
    if design.two_levels and on in at:
        made.total = _difference(at, on, off)


def _missing_part(design: Design, at: Mapping[Row, int], off: Row, made: _Contrasts) -> None:
    """One at a time: what all together do beyond the sum, in equal parts."""
    if made.total is None or len(made.alone) < len(design.factors):
        return
    beyond = made.total - sum(made.alone.values())
    made.share = {key: alone + beyond / len(design.factors) for key, alone in made.alone.items()}
    on = tuple(1 for _ in off)
    if len(design.factors) > 1:
        made.together[on, off] = beyond


def _one_after_another(design: Design, at: Mapping[Row, int], made: _Contrasts) -> None:
    """Steps: each row against the one before it. They add up to the total whatever the factors do together."""
    for number, (before, row) in enumerate(itertools.pairwise(design.rows)):
        if before in at and row in at:
            made.share[number, 1] = _difference(at, row, before)


def _squares(at: Mapping[Row, int], off: Row, made: _Contrasts) -> None:
    """A grid: every two groups of factors that stand in a row each, and in one together."""
    rows = [row for row in at if row != off]
    for first, second in itertools.combinations(rows, 2):
        if not any(a and b for a, b in zip(first, second, strict=True)):
            both = tuple(a or b for a, b in zip(first, second, strict=True))
            if both in at:
                made.together[first, second] = _difference(at, both, first) - _difference(at, second, off)


def _margins(design: Design, measured: tuple[Row, ...], at: Mapping[Row, int], made: _Contrasts) -> None:
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
            made.together[_with(off, i, a), _with(off, j, b)] = beyond


def _main_effects(design: Design, measured: tuple[Row, ...], made: _Contrasts, *, pairs: bool) -> None:
    """Least squares on factors coded -1 and 1; of all solutions the shortest, which shares out what cannot be told apart."""
    if not design.two_levels:
        return
    count = len(design.factors)
    off = (0,) * count
    columns = signs(measured)
    named = list(itertools.combinations(range(count), 2)) if pairs else []
    matrix = np.column_stack([np.ones(len(columns)), columns, *(columns[:, i] * columns[:, j] for i, j in named)])
    solve = np.linalg.pinv(matrix)
    seen = solve @ matrix
    clear = [bool(np.allclose(seen[n], np.eye(len(seen))[n], atol=_EXACT)) for n in range(len(seen))]
    pair_weights = {pair: 4 * solve[1 + count + n] for n, pair in enumerate(named)}
    for pair, weights in pair_weights.items():
        # A pair is one figure with others, or mixed with main effects when rows are missing: then it is not told at all.
        mixed = np.abs(seen[1 + count + named.index(pair), : 1 + count]).max() > _EXACT
        if not mixed:
            key = (_with(off, pair[0], 1), _with(off, pair[1], 1))
            made.together[key] = weights
            if not clear[1 + count + named.index(pair)]:
                made.shared.add(key)
    shares = {number: 2 * solve[1 + number] for number in range(count) if clear[1 + number]}
    for number, share in shares.items():
        made.share[number, 1] = share
        mine = [weights for pair, weights in pair_weights.items() if number in pair]
        if pairs:
            made.alone[number, 1] = share - sum(mine, np.zeros_like(share)) / 2
            made.last[number, 1] = share + sum(mine, np.zeros_like(share)) / 2
    if len(shares) == count and (pairs or design.kind == "plackett-burman"):
        made.total = sum(shares.values(), np.zeros(len(columns)))


def _difference(at: Mapping[Row, int], row: Row, other: Row) -> Weights:
    weights = np.zeros(len(at))
    weights[at[row]] += 1
    weights[at[other]] -= 1
    return weights


def _with(row: Row, number: int, level: int) -> Row:
    return (*row[:number], level, *row[number + 1 :])


def _on(row: Row) -> set[int]:
    return {number for number, level in enumerate(row) if level}


def _names(design: Design, row: Row) -> tuple[str, ...]:
    return tuple(design.name(_with((0,) * len(row), number, level)) for number, level in enumerate(row) if level)
