"""Attribution: what each factor does to the logarithm of the metric, alone, last, and as its share of the whole.

With b_i for each factor and b_ij for each pair: a factor *alone* does b_i, *last* (all others on already) b_i + sum of b_ij,
and its *share* is b_i + half of its pairs. Shares are Shapley's values ("A Value for n-Person Games", 1953) of that model: they
add up to the total exactly. On factors coded -1 and 1 the share is the ordinary main effect, so that designs whose pairs are
mixed with each other still give clear shares; pairs that the rows cannot tell apart are shared out equally.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from upshift.measure.model import Verdict
from upshift.study.contrasts import Contrasts, Weights, contrasts_of, difference, with_level
from upshift.study.designs import Design, Row
from upshift.study.intervals import LEVEL, Effect, Spread, holm, spreads
from upshift.values import Value

Known = Mapping[tuple[str, object], Spread]
"""By what a contrast tells, and of what."""


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
    """On the effect that ``judged_effect`` gives."""


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
    without_pairs: bool = False
    """Whether rows are missing, so that shares are fitted as if the factors did nothing together."""

    def does_not_add_up(self) -> tuple[Together, ...]:
        return tuple(each for each in self.together if each.verdict in ("faster", "slower"))


def judged_effect(design: Design, effect: FactorEffect) -> Effect | None:
    """The effect that a factor's verdict judges: its share; alone where there is no share, and in a design of one at a time."""
    return next((found for what in _judging(design) if (found := getattr(effect, what))), None)


def _judging(design: Design) -> tuple[str, ...]:
    # One at a time, a share has a part of what all together lack: that is no factor's own doing.
    return ("alone",) if design.kind == "one-at-a-time" else ("share", "alone")


class _Family(NamedTuple):
    """Contrasts that are judged at once: those that Holm's procedure found, and the confidence of all of them."""

    found: frozenset[Spread]
    confidence: float

    @classmethod
    def of(cls, members: Sequence[Spread]) -> _Family:
        numbers, confidence = holm([each.chance for each in members])
        return cls(frozenset(members[number] for number in numbers), confidence)

    def verdict(self, each: Spread | None, higher_is_better: bool) -> Verdict:
        """Inconclusive where the rows tell nothing."""
        if each is None:
            return "inconclusive"
        return each.verdict(self.confidence, found=each in self.found, higher_is_better=higher_is_better)


def attribute(
    design: Design,
    measured: Sequence[Row],
    values: np.ndarray,
    *,
    higher_is_better: bool,
    known_sd: float | None = None,
    servers: np.ndarray | None = None,
    least_sd: float = 0.0,
) -> Attribution:
    """``values`` are logarithms of the metric (trials x ``measured``), each relative to anything that its trial shares.

    ``measured`` are the design's rows that there are values for: an arm that died has none. ``known_sd``, ``servers``
    and ``least_sd`` are as for ``intervals.spreads``.
    """
    contrasts = contrasts_of(design, tuple(measured))
    known = _estimated(contrasts, values, known_sd, servers, least_sd)
    return _judged(design, contrasts, [known], higher_is_better)[0]


def attribute_each(
    design: Design,
    measured: Sequence[Row],
    tables: Sequence[np.ndarray],
    *,
    higher_is_better: bool,
    servers: np.ndarray | None = None,
    least_sd: float = 0.0,
) -> tuple[Attribution, ...]:
    """The same for each of several tables of values, such as those of the loads. What they tell is one family of Holm's: all
    factors have one confidence, and all pairs.
    """
    contrasts = contrasts_of(design, tuple(measured))
    known = [_estimated(contrasts, values, None, servers, least_sd) for values in tables]
    return _judged(design, contrasts, known, higher_is_better)


def steps(
    design: Design,
    measured: Sequence[Row],
    values: np.ndarray,
    confidence: float = 1 - LEVEL,
    servers: np.ndarray | None = None,
    least_sd: float = 0.0,
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
    weights = np.array([difference(at, both, row) for _group, row, both in pairs])
    found = spreads(values, weights, servers=servers, least_sd=least_sd)
    return tuple(
        Step(changed=_names(design, group), before=_names(design, row), effect=spread.effect(confidence))
        for (group, row, _both), spread in zip(pairs, found, strict=True)
    )


def _estimated(
    contrasts: Contrasts, values: np.ndarray, known_sd: float | None, servers: np.ndarray | None, least_sd: float
) -> Known:
    weights: dict[tuple[str, object], Weights] = {}
    for what in ("share", "together", "alone", "last"):
        weights |= {(what, key): value for key, value in getattr(contrasts, what).items()}
    if contrasts.total is not None:
        weights["total", None] = contrasts.total
    if not weights:
        return {}
    return dict(zip(weights, spreads(values, np.array(list(weights.values())), known_sd, servers, least_sd), strict=True))


def _judged(design: Design, contrasts: Contrasts, tables: Sequence[Known], higher: bool) -> tuple[Attribution, ...]:
    """An attribution of each table; what all of them tell of factors is one family, and of pairs another."""
    levels = [(n, level) for n, factor in enumerate(design.factors) for level in range(1, len(factor.levels))]
    by = _judging(design)
    judged = [[next((known[what, each] for what in by if (what, each) in known), None) for each in levels] for known in tables]
    family = _Family.of([spread for each in judged for spread in each if spread])
    pairs = _Family.of([known["together", pair] for known in tables for pair in contrasts.together])
    return tuple(
        Attribution(
            total=known["total", None].effect(family.confidence) if ("total", None) in known else None,
            factors=tuple(
                _factor(design, contrasts, level, known, family, family.verdict(spread, higher))
                for level, spread in zip(levels, spreads_, strict=True)
            ),
            together=tuple(
                Together(
                    first=_names(design, pair[0]),
                    second=_names(design, pair[1]),
                    effect=known["together", pair].effect(pairs.confidence),
                    shared=pair in contrasts.shared,
                    verdict=pairs.verdict(known["together", pair], higher),
                )
                for pair in contrasts.together
            ),
            confidence=family.confidence,
            together_confidence=pairs.confidence,
            without_pairs=contrasts.without_pairs,
        )
        for known, spreads_ in zip(tables, judged, strict=True)
    )


def _factor(
    design: Design, contrasts: Contrasts, each: tuple[int, int], known: Known, family: _Family, verdict: Verdict
) -> FactorEffect:
    number, level = each
    factor = design.factors[number]
    return FactorEffect(
        factor=factor.name,
        level=factor.levels[level],
        **{
            what: known[what, each].effect(family.confidence) if (what, each) in known else None
            for what in ("alone", "last", "share")
        },
        shared_pairs=any(number in _on(row) for pair in contrasts.shared for row in pair),
        verdict=verdict,
    )


def _on(row: Row) -> set[int]:
    return {number for number, level in enumerate(row) if level}


def _names(design: Design, row: Row) -> tuple[str, ...]:
    return tuple(design.name(with_level((0,) * len(row), number, level)) for number, level in enumerate(row) if level)
