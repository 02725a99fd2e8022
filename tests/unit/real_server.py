"""A real MySQL or MariaDB in a folder of its own, with the options of a test."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
from mariadb_kind import KIND as MARIADB

from upshift.paths import CHECKOUT
from upshift.server.kind import Program
from upshift.server.mysql import KIND as MYSQL

_START_S = 60.0
_STOP_S = 30.0
_AS_ROOT = ("--user=root",) if os.geteuid() == 0 else ()


@dataclass(frozen=True)
class RealServer:
    """One that answers."""

    socket: Path

    @property
    def url(self) -> str:
        return f"mysql://root@/?socket={self.socket}"

    def run(self, *statements: str) -> list[Any]:
        """The last statement's rows."""
        rows: list[Any] = []
        with pymysql.connect(unix_socket=str(self.socket), user="root", autocommit=True) as connection:
            for statement in statements:
                with connection.cursor() as cursor:
                    cursor.execute(statement)
                    rows = list(cursor.fetchall())
        return rows

    def table(self, show: str) -> Mapping[str, str]:
        """The names and values of a SHOW statement."""
        return dict(self.run(show))


def initialised(program: str | Path, data: Path, options: Sequence[str] = ()) -> Path:
    """``data`` as a new data folder of this server's, whose root needs no password."""
    binary = Path(program)
    kind = MARIADB if binary.name.startswith("mariadb") else MYSQL
    command = kind.initialise(Program(kind=kind.name, binary=binary), data)
    subprocess.run((*command.argv, *options), check=True, capture_output=True)
    return data


@contextlib.contextmanager
def started(program: str, data: Path, options: Sequence[str]) -> Iterator[RealServer]:
    """The server on this data folder, until the end of the block. A socket's path must be short: it has a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="upshift-") as home:
        socket, log = Path(home) / "s", data.with_suffix(".log")
        # A server removes all #sql* in its tmpdir when it starts: in /tmp, those of servers that run.
        places = [f"--datadir={data}", f"--tmpdir={home}", f"--socket={socket}", f"--pid-file={home}/pid"]
        command = [program, "--no-defaults", *_AS_ROOT, *places]
        with log.open("wb") as stderr:
            process = subprocess.Popen([*command, "--skip-networking", *options], stdout=stderr, stderr=stderr)
        try:
            server = RealServer(socket)
            deadline = time.monotonic() + _START_S
            while not _answers(server):
                assert process.poll() is None and time.monotonic() < deadline, log.read_text(errors="replace")[-3000:]
                time.sleep(0.05)
            yield server
        finally:
            process.terminate()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _answers(server: RealServer) -> bool:
    try:
        server.run("SELECT 1")
    except (pymysql.MySQLError, OSError):
        return False
    return True


OF_THE_MACHINE = frozenset(
    (
        "barriers-off",
        "data-in-memory",
        "data-on-network",
        "disk-nearly-full",
        "huge-pages-always",
        "idle-cpus-halt",
        "io-scheduler",
        "server-swapped",
        "somaxconn",
        "swappiness",
    )
)
"""Findings that the machine of the tests may deserve, and that no setting of the server mends."""
READS = ("Com_select", "Com_show_", "Com_set_option")


def changes_of(before: Mapping[str, str], after: Mapping[str, str]) -> set[str]:
    """The kinds of statements that ran between two looks at ``SHOW GLOBAL STATUS LIKE 'Com\\_%'``."""
    return {name for name, count in after.items() if count != before.get(name)}


def checked(url: str, *arguments: str) -> Any:
    """The report of `upshift check`, run as its users run it."""
    command = [sys.executable, "-m", "upshift", "check", "--server", url, "--json", *arguments]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(CHECKOUT / "src")}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
