"""Upshift's commands, and its proxy in front of a server on a port, for the benches of the stack."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from upshift.native.programs import programs_dir
from upshift.stack.driver_matrix.servers import free_port

CHECKOUT = Path(__file__).resolve().parents[2]
_START_S, _END_S = 1.0, 60.0


def upshift(*words: str | Path) -> str:
    """What a command prints to stdout. Raises CalledProcessError when it fails."""
    command = [str(CHECKOUT / "upshift"), *map(str, words)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


@contextmanager
def captured(url: str, trace: Path) -> Iterator[str]:
    """The URL of a proxy before the server of ``url``; at the context's end ``trace`` is whole."""
    parts = urlsplit(url)
    place = f"127.0.0.1:{free_port()}"
    server = f"{parts.scheme}://{parts.hostname}:{parts.port}"
    command = (programs_dir() / "upshift-stack", "capture", "--listen", place, "--server", server, trace)
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        time.sleep(_START_S)
        yield parts._replace(netloc=f"{parts.username}@{place}").geturl()
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(_END_S)
