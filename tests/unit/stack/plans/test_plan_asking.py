"""What is sent to each server for a plan, and what becomes of its answers; recordings answer in the servers' place."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import recordings
import shop

from upshift.errors import ServerFailed
from upshift.stack.plans.ask import Asker
from upshift.stack.plans.comparing import compared
from upshift.stack.plans.looked import Comparison, PlansReport
from upshift.stack.plans.looking import planned
from upshift.stack.plans.model import Notice, accesses
from upshift.stack.plans.report import show_comparison
from upshift.stack.plans.session import Refused
from upshift.stack.plans.source import Source, Wanted
from upshift.stack.plans.statements import NotExplained
from upshift.stack.suspects.model import Finding, Innocent
from upshift.stack.suspects.thresholds import Thresholds, read_thresholds


class Recorded:
    """A session in which the recordings answer."""

    planned_s = (0.003, 0.003)
    """How long the EXPLAIN and the execution choose a plan."""

    def __init__(self, family: shop.Family, *, versions: bool = True, gone_after: int = 10**6) -> None:
        self.family = family
        self.version = "recorded"
        self.sent: list[str] = []
        self.profiles: list[tuple[str, float]] = []
        """What is profiled, and how long a plan was chosen."""
        self._profiling = False
        self._versions, self._version, self._left = versions, 1, gone_after

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        self.sent.append(sql)
        self._left -= 1
        if self._left < 0:
            raise ServerFailed("the server is gone", "look at its log")
        if sql.startswith("SET SESSION explain_json_format_version"):
            if not self._versions:
                raise Refused("1193", "Unknown system variable")
            self._version = int(sql[-1])
        if sql.startswith("SHOW SESSION STATUS"):
            return [("counter", str(len(self.sent)))]
        if sql == "SHOW PROFILES":
            numbered = [(number, 0.1, profiled) for number, (profiled, _planning_s) in enumerate(self.profiles, 1)]
            return list(numbered[-15:])
        if sql.startswith("SHOW PROFILE FOR QUERY "):
            profiled, planning_s = self.profiles[int(sql.rsplit(maxsplit=1)[-1]) - 1]
            ending = [("executing", 0.013)] if "ANALYZE" in profiled else []
            return [("init", 0.004), ("Optimizing", 0.001), ("statistics", planning_s - 0.001), *ending]
        if self._profiling and sql != "SET SESSION profiling = 0":
            self.profiles.append((sql, self.planned_s["ANALYZE" in sql]))
        if "profiling" in sql:
            self._profiling = sql.endswith("1")
        name = next((name for name, statement in shop.STATEMENTS.items() if sql.endswith(statement)), None)
        return [(self._answer(sql, name),)] if name else []

    def _answer(self, sql: str, name: str) -> Any:
        each = recordings.answers(self.family)[name]
        analyzed = "analyze_" if "ANALYZE" in sql else ""
        if self.family == "postgres":
            if name in shop.ONLY_MYSQLS:
                raise Refused("42883", "operator does not exist")
            return each[f"{analyzed}json"]
        if self.family == "mariadb":
            return json.dumps(each[f"{analyzed}json"])
        if "FORMAT=TREE" in sql:
            return each[f"{analyzed}tree"]
        return json.dumps(each[f"{analyzed}json{self._version}"])

    def stream(self, sql: str) -> Iterator[tuple[Any, ...]]:
        self.sent.append(sql)
        if self.family == "postgres" and any(sql == shop.STATEMENTS[name] for name in shop.ONLY_MYSQLS):
            raise Refused("42883", "operator does not exist")
        yield from [(1,), (2,)]

    def literal(self, value: Any) -> str:
        return str(value)

    def begin(self, *, read_only: bool) -> None:
        self.sent.append("BEGIN READ ONLY" if read_only else "BEGIN")

    def rollback(self) -> None:
        self.sent.append("ROLLBACK")

    def notices(self) -> tuple[Notice, ...]:
        return (Notice(code=1739, text="Cannot use ref access"),)


FAMILIES: tuple[shop.Family, ...] = ("mysql", "mariadb", "postgres")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_plan_is_asked_for_in_a_transaction_that_is_rolled_back(family: shop.Family) -> None:
    session = Recorded(family)
    Asker(session).plan(shop.STATEMENTS["full"])
    assert session.sent[0] == "BEGIN READ ONLY" and session.sent[-1] == "ROLLBACK"
    statements = [sql for sql in session.sent if sql.endswith(shop.STATEMENTS["full"])]
    assert statements and all(sql.startswith("EXPLAIN ") and "ANALYZE" not in sql for sql in statements)


def test_postgres_plans_once_before_its_planning_is_timed_twice() -> None:
    """A session's first plan of a table reads the catalog for it."""
    session = Recorded("postgres")
    sql = shop.STATEMENTS["full"]
    Asker(session).plan(sql, execute=True)
    assert [each.partition(sql)[0] for each in session.sent if sql in each] == [
        "EXPLAIN ",
        "EXPLAIN (FORMAT JSON, ANALYZE, BUFFERS) ",
        "EXPLAIN (FORMAT JSON, SUMMARY) ",
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_only_an_execution_sends_analyze_and_a_write_never_does(family: shop.Family) -> None:
    session = Recorded(family)
    asker = Asker(session)
    assert asker.plan(shop.STATEMENTS["full"], execute=True).executed
    assert sum("ANALYZE" in sql for sql in session.sent) == 1
    session.sent.clear()
    assert not asker.plan(shop.STATEMENTS["update"], execute=True).executed
    assert not any("ANALYZE" in sql for sql in session.sent)
    # MySQL and MariaDB refuse even the EXPLAIN of a write in a read-only transaction.
    assert session.sent[0] == ("BEGIN READ ONLY" if family == "postgres" else "BEGIN")
    assert session.sent[-1] == "ROLLBACK"


@pytest.mark.parametrize("family", ["mysql", "mariadb"])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM orders WHERE id = 1 FOR UPDATE",
        "WITH old AS (SELECT 1 AS id) DELETE FROM orders WHERE id IN (SELECT id FROM old)",
    ],
)
def test_what_locks_or_writes_is_explained_in_a_transaction_that_may_write(family: shop.Family, sql: str) -> None:
    """MySQL and MariaDB answer 1792 otherwise."""

    class Locking(Recorded):
        def ask(self, sent: str) -> list[tuple[Any, ...]]:
            return super().ask(sent.replace(sql, shop.STATEMENTS["full"]))

    session = Locking(family)
    assert not Asker(session).plan(sql, execute=True).executed
    assert session.sent[0] == "BEGIN" and session.sent[-1] == "ROLLBACK"


@pytest.mark.parametrize("versions", [True, False])
@pytest.mark.parametrize("execute", [True, False])
def test_a_mysql_without_versions_of_its_json_is_asked_for_tree(versions: bool, execute: bool) -> None:
    session = Recorded("mysql", versions=versions)
    plan = Asker(session).plan(shop.STATEMENTS["join_const"], execute=execute)
    assert [(each.name, each.access) for each in accesses(plan.tree)] == [("c", "const"), ("o", "ref")]
    assert any("FORMAT=TREE" in sql for sql in session.sent) is not versions
    assert plan.notices[0].code == 1739 and plan.executed is execute
    assert (plan.sort_merge_passes is not None) is execute


@pytest.mark.parametrize("family", FAMILIES)
def test_an_execution_tells_how_long_it_was_planned(family: shop.Family) -> None:
    session = Recorded(family)
    asker = Asker(session)
    unexecuted = asker.plan(shop.STATEMENTS["full"])
    assert unexecuted.planning_ms is None and not any("rofil" in sql for sql in session.sent)
    plan = asker.plan(shop.STATEMENTS["full"], execute=True)
    assert plan.planning_ms and plan.whole_ms
    if family == "postgres":
        assert plan.execution_ms and plan.whole_ms == pytest.approx(plan.execution_ms + plan.planning_ms)
    else:
        assert [plan.planning_ms, plan.whole_ms] == pytest.approx([3.0, 20.0])
        assert session.sent[-2:] == ["SET SESSION profiling = 0", "ROLLBACK"]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("planned_s", [(0.003, 0.009), (0.009, 0.003)])
def test_of_two_times_of_planning_the_least_counts(family: shop.Family, planned_s: tuple[float, float]) -> None:
    """A busy machine makes one of them longer."""

    class Busy(Recorded):
        def ask(self, sql: str) -> list[tuple[Any, ...]]:
            answer = super().ask(sql)
            if not (family == "postgres" and sql.startswith("EXPLAIN (")):
                return answer
            once = planned_s[1] if "ANALYZE" in sql else planned_s[0]
            return [([{**answer[0][0][0], "Planning Time": once * 1000}],)]

    session = Busy(family)
    session.planned_s = planned_s
    plan = Asker(session).plan(shop.STATEMENTS["full"], execute=True)
    assert plan.planning_ms == pytest.approx(3.0)


@pytest.mark.parametrize("family", ["mysql", "mariadb"])
def test_a_statement_has_not_the_planning_of_the_one_before(family: shop.Family) -> None:
    """The session's profiles are still those of both."""
    session = Recorded(family)
    asker = Asker(session)
    asker.plan(shop.STATEMENTS["point"], execute=True)
    session.planned_s = (0.008, 0.009)
    assert asker.plan(shop.STATEMENTS["full"], execute=True).planning_ms == pytest.approx(8.0)


def test_a_server_that_does_not_profile_is_asked_all_the_same() -> None:
    class Without(Recorded):
        def ask(self, sql: str) -> list[tuple[Any, ...]]:
            if "profiling" in sql:
                raise Refused("1193", "Unknown system variable 'profiling'")
            return super().ask(sql)

    plan = Asker(Without("mysql")).plan(shop.STATEMENTS["full"], execute=True)
    assert plan.executed and plan.planning_ms is None


def test_a_refusal_names_its_reason_and_rolls_back() -> None:
    session = Recorded("postgres")
    with pytest.raises(NotExplained, match="operator does not exist") as refused:
        Asker(session).plan(shop.STATEMENTS["conversion"])
    assert refused.value.hint and session.sent[-1] == "ROLLBACK"


def source(*names: str) -> Source:
    wanted = (Wanted(statement=f"{number:016x}", text=name, sql=shop.STATEMENTS[name]) for number, name in enumerate(names))
    return Source(family=None, statements=tuple(wanted))


def silent(_number: int, _of: int) -> None:
    """Progress that nobody watches."""


def test_a_statement_that_cannot_be_explained_is_named_and_the_rest_goes_on() -> None:
    report = planned(
        source("conversion", "full"), Asker(Recorded("postgres")), "there", Thresholds(), execute=True, progress=silent
    )
    first, second = report.statements
    assert first.told.plan is None and first.told.why_none and first.told.hint
    assert second.told.plan and second.told.rows_examined == shop.ORDERS
    assert [each.suspect for each in report.judgement.findings] == ["P2"]


def p2_of(command: str, full_us: int | None, *thresholds: str) -> Finding | Innocent:
    """What a command says of a scan that takes so much of a second; None: of a file of two statements."""
    both = source("point", "full")
    if full_us is not None:
        times = (1_000_000 - full_us, full_us)
        timed = (each.model_copy(update={"time_us": us}) for each, us in zip(both.statements, times, strict=True))
        both = both.model_copy(update={"statements": tuple(timed)})
    limits, asker = read_thresholds(thresholds), Asker(Recorded("mysql"))
    report: PlansReport | Comparison
    if command == "plans":
        report = planned(both, asker, "there", limits, execute=True, progress=silent)
    else:
        askers = (asker, Asker(Recorded("mysql")))
        report = compared(both, askers, ("a", "b"), limits, execute=True, rounds=1, progress=silent)
    outcomes: list[Finding | Innocent] = [*report.judgement.findings, *report.judgement.innocent]
    return next(each for each in outcomes if each.suspect == "P2")


COMMANDS = ("plans", "compare")


@pytest.mark.parametrize("command", COMMANDS)
def test_what_takes_a_large_share_of_the_time_is_named(command: str) -> None:
    told = p2_of(command, 30_000)
    assert isinstance(told, Finding) and told.share == pytest.approx(0.03)
    assert isinstance(p2_of(command, 10_000, "report.share=0.01"), Finding)


@pytest.mark.parametrize("command", COMMANDS)
def test_what_takes_one_percent_of_the_time_is_not_named(command: str) -> None:
    told = p2_of(command, 10_000)
    assert isinstance(told, Innocent) and told.looked_at.endswith("removed: at most 1.0% of the time")
    assert isinstance(p2_of(command, 500_000, "report.share=0.6"), Innocent)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_number_of_a_files_statements_is_no_time(command: str) -> None:
    assert isinstance(p2_of(command, None), Finding)
    told = p2_of(command, None, "report.share=0.6")
    assert isinstance(told, Innocent) and told.looked_at.endswith("at most 50.0% of the statements")


def test_a_file_of_many_statements_names_each() -> None:
    many = source(*["point"] * 99, "full")
    report = planned(many, Asker(Recorded("mysql")), "there", Thresholds(), execute=True, progress=silent)
    assert {each.suspect: each.share for each in report.judgement.findings}["P2"] == pytest.approx(0.01)


class Slow(Recorded):
    """A server that gives each execution up, and explains all the same."""

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        if "ANALYZE" in sql:
            self.sent.append(sql)
            raise Refused("3024", "maximum statement execution time exceeded")
        return super().ask(sql)


class Interrupted(Recorded):
    """A MySQL that ends EXPLAIN ANALYZE in time and shows what it had counted until then."""

    def notices(self) -> tuple[Notice, ...]:
        return (Notice(code=1317, text="Query execution was interrupted"),) if "ANALYZE" in self.sent[-1] else ()


@pytest.mark.parametrize(
    "session", [Slow("mysql"), Slow("mariadb"), Slow("postgres"), Interrupted("mysql"), Interrupted("mysql", versions=False)]
)
def test_an_execution_that_is_given_up_leaves_the_plan_of_explain(session: Recorded) -> None:
    report = planned(source("full"), Asker(session), "there", Thresholds(), execute=True, progress=silent)
    told = report.statements[0].told
    assert told.plan and not told.plan.executed and told.rows_examined is None
    assert [each.access for each in accesses(told.plan.tree)] == ["full_scan"]
    assert told.why_none and "refuses it" in told.why_none and told.hint
    assert session.sent[-1] == "ROLLBACK"
    # MariaDB does not estimate what a filter leaves, and this PostgreSQL's catalog is empty.
    named = [(each.suspect, each.status) for each in report.judgement.findings]
    assert (("P2", "inferred") in named) is (session.family == "mysql")
    (unseen,) = [each for each in report.judgement.unseen if each.suspect == "P8"]
    assert "--wait-seconds" in unseen.why


def test_a_statement_that_is_slow_on_one_server_has_both_plans() -> None:
    askers = Asker(Slow("mariadb")), Asker(Recorded("postgres"))
    report = compared(source("join_left"), askers, ("a", "b"), Thresholds(), execute=True, rounds=2, progress=silent)
    (each,) = report.statements
    assert each.a.plan and each.b.plan and each.a.why_none and not each.b.why_none
    assert [one.what for one in each.differences] == ["access", "join"]
    assert each.same_answer


class Failing(Recorded):
    """A server that explains a SELECT and, with EXPLAIN ANALYZE or without, does not execute it."""

    def __init__(self, family: shop.Family, *, explains: bool = True) -> None:
        super().__init__(family)
        self._explains = explains

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        if "EXPLAIN" in sql and ("ANALYZE" in sql or not self._explains):
            raise Refused("1142", "SELECT command denied")
        return super().ask(sql)

    def stream(self, sql: str) -> Iterator[tuple[Any, ...]]:
        raise Refused("1142", "SELECT command denied")
        yield


@pytest.mark.parametrize("explains", [True, False])
@pytest.mark.parametrize("first", [True, False])
def test_an_answer_on_one_server_alone_is_a_difference(explains: bool, first: bool, capsys: pytest.CaptureFixture[str]) -> None:
    askers = Asker(Failing("mysql", explains=explains)), Asker(Recorded("postgres"))
    pair = askers if first else (askers[1], askers[0])
    report = compared(source("full"), pair, ("a", "b"), Thresholds(), execute=True, rounds=2, progress=silent)
    (each,) = report.statements
    assert each.same_answer is False and report.answers_differ
    assert (each.a.answer is None, each.b.answer is None) == (first, not first)
    show_comparison(report)
    said = capsys.readouterr().out
    assert "1 statements, each SELECT executed: 1 differ" in said
    assert f"ANSWER ON {'B' if first else 'A'} ALONE: 2 rows" in said and "SELECT command denied" in said


def test_servers_that_both_fail_have_no_other_answer() -> None:
    askers = Asker(Failing("mysql")), Asker(Failing("postgres"))
    report = compared(source("full"), askers, ("a", "b"), Thresholds(), execute=True, rounds=2, progress=silent)
    assert report.statements[0].same_answer is None and not report.answers_differ


class Unsteady(Recorded):
    """A server whose answers differ by themselves, as those of UUID() do."""

    rows = 2

    def stream(self, sql: str) -> Iterator[tuple[Any, ...]]:
        self.sent.append(sql)
        yield from [(f"{len(self.sent)} {number}",) for number in range(self.rows)]


@pytest.mark.parametrize(
    ("sessions", "why"),
    [
        ((Unsteady("mysql"), Recorded("mysql")), "A answers it differently each time"),
        ((Recorded("mysql"), Unsteady("mysql")), "B answers it differently each time"),
        ((Unsteady("mysql"), Unsteady("mysql")), "both servers answer it differently each time"),
    ],
)
def test_answers_that_differ_by_themselves_are_not_compared(
    sessions: tuple[Recorded, Recorded], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    askers = Asker(sessions[0]), Asker(sessions[1])
    report = compared(source("full"), askers, ("a", "b"), Thresholds(), execute=True, rounds=2, progress=silent)
    (each,) = report.statements
    assert (each.same_answer, each.why_uncompared, report.answers_differ) == (None, why, False)
    show_comparison(report)
    assert f"answers are not compared: {why}" in capsys.readouterr().out


def test_rows_of_another_number_are_another_answer_whatever_is_in_them() -> None:
    more = Unsteady("mysql")
    more.rows = 3
    askers = Asker(Unsteady("mysql")), Asker(more)
    report = compared(source("full"), askers, ("a", "b"), Thresholds(), execute=True, rounds=2, progress=silent)
    assert report.statements[0].same_answer is False and report.statements[0].why_uncompared is None


def test_an_answer_needs_no_plan_that_was_executed() -> None:
    askers = Asker(Slow("mysql")), Asker(Recorded("mysql"))
    report = compared(source("full", "update"), askers, ("a", "b"), Thresholds(), execute=True, rounds=2, progress=silent)
    assert {each.text: each.same_answer for each in report.statements} == {"full": True, "update": None}


def test_a_server_that_goes_away_ends_the_command() -> None:
    with pytest.raises(ServerFailed):
        planned(
            source("full", "ref"), Asker(Recorded("mysql", gone_after=9)), "there", Thresholds(), execute=False, progress=silent
        )


def test_two_servers_are_compared_with_differences_first() -> None:
    askers = Asker(Recorded("mariadb")), Asker(Recorded("postgres"))
    names = "full", "join_left", "conversion", "ref"
    report = compared(source(*names), askers, ("a", "b"), Thresholds(), execute=True, rounds=2, progress=silent)
    assert [each.text for each in report.statements] == ["conversion", "join_left", "full", "ref"]
    one, left, full, _ref = report.statements
    assert one.same_answer is False and one.a.plan and not one.b.plan
    assert left.same_answer and [each.what for each in left.differences] == ["access", "join"]
    assert full.a.answer and (full.a.answer.rows, full.differences) == (2, ())
    assert {"P2", "P4", "P6"} <= {each.suspect for each in report.judgement.findings}


def test_a_server_compared_with_itself_differs_in_nothing() -> None:
    askers = Asker(Recorded("mysql")), Asker(Recorded("mysql"))
    report = compared(source(*shop.STATEMENTS), askers, ("a", "b"), Thresholds(), execute=False, rounds=2, progress=silent)
    assert not any(each.differences for each in report.statements)
    assert not {"P5", "P6"} & {each.suspect for each in report.judgement.findings}
