"""What benches share that start a MySQL server of their own: their options, its CPU, and the file of their result."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT / "tests" / "unit"))

from real_server import RealServer  # noqa: E402

from upshift.machine import describe_machine  # noqa: E402

FIRST, LAST = (choose(os.sched_getaffinity(0)) for choose in (min, max))
"""The CPUs of the server and of its load."""


def server_parser(doc: str | None, server: str = "a mysqld") -> argparse.ArgumentParser:
    """With the server, its options, the number of connections and the file of the result."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server", type=Path, help=server)
    parser.add_argument("--option", action="append", default=[], help="an option of the server, such as --name=ON; repeatable")
    parser.add_argument("-c", "--connections", type=int, default=8)
    parser.add_argument("--json", type=Path)
    return parser


def pinned(server: RealServer) -> int:
    """The number of the server's process, whose threads all run on the first CPU from now on."""
    pid = int(Path(server.run("SELECT @@pid_file")[0][0]).read_text())
    subprocess.run(("taskset", "-a", "-c", "-p", str(FIRST), str(pid)), check=True, stdout=subprocess.DEVNULL)
    return pid


def sysbench(server: RealServer, script: str, *words: str) -> tuple[str, ...]:
    """The command of a script of sysbench on four tables, on the last CPU."""
    login = ("--db-driver=mysql", f"--mysql-socket={server.socket}", "--mysql-user=root", "--mysql-db=sbtest")
    return ("taskset", "-c", str(LAST), "sysbench", script, *login, "--tables=4", "--table-size=100000", *words)


def keep(given: argparse.Namespace, what: str, rows: list[dict[str, Any]], **more: object) -> None:
    """Write the result into the file that was asked for, if one was."""
    if given.json:
        result = {
            **{"schema_version": 1, "what": what, **more, "options": list(given.option), "connections": given.connections},
            **{"machine": describe_machine().model_dump(mode="json"), "rows": rows},
        }
        given.json.write_text(json.dumps(result, indent=1) + "\n")
