"""PostgreSQL from packages: initdb, a process for each connection, ``pg_stat_statements``.

It is measured and not built: the hot set, training and BOLT know servers of one process.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket as sockets
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg

from upshift.errors import MissingTool, ServerFailed
from upshift.process import hidden
from upshift.server.contents import holds
from upshift.server.kind import Counters, Program, Repeatable
from upshift.server.postgres_change import change
from upshift.server.unprivileged import as_user
from upshift.shell import Command

USER = "postgres"
"""Its package brings this user; initdb makes a superuser of the same name."""
_PACKAGES = Path("/usr/lib/postgresql")
_OWN_DATABASE = "postgres"
"""Where Upshift asks its questions: what it executes there is not counted."""
_PORT = 5432
_LIBRARY = "PG"
"""The names of libpq's variables begin with it. They are for the user's own servers: ``PGHOSTADDR`` goes before the socket
that a connection names, ``PGOPTIONS`` sets what it does."""
_COUNTING = "pg_stat_statements"
"""Only this extension counts a statement when it ends: a backend reports to the statistics views once a second."""

_SETTINGS: Mapping[str, str] = {
    "shared_buffers": "1GB",
    "max_connections": "1100",
    # As with MySQL a commit does not wait for the disk, so that the server is measured, not the disk.
    "synchronous_commit": "off",
    # Checkpoints and autovacuum come by the clock: within a trial they would come into some server's turn.
    "max_wal_size": "4GB",
    "checkpoint_timeout": "1h",
    "autovacuum": "off",
    # What is counted. Of more statements than this the extension forgets the rarest with their calls, and the counter would
    # fall: its default of 5000 is less than an application's lists of different lengths. Each takes 400 bytes of memory.
    "pg_stat_statements.track": "top",
    "pg_stat_statements.track_utility": "on",
    "pg_stat_statements.max": "100000",
}
# What initdb decides. The server takes these from its data folder alone, and refuses them as settings.
_LASTING = ("data_checksums", "wal_segment_size")
_RESERVED = (
    *("data_directory", "config_file", "hba_file", "ident_file", "external_pid_file"),
    *("listen_addresses", "port", "unix_socket_directories"),
    # They decide what is counted.
    *(f"{_COUNTING}.{name}" for name in ("save", "track", "track_utility", "max")),
    "compute_query_id",
    # Segments of a server that is measured would lie in the archive of the server in use.
    *("archive_command", "archive_library"),
)
# Debian's own postgresql.conf names the last one, up to version 14.
_WRITTEN = ("log_directory", "log_filename", "stats_temp_directory")
_COUNTED = f"""
SELECT coalesce(sum(calls), 0),
coalesce(sum(calls) FILTER (WHERE query ~* '^\\s*(select|insert|update|delete|merge|with|values|table|copy)\\M'), 0),
coalesce(sum(calls) FILTER (WHERE query ~* '^\\s*(commit|end)\\M'), 0),
txid_snapshot_xmax(txid_current_snapshot())
- coalesce(sum(calls) FILTER (WHERE query ~* '^\\s*(rollback|abort)\\s*;?\\s*$'), 0)
FROM {_COUNTING} JOIN pg_database ON pg_database.oid = dbid WHERE datname = %s
"""
_BACKGROUND = """
SELECT pg_current_wal_insert_lsn()::text, pg_wal_lsn_diff(pg_current_wal_insert_lsn(), pg_current_wal_flush_lsn()),
(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'autovacuum worker')
"""
_HEADER_BYTES = 64
"""The log's insert position may stand behind a page's header, which is not flushed by itself."""
_BETWEEN_LOOKS_S = 0.1
_CONNECT_S = 5
_ANSWER_S = 20.0
_UNITS = {"B": 1, "kB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}
_BLOCK_BYTES = 8192


class PostgreSQL:
    """PostgreSQL 12 and newer, with its extension pg_stat_statements (in Debian's package)."""

    name = "postgres"
    server_target = "postgres"
    one_process = False
    can_have_a_tier = False
    socket_name = f".s.PGSQL.{_PORT}"
    series: Path | None = None
    lasting: tuple[str, ...] = _LASTING
    reserved: tuple[str, ...] = _RESERVED
    written: tuple[str, ...] = _WRITTEN
    database = "upshift"
    client_environment: Mapping[str, str] = {}
    hidden_from_clients: str = _LIBRARY

    def __init__(self) -> None:
        self._kept: dict[Path, psycopg.Connection[Any]] = {}
        """By socket. Each connection is a process: one that began and ended in a turn would count as the server's work."""
        self._first_ids: dict[Path, int] = {}
        """By socket: the transaction id that the first COMMIT would have had, so that ids and COMMITs count from one place."""

    def packaged(self) -> Path | None:
        versions = [each for each in _PACKAGES.glob("*/bin/postgres") if re.fullmatch(r"[\d.]+", each.parents[1].name)]
        if versions:
            return max(versions, key=lambda each: float(each.parents[1].name))
        found = shutil.which(self.server_target)
        return Path(found).resolve() if found else None

    def version(self, binary: Path) -> Command:
        return Command((str(binary), "--version"))

    def initialise(self, program: Program, data: Path, settings: Mapping[str, str] = {}) -> Command:
        initdb = program.binary.resolve().with_name("initdb")
        if not initdb.is_file():
            raise MissingTool(f"there is no initdb beside {program.binary}", "name a server where it was installed")
        # The caller's language must not decide how strings compare.
        made = ("--username", USER, "--auth", "trust", "--locale", "C", "--encoding", "UTF8", "--no-sync")
        return Command((*_as_postgres(), str(initdb), *made, *_shaped(settings, initdb), "--pgdata", str(data)), cwd=Path("/"))

    def prepare(self, socket: Path) -> None:
        with _answering(), _connected(socket, _OWN_DATABASE) as connection:
            connection.execute(f"CREATE DATABASE {self.database}".encode())
            connection.execute(f"CREATE EXTENSION {_COUNTING}".encode())

    def tidy(self, socket: Path) -> None:
        """Autovacuum's work, which is off while a server is measured."""
        with _answering(), _connected(socket, self.database) as connection:
            connection.execute(b"VACUUM ANALYZE")

    def trim(self, data: Path) -> None:
        """Nothing: a start keeps the WAL segments that are ready for use."""

    def change(self, socket: Path, sql: str) -> str | None:
        with _answering(), _connected(socket, self.database) as connection:
            return change(connection, sql)

    def start(self, program: Program, data: Path, socket: Path, settings: Mapping[str, str]) -> Command:
        preloaded = [name for name in (_COUNTING, settings.get("shared_preload_libraries")) if name]
        given = {name: value for name, value in settings.items() if name not in _LASTING} | {
            "shared_preload_libraries": ",".join(preloaded),
            "pg_stat_statements.save": "off",
            "listen_addresses": "",
            "port": str(_PORT),
            "unix_socket_directories": str(socket.parent),
        }
        options = [word for name, value in given.items() for word in ("-c", f"{name}={value}")]
        return Command(
            (*_as_postgres(), str(program.binary), *program.options, "-D", str(data), *options),
            cwd=Path("/"),
            # At SIGTERM it waits for its clients. Killed, it would leave its processes and a segment of shared memory.
            stop_signal=signal.SIGINT,
            drop_signal=signal.SIGQUIT,
            when_orphaned=signal.SIGQUIT,
        )

    def url(self, socket: Path) -> str:
        return f"postgres://{USER}@localhost/{self.database}?socket={socket}"

    def ready(self, socket: Path) -> bool:
        try:
            with _connected(socket, _OWN_DATABASE):
                return True
        except psycopg.Error:
            return False

    def quiet(self, socket: Path) -> bool:
        """No autovacuum at work, and a log that is flushed and does not grow between two looks."""
        with self._asked(socket) as connection:
            before = _row(connection, _BACKGROUND)
            _at, unflushed, workers = before
            if workers or unflushed >= _HEADER_BYTES:
                return False
            time.sleep(_BETWEEN_LOOKS_S)
            return _row(connection, _BACKGROUND) == before

    def counters(self, socket: Path) -> Counters:
        with self._asked(socket) as connection:
            queries, statements, commits, ids = (int(each) for each in _row(connection, _COUNTED, self.database))
        # The extension counts a prepared COMMIT once, however often it is executed (PostgreSQL 15). A transaction that writes
        # takes an id, one that only reads does not: the larger count has missed less.
        ids -= self._first_ids.setdefault(socket, ids - commits)
        return Counters(queries=queries, statements=statements, transactions=max(commits, ids))

    def forget(self, socket: Path) -> None:
        if connection := self._kept.pop(socket, None):
            connection.close()
        self._first_ids.pop(socket, None)

    def settings(self) -> Mapping[str, str]:
        return _SETTINGS

    def repeatable(self) -> Repeatable:
        """Nothing: instructions are counted of one process."""
        return Repeatable()

    def leave_undisturbed(self, socket: Path) -> None:
        """Nothing, as ``repeatable``."""

    def pool_bytes(self, settings: Mapping[str, str]) -> int | None:
        return _size_bytes(settings.get("shared_buffers", "128MB"))

    def most_connections(self, settings: Mapping[str, str]) -> int | None:
        most = settings.get("max_connections", "100").strip()
        return int(most) - 1 if most.isdecimal() else None  # One is Upshift's own; what is no number, the server refuses.

    def data_bytes(self, data: Path) -> int:
        return sum(file.stat().st_size for file in (data / "base").rglob("*") if file.is_file())

    @contextlib.contextmanager
    def _asked(self, socket: Path) -> Iterator[psycopg.Connection[Any]]:
        """The connection that is kept to a server that has answered before. Raises ServerFailed when it no longer does."""
        with _answering():
            if socket not in self._kept:
                self._kept[socket] = _connected(socket, _OWN_DATABASE)
            with _cut_after(self._kept[socket], _ANSWER_S):
                yield self._kept[socket]


KIND = PostgreSQL()


def _as_postgres() -> tuple[str, ...]:
    return as_user(USER, when_orphaned=signal.SIGQUIT)


def _connected(socket: Path, database: str) -> psycopg.Connection[Any]:
    with hidden(_LIBRARY):
        return psycopg.connect(
            host=str(socket.parent), port=_PORT, user=USER, dbname=database, connect_timeout=_CONNECT_S, autocommit=True
        )


@contextlib.contextmanager
def _cut_after(connection: psycopg.Connection[Any], seconds: float) -> Iterator[None]:
    """End the connection of a server that hangs: psycopg waits for an answer without a limit."""

    def cut() -> None:
        with contextlib.suppress(OSError, psycopg.Error), sockets.socket(fileno=os.dup(connection.fileno())) as each:
            each.shutdown(sockets.SHUT_RDWR)

    timer = threading.Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _row(connection: psycopg.Connection[Any], sql: str, *given: str) -> tuple[Any, ...]:
    found = connection.execute(sql.encode(), given or None, prepare=True).fetchone()
    assert found is not None
    return tuple(found)


@contextlib.contextmanager
def _answering() -> Iterator[None]:
    """Raises ServerFailed for a server that does not answer."""
    try:
        yield
    except psycopg.Error as error:
        said = " ".join(str(error).split())
        raise ServerFailed(f"the server does not answer: {said}", "it crashed or hangs: see its log") from error


def _shaped(settings: Mapping[str, str], initdb: Path) -> Iterator[str]:
    """The options of ``initdb`` for the settings that it decides."""
    if value := settings.get("wal_segment_size"):
        yield f"--wal-segsize={_size_bytes(value) // 2**20}"
    if value := settings.get("data_checksums"):
        if value.lower() in ("on", "true", "yes", "1"):
            yield "--data-checksums"
        elif holds(initdb, b"no-data-checksums"):  # Before PostgreSQL 18 there are none unless asked for, and no such option.
            yield "--no-data-checksums"


def _size_bytes(text: str) -> int:
    """What PostgreSQL reads in a setting's value: ``128MB``, or a number of blocks."""
    found = re.fullmatch(r"(\d+)\s*(B|kB|MB|GB|TB)?", text.strip())
    if found is None:
        return 0  # The server says what it does not understand.
    return int(found[1]) * (_UNITS[found[2]] if found[2] else _BLOCK_BYTES)
