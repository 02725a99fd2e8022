"""A server that runs: started, waited for, and always stopped."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from upshift.errors import ServerFailed
from upshift.server.kind import Program, ServerKind, Unit
from upshift.shell import Process, Shell
from upshift.values import environment_number

_START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 180.0
_DYING_S = 5.0
_LONGEST_SOCKET_BYTES = 107
"""unix(7): sun_path has 108 bytes, the last of which ends it."""
_DROP_TIMEOUT_S = 30.0
"""PostgreSQL takes some seconds on a busy machine."""


def start_limit_s() -> float:
    """How long a server may take until it answers. Raises UsageError."""
    return environment_number("UPSHIFT_START_TIMEOUT_S", _START_TIMEOUT_S)


def stop_limit_s() -> float:
    """How long a server may take to write its pages and stop. Raises UsageError."""
    return environment_number("UPSHIFT_STOP_TIMEOUT_S", STOP_TIMEOUT_S)


@dataclass(frozen=True)
class RunningServer:
    """A server that answers on ``socket``."""

    kind: ServerKind
    program: Program
    process: Process
    socket: Path
    log: Path
    label: str = ""
    """What stands before its errors: which of several servers it is."""

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def tools(self) -> Path:
        """The folder of the client programs that belong to it."""
        return self.program.tools or self.program.binary.parent

    def queries(self) -> int:
        """Statements since the start, by the server's own counter. Raises ServerFailed when it died or hangs."""
        return self.counted("query")

    def counted(self, unit: Unit) -> int:
        """As ``queries``, in any unit."""
        try:
            return self.counted_within_a_load(unit)
        finally:
            self.kind.forget(self.socket)

    def counted_within_a_load(self, unit: Unit) -> int:
        """The same over a connection that is kept, if the server has such: a login would be part of what is counted."""
        self.check()
        try:
            return self.kind.counters(self.socket).of(unit)
        except ServerFailed as error:
            # How it died says more than that it does not answer; a dying server closes its connections first.
            self.process.wait(_DYING_S)
            self.check()
            raise ServerFailed(f"{self.label}{error.message}", error.hint) from error

    def check(self) -> None:
        """Raises ServerFailed when the server is gone."""
        code = self.process.poll()
        if code is not None:
            raise ServerFailed(
                f"{self.label}the server ended by itself ({_ending(code)})\n{_tail(self.log)}", f"its log is {self.log}"
            )

    def quiet(self) -> bool:
        """Whether background work has calmed down. Raises ServerFailed when the server is gone."""
        self.check()
        return self.kind.quiet(self.socket)

    def pause(self) -> None:
        """Stop it as it is, with its background work, until ``resume``."""
        self.process.pause()

    def resume(self) -> None:
        self.process.resume()

    def settle(self, timeout_s: float) -> bool:
        """Wait until background work has calmed down; False when it had not after ``timeout_s``."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if self.quiet():
                return True
            time.sleep(0.2)
        return False


@contextlib.contextmanager
def running(
    shell: Shell,
    kind: ServerKind,
    program: Program,
    data: Path,
    *,
    log: Path,
    settings: Mapping[str, str] = {},
    environment: Mapping[str, str] = {},
    under: tuple[str, ...] = (),
    cpus: tuple[int, ...] = (),
    start_timeout_s: float | None = None,
    cleanly: bool = True,
    label: str = "",
) -> Iterator[RunningServer]:
    """Start ``program`` on ``data`` and stop it cleanly at the end, so that profiles get written.

    ``under`` is a command that becomes the server. It answers within ``start_timeout_s``; None: ``start_limit_s``. Not
    ``cleanly``, it is killed at the end: nobody needs its data.

    The socket lies in a temporary folder of its own, with a path that is short enough for a unix socket.
    Raises ServerFailed when it does not start, dies, or does not stop.
    """
    timeout_s = start_limit_s() if start_timeout_s is None else start_timeout_s
    home = _home(kind)
    socket = home / kind.socket_name
    process: Process | None = None
    try:
        command = kind.start(program, data, socket, {**kind.settings(), **settings})
        command = replace(command, argv=(*under, *command.argv), env={**command.env, **environment}, cpus=cpus)
        process = shell.spawn(command, log=log)
        server = RunningServer(kind, program, process, socket, log, label)
        _await_ready(server, timeout_s)
        yield server
        server.check()
        if cleanly:
            _stop(server, command.stop_signal)
    finally:
        kind.forget(socket)
        if process is not None:
            _drop(process, command.drop_signal)
            process.stop()  # With what it started: a command before the server may have ended without it.
        shutil.rmtree(home, ignore_errors=True)


def _home(kind: ServerKind) -> Path:
    home = Path(tempfile.mkdtemp(prefix="upshift-"))
    if len(os.fsencode(home / kind.socket_name)) > _LONGEST_SOCKET_BYTES:  # $TMPDIR may be any folder
        home.rmdir()
        home = Path(tempfile.mkdtemp(prefix="upshift-", dir="/tmp"))
    return home


def _await_ready(server: RunningServer, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        code = server.process.poll()
        if code is not None:
            raise ServerFailed(
                f"{server.label}the server did not start ({_ending(code)})\n{_tail(server.log)}",
                f"its log is {server.log}; a port or socket taken, or an option that it does not know, are the usual reasons",
            )
        if server.kind.ready(server.socket):
            return
        time.sleep(0.1)
    raise ServerFailed(
        f"{server.label}the server did not answer within {timeout_s:.0f} s\n{_tail(server.log)}", f"its log is {server.log}"
    )


def _drop(process: Process, number: signal.Signals) -> None:
    for each in (number, signal.SIGKILL):
        if process.poll() is None:
            process.signal(each)
            process.wait(_DROP_TIMEOUT_S)


def _stop(server: RunningServer, number: signal.Signals) -> None:
    server.process.signal(number)
    limit_s = stop_limit_s()
    code = server.process.wait(limit_s)
    if code is None:
        raise ServerFailed(
            f"{server.label}the server did not stop within {limit_s:.0f} s",
            f"its log is {server.log}; UPSHIFT_STOP_TIMEOUT_S gives it longer",
        )
    if code != 0:
        raise ServerFailed(
            f"{server.label}the server did not stop cleanly ({_ending(code)})\n{_tail(server.log)}", f"its log is {server.log}"
        )


def _ending(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _tail(log: Path) -> str:
    with contextlib.suppress(OSError):
        return "\n".join(log.read_text(errors="replace").splitlines()[-8:])
    return ""
