"""From a session to facts. Each part that cannot be read is named with its reason; the rest is read all the same."""

from __future__ import annotations

import platform
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

import pymysql

from upshift.card.model import Card
from upshift.check import host as machine
from upshift.check import questions
from upshift.check.model import (
    BY_COMMAND_LINE,
    BY_PERSIST,
    BY_SET,
    Column,
    Facts,
    Family,
    Host,
    Index,
    IndexColumn,
    IndexUse,
    Running,
    Section,
    StoredStatistics,
    Table,
    Transaction,
)
from upshift.check.session import STATEMENT_S, Session
from upshift.errors import UsageError

T = TypeVar("T")
_LOOKS, _BETWEEN_LOOKS_S = 5, 0.1
_OLDEST: Mapping[Family, tuple[int, int, int]] = {"mysql": (8, 0, 0), "mariadb": (10, 5, 0)}
_COMMENT = re.compile(r"/\*.*?(\*/|$)|(--\s|#)[^\n]*", re.S)
_NO_FILE_SYSTEM = "the file system of the data directory cannot be seen from here; root and the server's own user may see it"
_NAMES: Mapping[Family, str] = {"mysql": "MySQL", "mariadb": "MariaDB"}


def read_facts(
    session: Session, *, card: Card | None = None, sleep: Callable[[float], None] = time.sleep, root: Path = Path("/")
) -> Facts:
    """All that this login may see, and its machine's ``card``. Raises UsageError for a server that no rule holds for."""
    variables = {name.lower(): value or "" for name, value in session.ask("SHOW GLOBAL VARIABLES")}
    family, version = _who(variables["version"], variables.get("version_comment", ""))
    status = _status(session)
    host, why_no_host = _host(session, variables, root)
    unseen: dict[Section, str] = _unseen_of(host, why_no_host, card, variables["datadir"], root)
    if card is None:
        unseen["card"] = "no machine card was named; `upshift card --json > card.json` measures one for --card card.json"

    def part(name: Section, read: Callable[[], T], empty: T) -> T:
        try:
            return read()
        except pymysql.MySQLError as error:
            unseen[name] = _why(error)
            return empty

    watched = variables.get("performance_schema") == "ON"
    if not watched:
        unseen["index use"] = unseen["instruments"] = "performance_schema is off"
    if not _sees_all(session):
        unseen["all tables"] = "this login sees its own tables; GRANT SELECT ON *.* shows all"
    tables: tuple[Table, ...] = part("tables", lambda: tuple(map(_table, session.ask(questions.TABLES))), ())
    if "tables" in unseen:
        unseen["all tables"] = unseen["tables"]
    indexes = questions.INDEXES.format(visible=_visible(family, version), others=questions.OTHERS)
    # MySQL has the first since 8.0.22; the second, which it deprecates, holds a lock over all threads.
    own_list = family == "mysql" and version >= (8, 0, 22) and watched
    processes = "performance_schema.processlist" if own_list else "information_schema.processlist"
    statements = questions.STATEMENTS.format(processes=processes)
    persisted: Mapping[str, str] = part("persisted variables", lambda: _persisted(session, family, variables), {})
    none: tuple[Transaction, ...] = ()
    transactions = part("transactions", lambda: tuple(map(_transaction, session.ask(questions.TRANSACTIONS))), none)
    if "transactions" in unseen:
        # Without PROCESS the list has only our own statements, and that looks like a quiet server.
        unseen["statements"] = unseen["transactions"]
    return Facts(
        family=family,
        version=version,
        version_text=f"{_NAMES[family]} {variables['version']}",
        variables=variables,
        status=status,
        origins={**_origins(session, family), **persisted},
        threads_running=_running(session, sleep),
        tables=tables,
        indexes=part("indexes", lambda: _indexes(session.ask(indexes)), ()),
        columns=part("columns", lambda: _columns(session, family, version), ()),
        references=part("indexes", lambda: tuple((a, b, c) for a, b, c in session.ask(questions.REFERENCES)), ()),
        statistics=part("statistics", lambda: tuple(map(_stored, session.ask(questions.STATISTICS))), ()),
        index_use=part("index use", lambda: tuple(map(_use, session.ask(questions.INDEX_USE))), ()) if watched else (),
        instruments=part("instruments", lambda: int(session.ask(questions.INSTRUMENTS)[0][0]), 0) if watched else 0,
        performance_schema_bytes=part("instruments", lambda: _memory(session), 0) if watched else 0,
        metrics=part("metrics", lambda: {name: int(count) for name, count in session.ask(questions.METRICS)}, {}),
        transactions=transactions,
        statements=()
        if "statements" in unseen
        else part("statements", lambda: tuple(map(_statement, session.ask(statements))), ()),
        host=host,
        card=card,
        unseen=unseen,
    )


def _who(version: str, comment: str) -> tuple[Family, tuple[int, int, int]]:
    family: Family = "mariadb" if "mariadb" in f"{version} {comment}".lower() else "mysql"
    # MariaDB's may begin with 5.5.5- for the sake of old replicas.
    numbers = re.search(r"(\d+)\.(\d+)\.(\d+)", version.removeprefix("5.5.5-"))
    if numbers is None:
        raise UsageError(f"the server calls itself '{version}', which is not a version", "name a MySQL or MariaDB")
    found = (int(numbers[1]), int(numbers[2]), int(numbers[3]))
    oldest = _OLDEST[family]
    if found < oldest:
        least = ".".join(map(str, oldest[:2]))
        raise UsageError(f"the server is {_NAMES[family]} {version}", f"check supports {_NAMES[family]} {least} and newer")
    return family, found


def _status(session: Session) -> dict[str, str]:
    return {name.lower(): value or "" for name, value in session.ask("SHOW GLOBAL STATUS")}


def _running(session: Session, sleep: Callable[[float], None]) -> tuple[int, ...]:
    looks = []
    for number in range(_LOOKS):
        if number:
            sleep(_BETWEEN_LOOKS_S)
        ((_name, value),) = session.ask("SHOW GLOBAL STATUS LIKE 'Threads_running'")
        looks.append(max(0, int(value) - 1))
    return tuple(looks)


def _sees_all(session: Session) -> bool:
    """Whether information_schema has every table for this login: it leaves the others out without a word."""
    grants = [str(row[0]) for row in session.ask("SHOW GRANTS")]
    return any(re.match(r"GRANT (ALL PRIVILEGES|.*\bSELECT\b.*) ON \*\.\* ", each) for each in grants)


def _origins(session: Session, family: Family) -> dict[str, str]:
    """Where settings come from; empty where the server does not tell."""
    if family == "mysql":
        asked = """SELECT variable_name, variable_source, variable_path FROM performance_schema.variables_info
          WHERE variable_source <> 'COMPILED'"""
    else:
        asked = """SELECT LOWER(variable_name), global_value_origin, global_value_path FROM information_schema.system_variables
          WHERE global_value_origin NOT IN ('COMPILE-TIME', 'AUTO')"""
    try:
        rows = session.ask(asked)
    except pymysql.MySQLError:
        return {}
    words = {"COMMAND_LINE": BY_COMMAND_LINE, "COMMAND-LINE": BY_COMMAND_LINE, "DYNAMIC": BY_SET, "SQL": BY_SET}
    return {name: path or words.get(source, source.lower()) for name, source, path in rows}


def _persisted(session: Session, family: Family, variables: Mapping[str, str]) -> dict[str, str]:
    """The settings that mysqld-auto.cnf has for the next start, whatever set the present value."""
    if family == "mariadb" or variables.get("persisted_globals_load", "ON") == "OFF":
        return {}
    return {name.lower(): BY_PERSIST for (name,) in session.ask(questions.PERSISTED)}


def _visible(family: Family, version: tuple[int, int, int]) -> str:
    if family == "mysql":
        return "is_visible"
    return "IF(ignored = 'YES', 'NO', 'YES')" if version >= (10, 6, 0) else "'YES'"


def _host(session: Session, variables: Mapping[str, str], root: Path) -> tuple[Host | None, str]:
    pid = machine.server_process(session.socket, root)
    # A container's port may be this machine's, and its pid file have the same name.
    if pid is None and session.local_port and variables.get("hostname") == platform.node():
        pid = machine.process_of(_absolute(variables["pid_file"], variables["datadir"]), root)
    if pid is None:
        return None, "the server runs on another machine, or in a container whose processes cannot be seen from here"
    try:
        return machine.describe(pid, variables["datadir"], variables.get("plugin_dir", ""), root), ""
    except (OSError, KeyError, ValueError) as error:
        return None, f"/proc of the server's process cannot be read: {error}"


def _unseen_of(host: Host | None, why_not: str, card: Card | None, datadir: str, root: Path) -> dict[Section, str]:
    if host is None:
        return dict.fromkeys(("machine", "network", "file system", "disk", "disk speed", "text"), why_not)
    unseen: dict[Section, str] = {}
    if host.somaxconn is None:
        unseen["network"] = "the server has a network of its own, as in a container"
    if host.disk is None:
        unseen["file system"] = _NO_FILE_SYSTEM
    if why := _why_no_speed(host, card, root):
        measured = f"; `upshift card --folder {quote(datadir)} --json > card.json` measures it for --card card.json"
        unseen["disk speed"] = why + measured * (host.disk is not None)
        if host.disk is None or host.disk.rotational is None:
            unseen["disk"] = f"what the kernel says of the disk is missing or not to be trusted, and {why}"
    if host.text is None:
        unseen["text"] = "only root and the server's own user may see how its text lies in memory"
    return unseen


def _why_no_speed(host: Host, card: Card | None, root: Path) -> str:
    """Why no card says how fast the data's disk is; empty when one does."""
    if host.disk is None:
        return _NO_FILE_SYSTEM
    if card is None:
        return "no machine card was named"
    if not (card.direct_io and card.read_us_p50 and card.fsync_us_p50):
        return "the card has no reads of the disk past the kernel's cache, or no syncs"
    try:
        same = (root / card.folder.lstrip("/")).stat().st_dev == host.disk.file_system_number
    except OSError:
        same = False
    return "" if same else f"the card measured {card.folder}, which is not on the data's file system"


def _absolute(path: str, folder: str) -> str:
    return path if path.startswith("/") else f"{folder.rstrip('/')}/{path}"


def _why(error: pymysql.MySQLError) -> str:
    code, said = (*error.args, "", "")[:2]
    if code in (3024, 1969):
        return f"the server needed more than {STATEMENT_S} s for it"
    if code in (1044, 1045, 1142, 1143, 1227):
        return f"this login may not see it: {said}"
    return str(said)


def _table(row: tuple[Any, ...]) -> Table:
    schema, name, engine, row_format, rows, data, index, free, auto_increment, collation, options = row
    return Table(
        schema_name=schema,
        name=name,
        engine=engine or "",
        row_format=(row_format or "").upper(),
        rows=rows or 0,
        data_bytes=data or 0,
        index_bytes=index or 0,
        free_bytes=free or 0,
        auto_increment=auto_increment,
        collation=collation or "",
        options=options or "",
    )


def _indexes(rows: list[tuple[Any, ...]]) -> tuple[Index, ...]:
    found: dict[tuple[str, str, str], list[tuple[Any, ...]]] = {}
    for row in rows:
        found.setdefault((row[0], row[1], row[2]), []).append(row)
    return tuple(
        Index(
            schema_name=schema,
            table=table,
            name=name,
            unique=not parts[0][3],
            kind=parts[0][4],
            visible=parts[0][5] == "YES",
            columns=tuple(
                IndexColumn(name=part[6] or "", prefix=part[7], descending=part[8] == "D", nullable=part[9] == "YES")
                for part in parts
            ),
        )
        for (schema, table, name), parts in found.items()
    )


def _columns(session: Session, family: Family, version: tuple[int, int, int]) -> tuple[Column, ...]:
    rows = session.ask(questions.COLUMNS)
    has_attributes = family == "mysql" and version >= (8, 0, 21)
    attributed = set(session.ask(questions.ATTRIBUTES)) if has_attributes else set()
    return tuple(_column(row, "ENGINE_ATTRIBUTE" if row[:3] in attributed else "") for row in rows)


def _column(row: tuple[Any, ...], attribute: str) -> Column:
    schema, table, name, kind, charset, extra, comment = (each.decode() if isinstance(each, bytes) else each for each in row)
    return Column(
        schema_name=schema,
        table=table,
        name=name,
        type=kind,
        charset=charset or "",
        counts="auto_increment" in (extra or "").lower(),
        extra=f"{extra or ''} {attribute}".strip(),
        comment=comment or "",
    )


def _stored(row: tuple[Any, ...]) -> StoredStatistics:
    schema, table, rows, age_s = row
    return StoredStatistics(schema_name=schema, table=table, rows=rows, age_s=max(0, age_s or 0))


def _use(row: tuple[Any, ...]) -> IndexUse:
    schema, table, index, reads = row
    return IndexUse(schema_name=schema, table=table, index=index, reads=reads)


def _transaction(row: tuple[Any, ...]) -> Transaction:
    thread, age_s, modified = row
    return Transaction(thread=thread, age_s=max(0, age_s or 0), rows_modified=modified)


def _statement(row: tuple[Any, ...]) -> Running:
    thread, age_s, text = row
    verb = re.search(r"\w+", _COMMENT.sub("", text))
    return Running(thread=thread, age_s=max(0, age_s or 0), verb=verb[0].upper() if verb else "")


def _memory(session: Session) -> int:
    rows = session.ask("SHOW ENGINE PERFORMANCE_SCHEMA STATUS")
    return next((int(value) for _kind, name, value in rows if name == "performance_schema.memory"), 0)
