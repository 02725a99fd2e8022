"""A container's limits are what there is, whatever the machine has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from upshift import control_groups, needs
from upshift.control_groups import least_quota_cpus, memory_left_bytes, usable_cpus
from upshift.errors import NotEnoughRoom
from upshift.machine import describe_machine

MIB = 1 << 20


@pytest.mark.parametrize(
    ("groups", "files", "left"),
    [
        ("0::/a/b\n", {}, None),
        ("0::/a/b\n", {"a/b/memory.max": "max", "a/b/memory.current": "5"}, None),
        (
            "0::/a/b\n",
            {
                "a/memory.max": str(512 * MIB),
                "a/memory.current": str(300 * MIB),
                "a/memory.stat": f"anon 1\ninactive_file {80 * MIB}\nactive_file {20 * MIB}\nslab 7\n",
                "a/b/memory.max": str(4096 * MIB),
                "a/b/memory.current": str(300 * MIB),
            },
            312 * MIB,
        ),
        ("0::/\n", {"memory.max": str(MIB), "memory.current": str(2 * MIB)}, 0),
        (
            "4:memory:/c\n",
            {
                "memory/c/memory.limit_in_bytes": str(512 * MIB),
                "memory/c/memory.usage_in_bytes": str(100 * MIB),
                "memory/c/memory.stat": f"inactive_file {MIB}\ntotal_inactive_file {MIB}\n",
            },
            413 * MIB,
        ),
        (
            "4:memory:/c/d\n",
            {
                "memory/c/memory.limit_in_bytes": str(512 * MIB),
                "memory/c/memory.usage_in_bytes": str(500 * MIB),
                "memory/c/d/memory.usage_in_bytes": str(500 * MIB),
                "memory/c/memory.stat": f"inactive_file 0\ntotal_inactive_file {400 * MIB}\ntotal_active_file {8 * MIB}\n",
            },
            420 * MIB,
        ),
    ],
    ids=["no files", "no limit", "the least above", "above its limit", "version 1", "version 1, pages of a group below"],
)
def test_what_a_group_leaves(tmp_path: Path, groups: str, files: dict[str, str], left: int | None) -> None:
    _write(tmp_path, groups, files)
    assert memory_left_bytes(tmp_path) == left


@pytest.mark.parametrize(
    ("groups", "files", "quota", "usable"),
    [
        ("0::/a/b\n", {}, None, 64),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000"}, None, 64),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000", "a/cpu.max": "200000 100000"}, 2.0, 2),
        ("0::/a/b\n", {"a/b/cpu.max": "150000 100000", "a/cpu.max": "200000 100000"}, 1.5, 2),
        ("4:cpu,cpuacct:/c\n", {"cpu/c/cpu.cfs_quota_us": "-1", "cpu/c/cpu.cfs_period_us": "100000"}, None, 64),
        ("4:cpu,cpuacct:/c\n", {"cpu/c/cpu.cfs_quota_us": "50000", "cpu/c/cpu.cfs_period_us": "100000"}, 0.5, 1),
        ("0::/\n", {"cpu.max": "9600000 100000"}, 96.0, 64),
    ],
    ids=["no files", "no quota", "the group above", "the least", "version 1, none", "version 1", "more than CPUs"],
)
def test_a_quota_bounds_the_cpus(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    groups: str,
    files: dict[str, str],
    quota: float | None,
    usable: int,
) -> None:
    _write(tmp_path, groups, files)
    found = least_quota_cpus(tmp_path)
    assert found == quota
    monkeypatch.setattr(control_groups, "least_quota_cpus", lambda: found)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(64)))
    assert usable_cpus() == usable


def _write(root: Path, groups: str, files: dict[str, str]) -> None:
    for name, text in {"proc/self/cgroup": groups, **{f"sys/fs/cgroup/{name}": each for name, each in files.items()}}.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def test_a_report_names_the_container_s_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text(str(512 * MIB))
    monkeypatch.setattr(control_groups, "of", lambda _process: [tmp_path])
    assert describe_machine().memory_bytes == 512 * MIB


def test_work_is_refused_that_a_container_has_no_memory_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UPSHIFT_NEEDED_MEMORY_BYTES", raising=False)
    monkeypatch.setattr(control_groups, "memory_left_bytes", lambda: None)
    needs.require_memory(1 * MIB)
    monkeypatch.setattr(control_groups, "memory_left_bytes", lambda: MIB // 2)
    with pytest.raises(NotEnoughRoom, match=r"0\.0 GB are free"):
        needs.require_memory(1 * MIB)
