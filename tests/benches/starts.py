"""Why do two starts of one server differ?

    PYTHONPATH=src .venv/bin/python tests/benches/starts.py PATH/mysqld --pairs 12 --json FILE

Each pair is two starts of the same server at once, on the first CPU, with copies of the same data. sysbench's
oltp_point_select drives one after the other, in turns, from the last CPU. In every second pair, idle CPUs do not halt at once
(see ``_halting.polling``). Of each figure, ``start_log_sd`` is the spread of the logarithm of the ratio of two starts beyond
what their turns explain, and ``pair_log_sd`` that of a pair of turns, as in turn_spread.py.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import _served
import psutil
from _halting import DEFAULT_NS, polling
from real_server import RealServer, initialised, started

OPTIONS = (
    *("--innodb-buffer-pool-size=1G", "--innodb-redo-log-capacity=1G", "--innodb-flush-log-at-trx-commit=2"),
    *("--mysqlx=OFF", "--secure-file-priv=NULL", "--sync-binlog=0"),
)
STATES = {"halt": 0, "poll": DEFAULT_NS}
"""For how long an idle CPU polls, in ns."""
FIGURES = ("qps", "user_cpu_us_per_query", "system_cpu_us_per_query", "client_cpu_us_per_query")
SCRIPT = "oltp_point_select"
CONNECTS_S = 0.6
"""Until all connections of sysbench are busy."""


def counted(server: RealServer, processes: list[psutil.Process]) -> list[float]:
    """Executed statements, seconds, and user and kernel CPU seconds of the server and of the client."""
    executed = int(server.run("SHOW GLOBAL STATUS LIKE 'Com_stmt_execute'")[0][1])
    times = [each.cpu_times() for each in processes]
    return [executed, time.monotonic(), *(figure for each in times for figure in (each.user, each.system))]


def turn(server: RealServer, process: psutil.Process, given: argparse.Namespace) -> dict[str, float]:
    seconds = math.ceil(CONNECTS_S + given.seconds) + 60
    argv = _served.sysbench(server, SCRIPT, f"--threads={given.connections}", f"--time={seconds}", "run")
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
            process = psutil.Process(_served.pinned(server))
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
    return {"level": round(level, 2), "start_log_sd": round(max(0.0, between) ** 0.5, 4), "pair_log_sd": round(within**0.5, 4)}


def main() -> int:
    parser = _served.server_parser(__doc__)
    parser.add_argument("--pairs", type=int, default=12, help="pairs of starts in each state")
    parser.add_argument("--turns", type=int, default=3, help="turns of each start")
    parser.add_argument("--seconds", type=float, default=1.5, help="of a turn")
    given = parser.parse_args()
    mysqld = given.server.resolve()
    pairs: dict[str, list[list[list[dict[str, float]]]]] = {state: [] for state in STATES}
    with tempfile.TemporaryDirectory(prefix="upshift-starts-") as folder:
        folders = [Path(folder) / "one", Path(folder) / "other"]
        initialised(mysqld, folders[0], tuple(given.option))
        with started(str(mysqld), folders[0], (*OPTIONS, *given.option)) as server:
            server.run("CREATE DATABASE sbtest")
            subprocess.run(_served.sysbench(server, SCRIPT, "prepare"), check=True, stdout=subprocess.DEVNULL)
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
        spreads = ", ".join(f"{name} {row[name]['level']:,.1f} +- {100 * row[name]['start_log_sd']:.1f} %" for name in FIGURES)
        sys.stdout.write(f"{row['state']}: {spreads}\n")
    _served.keep(given, "starts", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
