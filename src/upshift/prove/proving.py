"""Starts both servers, runs the parts of a proof, and judges."""

from __future__ import annotations

import contextlib
import json
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pymysql

from upshift.errors import UpshiftError, UsageError
from upshift.prove import suites
from upshift.prove.model import Asked, Part, Proof, Verdict
from upshift.prove.reading import compared, crashes, short_paths, stormed, switches
from upshift.server.data import copy
from upshift.server.instance import RunningServer, running
from upshift.server.kind import Program, ServerKind
from upshift.shell import Command, Shell

# Statistics that change by themselves change plans. A crash of the server loses nothing that a process has written.
_SETTINGS: Mapping[str, str] = {
    "innodb_buffer_pool_size": "128M",
    "innodb_redo_log_capacity": "100M",
    "innodb_stats_auto_recalc": "OFF",
    "innodb_flush_log_at_trx_commit": "2",
    "innodb_flush_method": "nosync",
    "max_connections": "200",
    # With MySQL 9.7.4's own checks of foreign keys, an INSERT that refers to a table may fail an assertion (row0sel.cc:4831).
    "loose_innodb_native_foreign_keys": "ON",
}
_MIX_TIMEOUT_S = 1200.0
_SECONDS_PER_STATEMENT = 0.05
_CRASH_LOAD_S = 8.0
_BEFORE_KILL_S = 4.0


def prove(shell: Shell, kind: ServerKind, differ: Path, asked: Asked, folder: Path, *, say: Callable[[str], None]) -> Proof:
    """The whole proof, in ``folder``, which holds data and logs.

    Raises ServerFailed when a server does not start, UpshiftError when a part could not run.
    """
    work = _Work(shell, kind, differ, asked, folder, say)
    with work.stock() as stock, work.patched() as patched:
        own = switches(_variables(stock.socket), _variables(patched.socket))
        for name in own:
            if name not in asked.settings:
                _run(patched.socket, f"SET GLOBAL {name} = ON")
        own = {name: value for name, value in _variables(patched.socket).items() if name in own}
        say(f"the patched server's own variables: {', '.join(f'{n}={v}' for n, v in own.items()) or 'none'}")
        before = _status(patched.socket)
        parts = [work.compared("mix", stock, patched, "mix")]
        if asked.statements:
            parts.append(work.random(stock, patched))
        taken = short_paths(_status(stock.socket), before, _status(patched.socket))
    if asked.minutes:
        with work.patched() as patched:
            parts.append(work.storm(patched, tuple(own)))
        parts.append(work.crash(tuple(own)))
    parts.extend(suites.parts(shell, asked, tuple(own), folder, say=say))
    verdict: Verdict = "different" if any(part.wrong for part in parts) else "equal"
    return Proof(asked=asked, switches=own, short_paths=taken, parts=tuple(parts), verdict=verdict)


class _Work:
    def __init__(
        self, shell: Shell, kind: ServerKind, differ: Path, asked: Asked, folder: Path, say: Callable[[str], None]
    ) -> None:
        self._shell, self._kind, self._differ, self._asked, self._folder, self._say = shell, kind, differ, asked, folder, say
        self._data = folder / "data"
        shell.run(kind.initialise(Program(kind=kind.name, binary=asked.stock), self._data), log=folder / "log", timeout_s=600)

    @contextlib.contextmanager
    def stock(self) -> Iterator[RunningServer]:
        binary = self._asked.stock
        settings = {name: value for name, value in self._asked.settings.items() if self._knows(binary, name)}
        with self._running("stock", binary, settings) as server:
            yield server

    @contextlib.contextmanager
    def patched(self) -> Iterator[RunningServer]:
        with self._running("patched", self._asked.patched, self._asked.settings) as server:
            yield server

    def _knows(self, binary: Path, name: str) -> bool:
        """Whether stock has this option: a switch of the series is the patched server's alone."""
        option = f"--{name.replace('_', '-')}"
        done = self._shell.run(Command((str(binary), "--no-defaults", "--help", "--verbose")), check=False, timeout_s=60)
        return option in done.stdout or not done.stdout

    @contextlib.contextmanager
    def _running(self, label: str, binary: Path, settings: Mapping[str, str], *, keep: bool = False) -> Iterator[RunningServer]:
        data, log = self._folder / f"{label}-data", self._folder / f"{label}.log"
        if not keep:
            copy(self._shell, self._data, data)
            (data / "auto.cnf").unlink(missing_ok=True)
        program = Program(kind=self._kind.name, binary=binary)
        with running(
            self._shell,
            self._kind,
            program,
            data,
            log=log,
            settings={**_SETTINGS, **settings},
            label=f"{label}: ",
            cleanly=False,
        ) as server:
            yield server

    def compared(self, name: str, stock: RunningServer, patched: RunningServer, *arguments: str, timeout_s: float = 0) -> Part:
        allow = ("--allow", str(self._asked.allow)) if self._asked.allow else ()
        sockets = ("--stock", str(stock.socket), "--patched", str(patched.socket))
        said = self._run(name, *arguments, *sockets, *allow, timeout_s=timeout_s or _MIX_TIMEOUT_S, server=patched)
        return compared("mix" if name == "mix" else "random", said)

    def random(self, stock: RunningServer, patched: RunningServer) -> Part:
        extent = ("--statements", str(self._asked.statements), "--seed", str(self._asked.seed))
        timeout_s = _MIX_TIMEOUT_S + self._asked.statements * _SECONDS_PER_STATEMENT
        return self.compared("random", stock, patched, "random", *extent, timeout_s=timeout_s)

    def storm(self, patched: RunningServer, own: tuple[str, ...]) -> Part:
        seconds = self._asked.minutes * 60
        said = self._run("storm", *self._storm(patched.socket, own, seconds), timeout_s=seconds + 300, server=patched)
        return stormed("storm", said, *crashes(patched.log.read_text(errors="replace")))

    def _storm(self, socket: Path, own: tuple[str, ...], seconds: float) -> tuple[str, ...]:
        named = [each for name in own for each in ("--switch", name)]
        return ("storm", "--socket", str(socket), "--seconds", str(seconds), "--seed", str(self._asked.seed), *named)

    def crash(self, own: tuple[str, ...]) -> Part:
        """A load, the server killed in the midst of it, and its rows after the restart."""
        self._say("crash: kill -9 in the midst of the load, and a restart")
        with contextlib.suppress(UpshiftError), self._running("patched", self._asked.patched, self._asked.settings) as server:
            log = self._folder / "crash-load.log"
            command = Command((str(self._differ), *self._storm(server.socket, own, _CRASH_LOAD_S)))
            load = self._shell.spawn(command, log=log)
            time.sleep(_BEFORE_KILL_S)
            server.process.signal(signal.SIGKILL)
            load.wait(_CRASH_LOAD_S + 60)
        with self._running("patched", self._asked.patched, self._asked.settings, keep=True) as server:
            said = self._run("crash", "check", "--socket", str(server.socket), timeout_s=120, server=server)
            return stormed("crash", said, *crashes(server.log.read_text(errors="replace")))

    def _run(self, name: str, *arguments: str, timeout_s: float, server: RunningServer) -> Mapping[str, Any]:
        self._say(f"{name}: {' '.join(arguments[:1])}")
        output = self._folder / f"{name}.json"
        command = Command((str(self._differ), "--output", str(output), *arguments))
        log = self._folder / f"{name}.log"
        done = self._shell.run(command, log=log, timeout_s=timeout_s, on_line=self._say, check=False)
        if done.returncode not in (0, 1) or not output.is_file():
            server.check()
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-8:]) if log.is_file() else ""
            raise UpshiftError(
                f"the part {name} could not run\n{tail}", f"its whole output is in {log}; the servers' logs lie beside"
            )
        found: Mapping[str, Any] = json.loads(output.read_text())
        return found


def refuse_servers(asked: Asked) -> None:
    """Raises UsageError for servers that are none, and for a list that is not there."""
    for option, binary in (("--stock", asked.stock), ("--patched", asked.patched)):
        if not binary.is_file():
            raise UsageError(f"{option}: there is no {binary}", "name the server's binary, mysqld")
    if asked.allow and not asked.allow.is_file():
        raise UsageError(f"--allow: there is no {asked.allow}", "name a TOML file; docs/reference/patch-prove.md has its keys")
    suites.refuse(asked)


def _variables(socket: Path) -> dict[str, str]:
    return {str(name).lower(): str(value) for name, value in _run(socket, "SHOW GLOBAL VARIABLES")}


def _status(socket: Path) -> dict[str, str]:
    return {str(name): str(value) for name, value in _run(socket, "SHOW GLOBAL STATUS")}


def _run(socket: Path, sql: str) -> list[Any]:
    with pymysql.connect(unix_socket=str(socket), user="root", autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())
