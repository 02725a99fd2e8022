"""Planted faults are named, and nothing else is; a tuned application is named for nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from functools import cache
from pathlib import Path

import pytest
from faulty_shop import ITEM, LEFT, LINE, counted, shop

from upshift.stack.evidence import Evidence
from upshift.stack.read import read_evidence
from upshift.stack.suspects.model import SUSPECTS, Finding, Innocent, Outcome, Unseen
from upshift.stack.suspects.rules import RULES, judge
from upshift.stack.suspects.thresholds import THRESHOLDS, Thresholds, read_thresholds

Planted = Callable[..., Evidence]

SMALL = {"C10": 1000, "E2": 300}
"""Of these a fault in each hundredth transaction would be more than a few percent of the time."""


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    """The evidence of the shop with these faults, the server's side among it where they need it."""

    @cache
    def read(faults: frozenset[str], every: int) -> Evidence:
        folder: Path = tmp_path_factory.mktemp("export")
        evidence = read_evidence(shop(sorted(faults), every).export(folder))
        return counted(evidence, faults, every)

    def evidence(*faults: str, every: int = 1) -> Evidence:
        return read(frozenset(faults), every)

    return evidence


def named(outcomes: Collection[Outcome]) -> set[str]:
    return {each.suspect for each in outcomes if isinstance(each, Finding)}


@pytest.mark.parametrize("suspect", RULES)
def test_a_planted_fault_is_named_alone(planted: Planted, suspect: str) -> None:
    (finding, *rest) = judge(planted(suspect), Thresholds())
    assert isinstance(finding, Finding) and finding.suspect == suspect
    assert not named(rest)
    assert 0.03 <= finding.share <= 1
    assert finding.evidence and finding.fixes and finding.limits and finding.said
    assert all(each.threshold in {None, *THRESHOLDS} for each in finding.evidence)


@pytest.mark.parametrize("fault", ["C6", "C7", "C13"])
def test_a_text_in_double_quotes_is_a_literal_as_others_are(fault: str, tmp_path: Path) -> None:
    """MySQL's and MariaDB's applications may write texts so."""

    def told(quote: str) -> set[str]:
        story = shop((fault,))
        for each in story.exchanges:
            if fault == "C13":
                each["sql"] = each["sql"] and re.sub(r"= (\d+)", rf"= {quote}c\1{quote}", each["sql"])
            elif each["kind"] == "execute" and each["sql"] in (ITEM, LEFT, LINE):
                text = each["sql"].replace("?", f"{quote}c{{}}{quote}").format(*json.loads(each["parameters"]))
                # Of inserts the rows tell, not the literals.
                verb = "delete" if each["verb"] == "insert" else each["verb"]
                each |= {"kind": "query", "verb": verb, "sql": text, "parameters": None}
        return named(judge(read_evidence(story.export(tmp_path / fault)), Thresholds()))

    assert fault in told('"') and told('"') == told("'")


@pytest.mark.parametrize("suspect", RULES)
def test_a_fault_of_one_percent_is_silent(planted: Planted, suspect: str) -> None:
    assert not named(judge(planted(suspect, every=SMALL.get(suspect, 100)), Thresholds()))


def test_a_tuned_application_is_named_for_nothing(planted: Planted) -> None:
    outcomes = judge(planted(), Thresholds())
    assert not named(outcomes)
    assert {each.suspect for each in outcomes if isinstance(each, Innocent)} == set(RULES) - {"E2"}
    assert {each.suspect for each in outcomes if isinstance(each, Unseen)} == {"E2"}


@pytest.mark.parametrize(("sql", "faults"), [("SHOW VARIABLES", set()), ("SELECT id FROM item WHERE name = 'a'", {"P2"})])
def test_a_show_is_flagged_and_has_no_table_that_lacks_an_index(tmp_path: Path, sql: str, faults: set[str]) -> None:
    story = shop()
    app = story.connection()
    for _ in range(30):
        app.asks(sql, rows=500, wait_us=90_000, no_index_used=True)
    assert named(judge(read_evidence(story.export(tmp_path)), Thresholds())) == faults


@pytest.mark.parametrize(
    "faults",
    [
        ("C1", "C6"),
        ("C2", "C7"),
        ("C3", "C5"),
        ("C4", "E3"),
        ("C9", "C6"),
        ("C1", "C3", "C7"),
        ("C2", "C5", "C6"),
        ("P1", "C7", "E3"),
    ],
)
def test_two_and_three_faults_at_once_are_exactly_these(planted: Planted, faults: tuple[str, ...]) -> None:
    assert named(judge(planted(*faults), Thresholds())) == set(faults)


def test_each_rule_has_its_suspect_and_its_faults() -> None:
    assert set(RULES) <= set(SUSPECTS)
    assert {name.split(".")[0] for name in THRESHOLDS} - {"report"} <= set(SUSPECTS)


OF_RULES = [name for name in THRESHOLDS if name.split(".", maxsplit=1)[0] in RULES]
BESIDE = {"C3.rows_per_fetch_size": {"C3.fetch_size": 0.0}, "C10.share": {"C10.stalls": 1e12}}
"""Where one of two conditions is enough: the other one switched off."""
ANOTHER = {"P1": "P2", "P2": "P1", "C7": "C6"}
"""A fault that looks like this one but for a threshold."""


@pytest.mark.parametrize("name", OF_RULES)
def test_each_threshold_decides(planted: Planted, name: str) -> None:
    """With another value the rule finds what it did not, or the other way round, in one of the shops."""
    suspect = name.split(".", maxsplit=1)[0]
    beside = BESIDE.get(name, {})
    shops = [
        planted(*faults, every=every) for faults in ((suspect,), (), (ANOTHER.get(suspect, suspect),)) for every in (1, 100)
    ]

    def outcome(seen: Evidence, changed: dict[str, float]) -> type[Outcome]:
        return _of(judge(seen, Thresholds(changed=changed)), suspect)

    assert any(
        outcome(seen, beside) != outcome(seen, {**beside, name: value})
        for value in (0.0, 1e12)
        for shop in shops
        for seen in (shop, shop.model_copy(update={"server": None}))
    )


def _of(outcomes: Collection[Outcome], suspect: str) -> type[Outcome]:
    return next(type(each) for each in outcomes if each.suspect == suspect)


def test_a_pool_that_is_still_being_filled_is_not_too_small(planted: Planted) -> None:
    seen = planted("E4")
    assert seen.server and seen.server.pool

    def outcome(**changed: float | None) -> Outcome:
        assert seen.server and seen.server.pool
        pool = seen.server.pool.model_copy(update=changed)
        told = seen.model_copy(update={"server": seen.server.model_copy(update={"pool": pool})})
        return next(each for each in judge(told, Thresholds()) if each.suspect == "E4")

    filling = outcome(pages_read=15_999)
    assert isinstance(filling, Innocent) and "still being filled" in filling.looked_at
    found, untimed = outcome(pages_read=16_000), outcome(read_us=None)
    assert isinstance(found, Finding) and isinstance(untimed, Finding)
    assert found.share == pytest.approx(0.5 * seen.budget.share(seen.budget.server_us))
    # Nobody timed the files: all of the server's time is the upper bound.
    assert (found.status, untimed.status) == ("counted", "inferred") and untimed.share == pytest.approx(2 * found.share)
    assert isinstance(outcome(requests=0), Unseen)


def test_the_least_share_decides(planted: Planted) -> None:
    assert "C1" in named(judge(planted("C1", every=100), read_thresholds(["report.share=0", "C1.share=0"])))
    assert not named(judge(planted("C1"), read_thresholds(["report.share=0.9"])))


def test_findings_come_first_and_the_largest_share_before_the_others(planted: Planted) -> None:
    outcomes = judge(planted("C1", "C3", "C7"), Thresholds())
    shares = [each.share for each in outcomes if isinstance(each, Finding)]
    assert len(shares) == 3 and shares == sorted(shares, reverse=True)
    assert all(isinstance(each, Finding) for each in outcomes[:3])


def test_what_is_about_plans_is_judged_beside_the_rules(planted: Planted) -> None:
    of_plans = Finding(suspect="P4", share=0.9, status="counted", said="seen", evidence=(), fixes=(), limits="none")
    small = of_plans.model_copy(update={"suspect": "P7", "share": 0.01})
    outcomes = judge(planted("C1"), Thresholds(), [of_plans, small])
    assert outcomes[0] == of_plans and named(outcomes) == {"P4", "C1"}
    assert any(isinstance(each, Innocent) and each.suspect == "P7" for each in outcomes)
