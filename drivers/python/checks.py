"""What a driver must be able to do through a proxy. Each raises what went wrong."""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from connecting import Target

ROWS = 1000


def run(api: Any, target: Target, name: str) -> None:
    CHECKS[name](api, target)


def _connect(api: Any, target: Target) -> None:
    with _connected(api, target) as connection:
        _one(connection)


def _tls_refused(api: Any, target: Target) -> None:
    """Its options ask for TLS."""
    try:
        _connect(api, target)
    except api.REFUSED:
        return
    if not getattr(api, "PREFERS_TLS", False):
        raise AssertionError("it connected without TLS, which it was to require")


def _prepared(api: Any, target: Target) -> None:
    data = bytes([0, 1, 255, 39, 92])
    postgres = api.MISSING_TABLE == "42P01"
    casts = ("::text", "::float8", "::bytea", "::int") if postgres else ("",) * 4
    sql = f"SELECT id, {', '.join('%s' + cast for cast in casts)} FROM upshift_drivers WHERE id = %s"
    with _connected(api, target, **getattr(api, "BINARY", {})) as connection:
        cursor = api.cursor(connection, {"statements": "prepared"})
        for number in range(1, 21):
            cursor.execute(sql, ("Grüße 'n \\ ?", 12.5, data, None, number))
            ((found, text, real, back, nothing),) = cursor.fetchall()
            assert found == number and _text(text) == "Grüße 'n \\ ?" and float(real) == 12.5, (found, text, real)
            assert _bytes(back) == data and nothing is None, (back, nothing)


def _batch(api: Any, target: Target) -> None:
    with _connected(api, target) as connection:
        cursor = connection.cursor()
        rows = [(number, "batch") for number in range(10)]
        cursor.executemany("INSERT INTO upshift_drivers_added (k, c) VALUES (%s, %s)", rows)
        assert cursor.rowcount == 10, cursor.rowcount
        connection.rollback()


def _cursor(api: Any, target: Target) -> None:
    with _connected(api, target) as connection:
        with api.server_cursor(connection, {"itersize": "7"}) as cursor:
            cursor.execute("SELECT id FROM upshift_drivers ORDER BY id")
            assert [row[0] for row in cursor] == list(range(1, ROWS + 1))
        _one(connection)


def _error(api: Any, target: Target) -> None:
    with _connected(api, target) as connection:
        try:
            _ask(connection, "SELECT nothing FROM nowhere")
        except api.REFUSED as error:
            said = f"{error.args} {getattr(error, 'sqlstate', '')}"
            assert api.MISSING_TABLE in said, said
        else:
            raise AssertionError("no error")
        connection.rollback()
        _one(connection)


def _cancel(api: Any, target: Target) -> None:
    with _connected(api, target) as connection:
        began = time.monotonic()
        threading.Timer(0.5, connection.cancel).start()
        try:
            _ask(connection, "SELECT pg_sleep(20)")
        except api.REFUSED as error:
            assert getattr(error, "sqlstate", "") == "57014", error
        assert time.monotonic() - began < 15, "it was not cancelled"
        connection.rollback()
        _one(connection)


def _reconnect(api: Any, target: Target) -> None:
    postgres = api.MISSING_TABLE == "42P01"
    with _connected(api, target) as connection:
        mine = _ask(connection, "SELECT pg_backend_pid()" if postgres else "SELECT CONNECTION_ID()")
        with _connected(api, target) as other:
            # MySQL's KILL answers nothing.
            other.cursor().execute(f"SELECT pg_terminate_backend({mine})" if postgres else f"KILL {mine}")
        time.sleep(0.2)
        try:
            _one(connection)
        except api.REFUSED:
            pass
        else:
            raise AssertionError("the connection was not killed")
    _connect(api, target)


def _local_infile(api: Any, target: Target) -> None:
    with tempfile.TemporaryDirectory() as folder, _connected(api, target, **api.FILES) as connection:
        file = Path(folder) / "rows.tsv"
        file.write_text("1\tone\n2\ttwo\n3\tthree\n")
        cursor = connection.cursor()
        cursor.execute(f"LOAD DATA LOCAL INFILE '{file}' INTO TABLE upshift_drivers_added (k, c)")
        assert cursor.rowcount == 3, cursor.rowcount
        connection.rollback()


CHECKS: dict[str, Callable[[Any, Target], None]] = {
    "connect": _connect,
    "prepared": _prepared,
    "batch": _batch,
    "cursor": _cursor,
    "error": _error,
    "cancel": _cancel,
    "reconnect": _reconnect,
    "local_infile": _local_infile,
    "tls_refused": _tls_refused,
}


@contextlib.contextmanager
def _connected(api: Any, target: Target, **options: Any) -> Iterator[Any]:
    connection = api.connect(target, **options)
    try:
        yield connection
    finally:
        with contextlib.suppress(*api.REFUSED):
            connection.close()


def _ask(connection: Any, sql: str) -> Any:
    cursor = connection.cursor()
    cursor.execute(sql)
    ((value,),) = cursor.fetchall()
    cursor.close()
    return value


def _one(connection: Any) -> None:
    assert _ask(connection, "SELECT 1") == 1


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes | bytearray) else str(value)


def _bytes(value: Any) -> bytes:
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else bytes(value)
