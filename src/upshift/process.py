"""Child processes that are never left behind: they die with Upshift, and are stopped with all that they started."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, TYPE_CHECKING

from upshift import interrupts

if TYPE_CHECKING:
    from upshift.shell import Command

_PR_SET_PDEATHSIG = 1
# What commands print is read: neither its words nor its figures may follow the user's language. LANGUAGE goes before the
# locale in glibc's messages. Where the system has no C.UTF-8, programs behave as in C.
_LOCALE = {"LC_ALL": "C.UTF-8", "LANGUAGE": ""}
# What clock_getcpuclockid(3) returns on Linux: the process's number, inverted, above three bits, of which 2 is "time on a CPU".
_CPUCLOCK_SCHED = 2
_GRACE_S = 3.0
_POLL_S = 0.02
# The kernel may have been built without these lists.
_CHILDREN_ARE_LISTED = Path(f"/proc/self/task/{os.getpid()}/children").exists()
# It reads a line from Upshift, or the end of the pipe that Upshift's own end closes.
_GUARD = 'read _ || kill -CONT "$@"'
_ENVIRONMENT = threading.RLock()
"""Held while variables are taken out of the environment, and while it is copied."""
_LIBC = ctypes.CDLL(None, use_errno=True)

# The kernel sends PR_SET_PDEATHSIG's signal when the thread that forked ends: this one lasts as long as Upshift.
_FORKER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="fork")


class SystemProcess:
    """A child in a session of its own, so that it can be stopped with all that it started."""

    def __init__(self, popen: subprocess.Popen[bytes], uninterrupted: Callable[[str], None] | None) -> None:
        self.popen = popen
        self.pid = popen.pid
        self._uninterrupted = uninterrupted
        self._guard: subprocess.Popen[bytes] | None = None

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
        """Stop it and all that it started as they are, until ``resume``."""
        self._signal_group(signal.SIGSTOP)
        stopped: set[int] = set()
        # What is stopped starts nothing more: once a look finds nobody new, all are stopped.
        while fresh := set(descendants(self.pid)) - stopped:
            _signal_each(fresh, signal.SIGSTOP)
            stopped |= fresh
        if stopped and self._guard is None:
            self._guard = _start_guard((*stopped, self.pid))

    def resume(self) -> None:
        _signal_each(descendants(self.pid), signal.SIGCONT)
        self._signal_group(signal.SIGCONT)
        self._release_guard()

    def keep_to(self, cpus: Collection[int]) -> None:
        """Move it with all that it started to ``cpus``, and with them what they start from now on; also while it is paused.

        Raises OSError where that is not allowed.
        """
        moved: set[int] = set()
        # A thread that is new has the CPUs of the one that started it: once a look finds nobody new, all are there.
        while fresh := {thread for pid in (self.pid, *descendants(self.pid)) for thread in _threads(pid)} - moved:
            for thread in fresh:
                with contextlib.suppress(ProcessLookupError):
                    os.sched_setaffinity(thread, cpus)
            moved |= fresh

    def _release_guard(self) -> None:
        if self._guard:
            self._guard.communicate(b"\n")
            self._guard = None

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
            _kill_all(self.pid)
            self.popen.wait()
            self._release_guard()

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
            env={**_inherited(command.hidden), **_LOCALE, **command.env},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=in_child,  # noqa: PLW1509  it takes no lock that another thread could hold
        )

    return SystemProcess(_FORKER.submit(fork).result(), command.uninterrupted)


@contextlib.contextmanager
def hidden(prefix: str) -> Iterator[None]:
    """Without the variables whose names begin so, for a library that reads the environment by itself."""
    if not hidden_names(prefix):
        yield
        return
    with _ENVIRONMENT:
        taken = {name: os.environ.pop(name) for name in hidden_names(prefix)}
        try:
            yield
        finally:
            os.environ.update(taken)


def hidden_names(prefix: str) -> tuple[str, ...]:
    """The variables of the environment whose names begin so; none for an empty prefix."""
    return tuple(sorted(name for name in os.environ if prefix and name.startswith(prefix)))


def _inherited(prefix: str) -> dict[str, str]:
    """The environment without those."""
    with _ENVIRONMENT:
        without = hidden_names(prefix)
        return {name: value for name, value in os.environ.items() if name not in without}


def descendants(pid: int) -> Iterator[int]:
    """The processes that ``pid`` started, that those started, and so on, whatever their groups and sessions. Of a running
    process, one that starts or ends meanwhile may be missed.
    """
    for child in _children(pid) if _CHILDREN_ARE_LISTED else _found_children(pid):
        yield child
        yield from descendants(child)


def of_threads(pid: int, name: str) -> Iterator[bytes]:
    """What the kernel says in ``/proc/PID/task/*/NAME`` of each thread that has not ended. A server may have hundreds while it
    is measured, and Path takes three times as long.
    """
    tasks = f"/proc/{pid}/task"
    with contextlib.suppress(OSError):
        for thread in os.listdir(tasks):  # noqa: PTH208
            with contextlib.suppress(OSError), open(f"{tasks}/{thread}/{name}", "rb", buffering=0) as file:  # noqa: PTH123
                yield file.read()


def cpu_s(pid: int) -> float:
    """CPU time of a process with all of its threads, also of those that have ended, to the nanosecond. Raises OSError."""
    return time.clock_gettime(~pid << 3 | _CPUCLOCK_SCHED)


def _threads(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(folder.name) for folder in Path(f"/proc/{pid}/task").iterdir()]
    return []


def _children(pid: int) -> Iterator[int]:
    for each in of_threads(pid, "children"):
        yield from map(int, each.split())


def _found_children(pid: int) -> list[int]:
    return [each for each, (_state, parent, _group, _session) in _processes() if parent == str(pid)]


def _signal_each(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _start_guard(pids: Iterable[int]) -> subprocess.Popen[bytes]:
    """Lets processes go on when Upshift is killed: what the kernel or a parent then sends them ends none that is stopped."""
    line = ("sh", "-c", _GUARD, "sh", *map(str, pids))
    return subprocess.Popen(line, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)


def _kill_all(pid: int) -> None:
    """SIGKILL for all of a session and for all descendants: ninja's compilers are in groups of their own, PostgreSQL's
    processes in sessions.
    """
    deadline = time.monotonic() + _GRACE_S
    while (members := {*_session(pid), *descendants(pid)}) and time.monotonic() < deadline:
        _signal_each(members, signal.SIGKILL)
        time.sleep(_POLL_S)


def _session(number: int) -> Iterator[int]:
    """The processes of a session that still live."""
    return (pid for pid, (state, _parent, _group, session) in _processes() if session == str(number) and state not in "ZX")


def _processes() -> Iterator[tuple[int, list[str]]]:
    """All processes, each with its state, parent, process group and session."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                # PID (NAME) STATE PARENT GROUP SESSION ..., and a name may hold spaces and brackets.
                yield int(folder.name), (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[:4]
