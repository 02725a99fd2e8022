"""Trainings side by side with real processes: when one fails, or at Ctrl-C, the others end at once and leave nothing."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from fakes import FakeKind, FakeProgress

from upshift.errors import LoadFailed
from upshift.profile.training import train
from upshift.server.kind import Program
from upshift.shell import Command, SystemShell
from upshift.workbench import Workbench
from upshift.workload.model import Workload

_SERVER = ("sleep", "59")
_LONG_LOAD = ("sleep", "58")


class Sleeping(FakeKind):
    """Servers that do nothing, and answer."""

    def start(self, program: Program, data: Path, socket: Path, settings: Mapping[str, str]) -> Command:
        return Command(_SERVER)


@dataclass
class Interrupted(FakeProgress):
    """A user who presses Ctrl-C while the loads run."""

    def update(self, done: float, total: float, detail: str = "") -> None:
        super().update(done, total, detail)
        if len(self.updates) > 1:
            raise KeyboardInterrupt


def workload(name: str, *load: str) -> Workload:
    return Workload.model_validate({"name": name, "fill": {"command": ["true"]}, "load": {"command": load}})


def sleepers() -> list[psutil.Process]:
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if tuple(process.cmdline()) in (_SERVER, _LONG_LOAD):
                found.append(process)
        except psutil.Error:
            continue
    return found


def trained(folder: Path, progress: FakeProgress, *workloads: Workload) -> None:
    (folder / "template").mkdir()
    bench = Workbench(folder, SystemShell(), folder / "log", progress)
    kind = Sleeping(queries=itertools.count(0, 1000))
    program = Program(kind="fake", binary=Path("/server"))
    train(bench, kind, program, folder / "template", workloads, seconds=50, environment=lambda _each: {})


def test_a_training_that_fails_ends_the_others(tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(LoadFailed, match="the load command of workload 'bad' failed"):
        trained(tmp_path, FakeProgress(), workload("bad", "false"), workload("good", *_LONG_LOAD))
    assert time.monotonic() - started < 30 and sleepers() == []
    assert list(tmp_path.glob("data-*")) == [], "their data are gone, too"


def test_ctrl_c_ends_all_trainings(tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path, Interrupted(), workload("one", *_LONG_LOAD), workload("other", *_LONG_LOAD))
    assert time.monotonic() - started < 30 and sleepers() == []
