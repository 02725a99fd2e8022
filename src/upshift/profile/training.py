"""Training: servers under the workloads, side by side, so that they leave profiles or samples."""

from __future__ import annotations

import contextlib
import math
import shutil
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path

from upshift.errors import LoadFailed, ProfileRefused
from upshift.process import cpu_s
from upshift.profile.hotness import record_command
from upshift.profile.places import Places, Trainees
from upshift.server.data import copy
from upshift.server.instance import RunningServer, running
from upshift.server.kind import Program, ServerKind
from upshift.shell import Process
from upshift.workbench import Workbench
from upshift.workload.driver import run_load
from upshift.workload.model import Workload
from upshift.workload.reports import LoadReport

# Deadlocks and the like are a part of some workloads.
_MOST_ERRORS = 0.01
_LEAST_FREE_BYTES = 200_000_000
_ATTACH_TIMEOUT_S = 15.0
# From perf's first event to its last: one for each thread that runs already.
_ATTACHING_S = 0.5


@dataclass(frozen=True)
class Trained:
    """What one training did: a workload's, or that of the server's own tests."""

    name: str
    weight: float
    """The workload's share of the server's work, relative to the others'."""
    duration_s: float
    queries: int | None
    cpu_s: float | None = None
    """Server CPU time under the load, by the kernel's clock of the process; None when its own tests trained it."""
    pid: int = 0
    errors: int = 0
    """As far as the load's driver reports them."""

    @property
    def share(self) -> float:
        """What its counts are multiplied by: weight / (CPU time per query x queries); see ``upshift.profile.weights``."""
        return self.weight if self.cpu_s is None else self.weight / self.cpu_s


def train(
    bench: Workbench,
    kind: ServerKind,
    program: Program,
    template: Path,
    workloads: tuple[Workload, ...],
    *,
    seconds: float,
    environment: Callable[[Workload], Mapping[str, str]],
    samples: Callable[[Workload], Path] | None = None,
) -> tuple[Trained, ...]:
    """Run each workload for ``seconds`` on a server of its own, which is then stopped cleanly so that it writes its counters.

    As many at once as there are CPUs and memory for, each with CPUs, data and a log of its own. With ``samples``, perf
    records the server meanwhile into the file that it names. Raises ServerFailed when a server dies, LoadFailed when a load
    fails or leaves it idle; the others are stopped then.
    """
    if shutil.disk_usage(bench.folder).free < _LEAST_FREE_BYTES:
        raise ProfileRefused(
            "the disk is full: counters would be cut short",
            "free some space, then start again; `optimize` and `study` go on with --resume last",
        )
    places = Places.for_workloads(kind, workloads)
    trainees = Trainees(bench.shell)
    beside = replace(bench, shell=trainees)

    def one(workload: Workload) -> Trained:
        with places.taken() as cpus:
            file = samples(workload) if samples else None
            return _train_one(beside, kind, program, template, workload, cpus, seconds, environment(workload), file)

    bench.progress.update(0, len(workloads), ", ".join(workload.name for workload in workloads))
    pool = ThreadPoolExecutor(max_workers=len(places))
    try:
        futures = [pool.submit(one, workload) for workload in workloads]
        _await_all(futures, bench)
        trained = tuple(future.result() for future in futures)
        for each in trained:
            if each.errors > _MOST_ERRORS * (each.queries or 0):
                bench.progress.note(
                    f"workload '{each.name}' met {each.errors} errors, and the server was sampled or trained with them"
                )
        return trained
    finally:
        # After Ctrl-C or a failure the others' servers would go on to the end of their loads.
        trainees.stop()
        pool.shutdown(cancel_futures=True)


def _await_all(futures: list[Future[Trained]], bench: Workbench) -> None:
    """Until all have ended well; raises the first error."""
    waiting: set[Future[Trained]] = set(futures)
    while waiting:
        ended, waiting = wait(waiting, timeout=1.0, return_when=FIRST_EXCEPTION)
        for future in ended:
            future.result()
        bench.progress.update(len(futures) - len(waiting), len(futures))


def _train_one(
    bench: Workbench,
    kind: ServerKind,
    program: Program,
    template: Path,
    workload: Workload,
    cpus: tuple[int, ...],
    seconds: float,
    environment: Mapping[str, str],
    samples: Path | None,
) -> Trained:
    log = bench.log.with_name(f"{bench.log.stem}-{workload.name}.log")
    data = bench.folder / f"data-{workload.name}"
    try:
        copy(bench.shell, template, data)
        started = time.monotonic()
        with running(
            bench.shell, kind, program, data, log=log, settings=workload.settings, environment=environment, cpus=cpus
        ) as server:
            before_s = cpu_s(server.pid)
            report, queries = _load(replace(bench, log=log), kind, server, workload, cpus, seconds, samples)
            used_s = cpu_s(server.pid) - before_s
    finally:
        shutil.rmtree(data, ignore_errors=True)
    if used_s <= 0:
        raise LoadFailed(f"workload '{workload.name}' left the server idle: it used no CPU time", f"its log is {log}")
    duration_s = time.monotonic() - started
    return Trained(workload.name, workload.weight, duration_s, queries, used_s, server.pid, report.errors)


def _load(
    bench: Workbench,
    kind: ServerKind,
    server: RunningServer,
    workload: Workload,
    cpus: tuple[int, ...],
    seconds: float,
    samples: Path | None,
) -> tuple[LoadReport, int]:
    recorder = None
    if samples:
        recorder = bench.shell.spawn(record_command(server.pid, samples, math.ceil(seconds)), log=bench.log)
        _await_recording(recorder)
    loaded = run_load(bench.shell, kind, workload, server, seconds=seconds, cpus=cpus, log=bench.log)
    if recorder and recorder.wait(30) is None:
        recorder.signal(2)
        recorder.wait(30)
    return loaded


def _await_recording(recorder: Process) -> None:
    """Wait until perf has attached: threads that start between its first look and that moment would be missed."""
    deadline = time.monotonic() + _ATTACH_TIMEOUT_S
    while time.monotonic() < deadline and recorder.poll() is None:
        with contextlib.suppress(OSError):
            if any("perf_event" in str(link.readlink()) for link in Path(f"/proc/{recorder.pid}/fd").iterdir()):
                time.sleep(_ATTACHING_S)
                return
        time.sleep(0.05)
