"""What does upshift-load cost beside sysbench, on the same server and tables?

    PYTHONPATH=src .venv/bin/python crates/loadgen/benches/against_sysbench.py --mysqld PATH/mysqld
        --load PATH/upshift-load [--json FILE]

Raises a server of its own in a temporary folder (unix socket only), fills sysbench's tables, and runs both clients in turn,
in changing order. For each number of connections it prints client CPU a statement (user and system time of the whole client
process), QPS and p50 of both, and the ratios upshift-load / sysbench with 95 % intervals over the rounds. Both use prepared
statements and sysbench's default distribution of ids. Five to six minutes with the defaults; nothing else should run meanwhile.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from upshift.machine import describe_machine
from upshift.measure.statistics import geometric_mean

TABLES, ROWS = 4, 10_000
CONNECTIONS_MAX = 600
POINTS = [("point_select", 1), ("point_select", 8), ("point_select", 64), ("point_select", 512), ("read_write", 8)]
START_S = 60
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Figures:
    """One short load by one client."""

    qps: float
    user_us: float
    system_us: float
    p50_us: float

    @property
    def cpu_us(self) -> float:
        """Client CPU a statement."""
        return self.user_us + self.system_us


Pairs = list[tuple[Figures, Figures]]


@contextmanager
def server(mysqld: Path, folder: Path) -> Iterator[Path]:
    """A fresh server; its socket."""
    data, socket, log = folder / "data", folder / "s.sock", folder / "log.err"
    own = [str(mysqld), "--no-defaults", "--user=root", f"--datadir={data}", f"--tmpdir={folder}", f"--log-error={log}"]
    subprocess.run([*own, "--initialize-insecure"], check=True)
    options = [f"--socket={socket}", f"--pid-file={folder}/pid", "--skip-networking", "--secure-file-priv=NULL"]
    logs = ["--loose-mysqlx=OFF", "--skip-log-bin", f"--max-connections={CONNECTIONS_MAX}"]
    sizes = ["--innodb-buffer-pool-size=512M", "--innodb-flush-log-at-trx-commit=2"]
    running = subprocess.Popen([*own, *options, *logs, *sizes], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        client = [str(mysqld.parent / "mysql"), "--no-defaults", "-uroot", f"-S{socket}"]
        create = [*client, "-e", "CREATE DATABASE IF NOT EXISTS sbtest"]
        deadline = time.monotonic() + START_S
        while subprocess.run(create, capture_output=True, check=False).returncode != 0:
            if running.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"ERROR: the server does not start\n{log.read_text()}")
            time.sleep(0.2)
        yield socket
    finally:
        running.terminate()
        running.wait(timeout=START_S)


def sysbench(socket: Path, script: str, *more: str) -> list[str]:
    """A sysbench command on the tables."""
    where = [f"--mysql-socket={socket}", "--mysql-user=root", "--mysql-db=sbtest", f"--tables={TABLES}", f"--table-size={ROWS}"]
    return ["sysbench", f"oltp_{script}", "--db-driver=mysql", *where, *more]


def run(command: list[str]) -> tuple[str, float, float]:
    """stdout, and the user and system microseconds of the process."""
    before = os.times()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    after = os.times()
    if done.returncode != 0:
        raise SystemExit(f"ERROR: {' '.join(command)}\n{done.stdout}{done.stderr}")
    user, system = after.children_user - before.children_user, after.children_system - before.children_system
    return done.stdout, user * 1e6, system * 1e6


def by_sysbench(args: argparse.Namespace, socket: Path, script: str, connections: int) -> Figures:
    more = [f"--threads={connections}", f"--time={args.seconds}", "--events=0", "--histogram", "run"]
    out, user_us, system_us = run(sysbench(socket, script, *more))
    queries = re.search(r"queries:\s+(\d+)\s+\(([\d.]+) per sec", out)
    if not queries:
        raise SystemExit(f"ERROR: sysbench printed no queries\n{out}")
    count = int(queries[1])
    return Figures(float(queries[2]), user_us / count, system_us / count, histogram_p50_us(out))


def histogram_p50_us(out: str) -> float:
    """The median from sysbench's histogram: its percentile line has two digits of a millisecond."""
    bars = [(float(ms), int(count)) for ms, count in re.findall(r"^\s*([\d.]+) \|\**\s+(\d+)$", out, re.MULTILINE)]
    half, seen = sum(count for _, count in bars) / 2, 0
    for ms, count in bars:
        seen += count
        if seen >= half > 0:
            return ms * 1e3
    raise SystemExit(f"ERROR: sysbench printed no histogram\n{out}")


def by_load(args: argparse.Namespace, socket: Path, script: str, connections: int) -> Figures:
    where = ["--server", f"mysql://root@localhost/sbtest?socket={socket}", "--tables", str(TABLES), "--table-size", str(ROWS)]
    how = ["--connections", str(connections), "--seconds", str(args.seconds), "--json"]
    out, user_us, system_us = run([args.load, "oltp", script, "run", *where, *how])
    result = json.loads(out)
    count = result["qps"] * result["duration_s"]
    (transaction,) = result["transactions"].values()
    return Figures(result["qps"], user_us / count, system_us / count, transaction["latency_us_p50"])


def measure(args: argparse.Namespace, socket: Path, script: str, connections: int) -> Pairs:
    pairs = []
    for number in range(args.rounds):
        order = [by_sysbench, by_load] if number % 2 == 0 else [by_load, by_sysbench]
        figures = {client: client(args, socket, script, connections) for client in order}
        pairs.append((figures[by_load], figures[by_sysbench]))
    return pairs


def ratio(pairs: Pairs, name: str) -> dict[str, float]:
    """upshift-load / sysbench: the geometric mean over the rounds and its interval."""
    logs = [math.log(max(getattr(ours, name), 0.01) / max(getattr(theirs, name), 0.01)) for ours, theirs in pairs]
    value, low, high = geometric_mean(logs, CONFIDENCE)
    return {"ratio": value, "ci_low": low, "ci_high": high}


def show(script: str, connections: int, pairs: Pairs, ratios: dict[str, dict[str, float]]) -> str:
    cells = [f"{script}, {connections}"]
    for side in (0, 1):
        user, system, qps, p50 = (
            statistics.median(getattr(pair[side], name) for pair in pairs) for name in ("user_us", "system_us", "qps", "p50_us")
        )
        cells.append(f"{user:.2f} + {system:.2f} us, {qps:.0f} QPS, p50 {p50:.0f} us")
    cells += [f"{one['ratio']:.2f} ({one['ci_low']:.2f} to {one['ci_high']:.2f})" for one in ratios.values()]
    return "| " + " | ".join(cells) + " |\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="upshift-load beside sysbench")
    parser.add_argument("--mysqld", type=Path, required=True, help="with mysql, the client, beside it")
    parser.add_argument("--load", required=True, help="the program upshift-load")
    parser.add_argument("--seconds", type=int, default=2, help="of each load")
    parser.add_argument("--rounds", type=int, default=10, help="of each client at each point")
    parser.add_argument("--json", type=Path, help="write every figure here")
    args = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory(prefix="load-vs-sysbench-") as folder, server(args.mysqld, Path(folder)) as socket:
        run(sysbench(socket, "read_write", "prepare"))
        heads = ["load, connections", "upshift-load", "sysbench", "CPU ratio", "QPS ratio", "p50 ratio"]
        sys.stdout.write(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|\n")
        for script, connections in POINTS:
            pairs = measure(args, socket, script, connections)
            ratios = {name: ratio(pairs, name) for name in ("cpu_us", "qps", "p50_us")}
            sys.stdout.write(show(script, connections, pairs, ratios))
            sys.stdout.flush()
            rounds = [{"upshift_load": asdict(ours), "sysbench": asdict(theirs)} for ours, theirs in pairs]
            results.append({"load": script, "connections": connections, "ratios": ratios, "rounds": rounds})
    if args.json:
        args.json.write_text(json.dumps({"machine": describe_machine().model_dump(mode="json"), "loads": results}, indent=1))


if __name__ == "__main__":
    main()
