"""Sun's own tables, replayed: what a study says of their numbers."""

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


FEEDBACK = json.loads((Path(__file__).parent / "sun_feedback.json").read_text())
OPTIONS = ("feedback", "unroll", "prefetch", "alias", "restrict")


def feedback_steps(threads: int) -> tuple[Step, ...]:
    """All steps of the table with feedback; the compiler, and what a binary had been run on, is a factor of two levels."""
    factors = [Factor(name=name, levels=("off", "on")) for name in OPTIONS]
    factors.append(Factor(name="binary", levels=("patched", "unpatched", "igen")))
    rows = [(*(int(name in row["on"]) for name in OPTIONS), level) for level in range(3) for row in FEEDBACK["rows"]]
    at = FEEDBACK["threads"].index(threads)
    rates = [row[name][at] for name in ("patched", "unpatched", "igen") for row in FEEDBACK["rows"]]
    made = make_design("grid", factors, rows)
    return steps(made, made.rows, np.log(rates)[None, :])


def test_feedback_is_worth_nine_and_seven_percent_at_one_and_two_threads_and_next_to_nothing_above() -> None:
    gains = [
        percent(each.effect.ratio)
        for threads in FEEDBACK["threads"]
        for each in feedback_steps(threads)
        if (each.changed, each.before) == (("feedback",), ())
    ]
    assert gains[:2] == [9.0, 7.2]
    assert (min(gains[2:]), max(gains[2:])) == (-3.0, 4.3)


def test_what_another_compiler_scatters_by_says_which_cells_are_noise() -> None:
    apart = [
        [math.log(each.effect.ratio) for each in feedback_steps(threads) if each.changed == ("binary=unpatched",)]
        for threads in FEEDBACK["threads"]
    ]
    assert {len(each) for each in apart} == {6}
    assert [round(100 * float(np.sqrt(np.mean(np.square(each)))), 1) for each in apart] == [0.9, 0.6, 4.0, 8.6, 4.2, 5.3, 1.1]
