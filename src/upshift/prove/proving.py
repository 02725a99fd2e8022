"""Starts both servers, runs the parts of a proof, and judges."""

from __future__ import annotations

import contextlib
import json
import signal
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pymysql

from upshift.door import number_of, versions_of
from upshift.errors import ServerFailed, UpshiftError, UsageError
from upshift.patches.model import read_series
from upshift.prove import suites
from upshift.prove.allowed import differing_tests
from upshift.prove.model import Asked, Part, PartName, Proof, Verdict
from upshift.prove.reading import compared, crashes, short_paths, stormed, switches
from upshift.server.data import copy
from upshift.server.instance import RunningServer, running
from upshift.server.kind import Program, ServerKind, bare, refuse_reserved
from upshift.server.kinds import default_kind
from upshift.server.mysql_building import PLUGINS
from upshift.shell import Command, Shell

# Statistics that change by themselves change plans. A crash of the server loses nothing that a process has written.
_SETTINGS: Mapping[str, str] = {
    "innodb_buffer_pool_size": "128M",
    "innodb_redo_log_capacity": "100M",
    "innodb_stats_auto_recalc": "OFF",
    # An event runs at its own time.
    "event_scheduler": "OFF",
    "innodb_flush_log_at_trx_commit": "2",
    "innodb_flush_method": "nosync",
    # The last packet of an answer says that it took longer, which a busy machine makes true of one server alone.
    "long_query_time": "86400",
    "max_connections": "200",
    # With MySQL 9.7.4's own checks of foreign keys, an INSERT that refers to a table may fail an assertion (row0sel.cc:4831).
    "loose_innodb_native_foreign_keys": "ON",
}
# With a server that hangs at one statement of each client.
_MIX_TIMEOUT_S = 2400.0
_SECONDS_PER_STATEMENT = 0.05
_SUITE_TIMEOUT_S = 6 * 3600.0
_CRASH_LOAD_S = 8.0
_BEFORE_KILL_S = 4.0
_DYING_S = 5.0
_ANSWER_TIMEOUT_S = 60
"""For the server's counters and variables: a server that hangs must not take along what was found."""


def prove(
    shell: Shell,
    kind: ServerKind,
    differ: Path,
    asked: Asked,
    folder: Path,
    *,
    say: Callable[[str], None],
    keep: Callable[[Proof], None] = lambda _proof: None,
) -> Proof:
    """The whole proof, in ``folder``, which holds data and logs; ``keep`` gets what there is of it as each part ends.

    It ends early with a server that fails after something wrong was found. Raises ServerFailed when one fails before, or does
    not start, UpshiftError when a part could not run, UsageError for servers of two versions.
    """
    _refuse_versions(shell, kind, asked)
    work = _Work(shell, kind, differ, asked, folder, say)
    parts: list[Part] = []

    def proof(*, complete: bool) -> Proof:
        verdict: Verdict = "different" if any(part.wrong for part in parts) else "equal"
        return Proof(asked=asked, switches=work.switches, parts=tuple(parts), verdict=verdict, complete=complete)

    try:
        with contextlib.closing(work.parts()) as found:
            for part in found:
                parts.append(part)
                keep(proof(complete=False))
    except ServerFailed as error:
        if not any(part.wrong for part in parts):
            raise
        say(f"the proof ends early: {error.message}")
        return proof(complete=False)
    return proof(complete=True)


class _Work:
    def __init__(
        self, shell: Shell, kind: ServerKind, differ: Path, asked: Asked, folder: Path, say: Callable[[str], None]
    ) -> None:
        self._shell, self._kind, self._differ, self._asked, self._folder, self._say = shell, kind, differ, asked, folder, say
        self._patches = read_series(kind.series).patches if kind.series else ()
        self._data = folder / "data"
        self.switches: Mapping[str, str] = {}
        """Of the patched server, once it has run."""
        stock = Program(kind=kind.name, binary=asked.stock)
        lasting = {name: value for name, value in asked.settings.items() if bare(name) in kind.lasting}
        shell.run(kind.initialise(stock, self._data, lasting), log=folder / "log", timeout_s=600)

    def parts(self) -> Generator[Part, None, None]:
        with self.stock() as stock, self.patched() as patched:
            self.switches = self._switches_of(stock, patched)
            self._say(f"switches of the patched server: {', '.join(f'{n}={v}' for n, v in self.switches.items()) or 'none'}")
            yield self._counted(patched, lambda: self._compared("mix", stock, patched, "mix"))
            for suite in self._asked.statements_of:
                yield self._counted(patched, partial(self._tests, suite, stock, patched))
            if self._asked.statements:
                yield self._counted(patched, lambda: self._random(stock, patched))
        own = tuple(self.switches)
        if self._asked.minutes:
            free = tuple(name for name in own if not self._is_set(name))
            with self.patched() as patched:
                yield self._counted(patched, lambda: self._storm(patched, free))
            yield self._crash(free)
        # A patch without a switch shows by nothing in the server; its test is there where its source is.
        theirs = [patch for patch in self._patches if patch.variable in own or (own and not patch.variable)]
        tests = {test for patch in theirs for test in patch.tests}
        yield from suites.parts(self._shell, self._asked, own, self._folder, tests_of_patches=tests, say=self._say)

    def _switches_of(self, stock: RunningServer, patched: RunningServer) -> Mapping[str, str]:
        """The patched server's switches, once they are on. Raises ServerFailed where a server is gone, or refuses; UsageError
        for servers that are swapped.
        """
        try:
            switched = self._switched_on(stock, patched)
            self._refuse_swapped(stock, patched, switched)
        except pymysql.MySQLError as error:
            for server in (stock, patched):
                server.process.wait(_DYING_S)
                server.check()
            raise ServerFailed(
                f"the servers' variables cannot be read or set: {error}", f"the patched server's log is {patched.log}"
            ) from error
        return switched

    def _is_set(self, switch: str) -> bool:
        """Whether a setting says what this switch is: it then stays so."""
        return switch in map(bare, self._asked.settings)

    def _switched_on(self, stock: RunningServer, patched: RunningServer) -> Mapping[str, str]:
        """The patched server's switches, each ON unless a setting names it."""
        theirs = _variables(stock.socket)
        for name in switches(self._patches, theirs, _variables(patched.socket)):
            if not self._is_set(name):
                _run(patched.socket, f"SET GLOBAL {name} = ON")
        return switches(self._patches, theirs, _variables(patched.socket))

    def _refuse_swapped(self, stock: RunningServer, patched: RunningServer, switched: Collection[str]) -> None:
        """Raises UsageError where stock has switches of the series, and the patched server has none."""
        known, own = _variables(stock.socket), _variables(patched.socket)
        theirs = [each.variable for each in self._patches if each.variable in known and each.variable not in own]
        if theirs and not switched:
            raise UsageError(
                f"the server of --stock has switches of the patches that the one of --patched lacks: {', '.join(theirs)}",
                "are they swapped? name the server without the patches as --stock",
            )
        if not switched:
            self._say("the patched server has no switch of the series: is it the right one?")

    def _counted(self, patched: RunningServer, run: Callable[[], Part]) -> Part:
        """A part, with the short paths that the server took in it, and what its log says of a crash."""
        before, begin = _status_of(patched), patched.log.stat().st_size
        part = run()
        part = part.model_copy(update={"wrong": (*part.wrong, *crashes(patched.log, begin))})
        # A server that is gone counts nothing any more; the part says that it is.
        with contextlib.suppress(pymysql.MySQLError):
            return part.model_copy(update={"short_paths": short_paths(self._patches, before, _status(patched.socket))})
        return part

    @contextlib.contextmanager
    def stock(self) -> Iterator[RunningServer]:
        # Stock passes over what it does not know: the switches of the series are the patched server's alone.
        settings = {f"loose_{bare(name)}": value for name, value in self._asked.settings.items()}
        with self._running("stock", self._asked.stock, settings) as server:
            yield server

    @contextlib.contextmanager
    def patched(self) -> Iterator[RunningServer]:
        with self._running("patched", self._asked.patched, self._asked.settings) as server:
            yield server

    @contextlib.contextmanager
    def _running(self, label: str, binary: Path, settings: Mapping[str, str], *, keep: bool = False) -> Iterator[RunningServer]:
        data, log = self._folder / f"{label}-data", self._folder / f"{label}.log"
        if not keep:
            # With auto.cnf: answers may hold the server's UUID.
            copy(self._shell, self._data, data)
        tree = suites.tree_of(binary)
        # A patched plugin and stock's fit their own server alone.
        options = (f"--plugin-dir={tree / PLUGINS}",) if tree else ()
        program = Program(kind=self._kind.name, binary=binary, options=options)
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

    def _compared(
        self, name: PartName, stock: RunningServer, patched: RunningServer, *arguments: str, timeout_s: float = 0
    ) -> Part:
        allow = ("--allow", str(self._asked.allow)) if self._asked.allow else ()
        sockets = ("--stock", str(stock.socket), "--patched", str(patched.socket))
        said = self._run(name, *arguments, *sockets, *allow, timeout_s=timeout_s or _MIX_TIMEOUT_S, server=patched)
        return compared(name, said)

    def _random(self, stock: RunningServer, patched: RunningServer) -> Part:
        extent = ("--statements", str(self._asked.statements), "--seed", str(self._asked.seed))
        timeout_s = _MIX_TIMEOUT_S + self._asked.statements * _SECONDS_PER_STATEMENT
        return self._compared("random", stock, patched, "random", *extent, timeout_s=timeout_s)

    def _tests(self, suite: str, stock: RunningServer, patched: RunningServer) -> Part:
        folder = suites.source_of_tests(self._asked) / "mysql-test"
        part = self._compared("tests", stock, patched, "tests", str(folder), "--suite", suite, timeout_s=_SUITE_TIMEOUT_S)
        return part.model_copy(update={"detail": {**part.detail, "suite": suite}})

    def _storm(self, patched: RunningServer, own: tuple[str, ...]) -> Part:
        seconds = self._asked.minutes * 60
        said = self._run("storm", *self._storm_command(patched.socket, own, seconds), timeout_s=seconds + 300, server=patched)
        return stormed("storm", said)

    def _storm_command(self, socket: Path, own: tuple[str, ...], seconds: float) -> tuple[str, ...]:
        named = [each for name in own for each in ("--switch", name)]
        return ("storm", "--socket", str(socket), "--seconds", str(seconds), "--seed", str(self._asked.seed), *named)

    def _crash(self, own: tuple[str, ...]) -> Part:
        """A load, the server killed in the midst of it, and its rows after the restart."""
        self._say("crash: kill -9 in the midst of the load, and a restart")
        output, log = self._folder / "crash-load.json", self._folder / "crash-load.log"
        begin, is_killed = _size_bytes(self._folder / "patched.log"), False
        try:
            with self._running("patched", self._asked.patched, self._asked.settings) as server:
                storm = self._storm_command(server.socket, own, _CRASH_LOAD_S)
                load = self._shell.spawn(Command((str(self._differ), "--output", str(output), *storm)), log=log)
                time.sleep(_BEFORE_KILL_S)
                server.check()
                server.process.signal(signal.SIGKILL)
                is_killed = True
                load.wait(_CRASH_LOAD_S + 60)
        except ServerFailed:
            if not is_killed:
                raise
        if not (output.is_file() and json.loads(output.read_text())["statements"]):
            raise UpshiftError(
                "the part crash could not run: when the server was killed, the load had checked no answer yet",
                f"the machine may be too slow; the load's log is {log}",
            )
        with self._running("patched", self._asked.patched, self._asked.settings, keep=True) as server:
            said = self._run("crash", "check", "--socket", str(server.socket), timeout_s=120, server=server)
            return stormed("crash", said, *crashes(server.log, begin))

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
    """Raises UsageError for servers that are none, for settings that lead them to other data than the proof's own, and for a
    list that is not there.
    """
    for option, binary in (("--stock", asked.stock), ("--patched", asked.patched)):
        if not binary.is_file():
            raise UsageError(f"{option}: there is no {binary}", "name the server's binary, mysqld")
    if asked.stock.samefile(asked.patched):
        raise UsageError(f"--stock and --patched are one file, {asked.stock}", "name the server without the patches as --stock")
    refuse_reserved(default_kind(), "--setting", {name.replace("-", "_"): value for name, value in asked.settings.items()})
    differing_tests(asked.allow)
    suites.refuse(asked)


def _refuse_versions(shell: Shell, kind: ServerKind, asked: Asked) -> None:
    """Raises UsageError for a program that is no server of this kind, and for servers of two versions: their answers may differ
    without a patch.
    """
    servers = {"--stock": asked.stock, "--patched": asked.patched}
    programs = {option: Program(kind=kind.name, binary=binary) for option, binary in servers.items()}
    said = versions_of(shell, lambda _program: kind, programs)
    # Packages and sanitizers add a suffix: 9.7.4-2, 9.7.4-asan.
    stock, patched = (number_of(said[option]).partition("-")[0] for option in servers)
    if stock != patched:
        raise UsageError(
            f"--stock is {stock}, and --patched is {patched}: they come from different sources", "build both from one version"
        )


def _size_bytes(file: Path) -> int:
    return file.stat().st_size if file.is_file() else 0


def _variables(socket: Path) -> dict[str, str]:
    return {str(name).lower(): str(value) for name, value in _run(socket, "SHOW GLOBAL VARIABLES")}


def _status_of(server: RunningServer) -> dict[str, str]:
    """Raises ServerFailed when the server is gone, or hangs."""
    try:
        return _status(server.socket)
    except pymysql.MySQLError as error:
        server.process.wait(_DYING_S)
        server.check()
        raise ServerFailed(f"{server.label}the server does not answer: {error}", f"its log is {server.log}") from error


def _status(socket: Path) -> dict[str, str]:
    return {str(name): str(value) for name, value in _run(socket, "SHOW GLOBAL STATUS")}


def _run(socket: Path, sql: str) -> list[Any]:
    login = partial(pymysql.connect, unix_socket=str(socket), user="root", autocommit=True)
    with login(read_timeout=_ANSWER_TIMEOUT_S) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())
