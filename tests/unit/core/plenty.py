"""A machine on which everything can be planned."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from fakes import DiskUsage, toolchain

from upshift import plan
from upshift.door import OF_SERVERS

PLENTY = 10**13


def plenty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two CPUs, plenty of room, all tools, MySQL, and a cache of its own."""
    monkeypatch.setenv("UPSHIFT_CACHE", str(tmp_path / "cache"))
    for name in (
        "UPSHIFT_SERVER_KIND",
        "UPSHIFT_NEEDED_DISK_BYTES",
        "UPSHIFT_NEEDED_MEMORY_BYTES",
        "UPSHIFT_PERF",
        *OF_SERVERS,
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1})
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: DiskUsage(PLENTY))
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=PLENTY, total=PLENTY))
    monkeypatch.setattr(plan, "_install", lambda *_given, **_named: None)
    monkeypatch.setattr(plan, "_perf_samples", lambda _shell: True)
    monkeypatch.setattr(plan, "find", lambda family, **_given: toolchain(family))
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
