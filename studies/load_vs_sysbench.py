"""What does upshift-load cost beside sysbench, on the same server and tables?

    python studies/load_vs_sysbench.py --load PATH/upshift-load --socket PATH [--seconds 3] [--rounds 3]

Needs a MySQL server with user root, no password, and a database `sbtest` filled by
`sysbench oltp_read_write --tables=4 --table-size=10000 prepare`. Runs both clients in turn, in changing order, and prints
for each number of connections the ratio upshift-load / sysbench of QPS and of client CPU (user and system time of the whole
process) for each statement. Both use prepared statements and the special distribution.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
from dataclasses import dataclass

TABLES, ROWS = 4, 10_000


@dataclass(frozen=True)
class Figures:
    """One short load by one client."""

    qps: float
    cpu_us_per_statement: float


def run(command: list[str]) -> tuple[str, float]:
    """stdout, and the CPU seconds of the process."""
    before = os.times()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    after = os.times()
    return done.stdout, after.children_user + after.children_system - before.children_user - before.children_system


def by_sysbench(args: argparse.Namespace, script: str, connections: int) -> Figures:
    out, cpu_s = run(
        [
            *("sysbench", f"oltp_{script}", "--db-driver=mysql", f"--mysql-socket={args.socket}", "--mysql-user=root"),
            *("--mysql-db=sbtest", f"--tables={TABLES}", f"--table-size={ROWS}", f"--threads={connections}"),
            *(f"--time={args.seconds}", "--events=0", "run"),
        ]
    )
    found = re.search(r"queries:\s+(\d+)\s+\(([\d.]+) per sec", out)
    if not found:
        raise SystemExit(f"ERROR: sysbench printed no queries\n{out}")
    return Figures(float(found[2]), cpu_s * 1e6 / int(found[1]))


def by_load(args: argparse.Namespace, script: str, connections: int) -> Figures:
    out, cpu_s = run(
        [
            *(args.load, "oltp", script, "run", "--server", f"mysql://root@localhost/sbtest?socket={args.socket}", "--json"),
            *("--tables", str(TABLES), "--table-size", str(ROWS)),
            *("--connections", str(connections), "--time", str(args.seconds)),
        ]
    )
    result = json.loads(out)
    return Figures(result["qps"], cpu_s * 1e6 / (result["qps"] * result["duration_s"]))


def main() -> None:
    parser = argparse.ArgumentParser(description="upshift-load beside sysbench")
    parser.add_argument("--load", required=True)
    parser.add_argument("--socket", required=True)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    heads = f"{'script':<14}{'connections':>12}{'QPS':>8}{'CPU':>8}"
    sys.stdout.write(f"{heads}   (upshift-load / sysbench, median of {args.rounds})\n")
    for script, connections in [("point_select", n) for n in (1, 8, 64, 512)] + [("read_write", 8)]:
        pairs = []
        for number in range(args.rounds):
            order = [by_sysbench, by_load] if number % 2 == 0 else [by_load, by_sysbench]
            figures = {client: client(args, script, connections) for client in order}
            pairs.append((figures[by_load], figures[by_sysbench]))
        qps = statistics.median(ours.qps / theirs.qps for ours, theirs in pairs)
        cpu = statistics.median(ours.cpu_us_per_statement / theirs.cpu_us_per_statement for ours, theirs in pairs)
        sys.stdout.write(f"{script:<14}{connections:>12}{qps:>8.2f}{cpu:>8.2f}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
