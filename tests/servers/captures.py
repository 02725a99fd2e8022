"""What was captured of clients of a real server."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from upshift.native.programs import PROGRAMS, programs_dir, target_dir

_START_S = 60.0
_END_S = 30.0


def program(name: str) -> Path:
    """One of crates/: what cargo test has just built, or else what `upshift` builds."""
    for folder in (target_dir() / "debug", programs_dir()):
        if (folder / name).is_file():
            return folder / name
    pytest.skip(f"{name} is not built: cargo test builds it")


def own_programs() -> dict[str, str]:
    """The environment of an ``upshift`` that takes the same ones, and need not build them."""
    assert program("upshift-load").parent == program("upshift-stack").parent
    return {PROGRAMS: str(program("upshift-load").parent)}


def made(name: str, *words: str | Path) -> str:
    """What one of Upshift's programs printed."""
    done = subprocess.run((program(name), *words), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextlib.contextmanager
def captured(socket: Path, trace: Path, *, postgres: bool = False) -> Iterator[Path]:
    """The socket of a proxy in front of a server's; at the context's end the trace is whole."""
    # PostgreSQL's clients are given the folder, and look for this name.
    place = trace.with_name(".s.PGSQL.5432") if postgres else trace.with_suffix(".sock")
    log = trace.with_suffix(".log")
    server = f"{'postgres' if postgres else 'mysql'}://?socket={socket}"
    with log.open("wb") as out:
        argv = (program("upshift-stack"), "capture", "--listen", place, "--server", server, trace)
        process = subprocess.Popen(argv, stdout=out, stderr=out)
    try:
        end = time.monotonic() + _START_S
        while not place.is_socket():
            assert process.poll() is None and time.monotonic() < end, log.read_text()
            time.sleep(0.02)
        yield place
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
