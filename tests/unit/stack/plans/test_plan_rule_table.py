"""Each rule about plans has a case in which it fires, and one beside it in which it looks and is silent."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from test_plan_engine import timed, timing
from test_plan_rules import asked, found, scan

from upshift.stack.plans.asked import Asked
from upshift.stack.plans.model import Node, Notice
from upshift.stack.plans.rules import RULES
from upshift.stack.suspects.model import SUSPECTS, Finding, Innocent, Unseen
from upshift.stack.suspects.thresholds import THRESHOLDS, Thresholds


class Case(NamedTuple):
    fires: Asked
    silent: Asked
    """The same but for what the rule looks for."""
    raised: frozenset[str] = frozenset()
    """Thresholds of the rule that silence it when they are above all."""


def sort(rows: float) -> Node:
    return Node.model_validate({"operation": "sort", "sort": {"rows": rows, "on_disk": False}, "loops": 1})


def read(rows: float, **fields: Any) -> Node:
    return scan("range", **{"index": "i", "actual_read": rows, "actual_rows": 1, "loops": 1, **fields})


BOTH_BOUNDS = "(t.b > 3) and (t.b < 9)"
CASES: dict[str, Case] = {
    "P2": Case(
        asked(scan(filter="a = 1", actual_read=5000, actual_rows=5, loops=1)),
        asked(scan(filter="a = 1", actual_read=5000, actual_rows=4000, loops=1)),
        frozenset({"P2.rows", "P2.removed"}),
    ),
    "P3": Case(asked(sort(5000)), asked(sort(50)), frozenset({"P3.rows"})),
    "P4": Case(
        asked(scan(), notices=(Notice(code=1739, text="Cannot use ref access"),)),
        asked(scan(), notices=(Notice(code=1276, text="Field or reference"),)),
    ),
    "P5": Case(
        asked(read(500, covering=True), read(500, covering=False)),
        asked(read(500, covering=True), read(500, covering=True)),
        frozenset({"P5.rows"}),
    ),
    "P6": Case(
        asked(read(5000), read(500, index="j")),
        asked(read(5000), read(5000, index="j")),
        frozenset({"P6.rows", "P6.times"}),
    ),
    "P7": Case(
        asked(read(900, bounds=("b < 9",), filter=BOTH_BOUNDS)),
        asked(read(900, bounds=("b > 3", "b < 9"), filter=BOTH_BOUNDS)),
        frozenset({"P7.rows"}),
    ),
    "P8": Case(asked(read(5000, estimated_read=5)), asked(read(5000, estimated_read=5000)), frozenset({"P8.rows", "P8.times"})),
    "P9": Case(
        asked(scan(loops=1), planning_ms=5.0, whole_ms=10.0),
        asked(scan(loops=1), planning_ms=0.1, whole_ms=10.0),
        frozenset({"P9.share", "P9.planning_us"}),
    ),
    "E1": Case(
        timed(timing(1.8, 1.7, 1.9)),
        timed(timing(1.02, 0.99, 1.05)),
        frozenset({"E1.times", "E1.execution_us"}),
    ),
}


def test_every_rule_has_its_case_and_its_suspect() -> None:
    assert set(CASES) == set(RULES) <= set(SUSPECTS)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_fires(rule: str) -> None:
    outcome = found(rule, CASES[rule].fires)
    assert isinstance(outcome, Finding)
    assert outcome.said and outcome.evidence and outcome.fixes and outcome.limits and 0 < outcome.share <= 0.5
    assert all(each.threshold in {None, *THRESHOLDS} for each in outcome.evidence)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_has_all_it_needs_is_silent(rule: str) -> None:
    outcome = found(rule, CASES[rule].silent)
    assert isinstance(outcome, Innocent) and outcome.looked_at


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_fires_says_nothing_without_plans(rule: str) -> None:
    first = CASES[rule].fires
    bare = first.model_copy(update={"plan": first.plan.model_copy(update={"tree": Node(operation="rows", access="none")})})
    alone = bare.model_copy(update={"plan": bare.plan.model_copy(update={"notices": (), "planning_ms": None})})
    assert isinstance(found(rule, alone.model_copy(update={"other": None, "timing": None})), Innocent | Unseen)


@pytest.mark.parametrize("rule", RULES)
def test_each_threshold_of_a_rule_decides(rule: str) -> None:
    case = CASES[rule]
    # Of E1, who examines more rows is asked before anything is timed.
    asked_of = {name for name in THRESHOLDS if name.startswith(f"{rule}.")} - {"P2.server_us", "P2.times", "P3.disk_tables"}
    assert asked_of - {"E1.rows_times"} == case.raised
    for name in case.raised:
        assert isinstance(found(rule, case.fires, Thresholds(changed={name: 1e12})), Innocent), name
