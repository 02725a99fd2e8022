"""The machine, read from a /proc and a /sys that are written here."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

import pytest

from upshift.check.host import describe, is_server, process_of, server_process
from upshift.check.model import Host
from upshift.server.huge_text import Text

GIB, MIB = 1 << 30, 1 << 20
PID = 77


class Machine:
    """A machine's files below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "srv/mysql").mkdir(parents=True)
        (root / "plugins").mkdir()
        self.write("proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\nSwapTotal: 1024 kB\n")
        self.write(f"proc/{PID}/comm", "mysqld\n")
        self.write(f"proc/{PID}/status", "VmRSS:\t 4194304 kB\nVmSwap:\t 2048 kB\nCpus_allowed_list:\t0-3,6\n")
        self.write(f"proc/{PID}/cgroup", "0::/system.slice/mysql.service\n")
        self.write(
            f"proc/{PID}/mountinfo",
            "22 1 254:1 / / rw,relatime - ext4 /dev/vda1 rw\n"
            "23 22 8:17 / /srv/mysql rw,noatime shared:1 - xfs /dev/sdb1 rw,nobarrier\n"
            "24 22 0:5 / /srv/mysqlx rw - tmpfs tmpfs rw\n",
        )
        (root / f"proc/{PID}/root").symlink_to(root)
        (root / f"proc/{PID}/exe").symlink_to("/usr/sbin/mysqld")
        self.write("proc/sys/vm/swappiness", "10\n")
        self.write("proc/sys/net/core/somaxconn", "128\n")
        self.write("proc/cpuinfo", "flags : fpu vme\n")
        self.write("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n")
        self.write("sys/devices/pci/sdb/queue/rotational", "1\n")
        self.write("sys/devices/pci/sdb/queue/scheduler", "none [mq-deadline] bfq\n")
        (root / "sys/devices/pci/sdb/sdb1").mkdir()
        (root / "sys/dev/block").mkdir(parents=True)
        (root / "sys/dev/block/8:17").symlink_to(root / "sys/devices/pci/sdb/sdb1")

    def write(self, name: str, text: str) -> None:
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def described(self, datadir: str = "/srv/mysql/") -> Host:
        return describe(PID, datadir, "/plugins/", self.root)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_program_that_an_upgrade_has_replaced_has_its_own_name(machine: Machine) -> None:
    link = machine.root / f"proc/{PID}/exe"
    link.unlink()
    link.symlink_to("/usr/sbin/mysqld (deleted)")
    assert machine.described().program == "/usr/sbin/mysqld"


@pytest.mark.parametrize(
    ("governor", "poll_ns", "found"),
    [("haltpoll\n", "0\n", 0), ("haltpoll\n", "200000\n", 200_000), ("menu\n", "200000\n", None), ("haltpoll\n", "", None)],
)
def test_how_long_an_idle_cpu_polls(machine: Machine, governor: str, poll_ns: str, found: int | None) -> None:
    machine.write("sys/devices/system/cpu/cpuidle/current_governor", governor)
    machine.write("sys/module/haltpoll/parameters/guest_halt_poll_ns", poll_ns)
    assert machine.described().idle_poll_ns == found


def test_memory_cpus_and_disk(machine: Machine) -> None:
    (machine.root / "plugins/thread_pool.so").touch()
    found = machine.described()
    assert (found.memory_bytes, found.limited) == (16 * GIB, False)
    assert (found.resident_bytes, found.swapped_bytes, found.swap_bytes) == (4 * GIB, 2 * MIB, MIB)
    assert found.others_bytes == 4 * GIB
    assert (found.cpus, found.numa_nodes, found.swappiness, found.somaxconn) == (5, 1, 10, 128)
    assert (found.huge_pages, found.thread_pool, found.program) == ("always", True, "/usr/sbin/mysqld")
    assert found.disk
    assert (found.disk.file_system, found.disk.device, found.disk.scheduler) == ("xfs", "sdb", "mq-deadline")
    assert found.disk.rotational is True and "nobarrier" in found.disk.mount_options and "noatime" in found.disk.mount_options
    assert (
        0
        < found.disk.free_bytes
        <= found.disk.size_bytes
        == os.statvfs(machine.root).f_blocks * os.statvfs(machine.root).f_frsize
    )


@pytest.mark.parametrize(("online", "cpus"), [("0-1\n", 2), ("0-3,6\n", 5), ("0,2-7\n", 4)])
def test_a_cpu_that_the_machine_has_not_is_none(machine: Machine, online: str, cpus: int) -> None:
    """It may be allowed all the same: a guest whose hypervisor could give it more."""
    machine.write("sys/devices/system/cpu/online", online)
    assert machine.described().cpus == cpus


@pytest.mark.parametrize(
    ("groups", "unit"),
    [
        ("0::/system.slice/mysqld.service\n", "mysqld.service"),
        ("0::/system.slice/system-mariadb.slice/mariadb@shop.service\n", "mariadb@shop.service"),
        ("3:cpu,cpuacct:/system.slice/mysqld.service\n1:name=systemd:/system.slice/mysqld.service\n", "mysqld.service"),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/db.service\n", ""),
        ("0::/system.slice/docker-0a1b.scope\n", ""),
        ("0::/system.slice/docker.service/0a1b\n", ""),
    ],
)
def test_the_unit_that_started_the_server(machine: Machine, groups: str, unit: str) -> None:
    machine.write(f"proc/{PID}/cgroup", groups)
    assert machine.described().unit == unit


def test_a_buffer_pool_in_huge_pages_is_the_servers_own(machine: Machine) -> None:
    machine.write(f"proc/{PID}/status", "VmRSS:\t 1048576 kB\nHugetlbPages:\t 4194304 kB\nCpus_allowed_list:\t0\n")
    found = machine.described()
    assert (found.resident_bytes, found.others_bytes) == (5 * GIB, 3 * GIB)


def test_a_data_folder_behind_a_link_lies_where_the_link_leads(machine: Machine) -> None:
    (machine.root / "var").mkdir()
    (machine.root / "var/mysql").symlink_to(machine.root / "srv/mysql")
    number = mount_of(machine.root / "srv/mysql")
    machine.write(
        f"proc/{PID}/mountinfo",
        f"1 0 254:1 / / rw - ext4 /dev/vda1 rw\n{number} 1 8:17 / /srv/mysql rw - xfs /dev/sdb1 rw\n",
    )
    disk = machine.described("/var/mysql").disk
    assert disk and (disk.file_system, disk.device) == ("xfs", "sdb")


def mount_of(folder: Path) -> str:
    """The kernel's number of it."""
    opened = os.open(folder, os.O_PATH)
    try:
        (number,) = re.findall(r"mnt_id:\s*(\d+)", Path(f"/proc/self/fdinfo/{opened}").read_text())
    finally:
        os.close(opened)
    return str(number)


@pytest.mark.parametrize("told_by", ["device", "mount", ""])
def test_a_user_who_may_not_enter_the_servers_root(machine: Machine, monkeypatch: pytest.MonkeyPatch, told_by: str) -> None:
    """Then the folders that are there under the same paths count, where they are on the process's file systems: files on btrfs
    have another device number than their mount.
    """
    real, refused = Path.stat, f"proc/{PID}/root"

    def stat(self: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if refused in str(self):
            raise PermissionError(13, "Permission denied", str(self))
        return real(self, follow_symlinks=follow_symlinks)

    number = (machine.root / "srv/mysql").stat().st_dev
    device = f"{os.major(number)}:{os.minor(number)}" if told_by == "device" else "0:999"
    mount = mount_of(machine.root / "srv/mysql") if told_by == "mount" else "999999"
    (machine.root / "plugins/thread_pool.so").touch()
    machine.write(f"proc/{PID}/mountinfo", f"{mount} 0 {device} / / rw - ext4 /dev/vda1 rw\n")
    monkeypatch.setattr(Path, "stat", stat)
    found = machine.described()
    assert found.memory_bytes == 16 * GIB and found.thread_pool is bool(told_by)
    assert (found.disk is not None) is bool(told_by)


def test_the_text_that_another_user_may_not_see(machine: Machine) -> None:
    assert machine.described().text is None
    machine.write(
        f"proc/{PID}/smaps", "55d0-66d0 r-xp 00000000 08:01 9 /usr/sbin/mysqld\nSize:    8192 kB\nFilePmdMapped: 2048 kB\n"
    )
    assert machine.described().text == Text(size_bytes=8 * MIB, huge_bytes=2 * MIB)


@pytest.mark.parametrize("said", ["0", "1"])
def test_a_virtual_disk_is_not_believed_what_it_says_of_itself(machine: Machine, said: str) -> None:
    machine.write("sys/devices/pci/sdb/queue/rotational", f"{said}\n")
    disk = machine.described().disk
    assert disk and disk.rotational is (said == "1")
    machine.write("proc/cpuinfo", "flags : fpu vme hypervisor\n")
    disk = machine.described().disk
    assert disk and disk.rotational is None


def test_a_disk_that_the_kernel_does_not_know(machine: Machine) -> None:
    disk = machine.described("/srv").disk
    assert disk and (disk.file_system, disk.device, disk.rotational, disk.scheduler) == ("ext4", "", None, "")
    assert machine.described("/no/such").disk is None


@pytest.mark.parametrize(
    ("groups", "files", "memory", "cpus"),
    [
        (
            "0::/a/b\n",
            {"a/b/memory.max": "max", "a/memory.max": str(256 * MIB), "a/b/cpu.max": "150000 100000"},
            256 * MIB,
            1.5,
        ),
        ("0::/ours\n", {"memory.max": str(GIB), "cpu.max": "max 100000"}, GIB, 5),
        ("0::/ours/mysql\n", {"memory.max": str(GIB), "mysql/memory.max": str(256 * MIB)}, 256 * MIB, 5),
        ("0::/theirs\n", {"memory.max": str(GIB)}, 16 * GIB, 5),
        ("0::/../theirs\n", {"memory.max": str(GIB)}, 16 * GIB, 5),
        (
            "4:memory:/c\n3:cpuset:/\n1:cpu,cpuacct:/c\n",
            {
                "memory/c/memory.limit_in_bytes": str(512 * MIB),
                "cpu,cpuacct/c/cpu.cfs_quota_us": "50000",
                "cpu,cpuacct/c/cpu.cfs_period_us": "100000",
            },
            512 * MIB,
            0.5,
        ),
        (
            "3:cpuacct,cpu:/c\n",
            {"cpu,cpuacct/c/cpu.cfs_quota_us": "50000", "cpu,cpuacct/c/cpu.cfs_period_us": "100000"},
            16 * GIB,
            0.5,
        ),
        (
            "4:memory,hugetlb:/c\n",
            {"memory/c/memory.limit_in_bytes": str(512 * MIB)},
            512 * MIB,
            5,
        ),
        ("4:memory:/c\n", {"memory/c/memory.limit_in_bytes": "9223372036854771712"}, 16 * GIB, 5),
    ],
    ids=[
        "version 2, the least of all above",
        "ours, by the paths of another namespace",
        "below ours, by the paths of another namespace",
        "another container, by the paths of another namespace",
        "another container, by the paths of ours",
        "version 1",
        "version 1, named in another order",
        "version 1, by the controller's link",
        "no limit",
    ],
)
def test_control_groups(machine: Machine, groups: str, files: dict[str, str], memory: int, cpus: float) -> None:
    machine.write(f"proc/{PID}/cgroup", groups)
    machine.write("proc/self/cgroup", "0::/ours\n")
    for name, text in files.items():
        machine.write(f"sys/fs/cgroup/{name}", text + "\n")
    found = machine.described()
    assert (found.memory_bytes, found.limited, found.cpus) == (memory, memory < 16 * GIB, cpus)


def test_numa_nodes(machine: Machine) -> None:
    for name in ("node0", "node1", "possible"):
        machine.write(f"sys/devices/system/node/{name}/cpulist", "")
    assert machine.described().numa_nodes == 2


def test_the_process_by_its_pid_file(machine: Machine) -> None:
    machine.write("run/mysqld.pid", f"{PID}\n")
    assert process_of("/run/mysqld.pid", machine.root) == PID
    machine.write(f"proc/{PID}/comm", "sshd\n")
    assert process_of("/run/mysqld.pid", machine.root) is None
    assert process_of("/run/none.pid", machine.root) is None
    assert not is_server(0, machine.root)


def test_the_process_by_the_socket_that_it_listens_on(tmp_path: Path, machine: Machine) -> None:
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        client.connect(str(tmp_path / "s"))
        assert server_process(client, machine.root) is None, "this process is no server"
        machine.write(f"proc/{os.getpid()}/comm", "mariadbd\n")
        assert server_process(client, machine.root) == os.getpid()
    with socket.socket(socket.AF_INET) as network:
        assert server_process(network, machine.root) is None
