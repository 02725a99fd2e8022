"""Does `upshift stack compare --execute` name an engine beside itself, on a busy machine?

    PYTHONPATH=src .venv/bin/python tests/benches/same_engine.py --server PATH/mysqld --runs 20 --json FILE

Two servers of one program run on copies of one data folder, beside a busy loop for each CPU. Each run compares them by the
statements of the shop that take time enough for E1. Whoever of the suspects that need two servers (P5, P6, E1) is named is
named wrongly. A control shows that E1 would speak: B's rows become longer and do not fit into its memory, so that it takes
longer for the same plan and must be named. The exit code is 1 when a run names one of the three, when answers differ, or when
the control names no engine. A file of --json that is there already is continued up to --runs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(CHECKOUT / "tests" / "unit"), str(CHECKOUT / "tests" / "unit" / "stack" / "plans")]

import shop  # noqa: E402
from _busy import busy  # noqa: E402
from real_server import RealServer, initialised, started  # noqa: E402

from upshift.machine import describe_machine  # noqa: E402
from upshift.stack.suspects.thresholds import THRESHOLDS  # noqa: E402

OF_TWO_SERVERS = ("P5", "P6", "E1")
STATEMENTS = ("full", "join_hash", "sort_limit", "sort_all", "group", "exists", "derived", "distinct", "loose")
"""Of the shop, those that take longer than E1.execution_us and not so long that twenty runs take an hour."""
SCANS = ("full", "group", "derived")
LONGER_ROWS = (
    "ALTER TABLE orders ADD COLUMN filler VARCHAR(6000) NOT NULL DEFAULT (REPEAT('z', 5000))",
    "ANALYZE TABLE orders",
)
"""More of them than the buffer pool holds: SCANS have the same plan and rows, and take longer."""
OPTIONS = ("--innodb-buffer-pool-size=64M", "--loose-mysqlx=OFF", "--secure-file-priv=", "--loose-disable-log-bin")
TIMEOUT_S = 900.0


def is_mariadb(program: Path) -> bool:
    return "MariaDB" in version_of(program)


def version_of(program: Path) -> str:
    said = subprocess.run((program, "--no-defaults", "--version"), check=True, capture_output=True, text=True).stdout
    return said.split(" Ver ")[-1].strip()


def filled(program: Path, folder: Path) -> Path:
    """A data folder with the shop in it."""
    data = folder / "a"
    initialised(program, data)
    with started(str(program), data, OPTIONS) as server:
        server.run("CREATE DATABASE shop", "USE shop", *shop.SCHEMA, *shop.inserts(shop.rows()))
        server.run("USE shop", "ANALYZE TABLE customers, orders, items, visits")
    return data


def written(*names: str) -> str:
    return ";\n".join(shop.STATEMENTS[name] for name in names) + ";\n"


def compare(file: Path, servers: tuple[RealServer, RealServer], rounds: int) -> dict[str, Any]:
    """Who was named, with the share, and the ratios of the statements that were timed."""
    urls = [f"mysql://root@/shop?socket={each.socket}" for each in servers]
    words = (
        "compare",
        str(file),
        "--a",
        urls[0],
        "--b",
        urls[1],
        "--execute",
        "--rounds",
        str(rounds),
        "--json",
        "--no-install",
    )
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT / "src")}
    began_s = time.monotonic()
    done = subprocess.run(
        (sys.executable, "-m", "upshift", "stack", *words), env=environment, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    timings = [each["timing"] for each in report["statements"] if each["timing"]]
    least_ms = THRESHOLDS["E1.execution_us"].value / 1000
    return {
        "named": {each["suspect"]: round(each["share"], 4) for each in report["judgement"]["findings"]},
        "unseen": [each["suspect"] for each in report["judgement"]["unseen"]],
        "answers_differ": sum(each["same_answer"] is False for each in report["statements"]),
        "long_enough": sum(max(each["a_ms"], each["b_ms"]) >= least_ms for each in timings),
        "excludes_1": sum(not each["ci_low"] <= 1 <= each["ci_high"] for each in timings),
        "ratios": [round(each["ratio"], 4) for each in timings],
        "a_ms": [round(each["a_ms"], 3) for each in timings],
        "load_1m": round(os.getloadavg()[0], 1),
        "wall_s": round(time.monotonic() - began_s, 1),
    }


def wrong(run: dict[str, Any]) -> bool:
    return bool(run["answers_differ"]) or any(each in run["named"] or each in run["unseen"] for each in OF_TWO_SERVERS)


def begun(file: Path | None, asked: dict[str, Any]) -> dict[str, Any]:
    """The result that the file has, or a new one."""
    if file is None or not file.exists():
        return {"schema_version": 1, **asked, "runs": [], "control": None}
    result: dict[str, Any] = json.loads(file.read_text())
    other = {name: result[name] for name in asked if result[name] != asked[name]}
    assert not other, f"{file} was measured otherwise: {other}"
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    program: Path = given.server.resolve()
    # An end from outside stops the servers, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    loops = os.cpu_count() or 1
    asked = {
        "server": version_of(program),
        "machine": describe_machine().model_dump(mode="json"),
        "busy_loops": loops,
        "rounds": given.rounds,
        "statements": len(STATEMENTS),
    }
    result = begun(given.json, asked)

    def keep() -> None:
        if given.json:
            given.json.write_text(json.dumps(result, indent=1) + "\n")

    with tempfile.TemporaryDirectory(prefix="upshift-same-") as home, ExitStack() as servers:
        folder = Path(home)
        data = filled(program, folder)
        shutil.copytree(data, folder / "b")
        (file := folder / "shop.sql").write_text(written(*STATEMENTS))
        a = servers.enter_context(started(str(program), data, OPTIONS))
        b = servers.enter_context(started(str(program), folder / "b", OPTIONS))
        while (number := len(result["runs"])) < given.runs:
            with busy(loops, TIMEOUT_S):
                # Each of both is A in half of the runs.
                result["runs"].append(compare(file, (a, b) if number % 2 == 0 else (b, a), given.rounds))
            keep()
            sys.stdout.write(f"run {number + 1}: {result['runs'][-1]}\n")
            sys.stdout.flush()
        b.run("USE shop", *LONGER_ROWS)
        file.write_text(written(*SCANS))
        with busy(loops, TIMEOUT_S):
            result["control"] = compare(file, (a, b), given.rounds)
        keep()
    named = Counter(suspect for each in result["runs"] for suspect in each["named"])
    sys.stdout.write(f"named in {len(result['runs'])} runs: {dict(named)}; control: {result['control']}\n")
    return 1 if any(map(wrong, result["runs"])) or "E1" not in result["control"]["named"] else 0


if __name__ == "__main__":
    sys.exit(main())
