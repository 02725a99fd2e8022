"""A captured trace as a workload: what a real client said to one MariaDB loads others, in `upshift measure` and in a study."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
import pytest
from captures import captured, made, own_programs
from real_server import initialised, started

from upshift.paths import CHECKOUT
from upshift.report.result import Result
from upshift.study.result import StudyResult

KIND = CHECKOUT / "tests" / "unit" / "mariadb_kind.py"
EXAMPLE = CHECKOUT / "docs" / "tutorial" / "trace-workload.toml"
MARIADBD = shutil.which("mariadbd")
TABLES = (
    "CREATE TABLE item (id INT PRIMARY KEY, price INT, sold INT)",
    "INSERT INTO item SELECT seq, seq MOD 90, 0 FROM seq_1_to_1000",
    "CREATE TABLE line (id INT AUTO_INCREMENT PRIMARY KEY, item INT, KEY (item))",
)
ORDERS = 40
"""Of each of two connections, and five looks between two orders."""
STUDY = """
workloads = ["mine.toml"]
connections = [2]
metric = "qps"
trials = 2
rounds = 1
slice_s = 0.2
lead_s = 0.1
warmup_s = 1
card_s = 0
confirm = 0
budget = "5m"
[base]
binary = "{0}"
[factors.prepared.each]
client = ["--protocol", "prepared"]
"""


@dataclass(frozen=True)
class Captured:
    """What production leaves: a dump from before, and a trace."""

    folder: Path
    dump: Path
    trace: Path

    def workload(self, trace: Path, change: Callable[[str], str]) -> Path:
        """The tutorial's workload with this trace and dump in place of its own."""
        text = EXAMPLE.read_text().replace("/data/reads.trace", str(trace)).replace("/data/before.sql", str(self.dump))
        (file := self.folder / "mine.toml").write_text(change('server = "mariadb"\n' + text))
        return file


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Captured:
    folder = tmp_path_factory.mktemp("mariadb")
    initialised("mariadbd", folder / "data")
    # What a dump would hold: mariadb-dump is in a package of its own.
    (dump := folder / "before.sql").write_text("".join(f"{statement};\n" for statement in TABLES))
    with started("mariadbd", folder / "data", ("--innodb-buffer-pool-size=64M",)) as server:
        server.run("CREATE DATABASE shop", "USE shop", *TABLES)
        with captured(server.socket, trace := folder / "app.trace") as place:
            clients = [threading.Thread(target=selling, args=(place, first)) for first in (0, 500)]
            for each in clients:
                each.start()
            for each in clients:
                each.join()
        assert server.run("SELECT COUNT(*) FROM shop.line") == [(2 * ORDERS,)]
    return Captured(folder, dump, trace)


def selling(place: Path, first: int) -> None:
    with pymysql.connect(unix_socket=str(place), user="root", database="shop") as connection, connection.cursor() as cursor:
        for number in range(first + 1, first + ORDERS + 1):
            for look in range(5):
                cursor.execute("SELECT price FROM item WHERE id = %s", (number + look,))
            cursor.execute("INSERT INTO line (item) VALUES (%s)", (number,))
            cursor.execute("UPDATE item SET sold = sold + 1 WHERE id = %s", (number,))
            cursor.execute("SELECT COUNT(*), SUM(sold) FROM item WHERE id BETWEEN %s AND %s", (number, number + 20))
            connection.commit()


def loads(text: str) -> str:
    """A workload without its `fixed` command: instructions are counted under settings that MySQL alone has."""
    return text.partition("[fixed]")[0]


def upshift(shop: Captured, *words: str | Path) -> Any:
    """A command with the server's kind and a cache of its own, and what it printed as JSON."""
    cache = str(shop.folder / "cache")
    own = {**own_programs(), "PYTHONPATH": str(CHECKOUT / "src"), "UPSHIFT_SERVER_KIND": str(KIND), "UPSHIFT_CACHE": cache}
    argv = [sys.executable, "-m", "upshift", *map(str, words), "--json", "--no-install"]
    done = subprocess.run(argv, env={**os.environ, **own}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_reads_of_a_capture_are_measured(shop: Captured) -> None:
    """With the tutorial's commands as they stand: the trace begins again until the seconds are over, and where an answer counts
    other rows than in the capture, the load fails.
    """
    lines = made("upshift-stack", "dump", shop.trace).splitlines(keepends=True)
    reads = [each for each in lines if '"verb":"insert"' not in each and '"verb":"update"' not in each]
    assert len(lines) - len(reads) == 2 * 2 * ORDERS
    (kept := shop.folder / "reads.jsonl").write_text("".join(reads))
    made("upshift-stack", "import", kept, only := shop.folder / "only-reads.trace", "--format", "json-lines")
    made("upshift-load", "import", only, trace := shop.folder / "reads.trace")
    workload = shop.workload(trace, loads)
    short = ("--connections", "2", "--trials", "1", "--rounds", "1", "--slice-seconds", "0.2", "--card-seconds", "0")
    result = Result.model_validate(
        upshift(shop, "measure", f"one={MARIADBD}", f"two={MARIADBD}", "--workload", workload, *short)
    )
    measured = {each.arm: each.value for each in result.experiment.levels if each.metric == "qps"}
    assert measured.keys() == {"one", "two"} and min(measured.values()) > 0
    assert "errors" not in {each.name for each in result.experiment.flags}


def test_a_whole_capture_is_the_load_of_a_study(shop: Captured) -> None:
    """It writes: each lap sells again."""
    made("upshift-load", "import", shop.trace, trace := shop.folder / "all.trace")

    def again(text: str) -> str:
        return 'unit = "transaction"\n' + loads(text).replace('"--loop"', '"--loop", "always", "--on-difference", "count"')

    shop.workload(trace, again)
    (study := shop.folder / "study.toml").write_text(STUDY.format(MARIADBD))
    result = StudyResult.model_validate(upshift(shop, "study", study))
    assert [row.name for row in result.rows] == ["off", "prepared"] and not any(row.died for row in result.rows)
    assert all(cell.value > 0 for cell in result.cells) and {cell.row for cell in result.cells} == {"prepared"}
    assert result.transactions == ("mine",) and "errors" not in {each.name for each in result.flags}
