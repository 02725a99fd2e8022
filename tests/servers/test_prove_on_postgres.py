"""`upshift stack prove` on PostgreSQL's package: a missing index is proven; what an application sends is sent, and then not.

A scan of a whole table beside a look-up is no matter of noise: this verdict alone is judged here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from captures import captured, own_programs, program

from upshift.native.programs import target_dir
from upshift.paths import CHECKOUT
from upshift.server.instance import RunningServer, running
from upshift.server.kind import Program
from upshift.server.postgres import KIND, USER
from upshift.shell import SystemShell
from upshift.stack.change import Given
from upshift.stack.examining import examined
from upshift.stack.laboratory import POSTGRES
from upshift.stack.prove import experiment_of
from upshift.stack.suspects.rules import judge
from upshift.stack.suspects.thresholds import Thresholds

ORDERS = 100_000
SCRIPT = """
[variables]
few = {{ uniform = [1, 999] }}
[transactions.look]
statements = ["SELECT customer FROM orders WHERE id = :few", {0}]
"""
SCANS = SCRIPT.format('"SELECT id FROM orders WHERE customer = :few"')
LOOKS = SCRIPT.format('"SELECT id FROM orders WHERE id BETWEEN :few AND :few + 49"')
ROOM = {"UPSHIFT_NEEDED_DISK_BYTES": "500000000", "UPSHIFT_NEEDED_MEMORY_BYTES": "500000000"}

PROGRAM = KIND.packaged()
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="needs PostgreSQL, Debian's postgresql")
App = Callable[[Path], None]


@dataclass(frozen=True)
class Shop:
    """A server, and what a proof starts from."""

    server: RunningServer
    folder: Path
    dump: Path

    def url(self, socket: Path, database: str = "shop") -> str:
        return f"postgres://{USER}@localhost/{database}?socket={socket}"

    def capture(self, name: str, app: App) -> Path:
        """The trace of what ``app`` sends to the socket that it is given."""
        with captured(self.server.socket, trace := self.folder / f"{name}.trace", postgres=True) as place:
            app(place)
        return trace

    def loaded(self, name: str, statements: str, *options: str) -> Path:
        """The trace of a load."""
        (script := self.folder / "shop.toml").write_text(statements)

        def app(place: Path) -> None:
            words: tuple[str | Path, ...] = (program("upshift-load"), "script", script, "run", "--max-transactions", "200")
            subprocess.run((*words, "--server", self.url(place), *options), check=True, capture_output=True, timeout=60)

        return self.capture(name, app)

    def upshift(self, command: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """A command of ``upshift stack``, with a cache of its own."""
        argv = [sys.executable, "-m", "upshift", "stack", command, *map(str, words), "--no-install"]
        own = {**ROOM, **own_programs(), "PYTHONPATH": str(CHECKOUT / "src"), "UPSHIFT_CACHE": str(self.folder / "cache")}
        environment = {name: value for name, value in os.environ.items() if name != "UPSHIFT_SERVER_KIND"}
        return subprocess.run(argv, env={**environment, **own}, capture_output=True, text=True, timeout=300)

    def replayed(self, replay: Path, *options: str | Path, database: str = "shop") -> dict[str, Any]:
        """What `upshift load replay --json` prints."""
        how = ("--order", "serial", "--unordered", "--lenient", "--on-difference", "count", "--json")
        words: tuple[str | Path, ...] = ("replay", replay, "--server", self.url(self.server.socket, database), *how, *options)
        done = subprocess.run((program("upshift-load"), *words), capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        told: dict[str, Any] = json.loads(done.stdout)
        return told


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    assert PROGRAM
    shell = SystemShell()
    with tempfile.TemporaryDirectory(prefix="upshift-") as place:
        folder, server_program = Path(place), Program(kind="postgres", binary=PROGRAM)
        log = folder / "log"
        (folder / "cache").mkdir()
        (folder / "cache" / "target").symlink_to(target_dir())
        shell.run(KIND.initialise(server_program, folder / "data"), log=log, timeout_s=120)
        settings = {"shared_buffers": "32MB", "fsync": "off"}
        with running(shell, KIND, server_program, folder / "data", log=log, settings=settings, cleanly=False) as server:
            KIND.prepare(server.socket)
            dump = folder / "before.sql"
            with connected(server.socket, "postgres") as connection:
                connection.execute("CREATE DATABASE shop")
            with connected(server.socket) as connection:
                connection.execute("CREATE TABLE orders (id INT PRIMARY KEY, customer INT)")
                connection.execute(f"INSERT INTO orders SELECT n, n % 1000 FROM generate_series(1, {ORDERS}) n".encode())
                connection.execute("ANALYZE orders")
            words: tuple[str | Path, ...] = (
                server.tools / "pg_dump",
                "--no-owner",
                "--no-privileges",
                "-h",
                server.socket.parent,
                "-U",
                USER,
            )
            subprocess.run((*words, "-f", dump, "shop"), check=True, capture_output=True, timeout=60)
            yield Shop(server, folder, dump)
    shell.close()


def connected(socket: Path, database: str = "shop") -> psycopg.Connection[tuple[Any, ...]]:
    return psycopg.connect(host=str(socket.parent), port=5432, user=USER, dbname=database, autocommit=True)


def test_a_missing_index_is_proven(shop: Shop) -> None:
    trace = shop.loaded("scans", SCANS, "--connections", "2")
    examine = shop.upshift(
        "examine", trace, "--json", "--server", f"postgres://{USER}@/shop?socket={shop.server.socket.parent}"
    )
    (report := shop.folder / "report.json").write_text(examine.stdout)
    assert "P2" in {each["suspect"] for each in json.loads(examine.stdout)["findings"]}, examine.stderr
    (fix := shop.folder / "fix.sql").write_text("CREATE INDEX by_customer ON orders (customer); ANALYZE orders")
    named = ("--suspect", "P2", "--findings", report, "--before", shop.dump, "--sql", fix)
    done = shop.upshift("prove", trace, *named, "--connections", "2", "--trials", "3", "--slice-seconds", "0.2", "--json")
    assert done.returncode == 0, done.stderr
    proof = json.loads(done.stdout)
    (measured,) = proof["measured"]
    assert proof["verdict"] == "proven" and measured["ci_low"] > 1, measured
    assert proof["answers"]["differ"] == proof["answers"]["otherwise"] == 0 and proof["answers"]["requests"] >= 400
    assert proof["change"]["sql"] == {"fix.sql": fix.read_text()}
    experiment = proof["result"]["experiment"]
    assert "errors" not in {flag["name"] for flag in experiment["flags"]}
    assert str(PROGRAM) in done.stderr.replace("\n", "")


def test_a_dump_with_roles_is_refused_with_psqls_words(shop: Shop) -> None:
    def restored(dump: Path, database: str) -> subprocess.CompletedProcess[str]:
        with connected(shop.server.socket, "postgres") as connection:
            connection.execute(f"CREATE DATABASE {database}".encode())
        words: tuple[str | Path, ...] = (shop.server.tools / POSTGRES.client, shop.server.socket, database, dump)
        return subprocess.run(("sh", "-c", POSTGRES.restore, *words), capture_output=True, text=True, timeout=60)

    assert restored(shop.dump, "whole").returncode == 0
    with connected(shop.server.socket, "whole") as connection:
        assert connection.execute("SELECT count(*) FROM orders").fetchone() == (ORDERS,)
    (dump := shop.folder / "roles.sql").write_text("CREATE TABLE a (b INT); ALTER TABLE a OWNER TO app; SELECT 1;")
    done = restored(dump, "part")
    assert done.returncode == 1 and 'role "app" does not exist' in done.stderr
    assert "pg_dump --no-owner --no-privileges" in done.stderr


def preparing_at_once(place: Path) -> None:
    """As psycopg does before its threshold: a statement without a name, prepared and executed in one flight."""
    with connected(place) as connection:
        connection.prepare_threshold = None
        for number in range(200):
            connection.execute("SELECT customer FROM orders WHERE id = %s", (number,)).fetchall()


PER_REQUEST, TEXT, IN_PARTS = ("--protocol", "prepare-per-request"), ("--protocol", "text"), ("--fetch-size", "5")


@pytest.mark.parametrize(
    ("suspect", "send", "saves"),
    [("C1", PER_REQUEST, "trips"), ("C1", None, "texts"), ("C2", TEXT, "texts"), ("C3", IN_PARTS, "trips")],
)
def test_a_fault_is_sent_and_then_not_with_the_same_answers(
    shop: Shop, suspect: str, send: tuple[str, ...] | None, saves: str
) -> None:
    name = f"{suspect}-{'-'.join(send) if send else 'at-once'}"
    trace = shop.capture(name, preparing_at_once) if send is None else shop.loaded(name, LOOKS, *send)
    shell = SystemShell()
    try:
        seen = examined(shell, lambda: program("upshift-stack"), trace)
    finally:
        shell.close()
    _found, variants = experiment_of(seen, judge(seen, Thresholds()), suspect, Given(), None)
    replay, digest = trace.with_suffix(".replay"), trace.with_suffix(".digest")
    subprocess.run((program("upshift-load"), "import", trace, replay), check=True, capture_output=True)
    as_sent = shop.replayed(replay, *variants[0].client, "--digest", digest)
    changed = shop.replayed(replay, *variants[1].client, "--compare", digest)
    assert changed["replay"]["differences"] == as_sent["replay"]["counted_otherwise"] == 0
    assert changed["errors"] == as_sent["errors"] == {}
    before, after = (each["statements"] for each in (as_sent, changed))
    if saves == "trips":
        trips = [sum(each["round_trips"] for each in sent.values()) for sent in (before, after)]
        assert trips[0] > 1.4 * trips[1]
    else:
        assert "prepare" not in before and 0 < after["prepare"]["count"] < 10


def adding_by_case(place: Path) -> None:
    """Parameters whose types the client says, as drivers do: the server alone would find text, which cannot be added."""
    with connected(place) as connection:
        connection.prepare_threshold = 0
        for number in range(20):
            added = "UPDATE orders SET customer = customer + CASE id WHEN %s THEN %s ELSE %s END WHERE id = %s"
            connection.execute(added, (number, 0, 0, number))


def test_parameters_keep_the_types_that_the_client_gave_them(shop: Shop) -> None:
    replay = (trace := shop.capture("types", adding_by_case)).with_suffix(".replay")
    subprocess.run((program("upshift-load"), "import", trace, replay), check=True, capture_output=True)
    for protocol in ("recorded", "text", "prepare-per-request"):
        told = shop.replayed(replay, "--protocol", protocol)
        assert told["errors"] == {} and told["replay"]["counted_otherwise"] == 0


def test_rows_that_are_gone_are_other_answers(shop: Shop) -> None:
    trace = shop.loaded("rows", LOOKS, *TEXT)
    replay, digest = trace.with_suffix(".replay"), trace.with_suffix(".digest")
    subprocess.run((program("upshift-load"), "import", trace, replay), check=True, capture_output=True)
    shop.replayed(replay, "--digest", digest)
    with connected(shop.server.socket, "postgres") as connection:
        connection.execute("CREATE DATABASE less TEMPLATE shop")
    with connected(shop.server.socket, "less") as connection:
        connection.execute("DELETE FROM orders WHERE customer >= 10")
    changed = shop.replayed(replay, "--protocol", "prepared", "--compare", digest, database="less")
    assert changed["replay"]["differences"] > 200
