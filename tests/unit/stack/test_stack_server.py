"""The server's side: only of the server that the trace is of, joined by what the statements have in common."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pymysql
import pytest
from faulty_shop import CUSTOMER, LINES, STOCK, TAKE, shop
from story import Story, normalised

from upshift.errors import UpshiftError, UsageError
from upshift.stack.evidence import Evidence
from upshift.stack.explaining import server_address
from upshift.stack.read import read_evidence
from upshift.stack.server import comparable, refuse_family, with_server
from upshift.stack.suspects.model import Finding, Unseen
from upshift.stack.suspects.rules import judge
from upshift.stack.suspects.thresholds import Thresholds


class Session:
    """Answers as a server would."""

    def __init__(self, digests: list[tuple[Any, ...]] | pymysql.MySQLError, version: str = "9.7.4", counts: int = 1) -> None:
        self._digests, self._version, self._counts = digests, version, counts
        self.pool: Mapping[str, Any] = {}

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        if "VERSION()" in statement:
            return [(self._version,)]
        if "@@performance_schema" in statement:
            return [(self._counts,)]
        if statement.startswith("SHOW GLOBAL STATUS"):
            return [(f"Innodb_buffer_pool_{name}", str(value)) for name, value in self.pool.items()]
        if isinstance(self._digests, pymysql.MySQLError):
            raise self._digests
        answers = {"innodb_page_size": 16384, "file_summary": Decimal("2500.5"), "summary_global": Decimal(10_000)}
        if value := next((value for name, value in answers.items() if name in statement), None):
            return [(value,)]
        return self._digests


def row(text: str, executions: int = 10, *, lock: float = 0, wait: float = 1000, examined: int = 20) -> tuple[Any, ...]:
    return (text, executions, wait * executions, lock * executions, examined * executions, 10, 0, 0, 0, 0, None)


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return read_evidence(shop().export(tmp_path_factory.mktemp("export")))


@pytest.mark.parametrize(
    ("sent", "counted"),
    [
        ("SELECT a FROM t WHERE id = ?", "SELECT `a` FROM `t` WHERE `id` = ?"),
        ("SELECT DISTINCT a FROM t WHERE b <> ?", "SELECT DISTINCTROW `a` FROM `t` WHERE `b` != ?"),
        ("select a from t where id in (...)", "SELECT `a` FROM `t` WHERE `id` IN (...)"),
        ("SELECT a FROM t WHERE id IN (?)", "SELECT `a` FROM `t` WHERE `id` IN (...) "),
        ("INSERT INTO t(a,b) VALUES (...)", "INSERT INTO `t` ( `a` , `b` ) VALUES (...) /* , ... */"),
        ("SELECT s.a, COUNT(*) FROM s", "SELECT `s` . `a` , COUNT ( * ) FROM `s`"),
        ("UPDATE t SET a = a - ? WHERE b >= ?", "UPDATE `t` SET `a` = `a` - ? WHERE `b` >= ?"),
        ("SELECT a FROM t WHERE (a, b) IN ((...))", "SELECT `a` FROM `t` WHERE ( `a` , `b` ) IN ( (...) )"),
        ("SELECT a FROM t LIMIT ?, ?", "SELECT `a` FROM `t` LIMIT ?, ..."),
        ("SELECT IF(a > ?, ?, ?), SUBSTR(b, ?, ?)", "SELECT IF ( `a` > ?, ... ) , SUBSTRING ( `b` , ?, ... )"),
        ("SELECT a, ?, -?, ? + b FROM t", "SELECT `a` , ?, ... + `b` FROM `t`"),
        ("INSERT INTO t VALUES (?, ?, NOW())", "INSERT INTO `t` VALUES ( ?, ... , NOW ( ) )"),
        ("INSERT INTO t VALUES (?, ?, NOW())", "INSERT INTO `t` VALUES ( ?, ... , NOW ( ) ) , ( ?, ... , NOW ( ) )"),
        ("SELECT a FROM t WHERE b = ? AND c IN (...)", "SELECT `a` FROM `t` WHERE `b` = TRUE AND `c` IN ( ? , FALSE , ? )"),
        ("SELECT CASE WHEN a = ? THEN ? ELSE NULL END", "SELECT CASE WHEN `a` = ? THEN ? ELSE ? END"),
        ("SELECT a FROM t GROUP BY ? ORDER BY ?, ? DESC", "SELECT `a` FROM `t` GROUP BY 1 ORDER BY 1 , 2 DESC"),
    ],
)
def test_statements_are_compared_without_what_servers_write_in_their_own_way(sent: str, counted: str) -> None:
    assert comparable(sent) == comparable(counted)


def test_different_statements_stay_different() -> None:
    texts = [CUSTOMER, LINES, TAKE, "SELECT a FROM t", "SELECT a FROM t WHERE a = ?", "SELECT ab FROM t", "SELECT a b FROM t"]
    texts += [f"SELECT a FROM t WHERE a IS {each}" for each in ("?", "NULL", "NOT NULL", "TRUE", "FALSE")]
    texts += [f"INSERT INTO t VALUES {each}" for each in ("(?, NOW())", "(?, NOW()), (?, UUID())")]
    texts += [f"SELECT a FROM t LIMIT {each}" for each in ("?", "?, ?", "? OFFSET ?")]
    assert len({comparable(normalised(each)) for each in texts}) == len(texts)


def test_figures_are_of_one_execution_and_rows_of_several_schemas_are_added(evidence: Evidence) -> None:
    told = with_server(evidence, Session([row(CUSTOMER, 10), row(CUSTOMER.lower(), 30, examined=40), row("SELECT ?")]))
    assert told.server is not None
    (seen,) = told.server.statements
    assert evidence.text_of(seen.statement) == CUSTOMER
    assert (seen.executions, seen.rows_examined, seen.wait_us, seen.no_index) == (40, 35, 1000, 0)


def test_mysql_tells_prepares_from_executions(evidence: Evidence) -> None:
    told = with_server(evidence, Session([row(f"PREPARE {CUSTOMER}", 7), row(f"EXECUTE {CUSTOMER}", 10)]))
    assert told.server is not None and [each.executions for each in told.server.statements] == [10]


def test_mariadb_counts_prepared_statements_by_themselves(evidence: Evidence) -> None:
    version = "10.11.14-MariaDB"
    trace = evidence.trace.model_copy(update={"server_version": version})

    class MariaDb(Session):
        def ask(self, statement: str) -> list[tuple[Any, ...]]:
            if "prepared_statements_instances" in statement:
                return [row('UPDATE stock SET quantity = quantity - 1 WHERE id = "c7"', 5)]
            return super().ask(statement)

    seen = evidence.model_copy(update={"trace": trace})
    told = with_server(seen, MariaDb([row("BEGIN"), row("COMMIT ")], version))
    assert told.server is not None
    assert {evidence.text_of(each.statement) for each in told.server.statements} == {"BEGIN", "COMMIT", normalised(STOCK)}
    # So few statements do not tell how long the others waited.
    assert told.budget.lock_us is None


def test_where_no_statement_that_touches_rows_was_counted_nobody_is_cleared(evidence: Evidence) -> None:
    seen = with_server(evidence, Session([row("BEGIN"), row("COMMIT ")]))
    unseen = {each.suspect: each.why for each in judge(seen, Thresholds()) if isinstance(each, Unseen)}
    assert set(unseen) == {"P1", "P3", "E2", "E4"} and "too few" in unseen["E2"] and "none of" in unseen["P1"]


def test_a_statement_that_the_server_cut_is_found_by_its_beginning(tmp_path: Path) -> None:
    long = "UPDATE t SET a = CASE " + " ".join(f"WHEN b{number} = ? THEN ?" for number in range(100)) + " END"
    story = Story()
    story.connection().executes(long, 1)
    seen = read_evidence(story.export(tmp_path))
    told = with_server(seen, Session([row(long[:1100]), row("UPDATE t SET a = CASE", 5)]))
    assert told.server is not None
    assert [each.executions for each in told.server.statements] == [10]


def test_lock_waits_go_into_the_budget_and_accuse(evidence: Evidence) -> None:
    counted = [row(each.text, lock=600) for each in evidence.statements]
    told = with_server(evidence, Session(counted))
    server_us = sum(each.server_us for each in evidence.statements if each.executions)
    assert told.budget.lock_us == pytest.approx(0.6 * server_us, rel=0.001)
    assert told.budget.total_us == evidence.budget.total_us
    (finding, *_) = judge(told, Thresholds())
    assert isinstance(finding, Finding) and (finding.suspect, finding.status) == ("E2", "measured")


@pytest.mark.parametrize(
    ("captured", "version", "said"),
    [
        ("9.7.4", "8.4.10", "captured from MySQL 9.7.4, and this server is 8.4.10"),
        ("9.7.4", "10.11.14-MariaDB-0+deb12u2", "captured from MySQL 9.7.4, and this server is MariaDB 10.11.14"),
        ("5.5.5-10.11.14-MariaDB", "9.7.4", "captured from MariaDB 10.11.14, and this server is MySQL 9.7.4"),
    ],
)
def test_another_server_is_refused(evidence: Evidence, captured: str, version: str, said: str) -> None:
    trace = evidence.trace.model_copy(update={"server_version": captured})
    with pytest.raises(UsageError) as refused:
        with_server(evidence.model_copy(update={"trace": trace}), Session([], version))
    assert said in refused.value.message and refused.value.hint


def test_mariadb_is_the_same_with_and_without_mysqls_number_before_its_own(evidence: Evidence) -> None:
    trace = evidence.trace.model_copy(update={"server_version": "5.5.5-10.11.14-MariaDB-0+deb12u2"})
    told = with_server(evidence.model_copy(update={"trace": trace}), Session([], "10.11.14-MariaDB-0+deb12u2-log"))
    assert told.server is not None


def test_another_family_is_refused_before_anything_connects(tmp_path: Path) -> None:
    story = Story("postgres")
    story.connection().pings()
    trace = read_evidence(story.export(tmp_path)).trace
    refuse_family(trace, postgres=True)
    with pytest.raises(UsageError, match="captured from a PostgreSQL, and --server names a MySQL"):
        refuse_family(trace, postgres=False)
    with pytest.raises(UsageError, match="names a PostgreSQL"):
        refuse_family(trace.model_copy(update={"family": "mysql"}), postgres=True)


def test_nobody_is_asked_who_is_not_named() -> None:
    assert server_address(None, None, None) is None
    named = server_address("mysql://app@/?socket=/run/s", None, None)
    assert named is not None and (named.user, named.socket) == ("app", "/run/s")


def test_an_account_without_rights_gets_a_hint(evidence: Evidence) -> None:
    denied = pymysql.err.OperationalError(1142, "SELECT command denied to user 'app'@'localhost'")
    with pytest.raises(UpshiftError) as failed:
        with_server(evidence, Session(denied))
    assert "SELECT command denied" in failed.value.message and "GRANT SELECT" in failed.value.hint


def test_what_the_server_refuses_is_told(evidence: Evidence) -> None:
    with pytest.raises(UpshiftError, match="does not give its counters: maximum statement execution time") as failed:
        with_server(evidence, Session(pymysql.err.OperationalError(3024, "maximum statement execution time exceeded")))
    assert "--server" in failed.value.hint


def test_an_account_that_may_read_one_table_alone_is_told(evidence: Evidence) -> None:
    class OneTable(Session):
        def ask(self, statement: str) -> list[tuple[Any, ...]]:
            if "file_summary" in statement:
                raise pymysql.err.OperationalError(1142, "SELECT command denied for table 'file_summary_by_event_name'")
            return super().ask(statement)

    session = OneTable([row(CUSTOMER)])
    session.pool = POOL
    with pytest.raises(UpshiftError, match=r"may not read performance_schema.*file_summary"):
        with_server(evidence, session)


@pytest.mark.parametrize(("told", "why"), [({"counts": 0}, "performance_schema is off"), ({}, "counts no statements")])
def test_a_server_that_counts_nothing_clears_nobody(evidence: Evidence, told: Mapping[str, Any], why: str) -> None:
    seen = with_server(evidence, Session([], **told))
    assert seen.budget.lock_us is None
    unseen = {each.suspect: each.why for each in judge(seen, Thresholds()) if isinstance(each, Unseen)}
    assert set(unseen) == {"P1", "P3", "E2", "E4"} and why in unseen["P1"]


POOL = {
    "pages_total": "8000",
    "read_requests": "90",
    "reads": "7",
    "read_ahead": "20",
    "read_ahead_rnd": "1",
    "dump_status": "",
}


@pytest.mark.parametrize("counts", [True, False])
def test_the_buffer_pools_counters_need_no_performance_schema(evidence: Evidence, counts: bool) -> None:
    session = Session([row(CUSTOMER)], counts=int(counts))
    session.pool = POOL
    told = with_server(evidence, session).server
    assert told and told.pool
    pool = told.pool
    assert (pool.pages, pool.page_bytes, pool.requests, pool.misses, pool.pages_read) == (8000, 16384, 90, 7, 28)
    assert (pool.read_us, pool.statements_us) == ((2500.5, 10_000) if counts else (None, 0))


def test_a_server_without_innodbs_counters_has_no_pool(evidence: Evidence) -> None:
    session = Session([row(CUSTOMER)])
    session.pool = {"pages_total": "8000"}
    told = with_server(evidence, session).server
    assert told and told.pool is None


@pytest.mark.parametrize("version", ["8.0.27", "5.7.44-log", "10.11.14-MariaDB"])
def test_a_server_whose_lock_time_is_of_parsing_accuses_nobody(evidence: Evidence, version: str) -> None:
    trace = evidence.trace.model_copy(update={"server_version": version})
    counted = [row(each.text, lock=600) for each in evidence.statements]
    told = with_server(evidence.model_copy(update={"trace": trace}), Session(counted, version))
    assert told.budget == evidence.budget
    assert told.server and told.server.statements and not any(each.lock_us for each in told.server.statements)
    (unseen,) = (each for each in judge(told, Thresholds()) if each.suspect == "E2")
    assert isinstance(unseen, Unseen) and "from 8.0.28 on" in unseen.why
