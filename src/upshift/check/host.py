"""The machine that a server runs on, from /proc and /sys, as the server's own process sees it: it may run in a container."""

from __future__ import annotations

import os
import re
import socket
import struct
from pathlib import Path, PurePosixPath
from typing import Any

from upshift import control_groups
from upshift.check.model import Disk, Host
from upshift.files import text_in
from upshift.server.huge_text import text_of

_SERVERS = ("mysqld", "mariadbd", "mysqld-debug")


def server_process(connection: Any, root: Path = Path("/")) -> int | None:
    """The process that listens at the other end of a unix socket; None where it is not a server of this machine."""
    if connection is None or getattr(connection, "family", None) != socket.AF_UNIX:
        return None
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid = struct.unpack("3i", peer)[0]
    return pid if is_server(pid, root) else None


def process_of(pid_file: str, root: Path = Path("/")) -> int | None:
    """The server's process by its pid file, where both are this machine's."""
    try:
        pid = int((root / pid_file.lstrip("/")).read_text())
    except (OSError, ValueError):
        return None
    return pid if is_server(pid, root) else None


def is_server(pid: int, root: Path = Path("/")) -> bool:
    return pid > 0 and text_in(root / f"proc/{pid}/comm").strip() in _SERVERS


def describe(pid: int, datadir: str, plugin_dir: str, root: Path = Path("/")) -> Host:
    """What the process of that number has around it."""
    process = root / "proc" / str(pid)
    memory = _fields(root / "proc/meminfo")
    own = _fields(process / "status")
    groups = control_groups.of(process, root)
    limits = [limit for each in groups if (limit := control_groups.memory_limit_bytes(each))]
    total = memory["MemTotal"]
    least = min([total, *limits])
    # A buffer pool in reserved huge pages (large_pages) is not in VmRSS.
    resident = own.get("VmRSS", 0) + own.get("HugetlbPages", 0)
    plugins = _reached(process, plugin_dir, root)
    return Host(
        memory_bytes=least,
        limited=least < total,
        resident_bytes=resident,
        swapped_bytes=own.get("VmSwap", 0),
        swap_bytes=memory.get("SwapTotal", 0),
        others_bytes=max(0, total - memory.get("MemAvailable", total) - resident),
        cpus=min([float(_cpus(process, root)), *(quota for each in groups if (quota := control_groups.quota_cpus(each)))]),
        numa_nodes=len(list((root / "sys/devices/system/node").glob("node[0-9]*"))) or 1,
        swappiness=int(text_in(root / "proc/sys/vm/swappiness") or 60),
        huge_pages=_chosen(text_in(root / "sys/kernel/mm/transparent_hugepage/enabled")),
        somaxconn=int(text_in(root / "proc/sys/net/core/somaxconn") or 4096) if _shares_network(process, root) else None,
        disk=_disk(process, datadir, root),
        thread_pool=plugins is not None and (plugins / "thread_pool.so").is_file(),
        program=_program(process),
        unit=_unit(process),
        text=text_of(pid, root),
        idle_poll_ns=_idle_poll_ns(root),
    )


def _idle_poll_ns(root: Path) -> int | None:
    if text_in(root / "sys/devices/system/cpu/cpuidle/current_governor").strip() != "haltpoll":
        return None
    poll_ns = text_in(root / "sys/module/haltpoll/parameters/guest_halt_poll_ns").strip()
    return int(poll_ns) if poll_ns.isdecimal() else None


def _program(process: Path) -> str:
    try:
        # The kernel's mark where an upgrade has replaced the file.
        return str((process / "exe").readlink()).removesuffix(" (deleted)")
    except OSError:
        return ""


def _unit(process: Path) -> str:
    """systemd gives each of its services a control group with the unit's name."""
    found = re.search(r"^\d+:[^:]*:/system\.slice/(?:[^/\n]+\.slice/)*([^/\n]+\.service)$", text_in(process / "cgroup"), re.M)
    return found[1] if found else ""


def _shares_network(process: Path, root: Path) -> bool:
    """Whether the process's network namespace is ours, as far as this user may see."""
    try:
        return (process / "ns/net").readlink() == (root / "proc/self/ns/net").readlink()
    except OSError:
        return True


def _fields(file: Path) -> dict[str, int]:
    """``MemTotal:  24684100 kB`` and the like, in bytes."""
    return {name: int(value) * 1024 for name, value in re.findall(r"^(\w+):\s+(\d+) kB$", text_in(file), re.M)}


def _cpus(process: Path, root: Path) -> int:
    """Those that it may run on. The kernel also allows CPUs that a machine could have and has not: VMware's guests list 128."""
    listed = re.search(r"^Cpus_allowed_list:\s+(\S+)$", text_in(process / "status"), re.M)
    if not listed:
        return os.cpu_count() or 1
    allowed, online = _numbers(listed[1]), _numbers(text_in(root / "sys/devices/system/cpu/online").strip())
    return len(allowed & online or allowed)


def _numbers(text: str) -> set[int]:
    """``0-2,8`` as numbers."""
    ends = [part.split("-") for part in text.split(",") if part]
    return {number for each in ends for number in range(int(each[0]), int(each[-1]) + 1)}


def _chosen(text: str) -> str:
    """``always [madvise] never``: the one in brackets."""
    found = re.search(r"\[(\S+)\]", text)
    return found[1] if found else ""


def _reached(process: Path, folder: str, root: Path) -> Path | None:
    """A folder of the process's, which may be a container's, as it is reached from here; None where it is not.

    Only root and the server's own user may go through /proc/PID/root. For others it is the folder that has this path here, if
    it lies on the file system that the process has there.
    """
    within = folder.lstrip("/")
    try:
        (process / "root" / within).stat()
        return process / "root" / within
    except PermissionError:
        pass
    except OSError:
        return None
    mounts = text_in(process / "mountinfo")
    mount = _mount(mounts, PurePosixPath(folder))
    try:
        number, id = (root / within).stat().st_dev, _mount_id(root / within)
    except OSError:
        return None
    # On btrfs, st_dev is the subvolume's number and not the mount's. A mount that both see has one number.
    same = any(line.split(" ", 1)[0] == id for line in mounts.splitlines())
    return root / within if same or (mount and mount[0] == f"{os.major(number)}:{os.minor(number)}") else None


def _disk(process: Path, datadir: str, root: Path) -> Disk | None:
    folder = _reached(process, datadir, root)
    if folder is None:
        return None
    mount = _mount(text_in(process / "mountinfo"), PurePosixPath(datadir), _mount_id(folder))
    if mount is None:
        return None
    room, file_system_number = os.statvfs(folder), folder.stat().st_dev
    number, options, file_system = mount
    block = (root / "sys/dev/block" / number).resolve()
    # A partition's queue is its disk's.
    queue = next((each for each in (block / "queue", block.parent / "queue") if each.is_dir()), None)
    return Disk(
        device=queue.parent.name if queue else "",
        rotational=None if _is_virtual(root) else _rotational(queue),
        called_rotational=_rotational(queue),
        file_system_number=file_system_number,
        scheduler=_chosen(text_in(queue / "scheduler")) if queue else "",
        file_system=file_system,
        mount_options=options,
        free_bytes=room.f_bavail * room.f_frsize,
        size_bytes=room.f_blocks * room.f_frsize,
    )


def _rotational(queue: Path | None) -> bool | None:
    said = text_in(queue / "rotational").strip() if queue else ""
    return said == "1" if said in ("0", "1") else None


def _is_virtual(root: Path) -> bool:
    """Whether the machine's disks may be virtual: those report what their host was told to make them report."""
    return "hypervisor" in text_in(root / "proc/cpuinfo")


def _mount_id(folder: Path) -> str:
    """The kernel's number of the mount that a folder lies on, wherever links lead."""
    opened = os.open(folder, os.O_PATH)
    try:
        found = re.search(r"^mnt_id:\s*(\d+)$", text_in(Path(f"/proc/self/fdinfo/{opened}")), re.M)
    finally:
        os.close(opened)
    return found[1] if found else ""


def _mount(text: str, folder: PurePosixPath, id: str = "") -> tuple[str, tuple[str, ...], str] | None:
    """Device number, options and file system of the mount that a folder lies on: the one with this ``id``, or else the longest
    mount point above it."""
    best: tuple[int, tuple[str, tuple[str, ...], str]] | None = None
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 10 or "-" not in fields:
            continue
        at = PurePosixPath(fields[4].replace("\\040", " "))
        behind = fields[fields.index("-") + 1 :]
        options = tuple(dict.fromkeys([*fields[5].split(","), *(behind[2].split(",") if len(behind) > 2 else [])]))
        if fields[0] == id:
            return fields[2], options, behind[0]
        if (folder == at or at in folder.parents) and (best is None or len(at.parts) >= best[0]):
            best = len(at.parts), (fields[2], options, behind[0])
    return best[1] if best else None
