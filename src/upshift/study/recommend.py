"""What to switch on: the best combination that the effects found lead to, and nothing when nothing was found.

It is a choice among many, so its own estimate is too high (the winner's curse): what is published is the gain that further
trials confirm.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Set

from upshift.measure.model import Experiment, Metric
from upshift.study.attribution import Attribution, judged_effect
from upshift.study.contrasts import with_level
from upshift.study.designs import Design, Row

_FOUND = ("faster", "slower")

Chosen = tuple[int, int]
"""A factor and its level, by their numbers."""


def recommend(design: Design, found: Attribution, *, higher_is_better: bool, without: Collection[Row] = ()) -> Row | None:
    """The levels to choose, the fewest among equals; None when no factor and no pair of them helps.

    Never one of the rows ``without`` figures, such as those whose server died.

    Effects that Holm's procedure did not find count for nothing. Steps lead as far as their sum is best, and not beyond a row
    without figures. A design with pairs takes a found pair's into account, also where a factor helps alone and harms beside
    another. Where factors were measured one at a time, and all together were found to do more or less than their sum, the row
    with all on counts as it was measured; what they lack counts as soon as two are on, as nobody knows which two lack it.
    """
    direction = 1 if higher_is_better else -1
    if design.kind == "steps":
        return _steps(design, found, direction)
    pairs = _pairs(design, found, direction)
    alone = _alone(design, found, direction, {level for pair in pairs for level in pair})
    beyond = _beyond(found, direction)

    def worth(row: Row) -> tuple[float, int]:
        on = [(number, level) for number, level in enumerate(row) if level]
        gain = math.fsum(alone.get(each, 0.0) for each in on)
        gain += math.fsum(pairs.get(pair, 0.0) for pair in itertools.combinations(on, 2))
        if beyond and len(on) == len(row):
            return _all_on(found, direction), -len(on)
        return gain + min(beyond, 0.0) * (len(on) > 1), -len(on)

    best = max((row for row in _candidates(design, alone, pairs) if row not in without), key=worth, default=None)
    return best if best and worth(best)[0] > 0 else None


def _steps(design: Design, found: Attribution, direction: int) -> Row | None:
    """The number of steps with the best sum. Around a row without figures two steps are not told: nothing leads across."""
    effects = _alone(design, found, direction, frozenset())
    told = itertools.takewhile(lambda each: each.share is not None, found.factors)
    gains = list(itertools.accumulate(effects.get((number, 1), 0.0) for number, _each in enumerate(told)))
    best = max(gains, default=0.0)
    return design.rows[gains.index(best) + 1] if best > 0 else None


def _alone(design: Design, found: Attribution, direction: int, paired: Set[Chosen]) -> dict[Chosen, float]:
    """Found effects, better ones above 0. A pair's effect counts apart: of a level in one, its effect alone is meant, where
    that is told from none.
    """
    numbers = {factor.name: number for number, factor in enumerate(design.factors)}
    effects: dict[Chosen, float] = {}
    for each in found.factors:
        number = numbers[each.factor]
        chosen = (number, design.factors[number].levels.index(each.level))
        if each.verdict in _FOUND or chosen in paired:
            effect = (each.alone or each.share) if chosen in paired else judged_effect(design, each)
            if effect is not None and (effect.told or chosen not in paired):
                effects[chosen] = direction * math.log(effect.ratio)
    return effects


def _pairs(design: Design, found: Attribution, direction: int) -> Mapping[tuple[Chosen, Chosen], float]:
    """What was found between one level and another, in the order of the factors. Groups of factors tell of no pair."""
    levels = {
        design.name(tuple(level if n == number else 0 for n in range(len(design.factors)))): (number, level)
        for number, factor in enumerate(design.factors)
        for level in range(1, len(factor.levels))
    }
    pairs = {}
    for each in found.does_not_add_up():
        if len(each.first) == len(each.second) == 1:
            first, second = sorted((levels[each.first[0]], levels[each.second[0]]))
            pairs[first, second] = direction * math.log(each.effect.ratio)
    return pairs


def _beyond(found: Attribution, direction: int) -> float:
    """What was found of all factors together beyond their sum, where they were measured one at a time."""
    return math.fsum(direction * math.log(each.effect.ratio) for each in found.does_not_add_up() if not each.second)


def _all_on(found: Attribution, direction: int) -> float:
    """What the row with all on does beside all off: nothing where it is not told apart from that."""
    total = found.total
    return direction * math.log(total.ratio) if total and total.told else 0.0


def unconfirmed(confirmed: Experiment, metric: Metric) -> str:
    """What speaks against a set after trials of its own: a loss in any figure, no gain in ``metric`` where nothing is held out.

    Empty when nothing does.
    """
    if any(each.verdict == "slower" for each in confirmed.comparisons):
        return "something was worse in trials of its own"
    judged = [each for each in confirmed.comparisons if each.metric == metric and not each.held_out]
    return "" if any(each.verdict == "faster" for each in judged) else "trials of its own found no gain"


def _candidates(design: Design, alone: Mapping[Chosen, float], pairs: Mapping[tuple[Chosen, Chosen], float]) -> list[Row]:
    """All choices of the factors that are in a pair, the others at their best, and these less one factor; each level by itself;
    and all on.
    """
    paired = {level for pair in pairs for level in pair}
    entangled = {number for number, _level in paired}
    told = {*alone, *paired}
    offered: list[list[int]] = []
    for number, factor in enumerate(design.factors):
        levels = {0: 0.0} | {
            level: alone.get((number, level), 0.0) for level in range(1, len(factor.levels)) if (number, level) in told
        }
        offered.append(list(levels) if number in entangled else [max(levels, key=levels.__getitem__)])
    off = (0,) * len(design.factors)
    best = list(itertools.product(*offered))
    less = [with_level(row, number, 0) for row in best for number in range(len(off))]
    single = [with_level(off, number, level) for number, level in alone]
    return [*best, *less, *single, *([(1,) * len(off)] if design.two_levels else [])]
