"""Runs a workload's commands against a server and reads what its driver reports."""

from __future__ import annotations

import json
import math
import re
import resource
import time
from dataclasses import dataclass
from pathlib import Path

from upshift.errors import CommandFailed, LoadFailed
from upshift.native.programs import programs_dir
from upshift.server.instance import RunningServer
from upshift.server.kind import ServerKind
from upshift.shell import Command, Process, Shell
from upshift.values import Value
from upshift.workload.model import Workload

# A load command is given this long past its own time before it counts as hanging.
OVERTIME_S = 60.0


class LoadReport(Value):
    """What a driver said at the end of a load. Latencies in milliseconds; None where it does not report them."""

    errors: int = 0
    latency_ms_p50: float | None = None
    latency_ms_p95: float | None = None
    latency_ms_p99: float | None = None
    client_cpu_s: float = 0.0


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
        report = _READERS[self.workload.load.latency](output, self.pauses * self.connections)
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
    seed: int = 1,
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
        seed=seed,
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


def read_sysbench(output: str, paused: int = 0) -> LoadReport:
    """sysbench 1.0's ``--histogram``: latency percentiles from its buckets (upper limits, milliseconds), and errors.

    The ``paused`` longest are left out: they waited while the driver was.
    Raises LoadFailed when there is no histogram: the command must pass ``--histogram=on``.
    """
    buckets = [(float(value), int(count)) for value, count in re.findall(r"^\s*([\d.]+) \|\**\s+(\d+)$", output, re.M)]
    if not buckets:
        raise LoadFailed("sysbench printed no latency histogram", 'pass --histogram=on, or set latency = "none"')
    ignored = re.search(r"ignored errors:\s+(\d+)", output)
    return _percentiles(buckets, paused, int(ignored.group(1)) if ignored else 0)


def read_upshift_load(output: str, paused: int = 0) -> LoadReport:
    """The document that ``upshift-load --json`` prints; the latency is that of a transaction, of whatever kind.

    Where it has a histogram (``--histogram``), the ``paused`` longest are left out: they waited while the driver was.

    Raises LoadFailed when there is none.
    """
    start = output.find("{\n")
    try:
        result = json.loads(output[start:])
        errors = sum(error["count"] for error in result["errors"].values())
        if counted := result.get("latency_us_histogram"):
            return _percentiles([(value / 1000, count) for value, count in counted], paused, errors)
        return LoadReport(
            errors=errors, latency_ms_p50=result["latency_us_p50"] / 1000, latency_ms_p99=result["latency_us_p99"] / 1000
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise LoadFailed("the load command did not print upshift-load's result", "pass --json to upshift-load") from error


def read_json(output: str, _paused: int = 0) -> LoadReport:
    """The last line of the output as JSON, its latencies as they are; no number or an infinite one stands for none. Raises
    LoadFailed when it is no JSON.
    """
    lines = [line for line in output.splitlines() if line.strip()]
    try:
        report = json.loads(lines[-1])
        names = ("latency_ms_p50", "latency_ms_p95", "latency_ms_p99")
        given = {name: value for name in names if (value := report.get(name)) is not None and math.isfinite(float(value))}
        return LoadReport(errors=int(report.get("errors", 0)), **given)
    except (IndexError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise LoadFailed(
            'the last line that the load command printed is not a JSON object, and latency = "json" asks for one',
            'docs/reference/workloads.md lists its keys; latency = "none" needs no such line',
        ) from error


def _percentiles(buckets: list[tuple[float, int]], paused: int, errors: int) -> LoadReport:
    buckets = _without_longest(buckets, paused)
    p50, p95, p99 = (_percentile(buckets, share) for share in (0.50, 0.95, 0.99))
    return LoadReport(errors=errors, latency_ms_p50=p50, latency_ms_p95=p95, latency_ms_p99=p99)


def _without_longest(buckets: list[tuple[float, int]], number: int) -> list[tuple[float, int]]:
    """The buckets without so many values; the shortest one stays."""
    left = max(1, sum(count for _value, count in buckets) - number)
    kept = []
    for value, count in buckets:
        taken = min(count, left)
        left -= taken
        if taken:
            kept.append((value, taken))
    return kept


def _percentile(buckets: list[tuple[float, int]], share: float) -> float:
    total = sum(count for _value, count in buckets)
    seen = 0
    for value, count in buckets:
        seen += count
        if seen >= share * total:
            return value
    return buckets[-1][0]


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
    return Command(tuple(part.format_map(values) for part in template), env=kind.client_environment, cpus=cpus)


def _read_nothing(_output: str, _paused: int = 0) -> LoadReport:
    return LoadReport()


_READERS = {"sysbench": read_sysbench, "upshift-load": read_upshift_load, "json": read_json, "none": _read_nothing}
