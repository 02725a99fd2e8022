"""How many compilers run side by side without --jobs."""

from __future__ import annotations

import dataclasses
import os

import psutil
import pytest

from upshift import control_groups
from upshift.build.whole import default_jobs


@dataclasses.dataclass(frozen=True)
class Memory:
    """What stands in for ``psutil.virtual_memory``'s answer."""

    available: int


@pytest.mark.parametrize(("available_bytes", "jobs"), [(64e9, 32), (32e9, 21), (1e9, 1)])
def test_memory_bounds_how_many_compilers_run(monkeypatch: pytest.MonkeyPatch, available_bytes: float, jobs: int) -> None:
    said: list[str] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(32)))
    monkeypatch.setattr(psutil, "virtual_memory", lambda: Memory(int(available_bytes)))
    assert default_jobs(said.append) == jobs
    assert len(said) == (jobs < 32) and all(f"{jobs} compilers side by side on 32 CPUs" in text for text in said)


def test_a_quota_of_cpu_time_bounds_how_many_compilers_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(64)))
    monkeypatch.setattr(psutil, "virtual_memory", lambda: Memory(200_000_000_000))
    monkeypatch.setattr(control_groups, "least_quota_cpus", lambda: 2.5)
    assert default_jobs() == 3
