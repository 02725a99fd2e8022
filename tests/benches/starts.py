"""Why do two starts of one server differ?

    PYTHONPATH=src .venv/bin/python tests/benches/starts.py PATH/mysqld --pairs 12 --json FILE

Each pair is two starts of the same server at once, on the first CPU, with copies of the same data. sysbench's
oltp_point_select drives one after the other, in turns, from the last CPU. In every second pair, idle CPUs do not halt at once
(see ``_halting.polling``). Of each figure, ``between`` is the spread of the logarithm of the ratio of two starts beyond what
their turns explain, and ``within`` that of a pair of turns.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
from _halting import DEFAULT_NS, polling

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT / "tests" / "unit"))

from real_server import RealServer, initialised, started  # noqa: E402

from upshift.machine import describe_machine  # noqa: E402

OPTIONS = (
    *("--innodb-buffer-pool-size=1G", "--innodb-redo-log-capacity=1G", "--innodb-flush-log-at-trx-commit=2"),
    *("--mysqlx=OFF", "--secure-file-priv=NULL", "--sync-binlog=0"),
)
STATES = {"halt": 0, "poll": DEFAULT_NS}
"""For how long an idle CPU polls, in ns."""
FIGURES = ("qps", "user_cpu_us", "kernel_cpu_us", "client_cpu_us")
FIRST, LAST = (str(choose(os.sched_getaffinity(0))) for choose in (min, max))
CONNECTS_S = 0.6
"""Until all connections of sysbench are busy."""


def sysbench(server: RealServer, *words: str) -> tuple[str, ...]:
    login = ("--db-driver=mysql", f"--mysql-socket={server.socket}", "--mysql-user=root", "--mysql-db=sbtest")
    return ("taskset", "-c", LAST, "sysbench", "oltp_point_select", *login, "--tables=4", "--table-size=100000", *words)


def counted(server: RealServer, processes: list[psutil.Process]) -> list[float]:
    """Executed statements, seconds, and user and kernel CPU seconds of the server and of the client."""
    executed = int(server.run("SHOW GLOBAL STATUS LIKE 'Com_stmt_execute'")[0][1])
    times = [each.cpu_times() for each in processes]
    return [executed, time.monotonic(), *(figure for each in times for figure in (each.user, each.system))]


def turn(server: RealServer, process: psutil.Process, given: argparse.Namespace) -> dict[str, float]:
    argv = sysbench(server, f"--threads={given.connections}", f"--time={math.ceil(CONNECTS_S + given.seconds) + 60}", "run")
    client = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    try:
        time.sleep(CONNECTS_S)
        processes = [process, psutil.Process(client.pid)]
        before = counted(server, processes)
        time.sleep(given.seconds)
        queries, wall_s, user_s, system_s, *of_client = (
            end - begin for begin, end in zip(before, counted(server, processes), strict=True)
        )
    finally:
        client.kill()
        client.wait()
    of_query = (user_s, system_s, sum(of_client))
    return dict(zip(FIGURES, (queries / wall_s, *(1e6 * each / queries for each in of_query)), strict=True))


def pair(mysqld: Path, folders: list[Path], given: argparse.Namespace) -> list[list[dict[str, float]]]:
    """The turns of two starts: a list for each."""
    found: list[list[dict[str, float]]] = [[], []]
    with contextlib.ExitStack() as stack:
        servers = []
        for data in folders:
            server = stack.enter_context(started(str(mysqld), data, (*OPTIONS, *given.option)))
            process = psutil.Process(int(Path(server.run("SELECT @@pid_file")[0][0]).read_text()))
            subprocess.run(("taskset", "-a", "-c", "-p", FIRST, str(process.pid)), check=True, stdout=subprocess.DEVNULL)
            servers.append((server, process))
            turn(server, process, given)
        for number in range(given.turns):
            for one in (0, 1) if number % 2 == 0 else (1, 0):
                found[one].append(turn(*servers[one], given))
    return found


def spread(pairs: list[list[list[dict[str, float]]]], figure: str) -> dict[str, float]:
    logs = [[math.log(other[figure] / one[figure]) for one, other in zip(*turns, strict=True)] for turns in pairs]
    within = statistics.mean(map(statistics.variance, logs))
    between = statistics.variance(map(statistics.mean, logs)) - within / len(logs[0])
    level = math.exp(statistics.mean(math.log(each[figure]) for turns in pairs for of in turns for each in of))
    return {"level": round(level, 2), "between": round(max(0.0, between) ** 0.5, 4), "within": round(within**0.5, 4)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server", type=Path, help="a mysqld")
    parser.add_argument("--option", action="append", default=[], help="an option of the server, such as --name=ON; repeatable")
    parser.add_argument("--pairs", type=int, default=12, help="pairs of starts in each state")
    parser.add_argument("--turns", type=int, default=3, help="turns of each start")
    parser.add_argument("--seconds", type=float, default=1.5, help="of a turn")
    parser.add_argument("-c", "--connections", type=int, default=8)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    mysqld = given.server.resolve()
    pairs: dict[str, list[list[list[dict[str, float]]]]] = {state: [] for state in STATES}
    with tempfile.TemporaryDirectory(prefix="upshift-starts-") as folder:
        folders = [Path(folder) / "one", Path(folder) / "other"]
        initialised(mysqld, folders[0], tuple(given.option))
        with started(str(mysqld), folders[0], (*OPTIONS, *given.option)) as server:
            server.run("CREATE DATABASE sbtest")
            subprocess.run(sysbench(server, "prepare"), check=True, stdout=subprocess.DEVNULL)
        shutil.copytree(folders[0], folders[1])
        for number, state in enumerate([*STATES] * given.pairs):
            with polling(STATES[state]):
                pairs[state].append(pair(mysqld, folders, given))
            sys.stderr.write(f"pair {number + 1} of {2 * given.pairs}\n")
    rows: list[dict[str, Any]] = [
        {"state": state, "pairs": given.pairs, "turns": given.turns, **{name: spread(pairs[state], name) for name in FIGURES}}
        for state in STATES
    ]
    for row in rows:
        spreads = ", ".join(f"{name} {row[name]['level']:,.1f} +- {100 * row[name]['between']:.1f} %" for name in FIGURES)
        sys.stdout.write(f"{row['state']}: {spreads}\n")
    if given.json:
        result = {
            **{"schema_version": 1, "what": "starts", "options": list(given.option), "connections": given.connections},
            **{"machine": describe_machine().model_dump(mode="json"), "rows": rows},
        }
        given.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
