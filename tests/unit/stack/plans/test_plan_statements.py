"""Where statements end, what may be executed, how parameters come in, and where statements come from."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from upshift.cli.app import _run
from upshift.errors import UpshiftError, UsageError
from upshift.stack.plans.address import read_address
from upshift.stack.plans.answers import canonical, row_hash
from upshift.stack.plans.model import Family
from upshift.stack.plans.source import read_export, read_file
from upshift.stack.plans.statements import (
    NotExplained,
    filled,
    one_explainable,
    only_reads,
    placeholders,
    read_parameters,
    split,
)


@pytest.mark.parametrize(
    ("family", "text", "statements"),
    [
        ("mysql", "SELECT 1; SELECT ';' ;\n-- a; b\n# c;\nSELECT 2;", ("SELECT 1", "SELECT ';'", "SELECT 2")),
        ("mysql", "SELECT 'it''s; \\'; x'; /* a; */ SELECT `;`", ("SELECT 'it''s; \\'; x'", "SELECT `;`")),
        (
            "postgres",
            "SELECT $$a;b$$; SELECT $x$;$$;$x$; SELECT 'a\\'; SELECT 2",
            ("SELECT $$a;b$$", "SELECT $x$;$$;$x$", "SELECT 'a\\'", "SELECT 2"),
        ),
        ("postgres", "SELECT E'a\\';' ; SELECT \";\"", ("SELECT E'a\\';'", 'SELECT ";"')),
        ("mysql", " ;; ", ()),
        ("mysql", "/*!40000 SELECT 1 */", ("/*!40000 SELECT 1 */",)),
    ],
)
def test_a_file_is_split_where_statements_end(family: Family, text: str, statements: tuple[str, ...]) -> None:
    assert split(text, family) == statements


@pytest.mark.parametrize("sql", ["SELECT 1", " select 1;", "WITH a AS (SELECT 1) SELECT * FROM a", "/* x */ DELETE FROM t"])
def test_a_statement_that_has_a_plan(sql: str) -> None:
    assert not one_explainable(sql, "mysql").endswith(";")


@pytest.mark.parametrize("sql", ["", "SET a = 1", "SELECT 1; SELECT 2", "COMMIT", "CALL p()", "-- nothing"])
def test_a_statement_that_has_none(sql: str) -> None:
    with pytest.raises(NotExplained) as refused:
        one_explainable(sql, "mysql")
    assert refused.value.hint


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a FROM t",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "SELECT replace(a, 'x', 'y'), insert(a, 1, 2, 'x') FROM t",
        "SELECT replace /* x */ (a, 'x', 'y') FROM t",
        "SELECT 'FOR UPDATE', `delete` FROM t -- INTO",
    ],
)
def test_what_only_reads_may_be_executed(sql: str) -> None:
    assert only_reads(sql, "mysql")


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE t SET a = 1",
        "SELECT a FROM t FOR UPDATE",
        "SELECT a FROM t FOR SHARE",
        "SELECT a FROM t FOR NO KEY UPDATE",
        "SELECT a FROM t LOCK IN SHARE MODE",
        "SELECT a INTO OUTFILE '/tmp/x' FROM t",
        "SELECT a INTO u FROM t",
        "WITH a AS (DELETE FROM t RETURNING *) SELECT * FROM a",
        "WITH x AS (INSERT INTO t VALUES (insert(a, 1, 2, 'x'))) SELECT replace(a, 'x', 'y') FROM x",
        "SELECT into(1) INTO OUTFILE '/tmp/x'",
        "SELECT 1 /*! INTO OUTFILE '/tmp/x' */",
        "SELECT 1 /*M!100100 INTO @a */",
        "",
    ],
)
def test_what_writes_or_locks_is_not_executed(sql: str) -> None:
    assert not only_reads(sql, "mysql")


def test_parameters_stand_where_placeholders_are() -> None:
    sql = "SELECT '?' , ? -- ?\n, ? /* ? */"
    assert placeholders(sql, "mysql") == 2
    assert filled(sql, [1, 2], "mysql", str).split() == ["SELECT", "'?'", ",", "1", "--", "?", ",", "2", "/*", "?", "*/"]
    assert filled("SELECT $2, $1, '$1'", ["a", "b"], "postgres", repr).split() == ["SELECT", "'b'", ",", "'a'", ",", "'$1'"]
    assert filled("SELECT 1 -- $1\r, $1", [7], "postgres", str).split() == ["SELECT", "1", "--", "$1", ",", "7"]
    assert filled("SELECT $1$2", [1, 2], "postgres", str).split() == ["SELECT", "1", "2"]
    assert filled("SELECT 1", None, "mysql", str) == "SELECT 1"


@pytest.mark.parametrize("given", [None, [], [1], [1, 2, 3]])
def test_parameters_that_do_not_fit_are_refused(given: list[Any] | None) -> None:
    with pytest.raises(NotExplained, match="2 parameters"):
        filled("SELECT ?, ?", given, "mysql", str)


def test_a_traces_parameters_keep_their_digits() -> None:
    assert read_parameters('[1, "a", null, 1.10]') == [1, "a", None, Decimal("1.10")]
    assert read_parameters(None) is None
    assert read_parameters('[{"binary": "00ff"}]') == [{"binary": "00ff"}]


@pytest.mark.parametrize(
    "kept", ['[{"bytes": 9000}]', '[1, {"cut": true}]', '[{"default": true}]', "[[1], [2]]", '[{"unknown": true}]']
)
def test_parameters_that_the_trace_has_not_whole_are_refused(kept: str) -> None:
    with pytest.raises(NotExplained) as refused:
        read_parameters(kept)
    assert refused.value.hint


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, Decimal("1.00")),
        (True, 1),
        (b"\x01", True),
        (0.1 + 0.2, Decimal("0.3")),
        ("ab", "ab   "),
        (datetime.time(10, 0, 1), datetime.timedelta(hours=10, seconds=1)),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (-0.0, 0),
        (b"\x00\xff", memoryview(b"\x00\xff")),
        (1e30, Decimal(10) ** 30),
        ({"name": "Z\u00fcrich", "at": [1, "\u6771"]}, '{"at": [1, "\u6771"], "name": "Z\u00fcrich"}'),
    ],
)
def test_a_cell_is_the_same_whatever_the_servers_type(one: Any, other: Any) -> None:
    assert canonical(one) == canonical(other)


def test_cells_that_differ_stay_different() -> None:
    cells = [None, "", "None", 0, "a", "A", b"a", 1, 1.5, "\u00e9", datetime.datetime(2026, 1, 2), datetime.date(2026, 1, 2)]
    assert len({row_hash((each,)) for each in cells}) == len(cells)
    assert row_hash(("a", "b")) != row_hash(("b", "a")) and row_hash(("ab", "c")) != row_hash(("a", "bc"))


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgres://me:secret@host/shop", "holds a password"),
        ("mysql://me:secret@host/shop", "holds a password"),
        ("redis://host", "no address"),
        ("host:3306", "no address"),
        ("postgres://host:port/shop", "malformed"),
        ("postgres://host:0/shop", "port 0"),
        ("postgres://host/shop?sslmode=require", "unknown option"),
        ("mysql://host/shop?ssl-mode=required", "unknown option"),
    ],
)
def test_an_address_that_is_none_is_refused_with_a_hint(url: str, message: str) -> None:
    with pytest.raises(UsageError, match=f"^--a .*{message}") as refused:
        read_address(url, "--a", environment={})
    assert refused.value.hint and "secret" not in refused.value.message + refused.value.hint


def test_an_address_is_read_and_shown_without_the_login() -> None:
    found = read_address("postgres://me@db.example/my%20shop?tls-ca=/ca.pem")
    assert (found.postgres, found.host, found.port, found.user, found.database, found.ca) == (
        True,
        "db.example",
        5432,
        "me",
        "my shop",
        "/ca.pem",
    )
    assert found.shown() == "db.example:5432, my shop"
    mysql = read_address("mysql://me@/shop?socket=/run/s", environment={"MYSQL_PWD": "secret"})
    assert (mysql.socket, mysql.user, mysql.password, mysql.database) == ("/run/s", "me", "secret", "shop")
    assert "secret" not in mysql.shown()


def test_a_file_gives_each_statement_once_and_those_that_have_a_plan(tmp_path: Path) -> None:
    file = tmp_path / "a.sql"
    file.write_text("SELECT 1; SET x = 1; SELECT  2; SELECT 1;", encoding="utf-8-sig")
    source = read_file(file, "mysql")
    assert [each.text for each in source.statements] == ["SELECT 1", "SELECT 2"]
    assert not source.timed and set(source.shares().values()) == {0.5}
    assert source.without_plan == ("SET x = 1",)


def test_what_has_no_plan_in_a_file_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.sql"
    file.write_text("SELECT 1; SELEC 2; SET x = 1;")
    assert _run(["stack", "plans", str(file), "--server", f"mysql://me@/?socket={tmp_path / 'none'}", "--dry-run"]) == 0
    said = capsys.readouterr()
    assert [line.split("  ")[0] for line in said.out.splitlines()] == ["explained", "left out", "left out"]
    assert "no plan: SELEC 2 and 1 more" in said.err


@pytest.mark.parametrize("content", ["", "SET x = 1;", None])
def test_a_file_without_statements_is_refused(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "a.sql"
    if content is not None:
        file.write_text(content)
    with pytest.raises(UsageError) as refused:
        read_file(file, "mysql")
    assert refused.value.hint


COLUMNS = "exchange, kind, verb, statement, digest_text, sql, parameters, request_us, last_byte_us, statements_in_text"


def export(folder: Path, rows: list[tuple[object, ...]], **facts: object) -> Path:
    (folder / "trace.json").write_text(json.dumps({"family": "mysql", "masked": False, **facts}))
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE e (exchange BIGINT, kind VARCHAR, verb VARCHAR, statement VARCHAR, digest_text VARCHAR, sql VARCHAR,"
            " parameters VARCHAR, request_us BIGINT, last_byte_us BIGINT, statements_in_text BIGINT,"
            " connection BIGINT DEFAULT 1)"
        )
        if rows:
            connection.executemany(f"INSERT INTO e ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        connection.execute(f"COPY e TO '{folder / 'exchanges.parquet'}' (FORMAT PARQUET)")
    return folder


def test_a_trace_gives_its_distinct_statements_most_time_first(tmp_path: Path) -> None:
    rows: list[tuple[object, ...]] = [
        (1, "execute", "select", "a" * 16, "SELECT ?", "SELECT ?", "[1]", 0, 10, None),
        (2, "execute", "select", "a" * 16, "SELECT ?", "SELECT ?", "[2]", 20, 50, None),
        (3, "query", "update", "b" * 16, "UPDATE t SET a = ?", "UPDATE t SET a = 5", None, 60, 220, 1),
        (4, "query", "set", "c" * 16, "SET a = ?", "SET a = 1", None, 230, 240, 1),
        (5, "query", "select", "d" * 16, "SELECT ?; SELECT ?", "SELECT 1; SELECT 2", None, 240, 900, 2),
        (6, "prepare", "select", "a" * 16, "SELECT ?", "SELECT ?", None, 900, 990, None),
        (
            7,
            "query",
            "select",
            "e" * 16,
            "SELECT passwd FROM u WHERE i = ?",
            "SELECT Passwd FROM u WHERE i = 99",
            None,
            990,
            999,
            1,
        ),
    ]
    source = read_export(export(tmp_path, rows))
    assert source.family == "mysql" and source.timed
    assert [(each.sql, each.parameters, each.executions, each.time_us) for each in source.statements] == [
        ("UPDATE t SET a = 5", None, 1, 160),
        ("SELECT ?", "[2]", 2, 40),
    ]
    assert source.shares() == {"b" * 16: 0.8, "a" * 16: 0.2}


def test_the_time_of_requests_that_overlap_counts_once(tmp_path: Path) -> None:
    """Sent at once, answered one after the other."""
    rows: list[tuple[object, ...]] = [
        (1, "execute", "select", "a" * 16, "SELECT ?", "SELECT ?", "[1]", 0, 100, None),
        (2, "execute", "update", "b" * 16, "UPDATE ?", "UPDATE ?", "[1]", 0, 110, None),
        (3, "execute", "update", "b" * 16, "UPDATE ?", "UPDATE ?", "[2]", 0, 130, None),
    ]
    source = read_export(export(tmp_path, rows))
    assert [(each.parameters, each.time_us) for each in source.statements] == [("[1]", 100), ("[2]", 30)]


def test_what_leads_a_flight_takes_no_time_from_its_statement(tmp_path: Path) -> None:
    """PostgreSQL answers a prepare together with the execution in its flight."""
    rows: list[tuple[object, ...]] = [
        (1, "prepare", "select", "a" * 16, "SELECT ?", "SELECT $1", None, 0, 100, None),
        (2, "execute", "select", "a" * 16, "SELECT ?", "SELECT $1", "[1]", 0, 100, None),
    ]
    source = read_export(export(tmp_path, rows, family="postgres"))
    assert [each.time_us for each in source.statements] == [100]


def test_a_dry_run_says_what_would_be_done_and_asks_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[tuple[object, ...]] = [
        (1, "execute", "select", "a" * 16, "SELECT ?", "SELECT ?", "[1]", 0, 90, None),
        (2, "execute", "select", "b" * 16, "SELECT ? FOR UPDATE", "SELECT ? FOR UPDATE", "[1]", 0, 80, None),
        (3, "execute", "select", "c" * 16, "SELECT ? + ?", "SELECT ? + ?", "[1]", 0, 70, None),
        (4, "query", "delete", "d" * 16, "DELETE FROM t", "DELETE FROM t", None, 0, 60, None),
    ]
    folder = str(export(tmp_path, rows))
    nobody = f"mysql://me@/?socket={tmp_path / 'none'}"
    assert _run(["stack", "plans", folder, "--server", nobody, "--execute", "--dry-run"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["executed", "explained", "left", "explained"]
    assert _run(["stack", "compare", folder, "--a", nobody, "--b", nobody, "--dry-run"]) == 0
    assert "executed" not in capsys.readouterr().out
    assert _run(["stack", "plans", folder, "--server", nobody, "--dry-run", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["statements"]
    assert told[2] == {"text": "SELECT ? + ?", "would": "left out"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("plans", "none.sql", "--server", "mysql://me@host/shop"), "cannot be read"),
        (("plans", "none.trace", "--server", "mysql://me@host/shop"), "there is no trace"),
        (("plans", "none.sql", "--server", "mysql://me:secret@host/shop"), "holds a password"),
        (("plans", "none.sql", "--server", "postgres://me@host/shop", "--threshold", "P9.rows=1"), "no threshold 'P9.rows'"),
        (("compare", "none.sql", "--a", "mysql://me@host/shop", "--b", "ftp://host"), "--b is no address"),
    ],
)
def test_what_cannot_be_meant_is_exit_code_2_with_a_hint(
    arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _run(["stack", *arguments]) == 2
    err = " ".join(capsys.readouterr().err.split())
    assert said in err and "hint:" in err and "secret" not in err


def test_a_trace_without_statements_or_values_is_refused(tmp_path: Path) -> None:
    for facts in ({}, {"masked": True}):
        with pytest.raises(UpshiftError) as refused:
            read_export(export(tmp_path, [], **facts))
        assert refused.value.hint
