"""A captured trace as a workload of PostgreSQL: what a real client said to one server loads others, in `upshift measure`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from captures import captured, made, own_programs

from upshift.native.programs import target_dir
from upshift.paths import CHECKOUT
from upshift.report.result import Result
from upshift.server.instance import running
from upshift.server.kind import Program
from upshift.server.postgres import KIND, USER
from upshift.shell import SystemShell

PROGRAM = KIND.packaged()
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="needs PostgreSQL, Debian's postgresql")

SETTINGS = {"shared_buffers": "32MB"}
TABLES = (
    "CREATE TABLE item (id INT PRIMARY KEY, price INT NOT NULL, sold INT NOT NULL)",
    "INSERT INTO item SELECT n, n % 90, 0 FROM generate_series(1, 1000) n",
    "CREATE TABLE line (id SERIAL PRIMARY KEY, item INT NOT NULL)",
)
ORDERS = 40
"""Of each of two connections, and five looks between two orders."""
ROOM = {"UPSHIFT_NEEDED_DISK_BYTES": "500000000", "UPSHIFT_NEEDED_MEMORY_BYTES": "500000000"}
WORKLOAD = """
server = "postgres"
unit = "transaction"
connections = 2
settings = {{ shared_buffers = "32MB" }}
[fill]
command = ["sh", "-c", "{{tools}}/psql -q -v ON_ERROR_STOP=1 -h $(dirname {{socket}}) -U postgres {{database}} < {dump}"]
[load]
command = [
  "{{programs}}/upshift-load", "replay", "{trace}", "--server", "postgres://postgres@localhost/{{database}}?socket={{socket}}",
  "--connections", "{{connections}}", "--seconds", "{{seconds}}", "--json", "--histogram", {how}
]
latency = "upshift-load"
"""


@dataclass(frozen=True)
class Captured:
    """What production leaves: a dump from before, and a trace."""

    folder: Path
    dump: Path
    trace: Path

    def workload(self, trace: Path, how: str) -> Path:
        (file := self.folder / "mine.toml").write_text(WORKLOAD.format(dump=self.dump, trace=trace, how=how))
        return file


@pytest.fixture(scope="module")
def shop() -> Iterator[Captured]:
    """In a folder of its own: the server's user may not look where root's tests have theirs."""
    assert PROGRAM
    shell = SystemShell()
    with tempfile.TemporaryDirectory(prefix="upshift-test-") as place:
        folder, log = Path(place), Path(place) / "log"
        server = Program(kind="postgres", binary=PROGRAM)
        shell.run(KIND.initialise(server, folder / "data", {}), log=log, timeout_s=120)
        with running(shell, KIND, server, folder / "data", log=log, settings=SETTINGS) as started:
            KIND.prepare(started.socket)
            with psycopg.connect(address(started.socket, "postgres"), autocommit=True) as session:
                session.execute("CREATE DATABASE shop")
            with psycopg.connect(address(started.socket, "shop"), autocommit=True) as session:
                for each in TABLES:
                    session.execute(each)
            dump = folder / "before.sql"
            tool = (str(started.tools / "pg_dump"), "-h", str(started.socket.parent), "-U", USER, "-f", str(dump), "shop")
            subprocess.run(tool, check=True)
            with captured(started.socket, trace := folder / "app.trace", postgres=True) as proxy:
                clients = [threading.Thread(target=selling, args=(address(proxy, "shop"), first)) for first in (0, 500)]
                for client in clients:
                    client.start()
                for client in clients:
                    client.join()
            with psycopg.connect(address(started.socket, "shop")) as session:
                assert session.execute("SELECT COUNT(*), SUM(item) > 0 FROM line").fetchone() == (2 * ORDERS, True)
        yield Captured(folder, dump, trace)
    shell.close()


def address(socket: Path, database: str) -> str:
    return f"host={socket.parent} user={USER} dbname={database}"


def selling(place: str, first: int) -> None:
    with psycopg.connect(place, prepare_threshold=3) as session:
        for number in range(first + 1, first + ORDERS + 1):
            for look in range(5):
                session.execute("SELECT price FROM item WHERE id = %s", (number + look,))
            session.execute("INSERT INTO line (item) VALUES (%s)", (number,))
            session.execute("UPDATE item SET sold = sold + 1 WHERE id = %s", (number,))
            session.execute("SELECT COUNT(*), SUM(sold) FROM item WHERE id BETWEEN %s AND %s", (number, number + 20))
            session.commit()


def measured(workload: Path) -> Result:
    """`upshift measure` of PostgreSQL beside itself, with a cache of its own."""
    cache = workload.with_name("cache")
    if not cache.exists():
        cache.mkdir()
        (cache / "target").symlink_to(target_dir())
    own = {**ROOM, **own_programs(), "PYTHONPATH": str(CHECKOUT / "src"), "UPSHIFT_CACHE": str(cache)}
    environment = {name: value for name, value in os.environ.items() if name != "UPSHIFT_SERVER_KIND"}
    short = ("--connections", "2", "--trials", "1", "--rounds", "1", "--slice-seconds", "0.2", "--card-seconds", "0")
    argv = (sys.executable, "-m", "upshift", "measure", f"one={PROGRAM}", f"two={PROGRAM}", "--workload", workload, *short)
    done = subprocess.run(
        (*map(str, argv), "--json", "--no-install"), env={**environment, **own}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return Result.model_validate(json.loads(done.stdout))


def judged(result: Result) -> None:
    levels = {each.arm: each.value for each in result.experiment.levels if each.metric == "qps"}
    assert levels.keys() == {"one", "two"} and min(levels.values()) > 0
    assert "errors" not in {each.name for each in result.experiment.flags}


def test_the_reads_of_a_capture_are_measured(shop: Captured) -> None:
    lines = made("upshift-stack", "dump", shop.trace).splitlines(keepends=True)
    reads = [each for each in lines if '"verb":"insert"' not in each and '"verb":"update"' not in each]
    # Of each connection and change, also the exchanges in which it is prepared.
    assert len(lines) - len(reads) >= 2 * 2 * ORDERS
    (kept := shop.folder / "reads.jsonl").write_text("".join(reads))
    made("upshift-stack", "import", kept, only := shop.folder / "only-reads.trace", "--format", "json-lines")
    made("upshift-load", "import", only, trace := shop.folder / "reads.trace")
    judged(measured(shop.workload(trace, '"--loop"')))


def test_a_whole_capture_is_measured(shop: Captured) -> None:
    """It writes: each lap sells again."""
    made("upshift-load", "import", shop.trace, trace := shop.folder / "all.trace")
    judged(measured(shop.workload(trace, '"--loop", "always", "--on-difference", "count"')))
