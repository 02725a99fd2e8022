"""An exported trace, told as a story: connections that send and wait, on a clock of their own."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

EXCHANGES = {
    "exchange": "BIGINT",
    "connection": "BIGINT",
    "transaction": "BIGINT",
    "kind": "VARCHAR",
    "verb": "VARCHAR",
    "statement": "VARCHAR",
    "digest_text": "VARCHAR",
    "sql": "VARCHAR",
    "parameters": "VARCHAR",
    "request_us": "BIGINT",
    "request_end_us": "BIGINT",
    "first_byte_us": "BIGINT",
    "last_byte_us": "BIGINT",
    "round_trips": "BIGINT",
    "packets_sent": "BIGINT",
    "packets_received": "BIGINT",
    "bytes_sent": "BIGINT",
    "bytes_received": "BIGINT",
    "definition_bytes": "BIGINT",
    "rows": "BIGINT",
    "affected": "BIGINT",
    "warnings": "BIGINT",
    "fetch_size": "BIGINT",
    "cursor": "BOOLEAN",
    "early_close": "BOOLEAN",
    "statements_in_text": "BIGINT",
    "error_code": "BIGINT",
    "sqlstate": "VARCHAR",
    "in_transaction_after": "BOOLEAN",
    "autocommit_after": "BOOLEAN",
    "no_index_used": "BOOLEAN",
    "no_good_index_used": "BOOLEAN",
    "answer": "VARCHAR",
    "rows_examined": "BIGINT",
    "lock_us": "BIGINT",
    "full_scan": "BOOLEAN",
    "sort_rows": "BIGINT",
    "temporary_tables": "BIGINT",
    "temporary_disk_tables": "BIGINT",
}
SESSIONS = {
    "connection": "UINTEGER",
    "began_us": "BIGINT",
    "ended_us": "BIGINT",
    "joined_late": "BOOLEAN",
    "client": "VARCHAR",
    "client_version": "VARCHAR",
    "database": "VARCHAR",
    "character_set": "VARCHAR",
    "attributes": "VARCHAR",
    "server_version": "VARCHAR",
    "user_hash": "VARCHAR",
    "tls": "BOOLEAN",
    "compressed": "BOOLEAN",
    "login_round_trips": "BIGINT",
}
LEAST_US = 40
"""Of a round trip in a story, unless it says otherwise: the server's least work, over a unix socket."""


class Story:
    """What was captured."""

    def __init__(self, family: str = "mysql", version: str = "9.7.4", **facts: Any) -> None:
        self.family, self.version = family, version
        self.facts = facts
        self.sessions: list[dict[str, Any]] = []
        self.exchanges: list[dict[str, Any]] = []

    def connection(self, client: str | None = None, *, login_us: int = 400, attributes: Any = None, **facts: Any) -> Connection:
        """A new one, whose first request may come ``login_us`` after its first byte."""
        number = len(self.sessions) + 1
        session = {
            "connection": number,
            "began_us": 1000 * number,
            "joined_late": False,
            "client": client,
            "client_version": "1.0" if client else None,
            "attributes": json.dumps(attributes or {}),
            "server_version": self.version,
            "tls": False,
            "compressed": False,
            "login_round_trips": 3,
        }
        self.sessions.append(session | facts)
        return Connection(self, number, 1000 * number + login_us)

    def export(self, folder: Path) -> Path:
        """What ``upshift-stack export`` would write of it."""
        folder.mkdir(parents=True, exist_ok=True)
        ordered = sorted(self.exchanges, key=lambda each: (each["last_byte_us"] or each["request_end_us"], each["connection"]))
        for number, each in enumerate(ordered, 1):
            each["exchange"] = number
        _parquet(folder / "exchanges.parquet", EXCHANGES, ordered)
        _parquet(folder / "sessions.parquet", SESSIONS, self.sessions)
        facts = {
            "family": self.family,
            "server_version": self.version,
            "began": "2026-11-23T00:00:00Z",
            "duration_us": max((each["request_us"] for each in self.exchanges), default=0),
            "exchanges": len(self.exchanges),
            "sessions": len(self.sessions),
            "gaps": {"connections": 0, "bytes": 0},
            "unread": {},
            "capture": "proxy",
            "added_us_p50": 8.0,
            "added_us_p99": 30.0,
            "whole": True,
            "masked": False,
        }
        (folder / "trace.json").write_text(json.dumps(facts | self.facts))
        return folder


class Connection:
    """Sends one request after the other."""

    def __init__(self, story: Story, number: int, now_us: int) -> None:
        self._story, self._number, self._now_us = story, number, now_us
        self._transaction: int | None = None
        self._next_transaction = 0
        self.gap_us = 10
        """Until the next request, unless that says otherwise."""
        self.least_us = LEAST_US
        self.far_us = 0
        """On top of each round trip: a distance."""

    def ends(self) -> None:
        """Closes the connection."""
        self._story.sessions[self._number - 1]["ended_us"] = self._now_us

    def idles(self, us: int) -> None:
        self._now_us += us

    @contextmanager
    def transaction(self, commit_us: int = 60) -> Iterator[None]:
        self._transaction, self._next_transaction = self._next_transaction, self._next_transaction + 1
        self.asks("BEGIN", wait_us=self.least_us)
        yield
        self.asks("COMMIT", wait_us=commit_us)
        self._transaction = None

    def asks(self, sql: str, **told: Any) -> None:
        """Sends a statement as text."""
        self._exchange("query", sql, **told)

    def copies(self, sql: str, **told: Any) -> None:
        """PostgreSQL's COPY."""
        self._exchange("copy", sql, **told)

    def prepares(self, sql: str, **told: Any) -> None:
        self._exchange("prepare", sql, **{"wait_us": 120, **told})

    def executes(self, sql: str, *parameters: Any, **told: Any) -> None:
        """Executes what was prepared."""
        self._exchange("execute", sql, parameters=json.dumps(parameters), **told)

    def fetches(self, sql: str, rows: int, size: int, **told: Any) -> None:
        self._exchange("fetch", sql, rows=rows, fetch_size=size, **{"wait_us": self.least_us + 5, **told})

    def closes(self, sql: str, **told: Any) -> None:
        """Closes a prepared statement; MySQL does not answer."""
        self._exchange("close_statement", sql, answered=False, **told)

    def closes_portal(self, sql: str, **told: Any) -> None:
        """Closes a portal of PostgreSQL's, which answers."""
        self._exchange("other", sql, **told)

    def pings(self, **told: Any) -> None:
        self._exchange("ping", None, wait_us=self.least_us, **told)

    def _exchange(
        self,
        kind: str,
        sql: str | None,
        *,
        gap_us: int | None = None,
        wait_us: int = 200,
        sending_us: int = 0,
        receiving_us: int = 0,
        answered: bool = True,
        **told: Any,
    ) -> None:
        gap = self.gap_us if gap_us is None else gap_us
        request = self._now_us + gap
        end = request + sending_us
        first = end + wait_us + self.far_us
        last = first + receiving_us
        self._now_us = last if answered else end
        digest = normalised(sql) if sql else None
        row: dict[str, Any] = dict.fromkeys(EXCHANGES)
        row |= {
            "connection": self._number,
            "transaction": self._transaction,
            "kind": kind,
            "verb": verb(sql) if sql else None,
            "statement": hashlib.sha256(digest.encode()).hexdigest()[:16] if digest else None,
            "digest_text": digest,
            "sql": sql,
            "request_us": request,
            "request_end_us": end,
            "first_byte_us": first if answered else None,
            "last_byte_us": last if answered else None,
            "round_trips": 1 if answered else 0,
            "packets_sent": 1,
            "packets_received": 3,
            "bytes_sent": 60,
            "bytes_received": 200,
            "definition_bytes": 90,
            "rows": 0,
            "affected": 0,
            "warnings": 0,
            "cursor": False,
            "early_close": False,
            "statements_in_text": 1,
            "no_index_used": False,
            "no_good_index_used": False,
        }
        if self._transaction is None and kind in ("query", "execute", "fetch") and row["verb"] not in ("set", "show"):
            # Commits by itself.
            row["transaction"], self._next_transaction = self._next_transaction, self._next_transaction + 1
        assert told.keys() <= row.keys(), told.keys() - row.keys()
        self._story.exchanges.append(row | told)


def normalised(sql: str) -> str:
    text = re.sub(r"'[^']*'|\b\d+\b", "?", sql)
    return re.sub(r"\(\?(?:, ?\?)+\)(?:, ?\(\?(?:, ?\?)+\))*", "(...)", text)


def verb(sql: str) -> str:
    first = sql.split(maxsplit=1)[0].lower()
    known = {"select", "insert", "update", "delete", "call", "set", "begin", "commit", "show", "savepoint", "use"}
    return first if first in known else "other"


def _parquet(file: Path, columns: dict[str, str], rows: list[dict[str, Any]]) -> None:
    lines = file.with_suffix(".jsonl")
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    types = ", ".join(f"\"{name}\": '{kind}'" for name, kind in columns.items())
    with duckdb.connect() as database:
        database.execute(
            f"COPY (SELECT * FROM read_json('{lines}', format = 'newline_delimited', columns = {{{types}}})) "
            f"TO '{file}' (FORMAT parquet)"
        )
    lines.unlink()
