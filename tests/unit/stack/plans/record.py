"""Records what real servers answer to EXPLAIN, for the tests beside it.

    export PYTHONPATH=src:tests/unit UPSHIFT_TEST_MYSQLD=.../mysqld
    .venv/bin/python tests/unit/stack/plans/record.py [mysql mariadb postgres]

writes ``recorded/SERVER.json`` anew, and the trees that the answers become into ``recorded/SERVER.txt``: look at what is
different there before it is kept.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, cast

import plan_servers
import psycopg
import pymysql
import recordings
import shop

from upshift.stack.plans.terminal import lines

RECORDED = Path(__file__).parent / "recorded"
_MYSQL = (
    ("json1", "EXPLAIN FORMAT=JSON ", "SET explain_json_format_version = 1"),
    ("json2", "EXPLAIN FORMAT=JSON ", "SET explain_json_format_version = 2"),
    ("tree", "EXPLAIN FORMAT=TREE ", "DO 0"),
    ("analyze_json2", "EXPLAIN ANALYZE FORMAT=JSON ", "DO 0"),
    ("analyze_tree", "EXPLAIN ANALYZE FORMAT=TREE ", "DO 0"),
)
_MARIADB = (
    ("json", "EXPLAIN FORMAT=JSON ", "DO 0"),
    ("analyze_json", "ANALYZE FORMAT=JSON ", "DO 0"),
)
_POSTGRES = (("json", "EXPLAIN (FORMAT JSON) "), ("analyze_json", "EXPLAIN (FORMAT JSON, ANALYZE, BUFFERS) "))
_TRACED = ("range", "ref_range", "in_list", "lost_bound", "like", "either_range")
_IN_TEXT = 1003
"""The note that shows the statement as the optimizer rewrote it."""


def _mysqls(family: shop.Family, socket: str) -> dict[str, Any]:
    with pymysql.connect(unix_socket=socket, user="root", database="shop", autocommit=True) as connection:
        cursor = connection.cursor()

        def asked(statement: str) -> Any:
            cursor.execute(statement)
            return cursor.fetchall()

        statements: dict[str, Any] = {}
        for name, sql in shop.STATEMENTS.items():
            answers: dict[str, Any] = {}
            for form, explain, first in _MYSQL if family == "mysql" else _MARIADB:
                if "analyze" in form and not sql.startswith(("SELECT", "WITH")):
                    continue
                asked(first)
                text = asked(explain + sql)[0][0]
                answers[form] = text if "tree" in form else json.loads(text)
                notices = [[code, said] for _level, code, said in asked("SHOW WARNINGS") if code != _IN_TEXT]
                if form in ("json", "json2"):
                    answers["notices"] = notices
            statements[name] = answers
        if family == "mariadb":
            asked("SET optimizer_trace = 'enabled=on'")
            for name in _TRACED:
                asked("EXPLAIN FORMAT=JSON " + shop.STATEMENTS[name])
                statements[name]["trace"] = asked("SELECT trace FROM information_schema.optimizer_trace")[0][0]
        return {"version": asked("SELECT version()")[0][0], "statements": statements}


def _postgres(socket: str) -> dict[str, Any]:
    with psycopg.connect(host=socket, user="postgres", dbname="shop", autocommit=True) as connection:
        statements: dict[str, Any] = {}
        for name, sql in shop.STATEMENTS.items():
            answers: dict[str, Any] = {}
            for form, explain in _POSTGRES:
                if name in shop.ONLY_MYSQLS or ("analyze" in form and not sql.startswith(("SELECT", "WITH"))):
                    continue
                row = connection.execute((explain + sql).encode()).fetchone()
                answers[form] = row[0] if row else None
            statements[name] = answers
        version = connection.execute("SHOW server_version").fetchone()
        return {"version": version[0] if version else "", "statements": statements}


def record(family: shop.Family) -> None:
    with plan_servers.running(family) as url:
        socket = url.partition("socket=")[2]
        recorded = _postgres(socket) if family == "postgres" else _mysqls(family, socket)
    RECORDED.mkdir(exist_ok=True)
    recordings.answers.cache_clear()
    (RECORDED / f"{family}.json").write_text(
        json.dumps(recorded, indent=None, separators=(",", ":")).replace('},"', '},\n"') + "\n"
    )
    shown: list[str] = []
    for each, name, form in recordings.forms():
        if each == family:
            shown += [f"## {name} {form}", *lines(recordings.tree(family, name, form)), ""]
    (RECORDED / f"{family}.txt").write_text("\n".join(shown))


if __name__ == "__main__":
    for each in sys.argv[1:] or ("mysql", "mariadb", "postgres"):
        record(cast(shop.Family, each))
