"""The server's side of a trace: what MySQL or MariaDB counted for its statements. It is only read."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any, Protocol

import pymysql

from upshift.errors import UpshiftError, UsageError
from upshift.stack.evidence import BufferPool, Evidence, ServerFacts, ServerStatement, TraceFacts
from upshift.stack.timeline import MYSQL_LITERAL

_RIGHTS = "GRANT SELECT ON performance_schema.* TO it, or leave --server out"
_LEAVE_OUT = "name the server that the trace was captured from, or leave --server out"
_DENIED = (1044, 1142, 1143, 1227)
# Times are in picoseconds. A statement has a row for each schema that it ran in.
_DIGESTS = """SELECT digest_text, SUM(count_star), SUM(sum_timer_wait) / 1e6, SUM(sum_lock_time) / 1e6, SUM(sum_rows_examined),
  SUM(sum_rows_sent), SUM(sum_rows_affected), SUM(sum_sort_rows), SUM(sum_created_tmp_tables),
  SUM(sum_created_tmp_disk_tables), SUM(sum_no_index_used)
  FROM performance_schema.events_statements_summary_by_digest
  WHERE digest_text IS NOT NULL AND count_star > 0 GROUP BY digest_text"""
# MariaDB counts executions of prepared statements here alone, as long as they are prepared.
_INSTANCES = """SELECT sql_text, SUM(count_execute), SUM(sum_timer_execute) / 1e6, SUM(sum_lock_time) / 1e6,
  SUM(sum_rows_examined), SUM(sum_rows_sent), SUM(sum_rows_affected), SUM(sum_sort_rows), SUM(sum_created_tmp_tables),
  SUM(sum_created_tmp_disk_tables), SUM(sum_no_index_used)
  FROM performance_schema.prepared_statements_instances WHERE count_execute > 0 GROUP BY sql_text"""
_POOL = ("pages_total", "read_requests", "reads", "read_ahead", "read_ahead_rnd")
_FILES = """SELECT SUM(sum_timer_read) / 1e6 FROM performance_schema.file_summary_by_event_name
  WHERE event_name = 'wait/io/file/innodb/innodb_data_file' AND count_read > 0"""
_STATEMENTS = "SELECT SUM(sum_timer_wait) / 1e6 FROM performance_schema.events_statements_summary_global_by_event_name"
_EXECUTE, _PREPARE = "execute ", "prepare "
"""MySQL writes these before the text of statements that came prepared (9.7)."""
_MOST = 0.5
"""Lock waits are told when statements with this part of the server's time were counted."""
_SYNONYMS = {"distinctrow": "distinct", "substr": "substring", "mid": "substring", "database": "schema", "!=": "<>"}
"""MySQL's digests have one word for each of these pairs, whichever was sent."""
_NAMED_VALUE = re.compile(r"(?<!\bis )(?<!\bnot )\bnull\b|(?<=[=(,])(?:true|false)\b|(?:(?<=\bby )|(?<=[(,]))\d+(?![\w.])")
"""What one digest has by name and the other as a literal: MySQL's keeps TRUE, FALSE and the number of a column in ORDER BY, and
a trace's keeps a NULL that follows a word.
"""
_CUT = 900
"""Characters from which on a text may be only the beginning of a statement: max_digest_length is 1024 bytes of tokens unless
configured otherwise, and nothing marks the end."""


class Asks(Protocol):
    """A session that only reads."""

    def ask(self, statement: str) -> list[tuple[Any, ...]]: ...


def with_server(evidence: Evidence, session: Asks) -> Evidence:
    """The same with the server's side, and lock waits in the budget.

    Raises UsageError for a server of another family or version than the trace's, UpshiftError for an account that may not read
    and for what else the server refuses.
    """
    with _refusals():
        version = str(session.ask("SELECT VERSION()")[0][0])
        if evidence.trace.server_version:
            refuse_another(evidence.trace.server_version, version, "mysql")
        facts = _facts(evidence, session, version)
        facts = facts.model_copy(update={"pool": _pool(session, counts=facts.why_none is None)})
    told = evidence.model_copy(update={"server": facts})
    # A log has each execution's own waits.
    if evidence.budget.lock_us is not None or not counts_waits(version) or counted_share(told) < _MOST:
        return told
    return told.model_copy(update={"budget": evidence.budget.with_locks(_lock_us(evidence, facts))})


def counts_waits(version: str) -> bool:
    """Whether a server's SUM_LOCK_TIME is what statements waited for locks: MySQL's is from 8.0.28 on.

    Before, and in MariaDB, it is the time until the tables are locked, with what parsing takes.
    """
    name, number = _identity(version, "mysql")
    return name == "MySQL" and tuple(map(int, re.findall(r"\d+", number))) >= (8, 0, 28)


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except pymysql.MySQLError as error:
        said = error.args[-1] if error.args else error
        if error.args and error.args[0] in _DENIED:
            raise UpshiftError(f"the account may not read performance_schema: {said}", _RIGHTS) from error
        raise UpshiftError(
            f"the server does not give its counters: {said}", "leave --server out to examine the trace"
        ) from error


def counted_share(evidence: Evidence) -> float:
    """The part of the statements' time in the server that is of statements which the server counted."""
    counted = {each.statement for each in evidence.server.statements} if evidence.server else set[str]()
    total = sum(each.server_us for each in evidence.statements)
    return sum(each.server_us for each in evidence.statements if each.statement in counted) / total if total else 0.0


def refuse_family(trace: TraceFacts, *, postgres: bool) -> None:
    """Raises UsageError for a server of another family than the trace's."""
    if postgres != (trace.family == "postgres"):
        names = ("a PostgreSQL", "a MySQL or MariaDB")
        captured, named = names if trace.family == "postgres" else names[::-1]
        raise UsageError(f"the trace was captured from {captured}, and --server names {named}", _LEAVE_OUT)


def _facts(evidence: Evidence, session: Asks, version: str) -> ServerFacts:
    if not int(session.ask("SELECT @@performance_schema")[0][0]):
        why = "the server's performance_schema is off: performance_schema=ON in its configuration, and a restart"
        return ServerFacts(version=version, statements=(), why_none=why)
    rows = session.ask(_DIGESTS)
    if "mariadb" in version.lower():
        instances = session.ask(_INSTANCES)
        rows += [(re.sub(MYSQL_LITERAL, "?", str(text)), *figures) for text, *figures in instances]
    if not rows:
        why = "the server counts no statements: setup_consumers of performance_schema has statements_digest off"
        return ServerFacts(version=version, statements=(), why_none=why)
    return ServerFacts(version=version, statements=joined(evidence, rows, waits=counts_waits(version)))


def _pool(session: Asks, *, counts: bool) -> BufferPool | None:
    """``counts``: whether performance_schema may be asked."""
    prefix = "Innodb_buffer_pool_"
    status = {str(name).removeprefix(prefix): value for name, value in session.ask(f"SHOW GLOBAL STATUS LIKE '{prefix}%'")}
    if any(name not in status for name in _POOL):
        return None
    pages, requests, misses, *ahead = (int(status[name]) for name in _POOL)
    read_us = statements_us = None
    if counts:
        read_us, statements_us = (session.ask(each)[0][0] for each in (_FILES, _STATEMENTS))
    return BufferPool(
        pages=pages,
        page_bytes=int(session.ask("SELECT @@innodb_page_size")[0][0]),
        requests=requests,
        misses=misses,
        pages_read=misses + sum(ahead),
        read_us=None if read_us is None else float(read_us),
        statements_us=float(statements_us or 0),
    )


def joined(evidence: Evidence, rows: list[tuple[Any, ...]], *, waits: bool) -> tuple[ServerStatement, ...]:
    """The rows of the server's digests that are statements of the trace, in the trace's order.

    ``waits``: their lock time is that of waits.
    """
    known: dict[str, tuple[float, ...]] = {}
    for text, *figures in rows:
        key = comparable(str(text)).removeprefix(_EXECUTE)
        if key.startswith(_PREPARE):
            continue
        added = known.get(key, (0.0,) * len(figures))
        known[key] = tuple(before + float(each or 0) for before, each in zip(added, figures, strict=True))
    cut = {key: figures for key, figures in known.items() if len(key) >= _CUT}
    found = []
    for each in evidence.statements:
        key = comparable(each.text)
        counted = known.get(key) or next((told for start, told in cut.items() if key.startswith(start)), None)
        if counted is not None and each.executions:
            found.append(_statement(each.statement, counted, waits=waits))
    return tuple(found)


def _statement(statement: str, figures: tuple[float, ...], *, waits: bool) -> ServerStatement:
    count, *sums = figures
    wait, lock, examined, sent, affected, sort, temporary, on_disk, no_index = (each / count for each in sums)
    return ServerStatement(
        statement=statement,
        executions=int(count),
        wait_us=wait,
        lock_us=lock if waits else None,
        rows_examined=examined,
        rows_sent=sent,
        rows_affected=affected,
        sort_rows=sort,
        temporary_tables=temporary,
        temporary_disk_tables=on_disk,
        no_index=no_index,
    )


def comparable(text: str) -> str:
    """A normalised statement without what servers write in ways of their own: quotes, case, spaces, how long lists are, and
    which values have a name.
    """
    flat = re.sub(r"/\*.*?\*/", "", text.lower().replace("`", "").replace('"', ""), flags=re.S)
    flat = re.sub(r"\$\d+", "?", flat)
    flat = re.sub(r"\s+", " ", flat).strip(" ;")
    flat = re.sub(r"\b(?:distinctrow|substr|mid|database)\b|!=", lambda found: _SYNONYMS[found[0]], flat)
    flat = re.sub(r" ?([^\w ?]) ?", r"\1", flat)
    flat = _NAMED_VALUE.sub("?", flat)
    flat = re.sub(r"(?<!\w)[-+]\?", "?", flat)
    flat = re.sub(r"(?:\?|\.\.\.)(?:,(?:\?|\.\.\.))+", "?s", flat)
    flat = re.sub(r"\((?:\?s?|\.\.\.)\)", "(...)", flat)
    flat = re.sub(r"\b(values?)(\((?:[^()]|\([^()]*\))*\))(?:,\2)+", r"\1\2", flat)
    return re.sub(r"\(\.\.\.\)(?:,\(\.\.\.\))+", "(...)", flat)


def _lock_us(evidence: Evidence, facts: ServerFacts) -> int:
    """Of the trace's time in the server, the part that the server's means of each statement say was waiting for locks."""
    waiting = [each for each in facts.statements if each.wait_us]
    shares = {each.statement: min(1.0, (each.lock_us or 0.0) / each.wait_us) for each in waiting}
    return round(sum(each.server_us * shares.get(each.statement, 0.0) for each in evidence.statements))


def refuse_another(captured: str, version: str, family: str) -> None:
    """Raises UsageError for another server or version than the one that the trace was captured from."""
    (trace_name, trace_number), (name, number) = _identity(captured, family), _identity(version, family)
    if trace_name != name:
        raise UsageError(
            f"the trace was captured from {trace_name} {trace_number}, and this server is {name} {number}", _LEAVE_OUT
        )
    if trace_number != number:
        raise UsageError(f"the trace was captured from {name} {trace_number}, and this server is {number}", _LEAVE_OUT)


def _identity(version: str, family: str) -> tuple[str, str]:
    # MariaDB puts a version of MySQL before its own, for clients that know no version of two digits.
    found = re.search(r"\d+\.\d+(?:\.\d+)?", version.removeprefix("5.5.5-"))
    name = "PostgreSQL" if family == "postgres" else "MariaDB" if "mariadb" in version.lower() else "MySQL"
    return name, found.group() if found else version
