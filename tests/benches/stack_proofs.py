"""Does `upshift stack prove` tell a fix that helps from one that does not, by a read-only trace on a real MySQL?

    PYTHONPATH=src:tests/servers .venv/bin/python tests/benches/stack_proofs.py --server PATH/mysqld --json FILE

A shop's orders have no index on their customer. A client reads them on eight connections through the capturing proxy,
and `upshift stack examine` judges the trace. Then `prove` measures what it named with the fix that the finding wants,
and with an index that no statement can use: the first has to be proven, the second refuted. A client that prepares
each statement anew has a proof of its own. Each proof measures for ``--budget`` at most. The file is
written anew after each case. Nothing else should run meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(CHECKOUT / "tests" / "unit"), str(CHECKOUT / "tests" / "servers")]

from captures import captured  # noqa: E402
from real_server import RealServer, initialised, started  # noqa: E402

from upshift.machine import describe_machine  # noqa: E402

OPTIONS = ("--mysqlx=OFF", "--secure-file-priv=NULL", "--max-prepared-stmt-count=100000")
TIMEOUT_S = 900.0
DEEP = "SET SESSION cte_max_recursion_depth = 100000"
TABLE = "CREATE TABLE orders (id INT PRIMARY KEY, customer INT NOT NULL, note VARCHAR(64) NOT NULL)"
ROWS = (
    "WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 5000) SELECT n, n MOD 1000, SHA2(n, 256) FROM s"
)
SCRIPT = """
[variables]
few = { uniform = [0, 999] }
[transactions.look]
statements = [STATEMENTS]
"""
SCAN = '"SELECT id FROM orders WHERE customer = :few"'
BY_KEY = '"SELECT customer, note FROM orders WHERE id = :few"'


@dataclass(frozen=True)
class Case:
    """A client, what is said to be wrong with it, and the change that is tried."""

    name: str
    statements: tuple[str, ...]
    protocol: str
    suspect: str
    sql: str | None
    expected: str
    """The verdict that the change deserves."""


CASES = (
    Case(
        "the index that is missing", (SCAN, BY_KEY), "prepared", "P2", "CREATE INDEX by_customer ON orders (customer)", "proven"
    ),
    Case(
        "an index that no statement uses",
        (SCAN, BY_KEY),
        "prepared",
        "P2",
        "CREATE INDEX by_note ON orders (note)",
        "refuted",
    ),
    Case("prepared once a connection", (BY_KEY,), "prepare-per-request", "C1", None, "proven"),
)


def upshift(*words: str | Path) -> subprocess.CompletedProcess[str]:
    argv = (sys.executable, "-m", "upshift", "stack", *map(str, words), "--json", "--no-install")
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT / "src")}
    return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S)


def capture(server: RealServer, folder: Path, case: Case, seconds: float) -> Path:
    """The trace of the case's client, on eight connections."""
    (script := folder / "shop.toml").write_text(SCRIPT.replace("STATEMENTS", ", ".join(case.statements)))
    with captured(server.socket, trace := folder / "app.trace") as place:
        how = ("--connections", "8", "--protocol", case.protocol, "--seconds", str(seconds))
        words = (str(CHECKOUT / "upshift"), "load", "script", str(script), "run", *how)
        subprocess.run(
            (*words, "--server", f"mysql://root@/shop?socket={place}"), check=True, capture_output=True, timeout=TIMEOUT_S
        )
    return trace


def dumped(server: RealServer, mysqld: Path, file: Path) -> Path:
    words = ("--no-defaults", f"--socket={server.socket}", "--user=root", "--set-gtid-purged=OFF", "shop")
    with file.open("wb") as out:
        subprocess.run((str(mysqld.with_name("mysqldump")), *words), check=True, stdout=out)
    return file


def proven(mysqld: Path, case: Case, given: argparse.Namespace) -> dict[str, Any]:
    """What `examine` named, and what `prove` came to."""
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="upshift-proofs-") as place:
        folder = Path(place)
        with started(str(mysqld), initialised(mysqld, folder / "data"), OPTIONS) as server:
            server.run("CREATE DATABASE shop", "USE shop", TABLE, DEEP, f"INSERT INTO orders {ROWS}")
            dump = dumped(server, mysqld, folder / "before.sql")
            trace = capture(server, folder, case, given.capture_seconds)
            examined = upshift("examine", trace, "--server", f"mysql://root@/shop?socket={server.socket}")
        if not examined.stdout:
            raise SystemExit(f"upshift stack examine: exit {examined.returncode}\n{examined.stderr[-2000:]}")
        (report := folder / "report.json").write_text(examined.stdout)
        named = [each["suspect"] for each in json.loads(examined.stdout)["findings"]]
        change: tuple[str | Path, ...] = ()
        if case.sql:
            (fix := folder / "fix.sql").write_text(f"{case.sql};\nANALYZE TABLE orders;\n")
            change = ("--sql", fix)
        how = ("--findings", report, "--before", dump, "--binary", mysqld, "--until", given.until, "--budget", given.budget)
        done = upshift("prove", trace, "--suspect", case.suspect, *change, *how)
    row: dict[str, Any] = {
        "case": case.name,
        "suspect": case.suspect,
        "sql": case.sql,
        "named": named,
        "expected": case.expected,
    }
    row["wall_s"] = round(time.monotonic() - began_s, 1)
    if not done.stdout:
        return {**row, "failed": done.stderr.splitlines()[-8:]}
    proof = json.loads(done.stdout)
    return {**row, **{name: proof[name] for name in ("verdict", "expected_ratio", "measured", "answers", "change")}}


def said(row: dict[str, Any]) -> str:
    if "failed" in row:
        return f"{row['case']}: failed: {' '.join(row['failed'])}\n"
    ratios = ", ".join(f"{one['ratio']:.3f} ({one['ci_low']:.3f} to {one['ci_high']:.3f})" for one in row["measured"])
    return f"{row['case']}: {row['verdict']}, expected {row['expected']}: {ratios}; named: {' '.join(row['named'])}\n"


def result(given: argparse.Namespace, rows: list[dict[str, Any]]) -> dict[str, Any]:
    asked = {"until": given.until, "budget": given.budget, "capture_seconds": given.capture_seconds, "connections": 8}
    version = subprocess.run((given.server, "--no-defaults", "--version"), check=True, capture_output=True, text=True).stdout
    machine, server = describe_machine().model_dump(mode="json"), version.split(" Ver ")[-1].strip()
    return {"schema_version": 1, "server": server, "machine": machine, "asked": asked, "stack_proofs": rows}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", type=Path, required=True)
    parser.add_argument("--only", choices=[each.name for each in CASES], help="this case alone")
    parser.add_argument("--capture-seconds", type=float, default=10.0)
    parser.add_argument("--until", default="3%")
    parser.add_argument("--budget", default="180s")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for case in (each for each in CASES if given.only in (None, each.name)):
        rows.append(proven(given.server.resolve(), case, given))
        sys.stdout.write(said(rows[-1]))
        sys.stdout.flush()
        if given.json:
            given.json.write_text(json.dumps(result(given, rows), indent=1) + "\n")
    return 0 if all(each.get("verdict") == each["expected"] for each in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
