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
from captures import captured, program

from upshift.native.programs import programs_are_built
from upshift.paths import CHECKOUT
from upshift.server.instance import RunningServer, running
from upshift.server.kind import Program
from upshift.server.postgres import KIND, USER
from upshift.shell import SystemShell
from upshift.stack.change import Given
from upshift.stack.examining import examined
from upshift.stack.prove import experiment_of
from upshift.stack.suspects.rules import judge
from upshift.stack.suspects.thresholds import Thresholds

ORDERS = 50_000
SCRIPT = """
[variables]
few = { uniform = [0, 999] }
[transactions.look]
statements = ["SELECT id FROM orders WHERE customer = :few", "SELECT customer FROM orders WHERE id = :few"]
"""
BY_CUSTOMER = "SELECT id FROM orders WHERE customer = %s"
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

    def url(self, socket: Path) -> str:
        return f"postgres://{USER}@localhost/shop?socket={socket}"

    def capture(self, name: str, app: App) -> Path:
        """The trace of what ``app`` sends to the socket that it is given."""
        with captured(self.server.socket, trace := self.folder / f"{name}.trace", postgres=True) as place:
            app(place)
        return trace

    def loaded(self, name: str, *options: str) -> Path:
        """The trace of a load."""
        (script := self.folder / "shop.toml").write_text(SCRIPT)

        def app(place: Path) -> None:
            words: tuple[str | Path, ...] = (program("upshift-load"), "script", script, "run", "--max-transactions", "200")
            subprocess.run((*words, "--server", self.url(place), *options), check=True, capture_output=True, timeout=60)

        return self.capture(name, app)

    def upshift(self, command: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """A command of ``upshift stack``, with a cache of its own."""
        argv = [sys.executable, "-m", "upshift", "stack", command, *map(str, words), "--no-install"]
        own = {**ROOM, "PYTHONPATH": str(CHECKOUT / "src"), "UPSHIFT_CACHE": str(self.folder / "cache")}
        environment = {name: value for name, value in os.environ.items() if name != "UPSHIFT_SERVER_KIND"}
        return subprocess.run(argv, env={**environment, **own}, capture_output=True, text=True, timeout=300)

    def replayed(self, replay: Path, *options: str | Path) -> dict[str, Any]:
        """What `upshift load replay --json` prints."""
        how = ("--order", "serial", "--unordered", "--lenient", "--on-difference", "count", "--json")
        words: tuple[str | Path, ...] = ("replay", replay, "--server", self.url(self.server.socket), *how, *options)
        done = subprocess.run((program("upshift-load"), *words), capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        told: dict[str, Any] = json.loads(done.stdout)
        return told


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    if not programs_are_built():
        pytest.skip("the programs in crates/ are not built: `upshift` builds them")
    assert PROGRAM
    shell = SystemShell()
    with tempfile.TemporaryDirectory(prefix="upshift-") as place:
        folder, server_program = Path(place), Program(kind="postgres", binary=PROGRAM)
        log = folder / "log"
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
    trace = shop.loaded("scans", "--connections", "2")
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


def test_rows_that_are_deleted_alter_the_answers(shop: Shop) -> None:
    trace = shop.loaded("few", "--protocol", "text")
    (sql := shop.folder / "delete.sql").write_text("DELETE FROM orders WHERE customer >= 10")
    # Text is what the finding is about; the settings are an engine's. The forged suspect makes the rows the change.
    examine = shop.upshift("examine", trace, "--json")
    forged = examine.stdout.replace('"suspect": "C2"', '"suspect": "E2"')
    (report := shop.folder / "forged.json").write_text(forged)
    named = ("--suspect", "E2", "--findings", report, "--before", shop.dump, "--sql", sql)
    done = shop.upshift("prove", trace, *named, "--trials", "1", "--slice-seconds", "0.2", "--json")
    assert done.returncode == 1, done.stderr
    proof = json.loads(done.stdout)
    assert proof["verdict"] == "answers differ" and proof["measured"] == [] and proof["answers"]["differ"] > 200


def test_a_dump_with_roles_is_refused_with_psqls_words(shop: Shop) -> None:
    trace = shop.loaded("roles", "--protocol", "text")
    (dump := shop.folder / "roles.sql").write_text("CREATE TABLE a (b INT); ALTER TABLE a OWNER TO app;")
    done = shop.upshift("prove", trace, "--suspect", "C2", "--before", dump, "--trials", "1")
    said = " ".join(done.stderr.split())
    assert done.returncode == 1 and 'role "app" does not exist' in said and "pg_dump --no-owner --no-privileges" in said


def preparing_at_once(place: Path) -> None:
    """As psycopg does before its threshold: a statement without a name, prepared and executed in one flight."""
    with connected(place) as connection:
        connection.prepare_threshold = None
        for number in range(200):
            connection.execute(BY_CUSTOMER, (number,)).fetchall()


@pytest.mark.parametrize(
    ("suspect", "send", "prepares"),
    [
        ("C1", ("--protocol", "prepare-per-request"), (400, 2)),
        ("C1", None, (0, 1)),
        ("C2", ("--protocol", "text"), (0, 2)),
        ("C3", ("--fetch-size", "5"), (2, 2)),
    ],
)
def test_a_fault_is_sent_and_then_not_with_the_same_answers(
    shop: Shop, suspect: str, send: tuple[str, ...] | None, prepares: tuple[int, int]
) -> None:
    name = f"{suspect}-{'-'.join(send) if send else 'at-once'}"
    trace = shop.capture(name, preparing_at_once) if send is None else shop.loaded(name, *send)
    shell = SystemShell()
    try:
        seen = examined(shell, lambda: program("upshift-stack"), trace)
    finally:
        shell.close()
    _found, variants = experiment_of(seen, judge(seen, Thresholds()), suspect, Given(), None)
    replay = trace.with_suffix(".replay")
    subprocess.run((program("upshift-load"), "import", trace, replay), check=True, capture_output=True)
    digest = trace.with_suffix(".digest")
    as_sent = shop.replayed(replay, *variants[0].client, "--digest", digest)
    changed = shop.replayed(replay, *variants[1].client, "--compare", digest)
    assert changed["replay"]["differences"] == as_sent["replay"]["counted_otherwise"] == 0
    assert changed["errors"] == as_sent["errors"] == {}
    sent = [each["statements"] for each in (as_sent, changed)]
    assert tuple(each.get("prepare", {"count": 0})["count"] for each in sent) == prepares
    if suspect == "C3":
        before, after = (sum(told["round_trips"] for told in each.values()) for each in sent)
        assert before > 2 * after
