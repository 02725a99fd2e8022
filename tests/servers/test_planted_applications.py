"""Faults of applications, planted on real servers of each family: each is named, and no other; mended, none is.

`test_stack_on_mariadb` has the faults for which one server is enough.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pymysql
import pytest
import shop
from captures import captured, program
from plan_servers import Url
from relay import in_parts, later, relayed

from upshift.check.address import Address
from upshift.check.session import opened
from upshift.shell import SystemShell
from upshift.stack.evidence import Evidence
from upshift.stack.examining import examined
from upshift.stack.plans.address import read_address
from upshift.stack.plans.session import opened as asking
from upshift.stack.report import report_on
from upshift.stack.server import with_server
from upshift.stack.suspects.thresholds import Thresholds

pytest_plugins = ("shops",)
MYSQLS: tuple[shop.Family, ...] = ("mariadb", "mysql")
FAMILIES: tuple[shop.Family, ...] = (*MYSQLS, "postgres")

ATTRIBUTES = [f"attribute_of_number_{number}" for number in range(50)]


def inserts(table: str, rows: Sequence[tuple[object, ...]]) -> str:
    return f"INSERT INTO {table} VALUES {', '.join(map(str, rows))}"


TABLES = (
    "CREATE TABLE account (id INT PRIMARY KEY, balance INT)",
    inserts("account", [(number, 100) for number in range(1, 501)]),
    f"CREATE TABLE wide (id INT PRIMARY KEY, {', '.join(f'{each} INT' for each in ATTRIBUTES)})",
    inserts("wide", [(number,) * 51 for number in range(1, 501)]),
    "CREATE TABLE history (kind INT, id INT, account INT, note CHAR(20), PRIMARY KEY (kind, id))",
    inserts("history", [(each % 5, each, each * 31 % 997, f"note {each * 7919 % 10007}") for each in range(1, 10_001)]),
    "CREATE TABLE ledger (kind INT, id INT, account INT, note CHAR(20), PRIMARY KEY (kind, id))",
    "CREATE INDEX ledger_account ON ledger (kind, account)",
    "CREATE INDEX ledger_note ON ledger (kind, note, account)",
    "INSERT INTO ledger SELECT * FROM history",
)
# The application may not see what the server counts: the load client asks for that, too, where it may.
MYSQL = ("ANALYZE TABLE history, ledger", "CREATE USER app@localhost", "GRANT ALL ON shop.* TO app@localhost")
POSTGRES = ("CREATE USER app", "GRANT ALL ON ALL TABLES IN SCHEMA public TO app")
VARIABLES = """
[variables]
one = { uniform = [1, 500] }
kind = { uniform = [0, 4] }
"""
BALANCE = "SELECT balance FROM account WHERE id = :one"
PAY = "UPDATE account SET balance = balance - 1 WHERE id = :one"


def script(*transactions: Sequence[str]) -> str:
    """A file for `upshift load script`, of transactions with these statements."""
    numbered = enumerate(transactions)
    return VARIABLES + "".join(f"[transactions.t{number}]\nstatements = {json.dumps(each)}\n" for number, each in numbered)


PAYING = script((BALANCE, PAY))


@dataclass(frozen=True)
class Server:
    """One with the tables, and a folder for what is captured of it."""

    family: shop.Family
    url: str
    folder: Path

    @property
    def socket(self) -> Path:
        socket = Path(self.url.partition("socket=")[2])
        return socket / ".s.PGSQL.5432" if self.family == "postgres" else socket

    def run(self, *statements: str) -> None:
        with asking(read_address(self.url), 20) as session:
            if self.family != "postgres":
                session.ask("SET autocommit = 1")
            for each in statements:
                session.ask(each)

    @contextlib.contextmanager
    def captured(self, trace: Path, socket: Path | None = None) -> Iterator[Path]:
        """The socket of the proxy in front of the server's, or of another one that leads there."""
        with captured(socket or self.socket, trace, postgres=self.family == "postgres") as place:
            yield place

    def load(self, place: Path, text: str, transactions: int, *options: str) -> None:
        """Send a script's transactions over two connections. Fewer than a hundred are no reason to prepare them."""
        (file := self.folder / "shop.toml").write_text(text)
        words = ("script", file, "run", "--connections", "2", "--max-transactions", str(transactions), "--seconds", "20")
        url = f"{'postgres' if self.family == 'postgres' else 'mysql'}://app@/shop?socket={place}"
        subprocess.run(
            (program("upshift-load"), *words, "--server", url, *options), check=True, capture_output=True, timeout=60
        )

    def loaded(self, text: str, transactions: int = 90, *options: str) -> Evidence:
        with self.captured(trace := self.trace()) as place:
            self.load(place, text, transactions, *options)
        return evidence_of(trace)

    def trace(self) -> Path:
        """A new one's name."""
        return self.folder / f"{len(list(self.folder.glob('*.trace')))}.trace"

    def counted(self, evidence: Evidence) -> Evidence:
        """With what the server counted."""
        with opened(Address(socket=str(self.socket), user="root")) as session:
            return with_server(evidence, session)


@pytest.fixture(scope="module")
def filled(url: Url) -> Callable[[shop.Family], str]:
    """The URL of a server that has the tables, too."""
    known: dict[shop.Family, str] = {}

    def of(family: shop.Family) -> str:
        if family not in known:
            known[family] = url(family)
            Server(family, known[family], Path()).run(*TABLES, *(POSTGRES if family == "postgres" else MYSQL))
        return known[family]

    return of


@pytest.fixture
def server(filled: Callable[[shop.Family], str], family: shop.Family, tmp_path: Path) -> Server:
    return Server(family, filled(family), tmp_path)


def evidence_of(trace: Path) -> Evidence:
    shell = SystemShell()
    try:
        return examined(shell, lambda: program("upshift-stack"), trace)
    finally:
        shell.close()


def named(evidence: Evidence) -> set[str]:
    return {each.suspect for each in report_on(evidence, Thresholds()).findings}


ON_EACH = pytest.mark.parametrize("family", FAMILIES)
ON_MYSQLS = pytest.mark.parametrize("family", MYSQLS)


@ON_EACH
def test_a_server_that_is_far_away(server: Server) -> None:
    """Two milliseconds each way, between the proxy and the server."""
    distance = later(0.002)
    relay, trace = relayed(server.folder / "far", server.socket, to_server=distance, to_client=distance), server.trace()
    with relay as far, server.captured(trace, far) as place:
        server.load(place, PAYING, 60)
    assert named(evidence_of(trace)) == {"C9"}
    assert named(server.loaded(PAYING)) == set()


@ON_EACH
def test_a_client_that_sends_each_message_in_parts(server: Server) -> None:
    """Whole, the same messages are named for nothing: above."""
    trace, sent = server.trace(), in_parts(0.002)
    with server.captured(trace) as place, relayed(server.folder / "parts", place, to_server=sent) as parts:
        server.load(parts, PAYING, 60)
    assert named(evidence_of(trace)) == {"C10"}


@ON_EACH
def test_a_row_of_many_columns_with_little_in_them(server: Server) -> None:
    def looking(columns: Sequence[str]) -> Evidence:
        look = f"SELECT {', '.join(columns)} FROM wide WHERE id = :one"
        return server.loaded(script((BALANCE, look, PAY)), 90, "--protocol", "text")

    assert named(looking(ATTRIBUTES)) == {"C12"}
    assert named(looking(ATTRIBUTES[:3])) == set()


@ON_EACH
def test_values_in_the_text_of_what_is_prepared(server: Server) -> None:
    literals = (BALANCE.replace(":one", str(number)) for number in range(1, 61))
    assert named(server.loaded(script(*((each,) for each in literals)), 120)) == {"C13"}
    assert named(server.loaded(script((BALANCE,)), 120)) == set()


@ON_MYSQLS
@pytest.mark.parametrize(
    ("fault", "planted", "mended"),
    [
        (
            "P1",
            "SELECT note FROM history WHERE kind = :kind AND account = :one",
            "SELECT note FROM ledger WHERE kind = :kind AND account = :one",
        ),
        (
            "P3",
            "SELECT account, note FROM history WHERE kind = :kind ORDER BY note",
            "SELECT account, note FROM ledger WHERE kind = :kind ORDER BY note",
        ),
    ],
)
def test_rows_that_only_the_server_counts(server: Server, fault: str, planted: str, mended: str) -> None:
    def counted(statement: str) -> set[str]:
        return named(server.counted(server.loaded(script((BALANCE, statement, PAY)), 90, "--protocol", "text")))

    assert counted(planted) == {fault}
    assert counted(mended) == set()


def paying(family: shop.Family, place: Path) -> None:
    """Thirty accounts, each by a transaction of its own; where one is locked, the application gives up and goes on."""
    pay = "UPDATE account SET balance = balance + 1 WHERE id = %s"
    if family == "postgres":
        where = f"host={place.parent} port=5432 user=app dbname=shop options='-c lock_timeout=500'"
        with psycopg.connect(where, autocommit=True) as application:
            for number in range(1, 31):
                with contextlib.suppress(psycopg.errors.LockNotAvailable):
                    application.execute(pay, (number,))
        return
    # Encrypted, nothing of it could be read.
    with pymysql.connect(unix_socket=str(place), user="app", database="shop", autocommit=True, ssl_disabled=True) as connection:
        for number in range(1, 31):
            with connection.cursor() as cursor, contextlib.suppress(pymysql.err.OperationalError):
                cursor.execute(pay, (number,))


@ON_EACH
def test_a_row_that_somebody_keeps_locked(server: Server, family: shop.Family) -> None:
    if family != "postgres":
        server.run("SET GLOBAL innodb_lock_wait_timeout = 1")
    found = []
    for lock in ("UPDATE account SET balance = 0 WHERE id = 7", "SELECT balance FROM account WHERE id = 7"):
        with asking(read_address(server.url), 20) as other:
            other.ask("BEGIN")
            other.ask(lock)
            with server.captured(trace := server.trace()) as place:
                paying(family, place)
            other.ask("ROLLBACK")
        found.append(named(evidence_of(trace)))
    assert found == [{"E2"}, set()]
