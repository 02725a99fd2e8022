"""Every command that Upshift runs goes through here: logged so that it can be pasted, timed, bounded, and never left behind."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from upshift.errors import CommandFailed, MissingTool

_PR_SET_PDEATHSIG = 1
_GRACE_S = 3.0
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Command:
    """A program with its arguments, the folder it runs in, and what it adds to the environment."""

    argv: tuple[str, ...]
    cwd: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    cpus: tuple[int, ...] = ()
    """CPUs that the command may use; empty: all."""
    when_orphaned: signal.Signals = signal.SIGKILL
    """What the kernel sends it when Upshift is killed; one that must stop what it started itself gets SIGTERM."""

    def pasteable(self) -> str:
        """One line that a shell runs with the same effect."""
        assignments = [f"{name}={shlex.quote(value)}" for name, value in self.env.items()]
        pinned = ["taskset", "-c", ",".join(map(str, self.cpus))] if self.cpus else []
        line = " ".join([*assignments, *pinned, shlex.join(self.argv)])
        return f"(cd {shlex.quote(str(self.cwd))} && {line})" if self.cwd else line


@dataclass(frozen=True)
class Completed:
    """How a command ended. ``cpu_s`` counts it and all of its descendants that it waited for."""

    returncode: int
    stdout: str
    wall_s: float
    cpu_s: float
    peak_memory_bytes: int
    """The largest resident set of the command itself or of one of its descendants."""


class Process(Protocol):
    """A command that runs in the background."""

    pid: int

    def poll(self) -> int | None: ...
    def wait(self, timeout_s: float) -> int | None: ...
    def signal(self, number: int) -> None: ...


class Shell(Protocol):
    """Runs commands. The real one is ``SystemShell``; unit tests bring a fake."""

    def run(
        self,
        command: Command,
        *,
        log: Path | None = None,
        timeout_s: float | None = None,
        on_line: Callable[[str], None] | None = None,
        check: bool = True,
    ) -> Completed:
        """Run to the end. Output goes to ``log`` (appended) or, without one, into ``Completed.stdout``.

        Raises MissingTool when the program is not there, and with ``check`` CommandFailed on a non-zero exit or a timeout.
        """
        ...

    def spawn(self, command: Command, *, log: Path) -> Process:
        """Start in the background, output appended to ``log``."""
        ...


class SystemProcess:
    """A child in a process group of its own, so that it can be stopped with all that it started."""

    def __init__(self, popen: subprocess.Popen[bytes], owner: SystemShell) -> None:
        self._popen = popen
        self._owner = owner
        self.pid = popen.pid

    def poll(self) -> int | None:
        code = self._popen.poll()
        if code is not None:
            self._owner.forget(self)
        return code

    def wait(self, timeout_s: float) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(timeout_s)
        return self.poll()

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill_group(self) -> None:
        """Stop it with all that it started. ninja starts compilers in groups of their own, and stops them on SIGTERM."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(_GRACE_S)
            os.killpg(self.pid, signal.SIGKILL)
        self._popen.wait()


class SystemShell:
    """Runs real commands, writes each to ``commands_log``, and on ``close`` stops all that still run."""

    def __init__(self, commands_log: Path | None = None) -> None:
        self._commands_log = commands_log
        self._live: set[SystemProcess] = set()
        self._lock = threading.Lock()

    def run(
        self,
        command: Command,
        *,
        log: Path | None = None,
        timeout_s: float | None = None,
        on_line: Callable[[str], None] | None = None,
        check: bool = True,
    ) -> Completed:
        self._record(command)
        started = time.monotonic()
        process = self._start(command, subprocess.PIPE)
        popen = process._popen
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            process.kill_group()

        timer = threading.Timer(timeout_s, expire) if timeout_s else None
        lines: list[str] = []
        try:
            if timer:
                timer.start()
            assert popen.stdout is not None
            with _opened(log) as out:
                for raw in popen.stdout:
                    if out:
                        out.write(raw)
                        out.flush()
                    line = raw.decode(errors="replace")
                    lines.append(line)
                    if out:
                        del lines[:-_TAIL_LINES]
                    if on_line:
                        on_line(line.rstrip("\n"))
            _, status, usage = os.wait4(popen.pid, 0)
            popen.returncode = code = os.waitstatus_to_exitcode(status)
        except ChildProcessError:
            # The timer's thread was first to collect it.
            code, usage = popen.wait(), None
        except BaseException:
            process.kill_group()
            raise
        finally:
            if timer:
                timer.cancel()
            popen.stdout and popen.stdout.close()
            self.forget(process)
        if expired.is_set() and code == 0:
            # A command that was told to stop has not done its work, even when it stops in good order.
            code = -signal.SIGTERM
        done = Completed(
            returncode=code,
            stdout="".join(lines),
            wall_s=time.monotonic() - started,
            cpu_s=usage.ru_utime + usage.ru_stime if usage else 0.0,
            peak_memory_bytes=usage.ru_maxrss * 1024 if usage else 0,
        )
        if check and (expired.is_set() or done.returncode != 0):
            raise _failure(command, done, log, timeout_s if expired.is_set() else None)
        return done

    def spawn(self, command: Command, *, log: Path) -> Process:
        self._record(command)
        with log.open("ab") as out:
            return self._start(command, out)

    def close(self) -> None:
        """Kill every process group that still runs. Called on the way out, whatever the reason."""
        for process in list(self._live):
            process.kill_group()
            self.forget(process)

    def forget(self, process: SystemProcess) -> None:
        with self._lock:
            self._live.discard(process)

    def _start(self, command: Command, stdout: int | IO[bytes]) -> SystemProcess:
        def in_child() -> None:
            # A killed Upshift must not leave servers behind: the kernel passes its death on.
            _LIBC.prctl(_PR_SET_PDEATHSIG, command.when_orphaned)
            if command.cpus:
                os.sched_setaffinity(0, command.cpus)

        try:
            popen = subprocess.Popen(
                command.argv,
                cwd=command.cwd,
                env={**os.environ, **command.env},
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=in_child,  # noqa: PLW1509  no thread of ours holds a lock while we fork
            )
        except FileNotFoundError as error:
            if command.cwd and not command.cwd.is_dir():
                raise CommandFailed(f"the folder {command.cwd} is gone", "start again: it is made anew") from error
            raise MissingTool(
                f"{command.argv[0]} is not on this machine",
                "`upshift doctor` says how to get what is missing",
            ) from error
        except OSError as error:
            raise CommandFailed(
                f"{command.argv[0]} cannot be run: {error.strerror}", "it must be an executable for this machine"
            ) from error
        process = SystemProcess(popen, self)
        with self._lock:
            self._live.add(process)
        return process

    def _record(self, command: Command) -> None:
        if self._commands_log:
            self._commands_log.parent.mkdir(parents=True, exist_ok=True)
            with self._commands_log.open("a") as out:
                out.write(command.pasteable() + "\n")


_TAIL_LINES = 200


@contextlib.contextmanager
def _opened(log: Path | None) -> Iterator[IO[bytes] | None]:
    if log is None:
        yield None
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as out:
        yield out


def _failure(command: Command, done: Completed, log: Path | None, timeout_s: float | None) -> CommandFailed:
    program = Path(command.argv[0]).name
    if "No space left on device" in done.stdout:
        return CommandFailed(f"{program} ran out of disk", "free some space, then go on with --resume")
    how = f"did not end within {timeout_s:.0f} s" if timeout_s else f"failed with exit code {done.returncode}"
    tail = "".join(done.stdout.splitlines(keepends=True)[-12:]).rstrip()
    where = f"its whole output is in {log}" if log else f"the command was: {command.pasteable()}"
    return CommandFailed(f"{program} {how}\n{tail}", where, returncode=done.returncode, log=done.stdout)
