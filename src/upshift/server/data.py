"""Filled data folders: made once for each program and fill, then copied for each trial."""

from __future__ import annotations

import shutil
from pathlib import Path

from upshift.errors import NotEnoughRoom
from upshift.server.instance import running
from upshift.server.kind import Program, ServerKind
from upshift.shell import Command, Shell
from upshift.values import content_hash
from upshift.workload.driver import fill
from upshift.workload.model import Workload


def template(
    shell: Shell, kind: ServerKind, program: Program, workloads: tuple[Workload, ...], folder: Path, log: Path
) -> Path:
    """A data folder that every workload of ``workloads`` has filled, each distinct fill once; its server has stopped.

    Kept under ``folder`` by the hash of program version and fills. A half-made one is made again.
    """
    fills = {content_hash(workload.fill): workload for workload in workloads}
    done = folder / content_hash([kind.name, str(program.binary), sorted(fills)])[:16]
    if done.is_dir():
        return done
    partial = done.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.parent.mkdir(parents=True, exist_ok=True)
    shell.run(kind.initialise(program, partial), log=log, timeout_s=300)
    with running(shell, kind, program, partial, log=log) as server:
        kind.prepare(server.socket)
        for workload in fills.values():
            fill(shell, kind, workload, server, log)
        server.settle(60)
    partial.rename(done)
    return done


def copy(shell: Shell, source: Path, target: Path) -> Path:
    """A copy of a data folder for one trial; shares blocks where the file system can."""
    size_bytes = sum(file.stat().st_size for file in source.rglob("*") if file.is_file())
    target.parent.mkdir(parents=True, exist_ok=True)
    free_bytes = shutil.disk_usage(target.parent).free
    if free_bytes < size_bytes * 1.1:
        raise NotEnoughRoom(
            f"a copy of the data needs {size_bytes / 2**20:.0f} MiB, {free_bytes / 2**20:.0f} MiB are free at {target.parent}",
            "free some space, or set UPSHIFT_CACHE to a larger disk",
        )
    shutil.rmtree(target, ignore_errors=True)
    shell.run(Command(("cp", "-a", "--reflink=auto", str(source), str(target))))
    return target
