"""How many system calls does a server make for a prepared point select, as the kernel counts them?

    PYTHONPATH=src .venv/bin/python tests/benches/system_calls.py stock=PLAIN/mysqld patched=PATCHED/mysqld --json FILE

Each server gets a table and one connection that executes a prepared point select again and again, once ``--transactions`` times
and once three times as often. strace is attached to the server and names each call with its thread. The calls of the
threads that serve clients are counted; the slope between the two loads leaves out what logins, preparing and ending take. The
server's own counter says how many statements were executed. The client sends at a rate that leaves the server waiting each
time, as it waits when it is not slowed down by strace: a request that is there already saves stock two calls.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT / "tests" / "unit"))

from real_server import RealServer, initialised, started  # noqa: E402

from upshift.cli import programs  # noqa: E402
from upshift.machine import describe_machine  # noqa: E402
from upshift.shell import SystemShell  # noqa: E402

OPTIONS = ("--innodb-flush-log-at-trx-commit=0", "--skip-log-bin", "--mysqlx=OFF", "--secure-file-priv=NULL")
LONGER = 3
RATE_PER_S = 250
WORKLOAD = "point_select"
TIMEOUT_S = 600.0
ATTACH_TIMEOUT_S = 30.0
_CALL = re.compile(r"^(\d+) +(\w+)\(")
"""A call begins: its thread and name. One that another thread's call cuts in two is resumed by a line of another form."""


def calls(text: str) -> dict[int, Counter[str]]:
    """The calls of each thread, by name, in what ``strace -f`` wrote."""
    found: dict[int, Counter[str]] = {}
    for line in text.splitlines():
        if match := _CALL.match(line):
            found.setdefault(int(match[1]), Counter())[match[2]] += 1
    return found


def of_connections(found: dict[int, Counter[str]]) -> Counter[str]:
    """Of the threads that serve clients. The load client logs in more than once, and which thread takes which login varies."""
    return sum((each for each in found.values() if each["recvfrom"]), Counter())


@contextmanager
def traced(pid: int, file: Path) -> Iterator[None]:
    """strace on all threads of a process, those too that come."""
    argv = ("strace", "-f", "-qq", "-e", "signal=none", "-o", str(file), "-p", str(pid))
    process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + ATTACH_TIMEOUT_S
        while not _is_traced(pid):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"strace could not attach: {process.communicate()[1] if process.poll() is not None else ''}")
            time.sleep(0.02)
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(ATTACH_TIMEOUT_S)


def _is_traced(pid: int) -> bool:
    statuses = [each.read_text() for each in Path(f"/proc/{pid}/task").glob("*/status")]
    return all("TracerPid:\t0\n" not in each for each in statuses)


def load(program: Path, server: RealServer, *words: str) -> None:
    url = f"mysql://root@localhost/sbtest?socket={server.socket}"
    argv = (str(program), "oltp", WORKLOAD, *words, "--server", url)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode:
        raise SystemExit(f"{' '.join(argv)}: exit {done.returncode}\n{done.stderr[-2000:]}")


def executed(server: RealServer) -> int:
    return int(server.table("SHOW GLOBAL STATUS LIKE 'Com_stmt_execute'")["Com_stmt_execute"])


def counted(program: Path, mysqld: Path, options: tuple[str, ...], transactions: int, folder: Path) -> dict[str, Any]:
    """Calls a statement, by name."""
    data = initialised(mysqld, folder / "data", options)
    loads: list[tuple[int, Counter[str]]] = []
    with started(str(mysqld), data, (*OPTIONS, *options)) as server:
        server.run("CREATE DATABASE sbtest")
        load(program, server, "prepare")
        version = str(server.run("SELECT VERSION()")[0][0])
        pid = int(Path(server.run("SELECT @@pid_file")[0][0]).read_text())
        run = ("run", "-c", "1", "--protocol", "prepared", "--autocommit", "--rate", str(RATE_PER_S), "--arrivals", "uniform")
        # From here on the thread of the connection is one that the server has kept.
        load(program, server, *run, "--max-transactions", "10")
        for number in (1, LONGER):
            before, file = executed(server), folder / f"calls-{number}"
            with traced(pid, file):
                bounds = ("--max-transactions", str(number * transactions), "--seconds", str(TIMEOUT_S))
                load(program, server, *run, *bounds)
            loads.append((executed(server) - before, of_connections(calls(file.read_text(errors="replace")))))
    (short, fewer), (long, more) = loads
    names = sorted({*fewer, *more})
    each = {name: (more[name] - fewer[name]) / (long - short) for name in names}
    return {
        "version": version,
        "options": list(options),
        "statements": [short, long],
        "calls": [dict(fewer), dict(more)],
        "calls_per_statement": {name: round(value, 3) for name, value in each.items() if round(value, 3)},
        "all_per_statement": round(sum(each.values()), 3),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("servers", nargs="+", metavar="NAME=MYSQLD")
    parser.add_argument("--option", action="append", default=[], help="an option of all servers, such as --name=ON; repeatable")
    parser.add_argument("--transactions", type=int, default=2000)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    shell = SystemShell()
    try:
        program = programs.built_programs(shell, allow_install=False, say=lambda _line: None) / "upshift-load"
    finally:
        shell.close()
    rows = []
    for named in given.servers:
        name, _, mysqld = named.partition("=")
        with tempfile.TemporaryDirectory(prefix="upshift-calls-") as folder:
            found = counted(program, Path(mysqld).resolve(), tuple(given.option), given.transactions, Path(folder))
        rows.append({"server": name, **found})
        by_name = ", ".join(f"{each:.3f} {call}" for call, each in found["calls_per_statement"].items())
        sys.stdout.write(f"{name}: {found['all_per_statement']:.3f} system calls a statement: {by_name}\n")
        sys.stdout.flush()
    if given.json:
        machine = describe_machine().model_dump(mode="json")
        result = {"schema_version": 1, "machine": machine, "workload": WORKLOAD, "rows": rows}
        given.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
