"""Every command that Upshift runs goes through here: logged so that it can be pasted, timed, bounded, and never left behind."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import select
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from upshift import interrupts
from upshift.errors import CommandFailed, MissingTool
from upshift.process import SystemProcess, hidden_names, start


@dataclass(frozen=True)
class Command:
    """A program with its arguments, the folder it runs in, and what it adds to the environment."""

    argv: tuple[str, ...]
    cwd: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    hidden: str = ""
    """The beginning of the names of variables that it does not get of Upshift's own environment; empty: it gets all."""
    cpus: tuple[int, ...] = ()
    """CPUs that the command may use; empty: all."""
    when_orphaned: signal.Signals = signal.SIGKILL
    """What the kernel sends it when Upshift is killed; one that must stop what it started itself gets SIGTERM."""
    stop_signal: signal.Signals = signal.SIGTERM
    """What ends a server in good order."""
    drop_signal: signal.Signals = signal.SIGKILL
    """What ends at once a server whose data nobody needs, without leaving anything behind."""
    uninterrupted: Callable[[str], None] | None = None
    """Set for a package manager: it gets SIGINT and is waited for, never killed. This is told that the wait goes on."""

    def pasteable(self) -> str:
        """One line that a shell runs with the same effect."""
        assignments = [f"{name}={shlex.quote(value)}" for name, value in self.env.items()]
        without = [word for name in hidden_names(self.hidden) for word in ("-u", shlex.quote(name))]
        if without:
            assignments = ["env", *without, *assignments]
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


announce: Callable[[str], None] | None = None
"""Gets the line of each command before it runs; `upshift --verbose` sets it."""


class Process(Protocol):
    """A command that runs in the background."""

    pid: int

    def poll(self) -> int | None: ...
    def wait(self, timeout_s: float) -> int | None: ...
    def signal(self, number: int) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def keep_to(self, cpus: Collection[int]) -> None: ...
    def stop(self) -> None: ...


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
        expired = threading.Event()
        with contextlib.ExitStack() as files:
            # Writing to a pipe would end an uninterrupted command once Upshift was killed.
            captured = files.enter_context(tempfile.TemporaryFile()) if command.uninterrupted else None
            process = self._start(command, captured or subprocess.PIPE)

            def expire() -> None:
                expired.set()
                process.stop()

            timer = threading.Timer(timeout_s, expire) if timeout_s else None
            try:
                if timer:
                    timer.start()
                with _opened(log) as out:
                    printed = _read(_output(process.popen, captured, expired), out, on_line)
                code, usage = _collect(process.popen)
            except BaseException:
                process.stop()
                raise
            finally:
                if timer:
                    timer.cancel()
                process.popen.stdout and process.popen.stdout.close()
            self._forget(process)
        if expired.is_set() and code == 0:
            # A command that was told to stop has not done its work, even when it stops in good order.
            code = -signal.SIGTERM
        done = Completed(
            returncode=code,
            stdout=printed,
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
        """Stop every process that still runs. Called on the way out, whatever the reason."""
        with interrupts.held():
            while self._live:  # another thread may start one meanwhile
                for process in list(self._live):
                    process.stop()
                    self._forget(process)

    def _forget(self, process: SystemProcess) -> None:
        with self._lock:
            self._live.discard(process)

    def _start(self, command: Command, stdout: int | IO[bytes]) -> SystemProcess:
        with interrupts.held():
            try:
                process = start(command, stdout)
            except FileNotFoundError as error:
                if command.cwd and not command.cwd.is_dir():
                    raise CommandFailed(f"the folder {command.cwd} is gone", "start again: it is created again") from error
                raise MissingTool(
                    f"{command.argv[0]} is not on this machine",
                    "`upshift doctor` says how to get what is missing",
                ) from error
            except subprocess.SubprocessError as error:  # the child could not keep to its CPUs
                raise CommandFailed(
                    f"{command.argv[0]} cannot be kept to the CPUs {', '.join(map(str, command.cpus))}",
                    "name CPUs that this process may use: `taskset -cp $$` lists them",
                ) from error
            except OSError as error:
                raise CommandFailed(f"{command.argv[0]} cannot be run: {error.strerror}", _why_not(error)) from error
            with self._lock:
                self._live = {each for each in self._live if each.popen.returncode is None} | {process}
            return process

    def _record(self, command: Command) -> None:
        if announce:
            announce(f"+ {command.pasteable()}")
        if self._commands_log:
            self._commands_log.parent.mkdir(parents=True, exist_ok=True)
            with self._commands_log.open("a") as out:
                out.write(command.pasteable() + "\n")


_TAIL_LINES = 200
_LOOK_S = 0.5


def _why_not(error: OSError) -> str:
    """What to do where a command does not start."""
    if error.errno in (errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE):
        return "memory, processes or open files are at a limit, which may be the container's: stop something else, or raise it"
    return "it must be an executable for this machine"


def _output(popen: subprocess.Popen[bytes], captured: IO[bytes] | None, expired: threading.Event) -> Iterator[bytes]:
    """A command's output by lines: as they come, or from its file once it has ended."""
    if captured is None:
        assert popen.stdout is not None
        yield from _lines(popen, popen.stdout.fileno(), expired)
        return
    _ended(popen, os.WEXITED)
    captured.seek(0)
    yield from captured


def _ended(popen: subprocess.Popen[bytes], how: int) -> bool:
    """Whether a command has ended; who collects its exit code still can."""
    try:
        return os.waitid(os.P_PID, popen.pid, how | os.WNOWAIT) is not None
    except ChildProcessError:  # The thread of the timeout has collected it.
        return True


def _lines(popen: subprocess.Popen[bytes], pipe: int, expired: threading.Event) -> Iterator[bytes]:
    """The lines from a pipe to its end, or until the command has ended because its time ``expired``: a daemon that it left
    behind may hold the pipe open, and write into it.
    """
    begun = b""
    ready = select.poll()
    ready.register(pipe, select.POLLIN)
    is_last = False
    while not is_last:
        # What the command itself wrote before its end fits into one read: a pipe holds no more.
        is_last = expired.is_set() and _ended(popen, os.WEXITED | os.WNOHANG)
        if ready.poll(0 if is_last else _LOOK_S * 1000):
            read = os.read(pipe, 1 << 16)
            *lines, begun = (begun + read).split(b"\n")
            yield from (line + b"\n" for line in lines)
            if not read:
                break
    if begun:
        yield begun


def _read(output: Iterator[bytes], log: IO[bytes] | None, on_line: Callable[[str], None] | None) -> str:
    """All of the output, or its end where a log has the whole."""
    lines: list[str] = []
    for raw in output:
        lines.append(raw.decode(errors="replace"))
        if log:
            log.write(raw)
            log.flush()
            del lines[:-_TAIL_LINES]
        if on_line:
            on_line(lines[-1].rstrip("\n"))
    return "".join(lines)


def _collect(popen: subprocess.Popen[bytes]) -> tuple[int, resource.struct_rusage | None]:
    """The exit code, and what the command used; None when the thread of the timeout was first to collect it."""
    try:
        _, status, usage = os.wait4(popen.pid, 0)
    except ChildProcessError:
        return popen.wait(), None
    popen.returncode = os.waitstatus_to_exitcode(status)
    return popen.returncode, usage


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
        return CommandFailed(
            f"{program} ran out of disk",
            "free some space, then start again; `optimize` and `study` go on with --resume last",
            returncode=done.returncode,
            log=done.stdout,
        )
    how = f"did not end within {timeout_s:.0f} s" if timeout_s else f"failed with exit code {done.returncode}"
    tail = "".join(done.stdout.splitlines(keepends=True)[-12:]).rstrip()
    where = f"its whole output is in {log}" if log else f"the command was: {command.pasteable()}"
    return CommandFailed(f"{program} {how}\n{tail}", where, returncode=done.returncode, log=done.stdout)
