"""The system's MariaDB on a socket of its own, and what was captured of its clients."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pymysql
import pytest

from upshift.native.programs import programs_dir, target_dir

_START_S = 90.0


def program(name: str) -> Path:
    """One of crates/: what cargo test has just built, or else what `upshift` builds."""
    for folder in (target_dir() / "debug", programs_dir()):
        if (folder / name).is_file():
            return folder / name
    pytest.skip(f"{name} is not built: cargo test builds it")


@contextlib.contextmanager
def mariadb(*options: str) -> Iterator[Path]:
    """Its socket. It ends with the context."""
    server = shutil.which("mariadbd")
    if server is None:
        pytest.skip("mariadbd is not installed")
    folder = Path(tempfile.mkdtemp(prefix="upshift-stack-"))
    socket, root = folder / "s", ["--user=root"] if os.geteuid() == 0 else []
    # Two that are set up in one folder for temporary files remove each other's.
    environment = {**os.environ, "TMPDIR": str(folder)}
    made = ["mariadb-install-db", "--no-defaults", "--skip-test-db", "--auth-root-authentication-method=normal"]
    given = ["--no-defaults", "--skip-networking", "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=64M"]
    where = [f"--datadir={folder / 'data'}"]
    try:
        subprocess.run([*made, *where, *root], check=True, capture_output=True, env=environment)
        with running([server, *given, *where, f"--socket={socket}", *root, *options], folder / "log", environment):
            until(lambda: connects(socket))
            yield socket
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def captured(stack: Path, server: Path, trace: Path) -> Iterator[Path]:
    """The socket of a proxy in front of the server; at the context's end the trace is whole."""
    place = trace.with_suffix(".sock")
    argv = [str(stack), "capture", "--listen", str(place), "--server", f"mysql://?socket={server}", str(trace)]
    with running(argv, trace.with_suffix(".log"), dict(os.environ), signal.SIGINT):
        until(lambda: connects(place))
        yield place


@contextlib.contextmanager
def running(argv: list[str], log: Path, environment: dict[str, str], end: int = signal.SIGTERM) -> Iterator[None]:
    with log.open("wb") as out:
        process = subprocess.Popen(argv, env=environment, stdout=out, stderr=out)
        try:
            yield
        finally:
            process.send_signal(end)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def connects(socket: Path) -> bool:
    try:
        pymysql.connect(unix_socket=str(socket), user="root").close()
    except pymysql.MySQLError:
        return False
    return True


def until(done: Callable[[], bool]) -> None:
    end = time.monotonic() + _START_S
    while not done():
        assert time.monotonic() < end, "it does not answer"
        time.sleep(0.05)
