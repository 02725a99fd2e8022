"""The page of `upshift stack plans` and `compare` says all that the code has: keys, words, rules."""

from __future__ import annotations

from typing import get_args

import pytest
from test_reference import keys, words

from upshift.paths import CHECKOUT
from upshift.stack.plans import compare, model
from upshift.stack.plans.answers import Answer
from upshift.stack.plans.asked import Clock, Timing
from upshift.stack.plans.looked import Compared, Comparison, Judgement, Planned, PlansReport, Server, Told
from upshift.stack.plans.rules import RULES
from upshift.stack.plans.settings import QUESTIONS, SettingDifference, Topic
from upshift.stack.suspects.model import SUSPECTS
from upshift.stack.suspects.thresholds import THRESHOLDS
from upshift.values import Value

PAGE = (CHECKOUT / "docs" / "reference" / "stack-plans.md").read_text()


@pytest.mark.parametrize(
    "value",
    [
        model.Node,
        model.Join,
        model.Sort,
        model.Notice,
        model.Plan,
        compare.Difference,
        Answer,
        Compared,
        Comparison,
        Judgement,
        Planned,
        PlansReport,
        Server,
        SettingDifference,
        Timing,
        Told,
    ],
)
def test_every_key_is_named(value: type[Value]) -> None:
    assert set(keys(value, deep=False)) <= words("stack-plans")


def test_every_word_of_the_tree_and_of_differences_is_named() -> None:
    for each in (model.Operation, model.Access, model.Method, model.JoinKind, compare.What, Clock, Topic):
        assert set(get_args(each)) <= words("stack-plans")
    assert all(f"| `{each}` | " in PAGE for each in get_args(model.Access))


def test_every_question_about_settings_is_named() -> None:
    assert all(f"| `{each.topic}` | {each.what} | " in PAGE for each in QUESTIONS)


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_stands_with_its_title_and_thresholds(rule: str) -> None:
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| {rule} |")]
    assert f"| {SUSPECTS[rule].title} |" in row
    used = (
        {"P3.rows"}
        if rule == "P3"
        else {name for name in THRESHOLDS if name.startswith(f"{rule}.")} - {"P2.server_us", "P2.times"}
    )
    assert {f"`{name}`" for name in used} <= set(row.replace(",", " ").split())
