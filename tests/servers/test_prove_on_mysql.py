"""`upshift stack prove` on a real MySQL: a missing index, captured, examined, and measured with the index.

Nothing here judges a speed: the verdict may be any.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import plan_servers
import pytest
from captures import captured, own_programs, program
from real_server import RealServer, initialised, started

from upshift.paths import CHECKOUT

DEEP = "SET SESSION cte_max_recursion_depth = 100000"
NUMBERS = "WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 5000) SELECT n, n MOD 1000 FROM s"
SCRIPT = """
[variables]
few = { uniform = [0, 999] }
[transactions.look]
statements = ["SELECT id FROM orders WHERE customer = :few", "SELECT customer FROM orders WHERE id = :few"]
"""


@dataclass(frozen=True)
class Shop:
    """What a proof starts from."""

    mysqld: Path
    dump: Path
    trace: Path
    report: Path
    """What `examine` printed: times on a busy machine say little, the rows that the server counted do not depend on it."""

    def prove(self, *more: str | Path) -> subprocess.CompletedProcess[str]:
        named = (
            "--before",
            self.dump,
            "--binary",
            self.mysqld,
            "--connections",
            "2",
            "--trials",
            "1",
            "--slice-seconds",
            "0.2",
        )
        words = (self.trace, "--suspect", "P2", "--findings", self.report, *named, *more)
        # As a server in use has one; the laboratory's has none.
        return upshift("prove", *words, MYSQL_PWD="sesame")


def upshift(command: str, *arguments: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    """A command of ``upshift stack``."""
    argv = [sys.executable, "-m", "upshift", "stack", command, *map(str, arguments), "--no-install"]
    environment = {**os.environ, **own_programs(), "PYTHONPATH": str(CHECKOUT / "src"), **more}
    return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=600)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    mysqld = plan_servers.program("mysql")
    if mysqld is None:
        pytest.skip(f"{plan_servers.MYSQLD} names no MySQL")
    folder = tmp_path_factory.mktemp("mysql")
    data = initialised(mysqld, folder / "data")
    with started(str(mysqld), data, ("--mysqlx=OFF", "--secure-file-priv=NULL")) as server:
        table = "CREATE TABLE shop.orders (id INT PRIMARY KEY, customer INT)"
        server.run("CREATE DATABASE shop", table, DEEP, f"INSERT INTO shop.orders {NUMBERS}")
        dump, trace = _dumped(server, mysqld, folder / "before.sql"), _captured(server, folder)
        examined = upshift("examine", trace, "--json", "--server", f"mysql://root@/shop?socket={server.socket}")
        (report := folder / "report.json").write_text(examined.stdout)
        yield Shop(mysqld, dump, trace, report)


def _dumped(server: RealServer, mysqld: Path, file: Path) -> Path:
    with file.open("wb") as out:
        words = (
            mysqld.with_name("mysqldump"),
            "--no-defaults",
            f"--socket={server.socket}",
            "--user=root",
            "--set-gtid-purged=OFF",
        )
        subprocess.run((*words, "shop"), check=True, stdout=out)
    return file


def _captured(server: RealServer, folder: Path) -> Path:
    script = folder / "shop.toml"
    script.write_text(SCRIPT)
    with captured(server.socket, trace := folder / "app.trace") as place:
        words: Sequence[str | Path] = (program("upshift-load"), "script", script, "run", "--connections", "2")
        url = f"mysql://root@/shop?socket={place}"
        subprocess.run((*words, "--max-transactions", "300", "--server", url), check=True, capture_output=True, timeout=60)
    return trace


def test_a_missing_index_is_measured_beside_the_index(shop: Shop, tmp_path: Path) -> None:
    fix = tmp_path / "fix.sql"
    fix.write_text("CREATE INDEX by_customer ON orders (customer);\nANALYZE TABLE orders;\n")
    done = shop.prove("--sql", fix, "--json")
    assert done.returncode == 0, done.stderr
    proof = json.loads(done.stdout)
    assert proof["change"] == {"client": [], "settings": {}, "sql": {"fix.sql": fix.read_text()}}
    assert proof["verdict"] in ("proven", "refuted", "not settled") and len(proof["measured"]) == 1
    assert proof["answers"]["differ"] == 0 and proof["answers"]["requests"] >= 600
    as_sent, changed = proof["result"]["experiment"]["arms"]
    assert "sql" not in as_sent and changed["sql"] == [str(fix)]
    # Without errors the changed server has what the trace asks for.
    assert "errors" not in {flag["name"] for flag in proof["result"]["experiment"]["flags"]}


def test_what_the_server_refuses_ends_the_proof_with_its_words(shop: Shop, tmp_path: Path) -> None:
    fix = tmp_path / "fix.sql"
    fix.write_text("CREATE INDEX by_what ON orders (what)")
    done = shop.prove("--sql", fix)
    assert done.returncode == 2 and "Key column 'what' doesn't exist in table (1072)" in " ".join(done.stderr.split())
    done = shop.prove("--setting", "no_such_setting=1")
    assert done.returncode == 1 and "unknown variable 'no-such-setting=1'" in " ".join(done.stderr.split())
