"""Sun's own table, replayed: what a study says of their numbers."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np

from upshift.study.attribution import Attribution, Step, attribute, steps
from upshift.study.designs import Design, Factor, make_design

SUN = json.loads((Path(__file__).parent / "sun.json").read_text())
NAMES = ("builtin", "unroll", "prefetch", "alias", "native", "inlining")
FACTORS = [Factor(name=name, levels=("off", "on")) for name in NAMES]


def design() -> Design:
    rows = [tuple(int(name in row["on"]) for name in NAMES) for row in SUN["rows"]]
    return make_design("grid", FACTORS, [*rows, *((*row[:-1], 1) for row in rows)])


def values(threads: int) -> np.ndarray:
    at = SUN["threads"].index(threads)
    return np.log([row["tps"][at] for row in SUN["rows"]] + [row["inlined_tps"][at] for row in SUN["rows"]])[None, :]


def replayed(threads: int) -> Attribution:
    return attribute(design(), design().rows, values(threads), higher_is_better=True)


def percent(ratio: float) -> float:
    return round(100 * (ratio - 1), 1)


def test_builtin_and_prefetch_hold_without_the_inlining_and_at_one_and_two_threads_only() -> None:
    without = [percent(step(threads, frozenset())) for threads in SUN["threads"]]
    assert without[:2] == [2.3, 2.9]
    assert not any(2.3 <= gain <= 3 for gain in without[2:])
    assert [percent(step(threads, frozenset({"inlining"}))) for threads in SUN["threads"]] == [-1.6, -1.0, -8.3, 5.9]


def step(threads: int, before: frozenset[str]) -> float:
    found = {(each.changed, each.before): each.effect.ratio for each in all_steps(threads)}
    return found[("builtin", "prefetch"), tuple(name for name in NAMES if name in before)]


def all_steps(threads: int) -> tuple[Step, ...]:
    return steps(design(), design().rows, values(threads))


def test_the_inlining_is_worth_seven_to_thirteen_percent_at_one_and_two_threads_in_every_row() -> None:
    gains = [percent(each.effect.ratio) for threads in (1, 2) for each in all_steps(threads) if each.changed == ("inlining",)]
    assert len(gains) == 16
    assert (round(min(gains)), round(max(gains))) == (7, 13)


def test_what_they_recommended_together_does_not_add_up() -> None:
    for threads in SUN["threads"][:3]:
        beyond = {(each.first, each.second): each.effect.ratio for each in replayed(threads).together}
        assert beyond[("builtin", "prefetch"), ("inlining",)] < 0.965
    assert len(replayed(1).together) == 7


def test_single_runs_have_no_interval_and_call_nothing() -> None:
    found = replayed(1)
    verdicts = {each.verdict for each in found.factors} | {each.verdict for each in found.together}
    assert verdicts == {"inconclusive"}
    assert all(math.isfinite(each.share.ratio) for each in found.factors if each.share)
