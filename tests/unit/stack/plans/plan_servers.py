"""Real servers for these tests, each on a socket in a folder of its own, with the shop loaded."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psycopg
import shop
from real_server import initialised, started

MYSQLD = "UPSHIFT_TEST_MYSQLD"
Url = Callable[[shop.Family], str]
"""The URL of a running server of a family."""
_START_S = 90.0
_STOP_S = 20.0


def program(family: shop.Family) -> Path | None:
    """What runs the server; none where it is not installed."""
    if family == "mysql":
        return Path(os.environ[MYSQLD]) if MYSQLD in os.environ else None
    if family == "mariadb":
        found = shutil.which("mariadbd")
        return Path(found) if found else None
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda each: int(each.parts[-3]))
    return versions[-1] if versions else None


@contextlib.contextmanager
def running(family: shop.Family) -> Iterator[str]:
    """The URL of a server that has the shop in the database ``shop``; it ends with the context."""
    folder = Path(tempfile.mkdtemp(prefix=f"upshift-plans-{family}-"))
    try:
        with _postgres(folder) if family == "postgres" else _mysqls(folder, family) as url:
            yield url
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _mysqls(folder: Path, family: shop.Family) -> Iterator[str]:
    server, data = program(family), folder / "data"
    assert server
    initialised(server, data)
    options = ["--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=0", "--innodb-stats-auto-recalc=OFF"]
    options += ["--loose-mysqlx=OFF", "--secure-file-priv=", "--loose-disable-log-bin", "--performance-schema=ON"]
    with started(str(server), data, options) as running_server:
        running_server.run(
            *("CREATE DATABASE shop", "USE shop", *shop.SCHEMA, *shop.inserts(shop.rows())),
            *("ANALYZE TABLE customers, orders, items, visits", *shop.inserts(shop.rows_after_statistics())),
        )
        yield f"mysql://root@/shop?socket={running_server.socket}"


@contextlib.contextmanager
def _postgres(folder: Path) -> Iterator[str]:
    with _empty_postgres(folder) as url:
        with psycopg.connect(host=str(folder), user="postgres", dbname="shop", autocommit=True) as connection:
            before, after = shop.inserts(shop.rows()), shop.inserts(shop.rows_after_statistics())
            for statement in (*shop.SCHEMA, *before, "VACUUM ANALYZE", *after):
                connection.execute(statement.encode())
        yield url


@contextlib.contextmanager
def postgres_under(*command: str) -> Iterator[str]:
    """The URL of a PostgreSQL that another program runs; its database ``shop`` is empty."""
    folder = Path(tempfile.mkdtemp(prefix="upshift-plans-postgres-"))
    try:
        with _empty_postgres(folder, command) as url:
            yield url
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _empty_postgres(folder: Path, under: Sequence[str] = ()) -> Iterator[str]:
    server, data = program("postgres"), folder / "data"
    assert server
    become: list[str] = []
    if os.geteuid() == 0:
        become = ["runuser", "-u", "postgres", "--"]
        os.chown(folder, pwd.getpwnam("postgres").pw_uid, -1)
    made = [*become, str(server.parent / "initdb"), "-U", "postgres", "-A", "trust", "--no-sync", "-D", str(data)]
    subprocess.run(made, check=True, capture_output=True, cwd="/")
    options = ["-c", "listen_addresses=", "-c", "fsync=off", "-c", "autovacuum=off", "-k", str(folder), "-D", str(data)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*become, *under, str(server), *options], cwd="/", stdout=log, stderr=log)
    try:
        with _connected(folder) as first:
            first.execute("CREATE DATABASE shop")
        yield f"postgres://postgres@/shop?socket={folder}"
    finally:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _connected(folder: Path) -> psycopg.Connection[tuple[object, ...]]:
    """As soon as the server answers."""
    end = time.monotonic() + _START_S
    while True:
        try:
            return psycopg.connect(host=str(folder), user="postgres", autocommit=True)
        except psycopg.Error:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
