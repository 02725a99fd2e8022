"""How often do commits stall, with a system variable OFF and ON?

    PYTHONPATH=src .venv/bin/python tests/benches/stalls.py PATCHED/mysqld --switch redo_wakeup --json FILE

One server, on the first CPU, gets small transactions that write, from a client on the last CPU. The variable is OFF and ON in
turns, so that both meet the same noise. Of each state all turns are counted together: transactions, the slowest of them, and
those that took 100 ms or longer, which is how long InnoDB waits for redo of other sessions.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import _served
from real_server import RealServer, initialised, started

from upshift.cli import programs
from upshift.shell import SystemShell

OPTIONS = (
    *("--innodb-buffer-pool-size=1G", "--innodb-redo-log-capacity=1G", "--innodb-log-writer-threads=OFF"),
    *("--mysqlx=OFF", "--secure-file-priv=NULL"),
)
STATES = ("OFF", "ON")
WORKLOAD = "write_only"
STALL_US = 100_000
WARM_UP_S = 2
TIMEOUT_S = 600.0


def load(program: Path, server: RealServer, *words: str) -> dict[str, Any]:
    url = f"mysql://root@localhost/sbtest?socket={server.socket}"
    more = ("--json",) if "run" in words else ()
    argv = ("taskset", "-c", str(_served.LAST), str(program), "oltp", WORKLOAD, *words, "--server", url, *more)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode:
        raise SystemExit(f"{' '.join(argv)}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return json.loads(done.stdout) if more else {}


def turns(program: Path, mysqld: Path, given: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """What the client says of each turn, OFF and ON one after the other."""
    options = (*OPTIONS, *given.option)
    data = initialised(mysqld, folder / "data", tuple(given.option))
    found = []
    with started(str(mysqld), data, options) as server:
        server.run("CREATE DATABASE sbtest")
        load(program, server, "prepare", "--tables", "4", "--table-size", "100000")
        _served.pinned(server)
        run = ("run", "-c", str(given.connections), "--tables", "4", "--table-size", "100000", "--histogram")
        for turn in range(given.turns):
            for state in STATES if turn % 2 == 0 else STATES[::-1]:
                server.run(f"SET GLOBAL {given.switch} = {state}")
                load(program, server, *run, "--seconds", str(WARM_UP_S))
                found.append({"state": state, **load(program, server, *run, "--seconds", str(given.seconds))})
    return found


def summed(found: list[dict[str, Any]], state: str) -> dict[str, Any]:
    """All turns of a state."""
    of = [each for each in found if each["state"] == state]
    histogram = sorted(pair for each in of for pair in each["latency_us_histogram"])
    transactions = sum(number for _, number in histogram)
    seconds = sum(each["duration_s"] for each in of)

    def quantile(share: float) -> float:
        left = share * transactions
        for latency_us, number in histogram:
            left -= number
            if left <= 0:
                return float(latency_us)
        return float(histogram[-1][0])

    return {
        "state": state,
        "seconds": round(seconds, 1),
        "transactions": transactions,
        "transactions_per_s": round(transactions / seconds, 1),
        "latency_us": {name: quantile(share) for name, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0))},
        "at_least_100_ms": sum(number for latency_us, number in histogram if latency_us >= STALL_US),
    }


def main() -> int:
    parser = _served.server_parser(__doc__)
    parser.add_argument("--switch", default="redo_wakeup", help="a global system variable that can be OFF and ON")
    parser.add_argument("--turns", type=int, default=6, help="turns of each state")
    parser.add_argument("--seconds", type=float, default=20, help="of a turn")
    given = parser.parse_args()
    shell = SystemShell()
    try:
        program = programs.built_programs(shell, allow_install=False, say=lambda _line: None) / "upshift-load"
    finally:
        shell.close()
    with tempfile.TemporaryDirectory(prefix="upshift-stalls-") as folder:
        found = turns(program, given.server.resolve(), given, Path(folder))
    rows = [summed(found, state) for state in STATES]
    for row in rows:
        slowest = ", ".join(f"{name} {us / 1000:.1f}" for name, us in row["latency_us"].items())
        sys.stdout.write(
            f"{given.switch} {row['state']}: {row['transactions_per_s']:,.0f} transactions/s, {slowest} ms, "
            f"{row['at_least_100_ms']} of {row['transactions']:,} took 100 ms or longer\n"
        )
    _served.keep(given, "stalls", rows, switch=given.switch)
    return 0


if __name__ == "__main__":
    sys.exit(main())
