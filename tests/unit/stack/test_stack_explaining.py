"""Plans within an examination: in the budget's shares, behind the server's counters, and absent with the reason."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from story import Story

from upshift.errors import UsageError
from upshift.stack.evidence import Evidence, ServerFacts, ServerStatement
from upshift.stack.explaining import MOST_STATEMENTS, Explained, counters_address, explained, server_address
from upshift.stack.plans.ask import Asker
from upshift.stack.plans.model import Node, Notice, Plan
from upshift.stack.plans.rules import RULES as PLAN_RULES
from upshift.stack.plans.statements import NotExplained
from upshift.stack.read import read_evidence
from upshift.stack.report import report_on
from upshift.stack.suspects.model import Finding, Innocent, Outcome, Unseen
from upshift.stack.suspects.rules import judge
from upshift.stack.suspects.thresholds import Thresholds

SLOW, FAST = "SELECT id FROM orders WHERE phone = 7", "SELECT total FROM orders WHERE id = 77"


class Planner:
    """An asker whose server converts what is compared with a phone."""

    def __init__(self, family: str = "mysql", version: str = "9.7.4", refuses: str = "") -> None:
        self.session = SimpleNamespace(family=family, version=version)
        self.refuses, self.asked = refuses, list[str]()

    def text(self, sql: str, _parameters: Sequence[Any] | None, _family: str) -> str:
        return sql

    def plan(self, sql: str, *, execute: bool) -> Plan:
        assert not execute
        self.asked.append(sql)
        if self.refuses:
            raise NotExplained(self.refuses, "name the database in the URL")
        notices = (Notice(code=1739, text="Cannot use ref access"),) if "phone" in sql else ()
        node = Node.model_validate({"operation": "access", "alias": "orders", "access": "const"})
        return Plan(family=self.session.family, tree=node, executed=False, notices=notices)


def captured(folder: Path, family: str = "mysql", version: str = "9.7.4", **facts: Any) -> Evidence:
    story = Story(family, version, **facts)
    app = story.connection()
    for _number in range(10):
        app.asks(SLOW, wait_us=3000)
        app.asks(FAST, wait_us=1000)
    return read_evidence(story.export(folder))


def ask(folder: Path, planner: Planner, evidence: Evidence) -> Explained:
    return explained(folder, cast(Asker, planner), evidence, Thresholds(), lambda _number, _of: None)


def of(outcomes: Sequence[Outcome], suspect: str) -> Outcome:
    return next(each for each in outcomes if each.suspect == suspect)


@pytest.mark.parametrize(("family", "version"), [("mysql", "9.7.4"), ("postgres", "15.18 (Debian 15.18-0+deb12u1)")])
def test_a_finding_has_its_share_of_the_budget(tmp_path: Path, family: str, version: str) -> None:
    evidence = captured(tmp_path, family, version)
    found = ask(tmp_path, Planner(family, version), evidence)
    assert (found.statements, found.version) == (2, version)
    conversion = of(found.outcomes, "P4")
    assert isinstance(conversion, Finding)
    (slow,) = [each for each in evidence.statements if "phone" in each.text]
    assert conversion.share == pytest.approx(evidence.budget.share(slow.server_us)) and conversion.share > 0.6
    report = report_on(evidence, Thresholds(), found)
    assert conversion in report.findings and (report.server_version, report.explained_statements) == (version, 2)
    assert isinstance(of(report.unseen, "P8"), Unseen)


def test_without_a_plan_the_reason_stands_with_each_rule(tmp_path: Path) -> None:
    evidence = captured(tmp_path)
    found = ask(tmp_path, Planner(refuses="No database selected"), evidence)
    assert found.statements == 0 and {each.suspect for each in found.outcomes} == set(PLAN_RULES)
    why = of(found.outcomes, "P4")
    assert isinstance(why, Unseen) and why.why == "No database selected: name the database in the URL"


def test_a_masked_trace_has_nothing_to_explain(tmp_path: Path) -> None:
    planner = Planner()
    found = ask(tmp_path, planner, captured(tmp_path, masked=True))
    assert planner.asked == [] and all(isinstance(each, Unseen) and "masked" in each.why for each in found.outcomes)


def test_only_the_statements_with_the_most_time_are_explained(tmp_path: Path) -> None:
    story = Story()
    app = story.connection()
    for number in range(MOST_STATEMENTS + 20):
        app.asks(f"SELECT a{number:03} FROM t", wait_us=100 + number)
    planner = Planner()
    ask(tmp_path, planner, read_evidence(story.export(tmp_path)))
    assert len(planner.asked) == MOST_STATEMENTS and "SELECT a119 FROM t" in planner.asked


@pytest.mark.parametrize(
    ("family", "captured_from", "asked"),
    [("postgres", "15.18", "16.2"), ("mysql", "9.7.4", "8.4.10"), ("mysql", "9.7.4", "10.11-MariaDB")],
)
def test_another_version_is_refused(tmp_path: Path, family: str, captured_from: str, asked: str) -> None:
    evidence = captured(tmp_path, family, captured_from)
    with pytest.raises(UsageError, match="the trace was captured from"):
        ask(tmp_path, Planner(family, asked), evidence)


def test_counters_win_over_plans_unless_they_saw_nothing(tmp_path: Path) -> None:
    evidence = captured(tmp_path)
    of_plan = Finding(suspect="P2", share=0.5, status="inferred", said="a plan", evidence=(), fixes=(), limits="none")
    # MySQL's answers carry the flag, so that P2 is innocent; P3 only the server counts.
    outcomes = judge(evidence, Thresholds(), [of_plan, of_plan.model_copy(update={"suspect": "P3"})])
    assert isinstance(of(outcomes, "P2"), Innocent)
    third = of(outcomes, "P3")
    assert isinstance(third, Finding) and third.said == "a plan"
    assert len({each.suspect for each in outcomes}) == len(outcomes)


def test_a_plan_accuses_what_the_server_did_not_count(tmp_path: Path) -> None:
    """Of two statements with a large sort, the server counted one, and cleared it."""

    class Sorting(Planner):
        def plan(self, sql: str, *, execute: bool) -> Plan:
            of_table = super().plan(sql, execute=execute)
            rows = 5000 if "phone" in sql else 3000
            sort = Node.model_validate({"operation": "sort", "sort": {"rows": rows}, "children": (of_table.tree,)})
            return of_table.model_copy(update={"tree": sort, "notices": ()})

    evidence = captured(tmp_path)
    slow, fast = sorted(evidence.statements, key=lambda each: -each.server_us)
    both = of(ask(tmp_path, Sorting(), evidence).outcomes, "P3")
    assert isinstance(both, Finding) and [each.statement for each in both.statements] == [slow.statement, fast.statement]

    counted = ServerStatement(
        statement=slow.statement,
        executions=10,
        wait_us=3000,
        lock_us=0,
        rows_examined=1,
        rows_sent=1,
        rows_affected=0,
        sort_rows=0,
        temporary_tables=0,
        temporary_disk_tables=0,
        no_index=0,
    )
    seen = evidence.model_copy(update={"server": ServerFacts(version="9.7.4", statements=(counted,))})
    report = report_on(seen, Thresholds(), ask(tmp_path, Sorting(), seen))
    third = of(report.findings, "P3")
    assert isinstance(third, Finding) and [each.statement for each in third.statements] == [fast.statement]
    assert third.said == "a sort of 3,000 rows" and third.share == pytest.approx(evidence.budget.share(fast.server_us))
    all_counted = (counted, counted.model_copy(update={"statement": fast.statement}))
    cleared = evidence.model_copy(update={"server": ServerFacts(version="9.7.4", statements=all_counted)})
    assert isinstance(of(judge(cleared, Thresholds(), ask(tmp_path, Sorting(), cleared).outcomes), "P3"), Innocent)


def test_one_url_is_the_address_of_both_sessions() -> None:
    address = server_address("mysql://app@/shop?socket=/run/s", None, None)
    assert address and (address.database, address.postgres) == ("shop", False)
    assert (counters_address(address).socket, counters_address(address).user) == ("/run/s", "app")
    other = server_address("postgres://app@db.example/shop", None, None)
    assert other and other.postgres and other.host == "db.example"


def test_examine_asks_a_postgres_for_plans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from upshift.cli.stack import examine

    planner = Planner("postgres", "15.18")

    @contextlib.contextmanager
    def opened(_address: Any, _wait_s: float) -> Iterator[Any]:
        yield planner.session

    @contextlib.contextmanager
    def exported(*_given: Any, **_named: Any) -> Iterator[Path]:
        yield tmp_path

    captured(tmp_path, "postgres", "15.18")
    monkeypatch.setattr("upshift.stack.plans.session.opened", opened)
    monkeypatch.setattr("upshift.stack.plans.ask.Asker", lambda _session: planner)
    monkeypatch.setattr("upshift.stack.examining.exported", exported)
    examine(tmp_path / "app.trace", server="postgres://app@db/shop")
    said = " ".join(capsys.readouterr().out.split())
    assert "P4 implicit conversion" in said and "PostgreSQL's statistics do not have rows examined" in said
    with pytest.raises(UsageError, match="captured from a PostgreSQL, and --server names a MySQL or MariaDB"):
        examine(tmp_path / "app.trace", server="mysql://app@db/shop")
