"""The page of `upshift stack examine` says all that the code has: keys, thresholds, suspects, fixes."""

from __future__ import annotations

from typing import get_args

import pytest
from test_reference import keys, words

from upshift.paths import CHECKOUT
from upshift.stack.budget import Budget
from upshift.stack.drivers import DRIVERS, GENERIC
from upshift.stack.proof import Measured, Proof, Word
from upshift.stack.report import Report
from upshift.stack.suspects.model import SUSPECTS, Status
from upshift.stack.suspects.rules import RULES
from upshift.stack.suspects.thresholds import THRESHOLDS
from upshift.stack.terminal import BUDGET_PARTS

PAGE = (CHECKOUT / "docs" / "reference" / "stack.md").read_text()


def test_every_key_of_a_report_is_named() -> None:
    named = words("stack")
    assert {key.rsplit(".", 1)[-1] for key in keys(Report)} <= named
    assert all(f"`{each}`" in PAGE for each in get_args(Status))


def test_every_key_and_word_of_a_proof_is_named() -> None:
    section = PAGE.partition("### The proof as JSON")[2].partition("\n## ")[0]
    named = words("stack")
    assert {*keys(Proof, deep=False), *keys(Measured)} <= named
    assert all(f"`{each}`" in section or f"`{each}[]`" in section for each in (*get_args(Word), *Proof.model_fields))


@pytest.mark.parametrize("name", THRESHOLDS)
def test_every_threshold_stands_with_its_value_and_reason(name: str) -> None:
    each = THRESHOLDS[name]
    assert f"| `{name}` | {each.value:g} | {each.meaning} | {each.why} |" in PAGE


def test_no_threshold_stands_that_there_is_not() -> None:
    assert {word for word in words("stack") if word.split(".")[0] in (*SUSPECTS, "report") and "." in word} == set(THRESHOLDS)


@pytest.mark.parametrize("suspect", RULES)
def test_every_suspect_stands_with_its_title_and_fix(suspect: str) -> None:
    assert f"| {suspect} | {SUSPECTS[suspect].title} |" in PAGE
    assert f"| {suspect} | {GENERIC[suspect]} |" in PAGE


@pytest.mark.parametrize("driver", DRIVERS)
def test_every_fix_of_a_driver_stands(driver: str) -> None:
    for suspect, text in DRIVERS[driver].fixes.items():
        assert f"| {driver} | {suspect} | {text} |" in PAGE


def test_the_explanation_has_every_part_of_the_budget() -> None:
    page = (CHECKOUT / "docs" / "explanation" / "budget.md").read_text()
    assert all(f"| {name} |" in page for name in BUDGET_PARTS)
    parts = {name for name in Budget.model_fields if name.endswith("_us")} - {"round_trip_us", "idle_us"}
    assert parts == set(BUDGET_PARTS.values())
