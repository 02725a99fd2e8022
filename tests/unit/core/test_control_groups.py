"""A container's limit of memory is what is free, whatever the machine has."""

from __future__ import annotations

from pathlib import Path

import pytest

from upshift import control_groups, needs
from upshift.control_groups import memory_left_bytes
from upshift.errors import NotEnoughRoom

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
    for name, text in {"proc/self/cgroup": groups, **{f"sys/fs/cgroup/{name}": each for name, each in files.items()}}.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert memory_left_bytes(tmp_path) == left


def test_work_is_refused_that_a_container_has_no_memory_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UPSHIFT_NEEDED_MEMORY_BYTES", raising=False)
    monkeypatch.setattr(control_groups, "memory_left_bytes", lambda: None)
    needs.require_memory(1 * MIB)
    monkeypatch.setattr(control_groups, "memory_left_bytes", lambda: MIB // 2)
    with pytest.raises(NotEnoughRoom, match=r"0\.0 GB are free"):
        needs.require_memory(1 * MIB)
