"""Does `upshift stack examine` accuse anybody where nothing is wrong, while the machine is busy?

    PYTHONPATH=src .venv/bin/python tests/benches/innocent.py --binary PATH/mysqld --runs 20 --json FILE

A tuned TPC-C client with a warehouse for each connection, so that none waits for another's locks, works through the proxy for
some seconds, while every CPU has two busy loops besides. `examine` asks the server, too. Each run says which suspects were
named, and which could not be seen: a capture never shows P5, P6, P8, P9 and E1, so that of these nothing is tested here
(E1: tests/benches/same_engine.py). The exit code is 1 when anybody is named.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pymysql
from _busy import busy
from _proxied import captured, upshift

from upshift.machine import describe_machine
from upshift.shell import SystemShell
from upshift.stack.driver_matrix.servers import find_kind, running

# All data fit into the pool, and a commit waits for no disk: the faults E4 and E3 are none of this server's.
SETTINGS = (
    "SET GLOBAL innodb_buffer_pool_size = 1073741824",
    "SET GLOBAL innodb_flush_log_at_trx_commit = 2",
    "SET GLOBAL sync_binlog = 0",
)


def run(url: str, trace: Path, seconds: int, connections: int) -> dict[str, Any]:
    """The suspects that one capture named, with their shares, and how many transactions it has."""
    with captured(url, trace) as through:
        words = ("--batch", "rewritten", "--connections", str(connections), "--seconds", str(seconds))
        upshift("load", "tpcc", "run", "--server", through, *words)
    found = json.loads(upshift("stack", "examine", trace, "--server", url, "--json"))
    return {
        "named": {each["suspect"]: round(each["share"], 4) for each in found["findings"]},
        "transactions": found["budget"]["transactions"],
        "unseen": [each["suspect"] for each in found["unseen"]],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    runs: list[dict[str, Any]] = []
    loops = 2 * (os.cpu_count() or 1)
    shell = SystemShell()
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        with running(shell, find_kind("mysql", given.binary), folder / "server", None) as ground:
            parts = urlsplit(ground.url)
            with pymysql.connect(host=parts.hostname, port=parts.port or 0, user=parts.username) as connection:
                for each in SETTINGS:
                    connection.cursor().execute(each)
            upshift("load", "tpcc", "prepare", "--server", ground.url, "--warehouses", str(given.connections))
            with busy(loops, given.runs * (given.seconds + 60)):
                for number in range(given.runs):
                    runs.append(run(ground.url, folder / f"{number}.trace", given.seconds, given.connections))
                    sys.stdout.write(f"run {number + 1}: {runs[-1]}\n")
                    sys.stdout.flush()
    shell.close()
    named = Counter(suspect for each in runs for suspect in each["named"])
    sys.stdout.write(f"named in {given.runs} runs: {dict(named)}\n")
    if given.json:
        result = {
            "schema_version": 1,
            "machine": describe_machine().model_dump(mode="json"),
            "busy_loops": loops,
            "seconds": given.seconds,
            "connections": given.connections,
            "runs": runs,
        }
        given.json.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if named else 0


if __name__ == "__main__":
    sys.exit(main())
