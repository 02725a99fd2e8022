"""`upshift stack prove` on a real MariaDB: answers that change are refused, an index changes none; chatter and logins are sent.

Nothing here judges a speed: the verdict may be any. MariaDB stands in for the MySQL that the laboratory starts.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
import pytest
from captures import captured, own_programs, program
from real_server import RealServer, initialised, started

from upshift.paths import CHECKOUT

KIND = CHECKOUT / "tests" / "unit" / "mariadb_kind.py"
TABLE = (
    "CREATE TABLE orders (id INT PRIMARY KEY, customer INT, paid INT)",
    "INSERT INTO orders SELECT seq, seq MOD 1000, 0 FROM seq_1_to_5000",
)
COM_RESET_CONNECTION = 0x1F
SETTLED = ("proven", "refuted", "not settled")

App = Callable[[Path], None]


@dataclass(frozen=True)
class Shop:
    """A server, and what a proof starts from."""

    server: RealServer
    folder: Path
    dump: Path

    def capture(self, name: str, app: App) -> Path:
        """The trace of what ``app`` sends to the socket that it is given."""
        with captured(self.server.socket, trace := self.folder / f"{name}.trace") as place:
            app(place)
        return trace

    def prove(self, trace: Path, suspect: str, *more: str | Path) -> subprocess.CompletedProcess[str]:
        mariadbd = shutil.which("mariadbd")
        assert mariadbd
        named = ("--suspect", suspect, "--before", self.dump, "--binary", mariadbd)
        short = ("--connections", "2", "--trials", "1", "--slice-seconds", "0.2", "--json", "--no-install")
        return self.upshift("prove", trace, *named, *short, *more)

    def upshift(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """A command of ``upshift stack``, with the server's kind."""
        own = {**own_programs(), "PYTHONPATH": str(CHECKOUT / "src"), "UPSHIFT_SERVER_KIND": str(KIND)}
        argv = [sys.executable, "-m", "upshift", "stack", *map(str, words)]
        return subprocess.run(argv, env={**os.environ, **own}, capture_output=True, text=True, timeout=600)

    def replayed(self, trace: Path, *options: str) -> dict[str, Any]:
        """How often each statement was sent in a replay, by its name."""
        replay = trace.with_suffix(".replay")
        subprocess.run((program("upshift-load"), "import", trace, replay), check=True, capture_output=True)
        url = f"mysql://root@/shop?socket={self.server.socket}"
        words: tuple[str | Path, ...] = ("replay", replay, "--server", url, "--json", "--on-difference", "count", *options)
        done = subprocess.run((program("upshift-load"), *words), capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return {name: each["count"] for name, each in json.loads(done.stdout)["statements"].items()}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("mariadb")
    data = initialised("mariadbd", folder / "data")
    with started("mariadbd", data, ("--performance-schema=ON", "--innodb-buffer-pool-size=64M")) as server:
        server.run("CREATE DATABASE shop")
        with pymysql.connect(unix_socket=str(server.socket), user="root", database="shop", autocommit=True) as connection:
            for statement in TABLE:
                connection.cursor().execute(statement)
        # What a dump would hold: mariadb-dump is in a package of its own.
        (dump := folder / "before.sql").write_text("".join(f"{statement};\n" for statement in TABLE))
        yield Shop(server, folder, dump)


def connected(place: Path) -> pymysql.Connection[pymysql.cursors.Cursor]:
    return pymysql.connect(unix_socket=str(place), user="root", database="shop", autocommit=True)


def scanning(place: Path) -> None:
    with connected(place) as connection, connection.cursor() as cursor:
        for number in range(200):
            cursor.execute("SELECT id FROM orders WHERE customer = %s", (number,))
            cursor.execute("SELECT customer, NOW(6) FROM orders WHERE id = %s", (number,))


def chatting(place: Path) -> None:
    with connected(place) as connection, connection.cursor() as cursor:
        for number in range(50):
            connection.ping(reconnect=False)
            cursor.execute("SET time_zone = '+00:00'")
            connection.begin()
            cursor.execute("SELECT customer FROM orders WHERE id = %s", (number,))
            connection.commit()
        connection._execute_command(COM_RESET_CONNECTION, b"")  # type: ignore[attr-defined]
        connection._read_ok_packet()  # type: ignore[attr-defined]
        cursor.execute("SELECT customer FROM orders WHERE id = 1")


def reconnecting(place: Path) -> None:
    for number in range(40):
        with connected(place) as connection, connection.cursor() as cursor:
            cursor.execute("UPDATE orders SET paid = paid + 1 WHERE id = %s", (number,))
            cursor.execute("SELECT paid FROM orders WHERE id = %s", (number,))


@pytest.fixture(scope="module")
def scans(shop: Shop) -> tuple[Path, Path]:
    """A trace of an application without an index, and what the server and the trace say of it."""
    trace = shop.capture("scans", scanning)
    examined = shop.upshift("examine", trace, "--json", "--server", f"mysql://root@/shop?socket={shop.server.socket}")
    (report := shop.folder / "report.json").write_text(examined.stdout)
    return trace, report


def test_sql_that_deletes_rows_is_refused(shop: Shop, scans: tuple[Path, Path], tmp_path: Path) -> None:
    trace, report = scans
    (sql := tmp_path / "fix.sql").write_text("DELETE FROM orders WHERE customer >= 10")
    done = shop.prove(trace, "P2", "--findings", report, "--sql", sql)
    assert done.returncode == 1, done.stderr
    proof = json.loads(done.stdout)
    assert proof["verdict"] == "answers differ" and proof["measured"] == [] and proof["result"] is None
    answers = proof["answers"]
    # The rows of 190 customers are gone, for the scans and the look-ups; NOW() of the nine others differs by itself.
    assert answers["differ"] == 380 and answers["requests"] >= 400 and answers["unsteady"] == 9
    first = answers["first"]
    assert (first["as_sent"]["rows"], first["changed"]["rows"]) == (5, 0) and "customer" in first["sql"]
    assert f"answers differ in 380 of {answers['requests']} requests" in " ".join(done.stderr.split())


def test_an_index_changes_no_answer(shop: Shop, scans: tuple[Path, Path], tmp_path: Path) -> None:
    trace, report = scans
    (sql := tmp_path / "fix.sql").write_text("CREATE INDEX by_customer ON orders (customer)")
    done = shop.prove(trace, "P2", "--findings", report, "--sql", sql)
    assert done.returncode == 0, done.stderr
    proof = json.loads(done.stdout)
    assert proof["verdict"] in SETTLED and len(proof["measured"]) == 1
    assert proof["answers"]["differ"] == 0 and proof["answers"]["otherwise"] == 0
    # The data are kept by the dump's contents: another proof of the same trace finds them.
    again = shop.prove(trace, "P2", "--findings", report, "--sql", sql)
    kept = {each["name"]: each["cached"] for each in json.loads(again.stdout)["result"]["stages"]}
    assert kept["data"] and kept["changed data"] and kept["answers"] and not kept["measure"]


def test_chatter_is_sent_and_left_out(shop: Shop) -> None:
    trace = shop.capture("chatty", chatting)
    sent, without = shop.replayed(trace), shop.replayed(trace, "--no-chatter")
    assert (sent["com_ping"], sent["com_reset_connection"]) == (50, 1)
    gone = {name: count for name, count in sent.items() if name not in without}
    # PyMySQL sets the character set and autocommit after its login.
    assert sum(gone.values()) >= 101 and all(name.startswith(("com_", "set_")) for name in gone), gone
    done = shop.prove(trace, "C5")
    assert done.returncode == 0, done.stderr
    proof = json.loads(done.stdout)
    assert proof["verdict"] in SETTLED and proof["change"]["client"] == ["--no-chatter"] and proof["answers"]["differ"] == 0
    assert proof["result"]["experiment"]["transactions"] == ["chatty"]


def test_logins_are_sent_and_left_out(shop: Shop) -> None:
    trace = shop.capture("logins", reconnecting)
    for options, logins in (((), 1), (("--reconnect",), 40), (("--reconnect", "--no-reconnect"), 1)):
        assert shop.replayed(trace, *options)["connect"] == logins
    # Over three connections the first transaction of each needs no login of its own.
    assert shop.replayed(trace, "--reconnect", "--connections", "3")["connect"] == 40
    done = shop.prove(trace, "C11", "--loop", "always")
    assert done.returncode == 0, done.stderr
    proof = json.loads(done.stdout)
    assert proof["verdict"] in SETTLED and proof["change"]["client"] == ["--no-reconnect"] and proof["answers"]["differ"] == 0
