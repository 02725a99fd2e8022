"""`upshift stack examine` on what real clients said to a real server: planted faults are named, a tuned client is not."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pymysql
import pytest
from captures import captured, program
from real_server import RealServer, initialised, started

from upshift.check.address import Address
from upshift.check.session import opened
from upshift.shell import SystemShell
from upshift.stack.drivers import DRIVERS
from upshift.stack.evidence import Evidence
from upshift.stack.examining import examined
from upshift.stack.report import Report, report_on
from upshift.stack.server import with_server
from upshift.stack.suspects.model import Fix
from upshift.stack.suspects.thresholds import THRESHOLDS, Thresholds

SCHEMA = """
CREATE DATABASE shop;
USE shop;
CREATE TABLE customer (id INT PRIMARY KEY, name VARCHAR(40), note VARCHAR(200)) SELECT seq AS id, 'name' AS name,
  REPEAT('n', 200) AS note FROM seq_1_to_20000;
CREATE TABLE item (id INT PRIMARY KEY, price INT) SELECT seq AS id, 5 AS price FROM seq_1_to_2000;
CREATE TABLE stock (id INT PRIMARY KEY, quantity INT) SELECT seq AS id, 100000 AS quantity FROM seq_1_to_2000;
CREATE TABLE line (id INT AUTO_INCREMENT PRIMARY KEY, customer INT, item INT);
CREATE TABLE orders (id INT PRIMARY KEY, customer INT, KEY (customer)) SELECT seq AS id, seq MOD 50 AS customer
  FROM seq_1_to_2000;
CREATE TABLE queue (shop INT, id INT, PRIMARY KEY (shop, id)) SELECT seq MOD 20 AS shop, seq AS id FROM seq_1_to_8000;
"""

ITEMS = '"SELECT id, price FROM item WHERE id IN (:id, :id, :id, :id, :id, :id, :id, :id)"'
ITEM = '{ sql = "SELECT price FROM item WHERE id = :one", repeat = 8, redraw = ["one"] }'
LINES = '"INSERT INTO line (customer, item) VALUES ' + ", ".join(["(:customer, :id)"] * 8) + '"'
LINE = '{ sql = "INSERT INTO line (customer, item) VALUES (:customer, :id)", repeat = 8 }'
OLDEST = '{ sql = "SELECT MIN(id) FROM queue WHERE shop = :shop", into = ["oldest"] }'
OLDEST_OF_ALL = '{ sql = "SELECT id FROM queue WHERE shop = :shop ORDER BY id", into = ["oldest"], rows = "all" }'
RECENT = '"SELECT id, customer FROM orders WHERE customer = :few ORDER BY id DESC LIMIT 30"'
SCAN = "\"SELECT COUNT(*) FROM customer WHERE note = 'none'\""


def shop(items: str = ITEMS, lines: str = LINES, oldest: str = OLDEST, recent: str = RECENT) -> str:
    """A file for `upshift load script`."""
    return f"""
[variables]
customer = {{ uniform = [1, 2000] }}
few = {{ uniform = [0, 49] }}
shop = {{ uniform = [0, 19] }}
one = {{ uniform = [1, 2000] }}
id = {{ uniform = [1, 2000], draw = "use" }}
[transactions.order]
statements = [
  "SELECT name FROM customer WHERE id = :customer",
  {items},
  {lines},
  {recent},
  {oldest},
  "DELETE FROM queue WHERE shop = :shop AND id = :oldest",
  "UPDATE stock SET quantity = quantity - 1 WHERE id = :customer",
]
"""


Load = Callable[..., Evidence]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    folder = made(tmp_path_factory.mktemp("mariadb"))
    # The binary log is there for whoever has it flushed at each commit.
    options = ("--performance-schema=ON", "--innodb-flush-log-at-trx-commit=0", "--log-bin", "--sync-binlog=0")
    with started("mariadbd", folder, options) as running:
        running.run(*(statement for statement in SCHEMA.split(";\n") if statement.strip()))
        yield running


def made(folder: Path) -> Path:
    """An empty data folder."""
    return initialised("mariadbd", folder / "data")


@pytest.fixture
def load(server: RealServer, tmp_path: Path) -> Load:
    """The evidence of a load through the proxy."""

    return lambda script, *options: loaded(server, tmp_path, script, *options)


def loaded(server: RealServer, folder: Path, script: str, *options: str) -> Evidence:
    (file := folder / "shop.toml").write_text(script)
    trace = folder / f"{len(list(folder.glob('*.trace')))}.trace"
    with captured(server.socket, trace) as place:
        argv = (str(program("upshift-load")), "script", str(file), "run", "--connections", "2", "--max-transactions", "300")
        url = f"mysql://root@/shop?socket={place}"
        subprocess.run([*argv, "--seconds", "20", "--server", url, *options], check=True, capture_output=True, timeout=60)
    return evidence_of(trace)


def evidence_of(trace: Path) -> Evidence:
    shell = SystemShell()
    try:
        return examined(shell, lambda: program("upshift-stack"), trace)
    finally:
        shell.close()


def report(evidence: Evidence, server: RealServer | None = None) -> Report:
    if server:
        with opened(Address(socket=str(server.socket), user="root")) as session:
            evidence = with_server(evidence, session)
    return report_on(evidence, Thresholds())


def named(evidence: Evidence, server: RealServer | None = None) -> set[str]:
    return {each.suspect for each in report(evidence, server).findings}


def test_a_tuned_client_is_named_for_nothing(load: Load, server: RealServer) -> None:
    seen = load(shop())
    assert named(seen) == set()
    assert seen.commits == 300
    assert seen.trace.family == "mysql" and "MariaDB" in str(seen.trace.server_version) and seen.trace.whole


def test_a_servers_own_counts_clear_who_is_innocent(load: Load, server: RealServer) -> None:
    seen = load(shop(), "--protocol", "text")
    asked = report(seen, server)
    assert {each.suspect for each in asked.findings} == {"C2"}
    assert {"P1", "P2", "P3"} <= {each.suspect for each in asked.innocent}
    # MariaDB's lock time is that of parsing, too.
    assert "E2" in {each.suspect for each in asked.unseen} and asked.budget.lock_us is None
    assert asked.total_us == seen.budget.total_us
    assert asked.matched_statements is not None and asked.matched_statements >= 7


@pytest.mark.parametrize(
    ("faults", "script", "options"),
    [
        ({"C1"}, shop(), ("--protocol", "prepare-per-request")),
        ({"C2"}, shop(), ("--protocol", "text")),
        ({"C3"}, shop(), ("--fetch-size", "2")),
        ({"C4"}, shop(oldest=OLDEST_OF_ALL), ()),
        ({"C6"}, shop(items=ITEM), ()),
        ({"C7"}, shop(lines=LINE), ()),
        ({"C1", "C6", "C7"}, shop(items=ITEM, lines=LINE), ("--protocol", "prepare-per-request")),
        ({"C3", "C4"}, shop(oldest=OLDEST_OF_ALL), ("--fetch-size", "20")),
    ],
)
def test_planted_faults_are_named_and_no_other(load: Load, faults: set[str], script: str, options: tuple[str, ...]) -> None:
    assert named(load(script, *options)) == faults


def test_a_table_without_an_index_is_named_with_and_without_the_server(load: Load, server: RealServer) -> None:
    seen = load(shop(recent=SCAN))
    # MariaDB has forgotten prepared statements when their connection ends: its flag with each answer remains.
    assert named(seen) == {"P2"} == named(seen, server)
    seen = load(shop(recent=SCAN), "--protocol", "text")
    assert named(seen) == {"C2", "P2"} == named(seen, server)
    assert [each.status for each in report(seen).findings if each.suspect == "P2"] == ["inferred"]
    (told,) = (each for each in report(seen, server).findings if each.suspect == "P2")
    assert told.status == "counted"
    assert {each.name: each.value for each in told.statements[0].figures}["rows_examined"] == pytest.approx(20_000, rel=0.05)


def test_the_buffer_pools_counters_are_read(load: Load, server: RealServer) -> None:
    with opened(Address(socket=str(server.socket), user="root")) as session:
        told = with_server(load(shop()), session).server
    assert told and told.pool
    pool = told.pool
    assert pool.pages * pool.page_bytes > 2**26 and pool.requests > pool.misses > 0 <= pool.pages_read - pool.misses
    assert pool.read_us and 0 < pool.read_us < pool.statements_us


SMALL = """
[variables]
one = { uniform = [1, 2000] }
[transactions.pay]
statements = [
  "UPDATE stock SET quantity = quantity - 1 WHERE id = :one",
  "INSERT INTO line (customer, item) VALUES (:one, :one)",
]
"""
FLUSHED = "SET GLOBAL innodb_flush_log_at_trx_commit = {0}, GLOBAL sync_binlog = {0}"


def flush_us(folder: Path) -> float:
    """The median of a small write and its flush to the disk."""
    times = []
    with (folder / "flushed").open("wb", buffering=0) as file:
        for _ in range(50):
            began = time.perf_counter()
            file.write(b"x" * 512)
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - began) * 1e6)
    return statistics.median(times)


def test_a_flush_for_each_commit_is_named_and_without_it_nothing(load: Load, server: RealServer, tmp_path: Path) -> None:
    """The log and the binary log are flushed: what that costs is the disk's, and in memory it is nothing."""
    if 2 * flush_us(tmp_path) < THRESHOLDS["E3.commit_us"].value:
        pytest.skip(f"flushes cost next to nothing at {tmp_path}")
    assert named(load(SMALL), server) == set()
    server.run(FLUSHED.format(1))
    try:
        seen = load(SMALL)
    finally:
        server.run(FLUSHED.format(0))
    assert named(seen) == {"E3"} == named(seen, server)
    (told,) = report(seen).findings
    assert told.status == "measured" and {each.name: each.value for each in told.evidence}["commits"] == 300


LARGE = """
CREATE DATABASE shop;
USE shop;
CREATE TABLE page (id INT PRIMARY KEY, note VARCHAR(2000)) SELECT seq AS id, REPEAT('n', 2000) AS note FROM seq_1_to_20000
"""
"""About 45 MB."""
PAGES = """
[variables]
id = { uniform = [1, 20000], draw = "use" }
[transactions.look]
statements = ["SELECT id, LENGTH(note) FROM page WHERE id IN (:id, :id, :id, :id, :id, :id, :id, :id)"]
"""


def test_a_buffer_pool_far_smaller_than_the_data_is_named_and_a_larger_one_is_not(tmp_path: Path) -> None:
    data = made(tmp_path)
    fixed = ("--performance-schema=ON", "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-load-at-startup=OFF")
    with started("mariadbd", data, fixed) as filling:
        filling.run(*LARGE.split(";\n"))
    found = {}
    for size in ("6M", "128M"):
        # Its counters begin with the load.
        with started("mariadbd", data, (*fixed, f"--innodb-buffer-pool-size={size}")) as server:
            found[size] = report(loaded(server, tmp_path, PAGES), server)
    assert {each.suspect for each in found["6M"].findings} == {"E4"}
    assert found["128M"].findings == () and "E4" in {each.suspect for each in found["128M"].innocent}
    (told,) = found["6M"].findings
    figures = {each.name: each.value for each in told.evidence}
    assert told.status == "counted" and figures["pool_filled"] > 2 and figures["pool_bytes"] < 8e6


def test_a_real_driver_is_recognised_and_its_slow_client_named(server: RealServer, tmp_path: Path) -> None:
    with captured(server.socket, trace := tmp_path / "app.trace") as place:
        connection = pymysql.connect(unix_socket=str(place), user="root", database="shop")
        with connection, connection.cursor() as cursor:
            for number in range(30):
                connection.begin()
                cursor.execute("SELECT name FROM customer WHERE id = %s", (number,))
                time.sleep(0.005)
                cursor.execute("UPDATE stock SET quantity = quantity - 1 WHERE id = %s", (number,))
                connection.commit()
    seen = evidence_of(trace)
    assert named(seen) == {"C8"}
    assert "PyMySQL" in {each.driver for each in seen.clients}
    with_text = report_on(seen, Thresholds(changed={"C2.executions": 10, "report.share": 0.0}))
    (text,) = [each for each in with_text.findings if each.suspect == "C2"]
    assert text.fixes == (Fix(driver="PyMySQL", text=DRIVERS["PyMySQL"].fixes["C2"]),)


def test_chatter_and_logins_of_a_real_driver_are_named(server: RealServer, tmp_path: Path) -> None:
    """A new connection for each transaction also sets its session each time."""
    with captured(server.socket, trace := tmp_path / "app.trace") as place:
        for number in range(30):
            connection = pymysql.connect(unix_socket=str(place), user="root", database="shop")
            with connection, connection.cursor() as cursor:
                connection.ping()
                cursor.execute("SELECT name FROM customer WHERE id = %s", (number,))
                connection.commit()
    seen = evidence_of(trace)
    assert named(seen) == {"C5", "C11"}
    assert seen.logins.logins == 30 and {each.what for each in seen.chatter} == {"SET", "ping"}


def test_a_trace_that_was_cut_is_read_as_far_as_it_is_whole(load: Load, tmp_path: Path) -> None:
    whole = load(shop())
    trace = tmp_path / "0.trace"
    trace.write_bytes(trace.read_bytes()[: trace.stat().st_size * 2 // 3])
    cut = evidence_of(trace)
    assert not cut.trace.whole and 0 < cut.trace.exchanges < whole.trace.exchanges
    assert any("cut short" in note for note in report(cut).notes)
