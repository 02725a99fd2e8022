"""What to switch on: the best combination that the effects found lead to, and nothing when nothing was found.

It is a choice among many, so its own estimate is too high (the winner's curse): what is published is the gain that further
trials confirm.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

from upshift.study.attribution import Attribution, FactorEffect, Together
from upshift.study.designs import Design, Row

_FOUND = ("faster", "slower")


def recommend(design: Design, found: Attribution, *, higher_is_better: bool) -> Row | None:
    """The levels to choose, the fewest among equals; None when no factor and no pair of them helps.

    Steps lead to the last one that was found to help, with all before it. Else effects that Holm's procedure did not find
    count for nothing, and a design with pairs takes a found pair's into account, also where a factor helps alone and harms
    beside another.
    """
    if design.kind == "steps":
        helped = [number for number, each in enumerate(found.factors, start=1) if each.verdict == "faster"]
        return design.rows[helped[-1]] if helped else None
    direction = 1 if higher_is_better else -1
    alone = _alone(design, found, direction)
    pairs = _pairs(design, found, direction)
    candidates = [number for number in range(len(design.factors)) if alone[number] or any(number in pair for pair in pairs)]
    best: tuple[float, int, Row] | None = None
    for levels in itertools.product(*(_levels(design, alone, candidates, number) for number in range(len(design.factors)))):
        gain = math.fsum(alone[number].get(level, 0.0) for number, level in enumerate(levels) if level)
        gain += math.fsum(beyond for (i, j), beyond in pairs.items() if levels[i] and levels[j])
        offered = (gain, -sum(map(bool, levels)), levels)
        if best is None or offered[:2] > best[:2]:
            best = offered
    return best[2] if best and best[0] > 0 else None


def _alone(design: Design, found: Attribution, direction: int) -> list[dict[int, float]]:
    """Each factor's found effects by level, better ones above 0; a pair's effect counts apart, so that alone is meant."""
    effects: list[dict[int, float]] = [{} for _ in design.factors]
    names = {factor.name: number for number, factor in enumerate(design.factors)}
    found_pairs = {name for each in found.does_not_add_up() for name in (*each.first, *each.second)}
    for each in found.factors:
        if each.verdict in _FOUND or each.factor in found_pairs:
            number = names[each.factor]
            effect = _effect(each, design, found_pairs)
            if effect is not None:
                effects[number][design.factors[number].levels.index(each.level)] = direction * effect
    return effects


def _effect(each: FactorEffect, design: Design, found_pairs: set[str]) -> float | None:
    by_itself = design.kind == "one-at-a-time" or (each.factor in found_pairs and design.pairs)
    chosen = (each.alone or each.share) if by_itself else (each.share or each.alone)
    return math.log(chosen.ratio) if chosen else None


def _pairs(design: Design, found: Attribution, direction: int) -> Mapping[tuple[int, int], float]:
    names = {factor.name: number for number, factor in enumerate(design.factors)}

    def members(each: Together) -> tuple[int, ...]:
        return tuple(names[name] for name in (*each.first, *each.second) if name in names)

    return {
        (of[0], of[1]): direction * math.log(each.effect.ratio)
        for each in found.does_not_add_up()
        if len(each.first) == len(each.second) == 1 and len(of := members(each)) == 2
    }


def _levels(design: Design, alone: list[dict[int, float]], candidates: list[int], number: int) -> tuple[int, ...]:
    if number not in candidates:
        return (0,)
    return (0, *(alone[number] or range(1, len(design.factors[number].levels))))
