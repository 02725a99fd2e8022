"""Real servers for these tests, each on a socket in a folder of its own, with the shop loaded."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import psycopg
import pymysql
import shop

MYSQLD = "UPSHIFT_TEST_MYSQLD"
_START_S = 90.0

T = TypeVar("T")


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
        with _postgres(folder) if family == "postgres" else _mysqls(folder, family):
            yield (
                f"postgres://postgres@/shop?socket={folder}"
                if family == "postgres"
                else f"mysql://root@/shop?socket={folder / 's'}"
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _mysqls(folder: Path, family: shop.Family) -> Iterator[None]:
    server, data = program(family), folder / "data"
    assert server
    root = ["--user=root"] if os.geteuid() == 0 else []
    if family == "mariadb":
        made = ["mariadb-install-db", "--no-defaults", "--skip-test-db", "--auth-root-authentication-method=normal"]
    else:
        made = [str(server), "--no-defaults", "--initialize-insecure"]
    environment = {**os.environ, "TMPDIR": str(folder)}
    subprocess.run([*made, f"--datadir={data}", *root], check=True, capture_output=True, env=environment)
    options = ["--no-defaults", "--skip-networking", *root, f"--datadir={data}", f"--socket={folder / 's'}"]
    options += [f"--pid-file={folder / 'pid'}", "--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=0"]
    options += ["--loose-mysqlx=OFF", "--secure-file-priv=", "--loose-disable-log-bin", "--innodb-stats-auto-recalc=OFF"]
    with _process([str(server), *options], folder, environment), contextlib.ExitStack() as stack:
        connection = stack.enter_context(_patiently(lambda: _mysqls_login(folder)))
        cursor = connection.cursor()
        for statement in ("CREATE DATABASE shop", "USE shop", *shop.SCHEMA, *shop.inserts(shop.rows())):
            cursor.execute(statement)
        connection.commit()
        cursor.execute("ANALYZE TABLE customers, orders, items, visits")
        for statement in shop.inserts(shop.rows_after_statistics()):
            cursor.execute(statement)
        connection.commit()
        stack.close()
        yield


def _mysqls_login(folder: Path) -> pymysql.Connection[pymysql.cursors.Cursor]:
    return pymysql.connect(unix_socket=str(folder / "s"), user="root")


@contextlib.contextmanager
def _postgres(folder: Path) -> Iterator[None]:
    server, data = program("postgres"), folder / "data"
    assert server
    become: list[str] = []
    if os.geteuid() == 0:
        become = ["runuser", "-u", "postgres", "--"]
        os.chown(folder, pwd.getpwnam("postgres").pw_uid, -1)
    made = [*become, str(server.parent / "initdb"), "-U", "postgres", "-A", "trust", "--no-sync", "-D", str(data)]
    subprocess.run(made, check=True, capture_output=True, cwd="/")
    options = ["-c", "listen_addresses=", "-c", "fsync=off", "-c", "autovacuum=off", "-k", str(folder), "-D", str(data)]
    with _process([*become, str(server), *options], folder, dict(os.environ)):
        with _patiently(lambda: psycopg.connect(host=str(folder), user="postgres", autocommit=True)) as first:
            first.execute("CREATE DATABASE shop")
        with psycopg.connect(host=str(folder), user="postgres", dbname="shop", autocommit=True) as connection:
            for statement in (
                *shop.SCHEMA,
                *shop.inserts(shop.rows()),
                "VACUUM ANALYZE",
                *shop.inserts(shop.rows_after_statistics()),
            ):
                connection.execute(statement.encode())
        yield


@contextlib.contextmanager
def _process(argv: list[str], folder: Path, environment: dict[str, str]) -> Iterator[None]:
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(argv, cwd="/", env=environment, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _patiently(connect: Callable[[], T]) -> T:
    end = time.monotonic() + _START_S
    while True:
        try:
            return connect()
        except (pymysql.MySQLError, psycopg.Error):
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
