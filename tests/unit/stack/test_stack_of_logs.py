"""Traces that were made of logs: what they lack is absent and said, and no rule takes its absence for a zero."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
from faulty_shop import shop
from story import Story

from upshift.errors import UsageError
from upshift.stack.evidence import Evidence, TraceFacts
from upshift.stack.examining import refuse_untimed
from upshift.stack.lacks import LACKS, Lack
from upshift.stack.plans.source import read_export
from upshift.stack.read import read_evidence
from upshift.stack.report import report_on
from upshift.stack.server import with_server
from upshift.stack.suspects.model import Finding, Innocent, Outcome, Unseen
from upshift.stack.suspects.rules import NEEDS, RULES, judge
from upshift.stack.suspects.thresholds import Thresholds

# The columns that the export leaves empty.
_COLUMNS: dict[Lack, tuple[str, ...]] = {
    "round_trips": ("round_trips",),
    "packets": ("packets_sent", "packets_received"),
    "bytes": ("bytes_sent", "bytes_received"),
    "answers": ("definition_bytes", "warnings", "statements_in_text", "no_index_used", "no_good_index_used"),
    "rows": ("rows",),
    "affected": ("affected",),
    "fetches": ("cursor", "early_close"),
    "answer_times": ("first_byte_us", "last_byte_us"),
}
_SLOW: tuple[Lack, ...] = ("round_trips", "packets", "answers", "affected", "fetches", "prepares", "protocol", "logins")


def of_log(story: Story, *lacks: Lack, **log: Any) -> Story:
    """The story as a log would have told it."""
    facts = {"format": "mysql-slow", "clock": None, "shortest_us": 6, "lacks": list(lacks)}
    story.facts |= {"capture": "log", "log": facts | log, "added_us_p50": None, "added_us_p99": None}
    for name in (column for lack in lacks for column in _COLUMNS.get(lack, ())):
        for each in story.exchanges:
            each[name] = None
    for session in story.sessions:
        session["login_round_trips"] = None
    return story


def evidence(folder: Path, story: Story) -> Evidence:
    return read_evidence(story.export(folder / "export"))


def outcome(outcomes: tuple[Outcome, ...], suspect: str) -> Outcome:
    return next(each for each in outcomes if each.suspect == suspect)


def test_all_that_may_be_lacking_has_words() -> None:
    assert set(LACKS) == set(get_args(Lack))
    assert {each for needed in NEEDS.values() for each in needed} <= set(LACKS) and set(NEEDS) <= set(RULES)


@pytest.mark.parametrize("suspect", NEEDS)
def test_a_rule_that_needs_it_is_unseen_and_says_so(tmp_path: Path, suspect: str) -> None:
    planted = shop([suspect])
    assert isinstance(outcome(judge(evidence(tmp_path / "captured", planted), Thresholds()), suspect), Finding)
    for lack in NEEDS[suspect]:
        seen = evidence(tmp_path / lack, of_log(shop([suspect]), lack))
        found = outcome(judge(seen, Thresholds()), suspect)
        assert isinstance(found, Unseen) and found.why == f"needs what the trace lacks: {LACKS[lack]}"


def test_a_slow_log_tells_of_commits_and_errors_and_of_nothing_that_it_lacks(tmp_path: Path) -> None:
    seen = evidence(tmp_path, of_log(shop(["E3"]), *_SLOW, clock="CET"))
    assert (seen.budget.network_us, seen.budget.round_trips, seen.budget.round_trip_us) == (None, None, None)
    report = report_on(seen, Thresholds())
    assert [each.suspect for each in report.findings] == ["E3"]
    unseen = {each.suspect for each in report.unseen}
    assert unseen >= {name for name, needed in NEEDS.items() if set(needed) & set(_SLOW)} | {"P1", "P2", "P3"}
    assert "C8" not in unseen
    assert {each.round_trips for each in report.statements} == {None} and all(
        each.rows is not None for each in report.statements
    )
    assert any("mysql-slow log" in note for note in report.notes) and any("CET" in note for note in report.notes)
    assert not any("began before the capture" in note for note in report.notes)


def test_no_time_is_lost_where_round_trips_are_unknown(tmp_path: Path) -> None:
    captured = evidence(tmp_path / "a", shop([])).budget
    logged = evidence(tmp_path / "b", of_log(shop([]), *_SLOW)).budget
    assert logged.total_us == captured.total_us and logged.client_gap_us == captured.client_gap_us
    assert logged.server_us + logged.commit_us == captured.server_us + captured.commit_us + (captured.network_us or 0)


def test_short_statements_that_are_missing_are_said(tmp_path: Path) -> None:
    seen = evidence(tmp_path, of_log(shop(["E3"]), *_SLOW, "gaps", "short_statements", shortest_us=105_000))
    report = report_on(seen, Thresholds())
    assert not report.findings and {"C8", "E3"} <= {each.suspect for each in report.unseen}
    assert any("no statement below 105.0 ms" in note for note in report.notes)
    # One of so many, or fast ones that are there only because they used no index.
    seen = evidence(tmp_path / "sampled", of_log(shop(["E3"]), *_SLOW, "gaps", "short_statements", shortest_us=6))
    notes = report_on(seen, Thresholds()).notes
    assert any("short statements may be missing" in note for note in notes)
    assert not any("no statement below" in note for note in notes)


def test_a_log_without_times_is_examined_by_nobody_and_explained_all_the_same(tmp_path: Path) -> None:
    story = Story()
    with (app := story.connection()).transaction():
        app.asks("SELECT 1 FROM a")
        app.asks("SELECT 2 FROM a")
        app.asks("UPDATE a SET b = 3")
    seen = evidence(tmp_path, of_log(story, "answer_times", "gaps", "round_trips", format="mysql-general"))
    with pytest.raises(UsageError, match=r"app\.trace was made of a mysql-general log, which does not say when answers came"):
        refuse_untimed(Path("app.trace"), seen)
    source = read_export(tmp_path / "export")
    assert [each.executions for each in source.statements] == [2, 1] and not source.timed
    assert set(source.shares().values()) == {0.5}


_COUNTS = {
    "rows_examined": 1,
    "lock_us": 0,
    "full_scan": False,
    "sort_rows": 0,
    "temporary_tables": 0,
    "temporary_disk_tables": 0,
}
_SCAN = {"rows_examined": 5000, "full_scan": True}
_PLAIN = {"full_scan": None, "sort_rows": None, "temporary_tables": None, "temporary_disk_tables": None}
_SELECT, _UPDATE = "SELECT c FROM t WHERE a = 7", "UPDATE t SET c = 1 WHERE a = 7"


def counted(every: dict[str, Any], once: dict[str, Any], sql: str, affected: int | None, counts: dict[str, Any]) -> Story:
    """Two statements in turn: each of the second says ``every``, its first ``once`` beside."""
    story = Story()
    app = story.connection()
    for number in range(40):
        app.asks("SELECT b FROM t WHERE id = 5", wait_us=300, rows=1, **_COUNTS | counts)
        told = _COUNTS | counts | every | (once if number == 0 else {})
        app.asks(sql, **{"wait_us": 3000, "rows": 1, "affected": affected, **told})
    return of_log(story, *(each for each in _SLOW if affected is None or each != "affected"))


@pytest.mark.parametrize(
    ("every", "once", "sql", "affected", "counts", "found", "unseen"),
    [
        ({}, {}, _SELECT, None, {}, set(), set()),
        ({"rows_examined": 5000}, {}, _SELECT, None, {}, {"P1"}, set()),
        ({"rows_examined": 5000, "rows": 4000}, {}, _SELECT, None, {}, set(), set()),
        (_SCAN, {}, _SELECT, None, {}, {"P2"}, set()),
        (_SCAN | {"rows": 4000}, {}, _SELECT, None, {}, set(), set()),
        ({"rows_examined": 300, "full_scan": True}, {}, _SELECT, None, {}, set(), set()),
        # One execution of many has scanned.
        ({"rows_examined": 5000}, {"full_scan": True}, _SELECT, None, {"full_scan": None}, {"P1"}, set()),
        ({"rows_examined": 5000}, {}, _SELECT, None, _PLAIN, {"P1"}, {"P2", "P3"}),
        # How many rows an update changed, MySQL's log does not say.
        (_SCAN, {}, _UPDATE, None, {}, set(), set()),
        (_SCAN, {}, _UPDATE, 0, {}, {"P2"}, set()),
        ({"rows_examined": 5000}, {}, _UPDATE, 5000, {}, set(), set()),
        ({"sort_rows": 40_000}, {}, _SELECT, None, {}, {"P3"}, set()),
        ({"temporary_disk_tables": 1}, {}, _SELECT, None, {"sort_rows": None}, {"P3"}, set()),
        ({}, {}, _SELECT, None, {"sort_rows": None}, set(), {"P3"}),
        ({"lock_us": 2500}, {}, _SELECT, None, {}, {"E2"}, set()),
        ({"lock_us": 2500}, {"lock_us": None}, _SELECT, None, {}, set(), {"E2"}),
        ({}, {}, _SELECT, None, {"lock_us": None}, set(), {"E2"}),
    ],
)
def test_what_the_server_counted_in_its_log_is_evidence(
    tmp_path: Path,
    every: dict[str, Any],
    once: dict[str, Any],
    sql: str,
    affected: int | None,
    counts: dict[str, Any],
    found: set[str],
    unseen: set[str],
) -> None:
    seen = evidence(tmp_path, counted(every, once, sql, affected, counts))
    outcomes = {name: outcome(judge(seen, Thresholds()), name) for name in ("P1", "P2", "P3", "E2")}
    of = {kind: {name for name, each in outcomes.items() if isinstance(each, kind)} for kind in (Finding, Unseen, Innocent)}
    assert (of[Finding], of[Unseen]) == (found, unseen) and of[Innocent] == set(outcomes) - found - unseen
    for each in outcomes.values():
        if isinstance(each, Finding) and each.suspect != "E2":
            assert [named.text for named in each.statements] == [seen.statements[0].text] and each.share > 0.8
            assert "since its counters began" not in each.limits


def test_the_lock_waits_of_a_log_are_each_executions_own(tmp_path: Path) -> None:
    seen = evidence(tmp_path, counted({"lock_us": 2500}, {}, _SELECT, None, {}))
    assert seen.budget.lock_us == 40 * 2500 and seen.budget.total_us == 40 * 3300
    finding = outcome(judge(seen, Thresholds()), "E2")
    assert isinstance(finding, Finding) and finding.status == "measured" and "log says of each" in finding.limits
    statement = seen.statements[0]
    # Its counters are of other executions, too; a mean of theirs takes no wait out of the budget again.
    row = (statement.text, 1000, 3e6, 3e6, 9e6, 1000, 0, 0, 0, 0, 1000)
    asked = with_server(seen, _Server(row))
    assert asked.budget == seen.budget
    assert {name for name in ("P1", "P2") if isinstance(outcome(judge(asked, Thresholds()), name), Finding)} == {"P2"}


class _Server:
    """A server that has counted one statement."""

    def __init__(self, row: tuple[Any, ...]) -> None:
        self._row = row

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        if statement.startswith("SHOW GLOBAL STATUS"):
            return []
        known: dict[str, tuple[Any, ...]] = {"SELECT VERSION()": ("9.7.4",), "SELECT @@performance_schema": (1,)}
        return [known.get(statement, self._row)]


def test_a_capture_lacks_nothing(tmp_path: Path) -> None:
    facts: TraceFacts = evidence(tmp_path, shop([])).trace
    assert facts.lacking(*get_args(Lack)) == ()
