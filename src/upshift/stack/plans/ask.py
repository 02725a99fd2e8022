"""Asks a server for a statement's plan: EXPLAIN alone, or the execution of a SELECT in a transaction that is rolled back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from upshift.errors import UpshiftError
from upshift.stack.plans import postgres
from upshift.stack.plans.members import PlanUnreadable
from upshift.stack.plans.model import Family, Node, Plan
from upshift.stack.plans.mysql import joined
from upshift.stack.plans.mysql_json2 import parse_mysql_json2
from upshift.stack.plans.mysql_tree import parse_mysql_tree
from upshift.stack.plans.postgres_index import Catalog, Index
from upshift.stack.plans.profile import mariadb_execution_ms, profiled
from upshift.stack.plans.query_block import parse_mariadb, parse_mysql_json1
from upshift.stack.plans.session import Refused, Session
from upshift.stack.plans.statements import NotExplained, filled, one_explainable, only_reads

_CATALOG = """
SELECT i.relname, x.indisunique, t.relname, t.reltuples,
  array(SELECT a.attname FROM unnest(x.indkey) WITH ORDINALITY k (attnum, n)
    JOIN pg_catalog.pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = k.attnum WHERE k.n <= x.indnkeyatts ORDER BY k.n)
FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid JOIN pg_catalog.pg_class t ON t.oid = x.indrelid
WHERE x.indisvalid ORDER BY pg_catalog.pg_table_is_visible(t.oid)
"""
_TABLES = """
SELECT relname, reltuples FROM pg_catalog.pg_class WHERE relkind IN ('r', 'p', 'm') AND reltuples >= 0
ORDER BY pg_catalog.pg_table_is_visible(oid)
"""
_INTERRUPTED = 1317
_RIGHTS = {
    "1142": "EXPLAIN needs the rights of the statement itself: GRANT them, or name another user",
    "1143": "EXPLAIN needs the rights of the statement itself: GRANT them, or name another user",
    "1345": "EXPLAIN of a view needs the rights on its tables: GRANT SELECT and SHOW VIEW, or name another user",
    "42501": "EXPLAIN needs the rights of the statement itself: GRANT them, or name another user",
    "3024": "the statement took longer than --wait-seconds",
    "1969": "the statement took longer than --wait-seconds",
    "57014": "the statement took longer than --wait-seconds",
    "1146": "the table is not in this database: name the right one in the URL",
    "42P01": "the table is not in this database: name the right one in the URL",
    "1046": "name the database in the URL, as in mysql://user@host/shop",
    "42P18": "the type of a parameter is unknown: put the value in as a literal",
}


class Asker:
    """Asks one server for plans."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._catalog: Catalog | None = None
        self._version2: bool | None = None

    def text(self, sql: str, parameters: Sequence[Any] | None, written_for: Family) -> str:
        """The statement as it is asked for: one, with its parameters put in. Raises NotExplained."""
        return filled(one_explainable(sql, written_for), parameters, written_for, self.session.literal)

    def plan(self, text: str, *, execute: bool = False) -> Plan:
        """The plan of a statement of ``text``; with ``execute`` a SELECT runs, and the plan has what was counted.

        Raises NotExplained for what the server refuses, ServerFailed when it is gone.
        """
        session = self.session
        run = execute and only_reads(text, session.family)
        # The servers of the MySQL family refuse even the EXPLAIN of a write, or of locks on rows, in a read-only transaction;
        # it executes nothing.
        reads = session.family == "postgres" or only_reads(text, session.family)
        with refusals(), transaction(session, read_only=reads):
            if session.family == "postgres":
                return self._of_postgres(text, run)
            return self._of_mariadb(text, run) if session.family == "mariadb" else self._of_mysql(text, run)

    def execution_ms(self, text: str) -> float:
        """Milliseconds that the server itself takes to execute a SELECT whose plan was asked for: without network and planning.

        Raises NotExplained for what is no SELECT, for what the server refuses, and where it does not say; ServerFailed when it
        is gone.
        """
        session = self.session
        if not only_reads(text, session.family):
            raise NotExplained("only a SELECT that locks and writes nothing is executed", "compare its plan without --execute")
        with refusals(), transaction(session, read_only=True):
            taken = self._execution_ms(text)
        if taken is None:
            raise NotExplained("the server does not say how long it executed it", "compare newer versions")
        return taken

    def _execution_ms(self, text: str) -> float | None:
        if self.session.family == "postgres":
            # A clock at each row of each step would take time of its own.
            plain = "FORMAT JSON, ANALYZE, TIMING OFF, BUFFERS OFF"
            return postgres.execution_ms(self.session.ask(f"EXPLAIN ({plain}) {text}")[0][0])
        if self.session.family == "mariadb":
            return mariadb_execution_ms(self.session.ask(f"ANALYZE FORMAT=JSON {text}")[0][0])
        return self._steps(text, run=True).total_ms

    def _of_postgres(self, text: str, run: bool) -> Plan:
        if self._catalog is None:
            self._catalog = _catalog(self.session)
        if run:
            # A session's first plan of a table reads the catalog for it; an application's sessions have done so long ago.
            self.session.ask(f"EXPLAIN {text}")
        options = "FORMAT JSON, ANALYZE, BUFFERS" if run else "FORMAT JSON"
        answer = self.session.ask(f"EXPLAIN ({options}) {text}")[0][0]
        tree = postgres.parse_postgres(answer, self._catalog)
        if not run:
            return self._plan(tree, run)
        again = self.session.ask(f"EXPLAIN (FORMAT JSON, SUMMARY) {text}")[0][0]
        executing, planned = postgres.execution_ms(answer), (postgres.planning_ms(answer), postgres.planning_ms(again))
        # What else runs on the machine makes one of both longer.
        planning = min((each for each in planned if each is not None), default=None)
        whole = executing + planning if executing is not None and planning is not None else None
        return self._plan(tree, run, execution_ms=executing, planning_ms=planning, whole_ms=whole)

    def _of_mariadb(self, text: str, run: bool) -> Plan:
        session = self.session
        # Before 10.4 there is no trace, and its answer says nothing where the user lacks a right.
        with contextlib.suppress(Refused):
            session.ask("SET SESSION optimizer_trace = 'enabled=on'")
        explained = session.ask(f"EXPLAIN FORMAT=JSON {text}")[0][0]
        notices = session.notices()
        traced: list[tuple[Any, ...]] = []
        with contextlib.suppress(Refused):
            traced = session.ask("SELECT trace FROM information_schema.optimizer_trace")
            session.ask("SET SESSION optimizer_trace = 'enabled=off'")
        trace = str(traced[0][0]) if traced and traced[0][0] else None
        if not run:
            return self._plan(_with_ranges(explained, trace), run, notices=notices)
        with profiled(session) as taken, _spills(session) as spills:
            session.ask(f"EXPLAIN FORMAT=JSON {text}")
            answer = session.ask(f"ANALYZE FORMAT=JSON {text}")[0][0]
        executing = mariadb_execution_ms(answer)
        return self._plan(_with_ranges(answer, trace), run, notices=notices, execution_ms=executing, **spills, **taken)

    def _of_mysql(self, text: str, run: bool) -> Plan:
        session = self.session
        if self._version2 is None:
            self._version2 = self._json_version(2)
        with contextlib.ExitStack() as stack:
            taken = stack.enter_context(profiled(session)) if run else {}
            if self._version2:
                self._json_version(1)
            version1 = parse_mysql_json1(session.ask(f"EXPLAIN FORMAT=JSON {text}")[0][0])
            notices = session.notices()
            if self._version2:
                self._json_version(2)
            spills = stack.enter_context(_spills(session))
            steps = self._steps(text, run)
        known = {**spills, **taken} if run else {}
        return self._plan(joined(steps, version1), run, notices=notices, execution_ms=steps.total_ms, **known)

    def _steps(self, text: str, run: bool) -> Node:
        """The iterators of a MySQL, executed or not."""
        session, form = self.session, "JSON" if self._version2 else "TREE"
        answer = session.ask(f"EXPLAIN {'ANALYZE ' if run else ''}FORMAT={form} {text}")[0][0]
        # It then shows what it had counted until the end came.
        if run and any(each.code == _INTERRUPTED for each in session.notices()):
            raise Refused("3024", "the execution was interrupted")
        return parse_mysql_json2(answer) if self._version2 else parse_mysql_tree(answer)

    def _json_version(self, version: int) -> bool:
        """Whether the server knows of versions: MySQL does since 8.3."""
        try:
            self.session.ask(f"SET SESSION explain_json_format_version = {version}")
        except Refused:
            return False
        return True

    def _plan(self, tree: Node, run: bool, **known: Any) -> Plan:
        session = self.session
        return Plan(family=session.family, version=session.version, tree=tree, executed=run, **known)


def _with_ranges(answer: str, trace: str | None) -> Node:
    """MariaDB's plan; a trace that was cut or cannot be read only takes the ranges from it."""
    try:
        return parse_mariadb(answer, trace)
    except PlanUnreadable:
        return parse_mariadb(answer)


@contextlib.contextmanager
def transaction(session: Session, *, read_only: bool) -> Iterator[None]:
    """A transaction that is rolled back, whatever happens within it."""
    session.begin(read_only=read_only)
    try:
        yield
    finally:
        # A connection that is lost has no transaction left.
        with contextlib.suppress(Refused, UpshiftError):
            session.rollback()


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    """The server's refusal as NotExplained, with a hint by its code."""
    try:
        yield
    except Refused as refused:
        hint = _RIGHTS.get(refused.code, "the statement may need a table, a type or a version that this server lacks")
        raise NotExplained(f"the server refuses it: {refused.said} ({refused.code})", hint) from refused


@contextlib.contextmanager
def _spills(session: Session) -> Iterator[dict[str, Any]]:
    """What went to disk meanwhile, counted by this session; it is in the dictionary afterwards."""
    found: dict[str, Any] = {}
    before = _counted(session)
    yield found
    after = _counted(session)
    found |= {name: after[name] - before[name] for name in after}


def _counted(session: Session) -> dict[str, int]:
    names = {"sort_merge_passes": "Sort_merge_passes", "disk_tables": "Created_tmp_disk_tables"}
    return {name: int(session.ask(f"SHOW SESSION STATUS LIKE '{said}'")[0][1]) for name, said in names.items()}


def _catalog(session: Session) -> Catalog:
    indexes = {
        name: Index(columns=tuple(columns), unique=unique) for name, unique, _table, _rows, columns in session.ask(_CATALOG)
    }
    return Catalog(indexes=indexes, table_rows={name: float(rows) for name, rows in session.ask(_TABLES)})
