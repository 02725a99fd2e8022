"""The limits that control groups set to a process, of both versions."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path, PurePosixPath

import psutil

from upshift.files import text_in

_USED = ("memory.current", "memory.usage_in_bytes")


def of(process: Path, root: Path = Path("/")) -> list[Path]:
    """The folders of the process's control groups and of those above them, of both versions, as far as they are seen here."""
    found = []
    ours = _group_paths(root / "proc/self")
    for controllers, path in _group_paths(process).items():
        named = controllers.split(",")
        # Of version 1, /proc may name the controllers in another order than the folder: each has a link of its own.
        limiting = next((each for each in ("memory", "cpu") if each in named), "")
        if controllers and not limiting:
            continue
        folders = (controllers, ",".join(reversed(named)), limiting)
        mount = next((each for name in folders if (each := root / "sys/fs/cgroup" / name).is_dir()), root / "sys/fs/cgroup")
        here, own = (PurePosixPath(each.lstrip("/")) for each in (path, ours.get(controllers, "/")))
        if ".." in here.parts:
            continue  # beside the groups that are seen here
        if not (mount / here).is_dir():
            # Paths of another namespace. The mount is our own group: the process's too, where it is in it or below.
            if own not in (here, *here.parents):
                continue
            here = here.relative_to(own)
        found += [mount / each for each in (here, *here.parents)]
    return list(dict.fromkeys(found))


def _group_paths(process: Path) -> dict[str, str]:
    """Of each hierarchy, by its controllers; version 2 has none."""
    lines = (line.split(":", 2) for line in text_in(process / "cgroup").splitlines())
    return {controllers: path for _number, controllers, path in lines}


def memory_limit_bytes(group: Path) -> int | None:
    """What a group may hold, by its own limit; None: it has none."""
    for name in ("memory.max", "memory.limit_in_bytes"):
        text = text_in(group / name).strip()
        if text.isdigit() and int(text) < 1 << 60:  # version 1 writes its "none" as a number of pages
            return int(text)
    return None


def quota_cpus(group: Path) -> float | None:
    """The CPU time that a group may use within a period, as a number of CPUs; None: it has no quota."""
    if text := text_in(group / "cpu.max").split():
        return None if text[0] == "max" else int(text[0]) / int(text[1])
    quota, period = text_in(group / "cpu.cfs_quota_us").strip(), text_in(group / "cpu.cfs_period_us").strip()
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


def least_quota_cpus(root: Path = Path("/")) -> float | None:
    """The smallest quota of our groups; None: none has one."""
    return min((quota for group in of(root / "proc/self", root) if (quota := quota_cpus(group))), default=None)


def usable_cpus() -> int:
    """The CPUs that we may run on, or as many of them as a quota lets us use, rounded up."""
    allowed = len(os.sched_getaffinity(0))
    return allowed if (quota := least_quota_cpus()) is None else min(allowed, math.ceil(quota))


def memory_left_bytes(root: Path = Path("/")) -> int | None:
    """Bytes that our groups leave us of their limits; what they hold of the page cache can be had. None: no limit."""
    left = []
    for group in of(root / "proc/self", root):
        if limit := memory_limit_bytes(group):
            used = next((text for name in _USED if (text := text_in(group / name).strip()).isdigit()), "0")
            left.append(limit - max(0, int(used) - _page_cache(text_in(group / "memory.stat"))))
    return max(0, min(left)) if left else None


def _page_cache(statistics: str) -> int:
    """Bytes in the page cache, of the group and of those below it: version 1 tells them apart from the group's own."""
    for name in ("total_(?:in)?active_file", "(?:in)?active_file"):
        if found := re.findall(rf"^{name} (\d+)$", statistics, re.M):
            return sum(map(int, found))
    return 0


def memory_available_bytes() -> int:
    """What may still be taken: of the machine's memory, and of a container's limit."""
    available = int(psutil.virtual_memory().available)
    return available if (left := memory_left_bytes()) is None else min(available, left)


def memory_total_bytes() -> int:
    """What there is, taken or not: the machine's memory, or a container's limit."""
    limits = (memory_limit_bytes(group) for group in of(Path("/proc/self")))
    return min([int(psutil.virtual_memory().total), *(limit for limit in limits if limit)])
