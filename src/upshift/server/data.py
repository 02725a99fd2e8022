"""Filled data folders: made once for each program and fill, then copied for each trial."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path

from upshift.errors import NotEnoughRoom, UsageError
from upshift.server.instance import running
from upshift.server.kind import Program, ServerKind
from upshift.shell import Command, Shell
from upshift.values import content_hash, file_sha256
from upshift.workload.driver import fill
from upshift.workload.model import Workload


def template(
    shell: Shell,
    kind: ServerKind,
    program: Program,
    workloads: tuple[Workload, ...],
    folder: Path,
    log: Path,
    settings: Mapping[str, str] = {},
) -> Path:
    """Make the data folder ``folder``, which every workload of ``workloads`` has filled, each distinct fill once.

    The server has their settings, and ``settings`` over them, from the first: some, such as InnoDB's page size, hold for a
    data folder's whole life.
    """
    settings = {**settings_of(workloads), **settings}
    fills = {content_hash(workload.fill): workload for workload in workloads}
    shell.run(kind.initialise(program, folder, settings), log=log, timeout_s=300)
    with running(shell, kind, program, folder, log=log, settings=settings) as server:
        kind.prepare(server.socket)
        for workload in fills.values():
            fill(shell, kind, workload, server, log)
        kind.tidy(server.socket)
        server.settle(60)
    kind.trim(folder)
    return folder


def changed(
    shell: Shell,
    kind: ServerKind,
    program: Program,
    source: Path,
    folder: Path,
    log: Path,
    settings: Mapping[str, str],
    statements: Mapping[str, str],
) -> Path:
    """The copy ``folder`` of a data folder, on which the server has executed ``statements``, by the names of their files.

    Raises UsageError with the server's words for statements that it refuses.
    """
    copy(shell, source, folder)
    with running(shell, kind, program, folder, log=log, settings=settings) as server:
        for name, sql in statements.items():
            if said := kind.change(server.socket, sql):
                raise UsageError(f"{name}: the server refuses it: {said}", f"try it on the database; the server's log is {log}")
        server.settle(60)
    kind.trim(folder)
    return folder


def settings_of(workloads: tuple[Workload, ...]) -> Mapping[str, str]:
    """The server configuration that all of the given workloads ask for together; ``plan`` refuses those that contradict."""
    return {name: value for workload in workloads for name, value in workload.settings.items()}


def contents_sha256(folder: Path) -> str:
    """Of all files' paths and contents."""
    digest = hashlib.sha256()
    for file in sorted(file for file in folder.rglob("*") if file.is_file()):
        digest.update(f"{file.relative_to(folder)}\0{file_sha256(file)}\0".encode())
    return digest.hexdigest()


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
