"""Runs a workload's commands against a server."""

from __future__ import annotations

import math
import resource
import time
from dataclasses import dataclass
from pathlib import Path

from upshift.errors import CommandFailed, LoadFailed
from upshift.native.programs import programs_dir
from upshift.server.instance import RunningServer
from upshift.server.kind import ServerKind
from upshift.shell import Command, Process, Shell
from upshift.workload.model import Workload
from upshift.workload.reports import READERS, LoadReport

# A load command is given this long past its own time before it counts as hanging.
OVERTIME_S = 60.0


def fill(shell: Shell, kind: ServerKind, workload: Workload, server: RunningServer, log: Path) -> None:
    """Fill the database. Raises LoadFailed with the command's output."""
    command = _command(workload.fill.command, kind, server, connections=2, seconds=0, seed=0)
    try:
        shell.run(command, log=log, timeout_s=3600)
    except CommandFailed as error:
        server.check()
        raise LoadFailed(f"filling the database for workload '{workload.name}' failed: {error.message}", error.hint) from error


@dataclass
class RunningLoad:
    """A load command in the background."""

    workload: Workload
    server: RunningServer
    process: Process
    log: Path
    own_log: Path
    """Its output until it ends: servers and perf write into ``log`` meanwhile."""
    deadline: float
    connections: int
    pauses: int = 0

    def answered(self) -> int:
        """What its server has done since its start, in the workload's unit. Raises ServerFailed."""
        return self.server.counted_within_a_load(self.workload.unit)

    def ended(self) -> bool:
        return self.process.poll() is not None

    def pause(self) -> None:
        """Stop the driver as it is, its connections kept, until ``resume``. Its time goes on meanwhile."""
        self.pauses += 1
        self.process.pause()

    def resume(self) -> None:
        self.process.resume()

    def finish(self) -> LoadReport:
        """Wait for its end and read its report. Raises LoadFailed when it fails or hangs."""
        cpu_before_s = _children_cpu_s()
        code = self.process.wait(max(0.1, self.deadline - time.monotonic()))
        if code is None:
            self.process.stop()  # with the driver, where a shell has started it
        cpu_s = _children_cpu_s() - cpu_before_s
        written = self.own_log.read_bytes()
        self.own_log.unlink()
        with self.log.open("ab") as log:
            log.write(written)
        output = written.decode(errors="replace")
        if code is None:
            raise LoadFailed(f"workload '{self.workload.name}' did not end by itself", f"its output is in {self.log}")
        if code != 0:
            tail = "\n".join(output.splitlines()[-8:])
            raise LoadFailed(
                f"the load command of workload '{self.workload.name}' failed with exit code {code}\n{tail}",
                f"its whole output is in {self.log}",
            )
        report = READERS[self.workload.load.latency](output, self.pauses * self.connections)
        return report.model_copy(update={"client_cpu_s": cpu_s})


def whole_seconds(seconds: float) -> int:
    """How long a load of ``seconds`` lasts: drivers take whole ones, at least one."""
    return max(1, math.ceil(seconds))


def begin_load(
    shell: Shell,
    kind: ServerKind,
    workload: Workload,
    server: RunningServer,
    *,
    connections: int,
    seconds: float,
    seed: int,
    options: tuple[str, ...] = (),
    cpus: tuple[int, ...],
    log: Path,
) -> RunningLoad:
    """Start a load of ``whole_seconds(seconds)``, with ``options`` behind those of the workload."""
    whole_s = whole_seconds(seconds)
    words = (*workload.load.command, *options)
    command = _command(words, kind, server, connections=connections, seconds=whole_s, seed=seed, cpus=cpus)
    own_log = log.with_name(f"{log.stem}-{server.pid}.load")
    own_log.write_bytes(b"")
    process = shell.spawn(command, log=own_log)
    return RunningLoad(workload, server, process, log, own_log, time.monotonic() + whole_s + OVERTIME_S, connections)


def run_load(
    shell: Shell,
    kind: ServerKind,
    workload: Workload,
    server: RunningServer,
    *,
    seconds: float,
    cpus: tuple[int, ...],
    log: Path,
    connections: int | None = None,
) -> tuple[LoadReport, int]:
    """Load to the end; the report and how many queries the server counted meanwhile.

    Raises LoadFailed when the command fails or the server saw (almost) nothing, ServerFailed when the server dies.
    """
    before = server.queries()
    load = begin_load(
        shell,
        kind,
        workload,
        server,
        connections=connections or workload.connections,
        seconds=seconds,
        seed=1,
        cpus=cpus,
        log=log,
    )
    try:
        report = load.finish()
    except LoadFailed:
        server.check()
        raise
    queries = server.queries() - before
    if queries < 10:
        raise LoadFailed(
            f"workload '{workload.name}' left the server idle: it counted {queries} queries",
            "the load command must use {socket} or {url}; try it by hand against a server that you started",
        )
    return report, queries


def run_fixed(
    shell: Shell,
    kind: ServerKind,
    workload: Workload,
    server: RunningServer,
    *,
    transactions: int,
    options: tuple[str, ...] = (),
    cpus: tuple[int, ...],
    log: Path,
    timeout_s: float,
) -> None:
    """Send so many transactions on one connection, always the same ones. Raises LoadFailed when that fails or takes longer."""
    assert workload.fixed is not None
    words = (*workload.fixed.command, *options)
    whole_s = whole_seconds(timeout_s)
    command = _command(words, kind, server, connections=1, seconds=whole_s, seed=1, cpus=cpus, transactions=transactions)
    try:
        shell.run(command, log=log, timeout_s=timeout_s)
    except CommandFailed as error:
        server.check()
        raise LoadFailed(f"the fixed command of workload '{workload.name}' failed: {error.message}", error.hint) from error


def _children_cpu_s() -> float:
    """CPU seconds of all children that have ended and been waited for."""

    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _command(
    template: tuple[str, ...],
    kind: ServerKind,
    server: RunningServer,
    *,
    connections: int,
    seconds: int,
    seed: int,
    cpus: tuple[int, ...] = (),
    transactions: int = 0,
) -> Command:
    values = {
        "url": kind.url(server.socket),
        "socket": str(server.socket),
        "database": kind.database,
        "tools": str(server.tools),
        "programs": str(programs_dir()),
        "connections": str(connections),
        "seconds": str(seconds),
        "seed": str(seed),
        "transactions": str(transactions),
    }
    argv = tuple(part.format_map(values) for part in template)
    return Command(argv, env=kind.client_environment, hidden=kind.hidden_from_clients, cpus=cpus)
