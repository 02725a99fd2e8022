"""The tables that drivers read and write, made and looked at directly, past the proxy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol as Shape
from urllib.parse import SplitResult, unquote, urlsplit

import pymysql

from upshift.errors import CommandFailed, ServerFailed, UsageError
from upshift.shell import Command, Shell
from upshift.stack.driver_matrix.matrix import Protocol
from upshift.stack.driver_matrix.operations import LINES, ROWS

_ITEMS, _DISTRICTS, _CUSTOMERS = 10 * LINES, 10, 30
_TABLES = {
    "upshift_drivers": "id INT PRIMARY KEY, k INT NOT NULL, c CHAR(60) NOT NULL, pad VARCHAR(60) NOT NULL",
    "upshift_drivers_added": "k INT NOT NULL, c VARCHAR(60) NOT NULL",
    "upshift_drivers_warehouse": "w_id INT PRIMARY KEY, w_tax INT NOT NULL",
    "upshift_drivers_district": (
        "d_w_id INT NOT NULL, d_id INT NOT NULL, d_tax INT NOT NULL, d_next_o_id INT NOT NULL, PRIMARY KEY (d_w_id, d_id)"
    ),
    "upshift_drivers_customer": (
        "c_w_id INT NOT NULL, c_d_id INT NOT NULL, c_id INT NOT NULL, c_discount INT NOT NULL, c_last VARCHAR(16) NOT NULL, "
        "c_credit CHAR(2) NOT NULL, PRIMARY KEY (c_w_id, c_d_id, c_id)"
    ),
    "upshift_drivers_item": (
        "i_id INT PRIMARY KEY, i_price INT NOT NULL, i_name VARCHAR(24) NOT NULL, i_data VARCHAR(50) NOT NULL"
    ),
    "upshift_drivers_stock": (
        "s_w_id INT NOT NULL, s_i_id INT NOT NULL, s_quantity INT NOT NULL, s_order_cnt INT NOT NULL, "
        "s_data VARCHAR(50) NOT NULL, s_dist CHAR(24) NOT NULL, PRIMARY KEY (s_w_id, s_i_id)"
    ),
    "upshift_drivers_orders": (
        "o_id INT NOT NULL, o_d_id INT NOT NULL, o_w_id INT NOT NULL, o_c_id INT NOT NULL, o_ol_cnt INT NOT NULL, "
        "PRIMARY KEY (o_w_id, o_d_id, o_id)"
    ),
    "upshift_drivers_new_order": (
        "no_o_id INT NOT NULL, no_d_id INT NOT NULL, no_w_id INT NOT NULL, PRIMARY KEY (no_w_id, no_d_id, no_o_id)"
    ),
    "upshift_drivers_order_line": (
        "ol_o_id INT NOT NULL, ol_d_id INT NOT NULL, ol_w_id INT NOT NULL, ol_number INT NOT NULL, ol_i_id INT NOT NULL, "
        "ol_quantity INT NOT NULL, ol_amount INT NOT NULL, ol_dist_info CHAR(24) NOT NULL, "
        "PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)"
    ),
}
"""What the operations read and write: a table of their own, and of TPC-C's tables (clause 1.3) what NewOrder needs."""
_GROWING = ("added", "orders", "new_order", "order_line")
_STATE = (
    f"SELECT {' + '.join(f'(SELECT COUNT(*) FROM upshift_drivers_{name})' for name in _GROWING)}, "
    "(SELECT SUM(k) FROM upshift_drivers) + (SELECT SUM(d_next_o_id) FROM upshift_drivers_district) "
    "+ (SELECT SUM(s_order_cnt) FROM upshift_drivers_stock)"
)
_RESET = (
    "UPDATE upshift_drivers SET k = id",
    "UPDATE upshift_drivers_district SET d_next_o_id = 1",
    "UPDATE upshift_drivers_stock SET s_quantity = 50, s_order_cnt = 0",
    *(f"DELETE FROM upshift_drivers_{name}" for name in _GROWING),
)
_ASK_TIMEOUT_S = 60.0
_PORTS = {"mysql": 3306, "mariadb": 3306, "postgres": 5432, "postgresql": 5432}
_URLS = "mysql://USER@HOST:PORT/DATABASE or postgres://USER@HOST:PORT/DATABASE"


@dataclass(frozen=True)
class State:
    """How much was written."""

    added: int
    raised: int


class Ground(Shape):
    """One server with the tables."""

    url: str
    protocol: Protocol

    def answers(self) -> bool: ...

    def version(self) -> str:
        """As in ``MySQL 9.7.4``."""
        ...

    def ask(self, statements: Sequence[str]) -> str:
        """Run them; the last one's row, its values apart by spaces."""
        ...


def ground_of(url: str, shell: Shell) -> Ground:
    """The server of a URL. Raises UsageError for one that lacks something."""
    try:
        parts = urlsplit(url)
        named = bool(parts.hostname and parts.username and parts.path.lstrip("/") and parts.port != 0)
    except ValueError as error:
        raise UsageError("--server is no address: its host or port is malformed", _URLS) from error
    if named and parts.scheme in ("mysql", "mariadb"):
        return _MySql(url, parts)
    if named and parts.scheme in ("postgres", "postgresql"):
        return _Postgres(url, parts, shell)
    raise UsageError("--server names no server with a user and a database", _URLS)


def place_of(parts: SplitResult) -> str:
    """Host and port of a server's URL, as they stand in another one; without a port that of its protocol."""
    host = parts.hostname or "127.0.0.1"
    return f"{f'[{host}]' if ':' in host else host}:{parts.port or _PORTS[parts.scheme]}"


@contextlib.contextmanager
def tables(ground: Ground) -> Iterator[None]:
    """Makes the tables, and removes them at the end. Raises ServerFailed where they are there, or may not be made.

    It removes no table that it has not made.
    """
    made: list[str] = []
    try:
        for name, columns in _TABLES.items():
            ground.ask([f"CREATE TABLE {name} ({columns})"])
            made.append(name)
        ground.ask([*_filled()])
        yield
    finally:
        if made:
            ground.ask([f"DROP TABLE {name}" for name in made])


def reset(ground: Ground) -> None:
    """As the tables were made: the bytes of a row depend on its figures."""
    ground.ask(_RESET)


def state(ground: Ground) -> State:
    added, raised = ground.ask((_STATE,)).split()
    return State(int(added), int(raised))


def _filled() -> Iterator[str]:
    rows = {
        "upshift_drivers": [f"{number}, {number}, 'row {number}', 'of the table'" for number in range(1, ROWS + 1)],
        "upshift_drivers_warehouse": ["1, 7"],
        "upshift_drivers_district": [f"1, {number}, 8, 1" for number in range(1, _DISTRICTS + 1)],
        "upshift_drivers_customer": [
            f"1, {district}, {number}, 5, 'BARBARBAR', 'GC'"
            for district in range(1, _DISTRICTS + 1)
            for number in range(1, _CUSTOMERS + 1)
        ],
        "upshift_drivers_item": [f"{number}, {number}, 'item {number}', 'of the warehouse'" for number in range(1, _ITEMS + 1)],
        "upshift_drivers_stock": [f"1, {number}, 50, 0, 'of item {number}', 'dist'" for number in range(1, _ITEMS + 1)],
    }
    for name, values in rows.items():
        yield f"INSERT INTO {name} VALUES {', '.join(f'({each})' for each in values)}"


class _MySql:
    def __init__(self, url: str, parts: SplitResult) -> None:
        self.url = url
        self.protocol: Protocol = "mysql"
        self._parts = parts

    def _connected(self, database: str | None) -> pymysql.Connection[pymysql.cursors.Cursor]:
        return pymysql.connect(
            host=self._parts.hostname or "127.0.0.1",
            port=self._parts.port or _PORTS[self._parts.scheme],
            user=unquote(self._parts.username or ""),
            password=unquote(self._parts.password or ""),
            database=database,
            autocommit=True,
            connect_timeout=5,
            read_timeout=_ASK_TIMEOUT_S,
        )

    def answers(self) -> bool:
        try:
            with self._connected(None) as connection, connection.cursor() as cursor:
                cursor.execute(f"CREATE DATABASE IF NOT EXISTS {self._parts.path.lstrip('/')}")
        except (pymysql.MySQLError, OSError):
            return False
        return True

    def version(self) -> str:
        said = self.ask(("SELECT VERSION()",))
        name = "MariaDB" if "MariaDB" in said else "MySQL"
        return f"{name} {said.split('-')[0]}"

    def ask(self, statements: Sequence[str]) -> str:
        try:
            with self._connected(self._parts.path.lstrip("/")) as connection, connection.cursor() as cursor:
                for each in statements:
                    cursor.execute(each)
                row = cursor.fetchone() or ()
        except pymysql.MySQLError as error:
            raise _refused(self._parts, str(error)) from error
        return " ".join(map(str, row))


class _Postgres:
    def __init__(self, url: str, parts: SplitResult, shell: Shell) -> None:
        self.url = url
        self.protocol: Protocol = "postgres"
        self._parts = parts
        self._shell = shell

    def _run(self, database: str, statements: Sequence[str]) -> str:
        # The password stays out of what others see of a command line.
        password = {"PGPASSWORD": unquote(self._parts.password)} if self._parts.password else {}
        words = [word for each in statements for word in ("-c", each)]
        user = unquote(self._parts.username or "")
        host, port = self._parts.hostname or "127.0.0.1", str(self._parts.port or _PORTS[self._parts.scheme])
        login = ("-h", host, "-p", port, "-U", user, "-d", database)
        command = ("psql", "-X", "-q", "-A", "-t", "-F", " ", "-v", "ON_ERROR_STOP=1", *login, *words)
        return self._shell.run(Command(command, env=password, cwd=Path("/")), timeout_s=_ASK_TIMEOUT_S).stdout.strip()

    def answers(self) -> bool:
        name = self._parts.path.lstrip("/")
        try:
            found = self._run("postgres", (f"SELECT COUNT(*) FROM pg_database WHERE datname = '{name}'",))
            if found == "0":
                self._run("postgres", (f"CREATE DATABASE {name}",))
        except CommandFailed:
            return False
        return True

    def version(self) -> str:
        return f"PostgreSQL {self.ask(('SHOW server_version',)).split()[0]}"

    def ask(self, statements: Sequence[str]) -> str:
        try:
            return self._run(self._parts.path.lstrip("/"), statements)
        except CommandFailed as error:
            raise _refused(self._parts, error.message) from error


def _refused(parts: SplitResult, said: str) -> ServerFailed:
    return ServerFailed(
        f"{place_of(parts)}{parts.path} refuses what the drivers need: {said}",
        "its user must be able to create tables in its database; no table whose name begins with upshift_drivers must be there",
    )
