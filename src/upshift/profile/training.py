"""Training: a server under the workloads, so that it leaves a profile or samples."""

from __future__ import annotations

import contextlib
import math
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from upshift.errors import ProfileRefused
from upshift.profile.sampling import record_command
from upshift.run.stages import Workbench
from upshift.server.data import copy
from upshift.server.instance import RunningServer, running
from upshift.server.kind import Program, ServerKind
from upshift.shell import Process
from upshift.workload.driver import run_load
from upshift.workload.model import Workload

_LEAST_FREE_BYTES = 200_000_000
_ATTACH_TIMEOUT_S = 15.0
# From perf's first event to its last: one for each thread that runs already.
_ATTACHING_S = 0.5


@dataclass(frozen=True)
class Trained:
    """What one training did: a workload's, or that of the server's own tests."""

    name: str
    weight: float
    """Of its counters in the merged profile."""
    duration_s: float
    queries: int | None


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

    With ``samples``, perf records the server meanwhile into the file that it names. Raises ServerFailed when the server
    dies, LoadFailed when the load fails or leaves it idle.
    """
    if shutil.disk_usage(bench.folder).free < _LEAST_FREE_BYTES:
        raise ProfileRefused("the disk is full: counters would be cut short", "free some space, then go on with --resume")
    trained = []
    for number, workload in enumerate(workloads):
        bench.progress.update(number, len(workloads), workload.name)
        data = copy(bench.shell, template, bench.folder / "data")
        started = time.monotonic()
        with running(
            bench.shell,
            kind,
            program,
            data,
            log=bench.log,
            settings=workload.settings,
            environment=environment(workload),
        ) as server:
            queries = _load(bench, kind, server, workload, seconds, samples(workload) if samples else None)
        trained.append(Trained(workload.name, workload.weight, time.monotonic() - started, queries))
        shutil.rmtree(data)
    return tuple(trained)


def _load(
    bench: Workbench,
    kind: ServerKind,
    server: RunningServer,
    workload: Workload,
    seconds: float,
    samples: Path | None,
) -> int:
    recorder = None
    if samples:
        recorder = bench.shell.spawn(record_command(server.pid, samples, math.ceil(seconds)), log=bench.log)
        _await_recording(recorder)
    _report, queries = run_load(bench.shell, kind, workload, server, seconds=seconds, cpus=(), log=bench.log)
    if recorder and recorder.wait(30) is None:
        recorder.signal(2)
        recorder.wait(30)
    return queries


def _await_recording(recorder: Process) -> None:
    """Wait until perf has attached: threads that start between its first look and that moment would be missed."""
    deadline = time.monotonic() + _ATTACH_TIMEOUT_S
    while time.monotonic() < deadline and recorder.poll() is None:
        with contextlib.suppress(OSError):
            if any("perf_event" in str(link.readlink()) for link in Path(f"/proc/{recorder.pid}/fd").iterdir()):
                time.sleep(_ATTACHING_S)
                return
        time.sleep(0.05)
