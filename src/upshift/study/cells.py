"""Rows beside each other under one load: each against all off, and each against the one that was trained on that load.

``tables`` have logarithms by trial and row; ``servers`` and ``least_sd`` are as for ``intervals.spreads``. What is found under
all loads is one family of Holm's, with one confidence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from upshift.measure.model import Load, Verdict
from upshift.study.crossing import Crossing
from upshift.study.designs import Design, Row
from upshift.study.intervals import Effect, Spread, holm, spreads
from upshift.study.result import Cell, Crossed


def beside_off(
    design: Design,
    rows: Sequence[Row],
    tables: Mapping[Load, np.ndarray],
    servers: np.ndarray,
    levels: Mapping[Load, float],
    higher: bool,
    least_sd: float,
) -> tuple[tuple[Cell, ...], float]:
    """Each row but the first against it, under each load."""
    others = range(1, len(rows))
    weights = [_between(len(rows), at, 0) for at in others]
    found = [
        (load, at, spread)
        for load, table in tables.items()
        for at, spread in zip(others, _spreads(table, weights, servers, least_sd), strict=True)
    ]
    judged, confidence = _judged([spread for _load, _at, spread in found], higher)
    return tuple(
        Cell(
            row=design.name(rows[at]),
            load=load,
            value=math.exp(levels[load] + spread.log),
            effect=effect,
            verdict=verdict,
        )
        for (load, at, spread), (effect, verdict) in zip(found, judged, strict=True)
    ), confidence


def beside_own(
    design: Design,
    rows: Sequence[Row],
    tables: Mapping[Load, np.ndarray],
    servers: np.ndarray,
    crossings: Sequence[Crossing],
    higher: bool,
    least_sd: float,
) -> tuple[tuple[Crossed, ...], float]:
    """Each crossing of which both rows have figures, the greatest loss first."""
    at = {row: number for number, row in enumerate(rows)}
    found: list[tuple[Load, Crossing, Spread]] = []
    for load, table in tables.items():
        here = [each for each in crossings if each.workload == load.workload and each.row in at and each.own in at]
        weights = [_between(len(rows), at[each.row], at[each.own]) for each in here]
        own = _spreads(table, weights, servers, least_sd)
        found += [(load, each, spread) for each, spread in zip(here, own, strict=True)]
    found.sort(key=lambda each: each[2].log, reverse=not higher)
    judged, confidence = _judged([spread for _load, _crossing, spread in found], higher)
    return tuple(
        Crossed(row=design.name(each.row), own=design.name(each.own), load=load, effect=effect, verdict=verdict)
        for (load, each, _spread), (effect, verdict) in zip(found, judged, strict=True)
    ), confidence


def _between(count: int, at: int, other: int) -> np.ndarray:
    """The weights of one of ``count`` rows against another."""
    weights = np.zeros(count)
    weights[at], weights[other] = 1, -1
    return weights


def _spreads(table: np.ndarray, weights: Sequence[np.ndarray], servers: np.ndarray, least_sd: float) -> list[Spread]:
    return spreads(table, np.array(weights), servers=servers, least_sd=least_sd) if weights else []


def _judged(found: Sequence[Spread], higher: bool) -> tuple[list[tuple[Effect, Verdict]], float]:
    """With the confidence of all their intervals: contrasts under all loads are one family."""
    called, confidence = holm([each.chance for each in found])
    return [
        (each.effect(confidence), each.verdict(confidence, found=number in called, higher_is_better=higher))
        for number, each in enumerate(found)
    ], confidence
