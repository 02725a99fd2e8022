"""Child processes that are never left behind: they die with Upshift, and are stopped with all that they started."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, TYPE_CHECKING

from upshift import interrupts

if TYPE_CHECKING:
    from upshift.shell import Command

_PR_SET_PDEATHSIG = 1
_GRACE_S = 3.0
_POLL_S = 0.02
_LIBC = ctypes.CDLL(None, use_errno=True)

# The kernel sends PR_SET_PDEATHSIG's signal when the thread that forked ends: this one lasts as long as Upshift.
_FORKER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="fork")


class SystemProcess:
    """A child in a session of its own, so that it can be stopped with all that it started."""

    def __init__(self, popen: subprocess.Popen[bytes], uninterrupted: Callable[[str], None] | None) -> None:
        self.popen = popen
        self.pid = popen.pid
        self._uninterrupted = uninterrupted

    def poll(self) -> int | None:
        return self.popen.poll()

    def wait(self, timeout_s: float) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(timeout_s)
        return self.poll()

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            try:
                os.kill(self.pid, number)
            except PermissionError:
                # sudo runs as root, and passes on what root sends it. Where this sudo may not, the child is waited for.
                line = ("sudo", "-n", "kill", "-s", signal.Signals(number).name.removeprefix("SIG"), "--", str(self.pid))
                subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, check=False)

    def pause(self) -> None:
        """Stop it and what it started as they are, until ``resume``."""
        self._signal_group(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal_group(signal.SIGCONT)

    def _signal_group(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def stop(self) -> None:
        """End it with all that it started. A further interrupt ends the time that it has for that."""
        with interrupts.held():
            if self._uninterrupted:
                self._wait_out(self._uninterrupted)
                return
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGTERM)
            deadline = time.monotonic() + _GRACE_S
            while self.poll() is None and time.monotonic() < deadline and not interrupts.hurried():
                time.sleep(_POLL_S)
            _kill_session(self.pid)
            self.popen.wait()

    def _wait_out(self, say: Callable[[str], None]) -> None:
        """A package manager: on SIGINT apt gives up a download, but lets dpkg finish. It gets the time that this takes."""
        if self.poll() is None:
            self.signal(signal.SIGINT)
        told = -1
        while self.poll() is None:
            if interrupts.count() != told:
                told = interrupts.count()
                say(f"waiting for the package manager (process {self.pid}): killed, it would leave packages half installed")
            time.sleep(_POLL_S)


def start(command: Command, stdout: int | IO[bytes]) -> SystemProcess:
    """Start a command. Raises OSError where it cannot be run."""
    conductor = os.getpid()

    def in_child() -> None:
        # A killed Upshift must not leave servers behind: the kernel passes its death on.
        _LIBC.prctl(_PR_SET_PDEATHSIG, command.when_orphaned)
        if os.getppid() != conductor:
            os.kill(os.getpid(), command.when_orphaned)
        if command.cpus:
            os.sched_setaffinity(0, command.cpus)

    def fork() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command.argv,
            cwd=command.cwd,
            env={**os.environ, **command.env},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=in_child,  # noqa: PLW1509  it takes no lock that another thread could hold
        )

    return SystemProcess(_FORKER.submit(fork).result(), command.uninterrupted)


def _kill_session(number: int) -> None:
    """SIGKILL for all of a session, whatever their process groups: ninja's compilers are each in one of their own."""
    deadline = time.monotonic() + _GRACE_S
    while (members := list(_session(number))) and time.monotonic() < deadline:
        for pid in members:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_S)


def _session(number: int) -> Iterator[int]:
    """The processes of a session that still live."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                # PID (NAME) STATE PARENT GROUP SESSION ..., and a name may hold spaces and brackets.
                state, _parent, _group, session = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[:4]
                if session == str(number) and state not in "ZX":
                    yield int(folder.name)
