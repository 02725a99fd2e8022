"""What does a capture cost the application? QPS through `upshift stack capture` beside QPS without it, on the same server.

    PYTHONPATH=src .venv/bin/python crates/stack/benches/through_the_proxy.py --mysqld PATH/mysqld
        --load PATH/upshift-load --stack PATH/upshift-stack [--tls] [--json FILE]

Raises a server of its own in a temporary folder on one CPU; the load client and the proxy share another. Fills sysbench's
tables, starts a capture beside the server, and runs the same load directly and through the proxy in turn, in changing order.
Prints QPS and p50 of each way, and the ratio of QPS to the direct way's with its 95 % interval over the rounds. About three
minutes with the defaults, five with --tls; nothing else should run meanwhile.

Without --tls all goes by unix sockets. With it all goes by ports of the loopback address: the client encrypts to the server
(direct), to the proxy, which ends TLS before the server (through), or not at all, through the same proxy (plain).
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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from upshift.machine import describe_machine
from upshift.measure.statistics import geometric_mean
from upshift.shell import SystemShell
from upshift.stack.driver_matrix.certificates import Certificates, make_certificates
from upshift.stack.driver_matrix.servers import free_port

TABLES, ROWS = 4, 10_000
POINTS = [("point_select", 8), ("point_select", 64), ("read_write", 8), ("read_write", 64)]
START_S = 60
CONFIDENCE = 0.95
DIRECT, THROUGH, PLAIN = "direct", "through", "plain"
HEADS = {DIRECT: "direct", THROUGH: "through the proxy", PLAIN: "without TLS through the proxy"}


@dataclass(frozen=True)
class Figures:
    """One short load."""

    qps: float
    p50_us: float


Round = dict[str, Figures]
"""Of each way."""


@dataclass(frozen=True)
class Place:
    """Where the server is, for the proxy and for clients that go past it."""

    url: str
    direct: str
    certificates: Certificates | None
    """With them all goes by ports."""


def pinned(cpu: int, command: list[str]) -> list[str]:
    return ["taskset", "-c", str(cpu), *command]


@contextmanager
def server(args: argparse.Namespace, folder: Path) -> Iterator[Place]:
    """A fresh server on its CPU."""
    data, socket, log = folder / "data", folder / "s.sock", folder / "log.err"
    own = [str(args.mysqld), "--no-defaults", "--user=root", f"--datadir={data}", f"--tmpdir={folder}", f"--log-error={log}"]
    subprocess.run([*own, "--initialize-insecure"], check=True)
    options = [f"--socket={socket}", f"--pid-file={folder}/pid", "--secure-file-priv=NULL"]
    place = Place(f"mysql://?socket={socket}", f"mysql://root@localhost/sbtest?socket={socket}", None)
    if args.tls:
        made, port = certificates(folder), free_port()
        options += ["--bind-address=127.0.0.1", f"--port={port}", "--skip-name-resolve"]
        options += [f"--ssl-ca={made.ca}", f"--ssl-cert={made.certificate}", f"--ssl-key={made.key}"]
        place = Place(f"mysql://127.0.0.1:{port}", f"mysql://root@127.0.0.1:{port}/sbtest?tls=required", made)
    else:
        options.append("--skip-networking")
    logs = ["--loose-mysqlx=OFF", "--skip-log-bin", "--max-connections=600"]
    sizes = ["--innodb-buffer-pool-size=512M", "--innodb-flush-log-at-trx-commit=2"]
    command = pinned(args.server_cpu, [*own, *options, *logs, *sizes])
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        client = [str(args.mysqld.parent / "mysql"), "--no-defaults", "-uroot", f"-S{socket}"]
        user = "CREATE USER IF NOT EXISTS root@127.0.0.1; GRANT ALL ON *.* TO root@127.0.0.1"
        create = [*client, "-e", f"CREATE DATABASE IF NOT EXISTS sbtest; {user}"]
        deadline = time.monotonic() + START_S
        while subprocess.run(create, capture_output=True, check=False).returncode != 0:
            if running.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"ERROR: the server does not start\n{log.read_text()}")
            time.sleep(0.2)
        yield place
    finally:
        running.terminate()
        running.wait(timeout=START_S)


def certificates(folder: Path) -> Certificates:
    shell = SystemShell()
    try:
        return make_certificates(shell, folder / "certificates")
    finally:
        shell.close()


@contextmanager
def capture(args: argparse.Namespace, folder: Path, place: Place, summary: dict[str, object]) -> Iterator[dict[str, str]]:
    """A capture on the client's CPU; the URLs of all ways. Its own summary comes at the end."""
    listen, tls = str(folder / "p.sock"), list[str]()
    ways = {DIRECT: place.direct, THROUGH: f"mysql://root@localhost/sbtest?socket={listen}"}
    if place.certificates:
        listen = f"127.0.0.1:{free_port()}"
        tls = ["--tls-certificate", str(place.certificates.certificate), "--tls-key", str(place.certificates.key)]
        ways = {
            DIRECT: place.direct,
            THROUGH: f"mysql://root@{listen}/sbtest?tls=required",
            PLAIN: f"mysql://root@{listen}/sbtest",
        }
    where = ["--server", place.url, "--listen", listen, *tls, "--json", str(folder / "app.trace")]
    command = pinned(args.client_cpu, [str(args.stack), "capture", *where, *args.more])
    log = folder / "capture.log"
    with log.open("w") as said:
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True)
    deadline = time.monotonic() + START_S
    while "\ncapturing " not in f"\n{log.read_text()}":
        if running.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"ERROR: the capture does not start\n{log.read_text()}")
        time.sleep(0.1)
    try:
        yield ways
    finally:
        running.send_signal(signal.SIGINT)
        out, _ = running.communicate(timeout=START_S)
    summary.update(json.loads(out))


def load(args: argparse.Namespace, url: str, script: str, *verb: str) -> dict[str, object]:
    where = ["--server", url, "--tables", str(TABLES), "--table-size", str(ROWS)]
    command = pinned(args.client_cpu, [str(args.load), "oltp", script, verb[0], *where, *verb[1:]])
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"ERROR: {' '.join(command)}\n{done.stdout}{done.stderr}")
    found: dict[str, object] = json.loads(done.stdout) if "--json" in verb else {}
    return found


def measured(args: argparse.Namespace, url: str, script: str, connections: int) -> Figures:
    how = ["--connections", str(connections), "--seconds", str(args.seconds), "--json"]
    result = load(args, url, script, "run", *how)
    transactions = result["transactions"]
    assert isinstance(transactions, dict) and isinstance(result["qps"], float)
    (transaction,) = transactions.values()
    return Figures(result["qps"], transaction["latency_us_p50"])


def measure(args: argparse.Namespace, ways: Mapping[str, str], script: str, connections: int) -> list[Round]:
    """Each way begins as often as the others."""
    rounds: list[Round] = []
    for number in range(args.rounds):
        names = list(ways)
        order = names[number % len(names) :] + names[: number % len(names)]
        figures = {way: measured(args, ways[way], script, connections) for way in order}
        rounds.append({way: figures[way] for way in names})
    return rounds


def ratio(rounds: list[Round], way: str) -> dict[str, float]:
    """QPS of a way / direct: the geometric mean over the rounds and its interval."""
    value, low, high = geometric_mean([math.log(each[way].qps / each[DIRECT].qps) for each in rounds], CONFIDENCE)
    return {"ratio": value, "ci_low": low, "ci_high": high}


def row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def head(ways: Mapping[str, str]) -> str:
    cells = ["load, connections", *(HEADS[way] for way in ways), *(f"{HEADS[way]} / direct" for way in ways if way != DIRECT)]
    return row(cells) + row(["---"] * len(cells))


def show(script: str, connections: int, rounds: list[Round], ratios: Mapping[str, dict[str, float]]) -> str:
    cells = [f"{script}, {connections}"]
    for way in rounds[0]:
        qps, p50 = (statistics.median(getattr(each[way], name) for each in rounds) for name in ("qps", "p50_us"))
        cells.append(f"{qps:.0f} QPS, p50 {p50:.0f} us")
    cells += [f"{found['ratio']:.3f} ({found['ci_low']:.3f} to {found['ci_high']:.3f})" for found in ratios.values()]
    return row(cells)


def main() -> None:
    parser = argparse.ArgumentParser(description="QPS through the capturing proxy beside QPS without it")
    parser.add_argument("--mysqld", type=Path, required=True, help="with mysql, the client, beside it")
    parser.add_argument("--load", type=Path, required=True, help="the program upshift-load")
    parser.add_argument("--stack", type=Path, required=True, help="the program upshift-stack")
    parser.add_argument("--server-cpu", type=int, default=0, help="the server's CPU")
    parser.add_argument("--client-cpu", type=int, default=1, help="the CPU of the load client and the proxy")
    parser.add_argument("--tls", action="store_true", help="end TLS in the proxy")
    parser.add_argument("--seconds", type=int, default=2, help="of each load")
    parser.add_argument("--rounds", type=int, default=10, help="of each way at each point")
    parser.add_argument("--json", type=Path, help="write every figure here")
    parser.add_argument("more", nargs="*", help="more options of the capture, behind --")
    args = parser.parse_args()
    results: list[dict[str, object]] = []
    summary: dict[str, object] = {}
    with tempfile.TemporaryDirectory(prefix="through-") as name, server(args, Path(name)) as place:
        load(args, place.direct, "read_write", "prepare")
        with capture(args, Path(name), place, summary) as ways:
            sys.stdout.write(head(ways))
            for script, connections in POINTS:
                rounds = measure(args, ways, script, connections)
                ratios = {way: ratio(rounds, way) for way in ways if way != DIRECT}
                sys.stdout.write(show(script, connections, rounds, ratios))
                sys.stdout.flush()
                raw = [{way: asdict(figures) for way, figures in each.items()} for each in rounds]
                named = {"qps" if way == THROUGH else f"qps_{way}": found for way, found in ratios.items()}
                results.append({"load": script, "connections": connections, **named, "rounds": raw})
    sys.stdout.write(f"\n{json.dumps(summary, indent=1)}\n")
    if args.json:
        machine = describe_machine().model_dump(mode="json")
        args.json.write_text(json.dumps({"machine": machine, "loads": results, "capture": summary}, indent=1))


if __name__ == "__main__":
    main()
