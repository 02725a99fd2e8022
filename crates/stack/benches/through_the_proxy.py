"""What does a capture cost the application? QPS through `upshift stack capture` beside QPS without it, on the same server.

    PYTHONPATH=src .venv/bin/python crates/stack/benches/through_the_proxy.py --mysqld PATH/mysqld
        --load PATH/upshift-load --stack PATH/upshift-stack [--json FILE]

Raises a server of its own in a temporary folder (unix socket only) on one CPU; the load client and the proxy share another.
Fills sysbench's tables, starts a capture beside the server's socket, and runs the same load directly and through the proxy in
turn, in changing order. Prints QPS and p50 of both, and the ratio of QPS with its 95 % interval over the rounds. About three
minutes with the defaults; nothing else should run meanwhile.
"""

from __future__ import annotations

import argparse
import json
import math
import signal
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
POINTS = [("point_select", 8), ("point_select", 64), ("read_write", 8), ("read_write", 64)]
START_S = 60
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Figures:
    """One short load."""

    qps: float
    p50_us: float


Pairs = list[tuple[Figures, Figures]]


def pinned(cpu: int, command: list[str]) -> list[str]:
    return ["taskset", "-c", str(cpu), *command]


@contextmanager
def server(args: argparse.Namespace, folder: Path) -> Iterator[Path]:
    """A fresh server on its CPU; its socket."""
    data, socket, log = folder / "data", folder / "s.sock", folder / "log.err"
    own = [str(args.mysqld), "--no-defaults", "--user=root", f"--datadir={data}", f"--log-error={log}"]
    subprocess.run([*own, "--initialize-insecure"], check=True)
    options = [f"--socket={socket}", f"--pid-file={folder}/pid", "--skip-networking", "--secure-file-priv=NULL"]
    logs = ["--loose-mysqlx=OFF", "--skip-log-bin", "--max-connections=600"]
    sizes = ["--innodb-buffer-pool-size=512M", "--innodb-flush-log-at-trx-commit=2"]
    command = pinned(args.server_cpu, [*own, *options, *logs, *sizes])
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        client = [str(args.mysqld.parent / "mysql"), "--no-defaults", "-uroot", f"-S{socket}"]
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


@contextmanager
def capture(args: argparse.Namespace, folder: Path, socket: Path, summary: dict[str, object]) -> Iterator[Path]:
    """A capture on the client's CPU; the socket that it listens on. Its own summary comes at the end."""
    listen = folder / "p.sock"
    where = ["--server", f"mysql://?socket={socket}", "--listen", str(listen), "--json", str(folder / "app.trace")]
    command = pinned(args.client_cpu, [str(args.stack), "capture", *where, *args.more])
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + START_S
    while not listen.exists():
        if running.poll() is not None or time.monotonic() > deadline:
            raise SystemExit("ERROR: the capture does not start")
        time.sleep(0.1)
    try:
        yield listen
    finally:
        running.send_signal(signal.SIGINT)
        out, _ = running.communicate(timeout=START_S)
    summary.update(json.loads(out))


def load(args: argparse.Namespace, socket: Path, script: str, *verb: str) -> dict[str, object]:
    where = ["--server", f"mysql://root@localhost/sbtest?socket={socket}", "--tables", str(TABLES), "--table-size", str(ROWS)]
    command = pinned(args.client_cpu, [str(args.load), "oltp", script, verb[0], *where, *verb[1:]])
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"ERROR: {' '.join(command)}\n{done.stdout}{done.stderr}")
    found: dict[str, object] = json.loads(done.stdout) if "--json" in verb else {}
    return found


def measured(args: argparse.Namespace, socket: Path, script: str, connections: int) -> Figures:
    how = ["--connections", str(connections), "--seconds", str(args.seconds), "--json"]
    result = load(args, socket, script, "run", *how)
    transactions = result["transactions"]
    assert isinstance(transactions, dict) and isinstance(result["qps"], float)
    (transaction,) = transactions.values()
    return Figures(result["qps"], transaction["latency_us_p50"])


def measure(args: argparse.Namespace, sockets: tuple[Path, Path], script: str, connections: int) -> Pairs:
    """Direct and through the proxy."""
    pairs = []
    for number in range(args.rounds):
        order = (0, 1) if number % 2 == 0 else (1, 0)
        figures = {way: measured(args, sockets[way], script, connections) for way in order}
        pairs.append((figures[0], figures[1]))
    return pairs


def ratio(pairs: Pairs) -> dict[str, float]:
    """QPS through the proxy / direct: the geometric mean over the rounds and its interval."""
    value, low, high = geometric_mean([math.log(through.qps / direct.qps) for direct, through in pairs], CONFIDENCE)
    return {"ratio": value, "ci_low": low, "ci_high": high}


def show(script: str, connections: int, pairs: Pairs, found: dict[str, float]) -> str:
    cells = [f"{script}, {connections}"]
    for way in (0, 1):
        qps, p50 = (statistics.median(getattr(pair[way], name) for pair in pairs) for name in ("qps", "p50_us"))
        cells.append(f"{qps:.0f} QPS, p50 {p50:.0f} us")
    cells.append(f"{found['ratio']:.3f} ({found['ci_low']:.3f} to {found['ci_high']:.3f})")
    return "| " + " | ".join(cells) + " |\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="QPS through the capturing proxy beside QPS without it")
    parser.add_argument("--mysqld", type=Path, required=True, help="with mysql, the client, beside it")
    parser.add_argument("--load", type=Path, required=True, help="the program upshift-load")
    parser.add_argument("--stack", type=Path, required=True, help="the program upshift-stack")
    parser.add_argument("--server-cpu", type=int, default=0, help="the server's CPU")
    parser.add_argument("--client-cpu", type=int, default=1, help="the CPU of the load client and the proxy")
    parser.add_argument("--seconds", type=int, default=2, help="of each load")
    parser.add_argument("--rounds", type=int, default=10, help="of each way at each point")
    parser.add_argument("--json", type=Path, help="write every figure here")
    parser.add_argument("more", nargs="*", help="more options of the capture, behind --")
    args = parser.parse_args()
    results: list[dict[str, object]] = []
    summary: dict[str, object] = {}
    with tempfile.TemporaryDirectory(prefix="through-") as name, server(args, Path(name)) as socket:
        load(args, socket, "read_write", "prepare")
        with capture(args, Path(name), socket, summary) as listen:
            sys.stdout.write(f"| load, connections | direct | through the proxy | QPS ratio |\n{'|---' * 4}|\n")
            for script, connections in POINTS:
                pairs = measure(args, (socket, listen), script, connections)
                found = ratio(pairs)
                sys.stdout.write(show(script, connections, pairs, found))
                sys.stdout.flush()
                rounds = [{"direct": asdict(direct), "through": asdict(through)} for direct, through in pairs]
                results.append({"load": script, "connections": connections, "qps": found, "rounds": rounds})
    sys.stdout.write(f"\n{json.dumps(summary, indent=1)}\n")
    if args.json:
        machine = describe_machine().model_dump(mode="json")
        args.json.write_text(json.dumps({"machine": machine, "loads": results, "capture": summary}, indent=1))


if __name__ == "__main__":
    main()
