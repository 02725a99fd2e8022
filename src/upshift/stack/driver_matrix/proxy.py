"""The capturing proxy between a driver's program and a server, and what it wrote as Parquet."""

from __future__ import annotations

import contextlib
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from upshift.errors import CommandFailed
from upshift.shell import Command, Process, Shell
from upshift.stack.driver_matrix.certificates import Certificates
from upshift.stack.driver_matrix.ground import place_of
from upshift.stack.driver_matrix.servers import free_port

_READY = "capturing "
_START_TIMEOUT_S = 20.0
_STOP_TIMEOUT_S = 20.0
_EXPORT_TIMEOUT_S = 60.0
_POLL_S = 0.01


@contextlib.contextmanager
def captured(shell: Shell, program: Path, url: str, folder: Path, ending: Certificates | None = None) -> Iterator[str]:
    """The URL of a proxy before the server of ``url``; when it is left, ``folder`` holds what was exported of the trace.

    With certificates TLS ends in the proxy, and goes on to the server without.

    Raises CommandFailed with the proxy's own words.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    trace, log = folder / "trace", folder / "proxy.log"
    parts = urlsplit(url)
    port = free_port()
    server = f"{parts.scheme}://{place_of(parts)}"
    where = ("--listen", f"127.0.0.1:{port}", "--server", server)
    tls = ("--tls-certificate", str(ending.certificate), "--tls-key", str(ending.key)) if ending else ()
    command = (str(program), "capture", *where, *tls, "--drain-seconds", "2", str(trace))
    process = shell.spawn(Command(command), log=log)
    try:
        _await(process, log)
        login = f"{parts.username or ''}{f':{parts.password}' if parts.password else ''}"
        yield f"{parts.scheme}://{login}@127.0.0.1:{port}{parts.path}"
        process.signal(signal.SIGINT)
        code = process.wait(_STOP_TIMEOUT_S)
        if code != 0:
            raise CommandFailed(f"the proxy ended with {code}: {_said(log)}", f"its log is {log}")
    finally:
        if process.poll() is None:
            process.signal(signal.SIGKILL)
            process.wait(_STOP_TIMEOUT_S)
    shell.run(Command((str(program), "export", str(trace), str(folder))), timeout_s=_EXPORT_TIMEOUT_S)


def _await(process: Process, log: Path) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while _READY not in _said(log):
        if process.poll() is not None or time.monotonic() > deadline:
            raise CommandFailed(f"the proxy does not listen: {_said(log)}", f"its log is {log}")
        time.sleep(_POLL_S)


def _said(log: Path) -> str:
    return log.read_text(errors="replace").strip() if log.is_file() else ""
