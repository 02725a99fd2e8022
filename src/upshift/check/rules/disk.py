"""I/O: settings against the disk that the data lie on."""

from __future__ import annotations

from shlex import quote

from upshift.card.model import middle
from upshift.check.model import Disk, Facts, Found
from upshift.check.rule import DAY_S, Rule
from upshift.check.rules.words import GIB, share, size

_SLOW_CAPACITY, _FAST_CAPACITY, _LEAST_CAPACITY = 1000, 2000, 100
_TURNING_US = 2000
"""A disk that turns waits for half a turn before a random read or a synced write: 2,000 µs at 15,000 rpm, 4,200 at 7,200."""
_FAST_US = 500
"""One at a time, reads within this come to the capacity that is advised: 1,000,000 / 500 = 2,000 a second."""
_USUAL = "/var/lib/mysql"
_IN_MEMORY = ("tmpfs", "ramfs")
_NETWORK = ("nfs", "nfs4", "cifs", "smb3", "fuse.sshfs")
_FAIR_QUEUES = ("bfq", "cfq")
_NO_BARRIERS = ("nobarrier", "barrier=0")
_LITTLE_ROOM, _ENOUGH_ROOM = 0.05, 50 * GIB
_PURGED_DAYS = 7
_UNSAFE_FLUSH = ("littlesync", "nosync")
_MANUAL = "MySQL manual: InnoDB Startup Options and System Variables"


def _disk(facts: Facts) -> Disk | None:
    return facts.host.disk if facts.host else None


def _measured(facts: Facts) -> tuple[float, float]:
    """Microseconds of a random read of 4 KiB from the data's disk, and of a small synced write to it."""
    assert facts.card
    return middle(facts.card.read_us_p50), middle(facts.card.fsync_us_p50)


def _is_fast(facts: Facts) -> bool:
    """A cache of the host may answer reads of a disk that turns; what is synced waits for the disk."""
    read_us, sync_us = _measured(facts)
    return read_us <= _FAST_US and sync_us < _TURNING_US


def _reads(facts: Facts) -> str:
    read_us, _sync_us = _measured(facts)
    return f"the card measured a random read of 4 KiB in {read_us:,.0f} µs, {1e6 / read_us:,.0f} a second one at a time"


def _no_seek(facts: Facts) -> str:
    """How it is known that a page far away costs no more than the next one; empty where it is not."""
    if "disk speed" not in facts.unseen:
        return _reads(facts) if _is_fast(facts) else ""
    disk = _disk(facts)
    return f"the kernel says that {disk.device} does not turn" if disk and disk.rotational is False else ""


def _capacity_low(facts: Facts) -> Found | None:
    now = facts.number("innodb_io_capacity")
    if not _is_fast(facts) or now >= _SLOW_CAPACITY:
        return None
    told = f"innodb_io_capacity is {now:,}; {_reads(facts)}."
    most = max(2 * _FAST_CAPACITY, facts.number("innodb_io_capacity_max"))
    fixed = {"innodb_io_capacity": str(_FAST_CAPACITY), "innodb_io_capacity_max": str(most)}
    return Found(evidence=told, settings=fixed)


def _capacity_high(facts: Facts) -> Found | None:
    now, (read_us, _sync_us) = facts.number("innodb_io_capacity"), _measured(facts)
    if read_us < _TURNING_US or now <= _SLOW_CAPACITY:
        return None
    hundreds = max(_LEAST_CAPACITY, round(1e6 / read_us, -2))
    told = f"innodb_io_capacity is {now:,}; {_reads(facts)}."
    return Found(evidence=told, settings={"innodb_io_capacity": f"{hundreds:.0f}", "innodb_io_capacity_max": "2000"})


def _neighbors(facts: Facts) -> Found | None:
    known, now, disk = _no_seek(facts), facts.text("innodb_flush_neighbors"), _disk(facts)
    # MariaDB ignores the setting where the kernel says that the disk does not turn.
    ignored = facts.family == "mariadb" and disk is not None and disk.called_rotational is False
    if not known or now in ("0", "OFF") or ignored:
        return None
    told = f"innodb_flush_neighbors is {now}; {known}: neighbours cost as much as strangers."
    return Found(evidence=told, settings={"innodb_flush_neighbors": "0"})


def _flush_method(facts: Facts) -> Found | None:
    now, disk = facts.text("innodb_flush_method"), _disk(facts)
    if now not in ("fsync", "O_DSYNC") or (disk and disk.file_system in (*_IN_MEMORY, "zfs")):
        return None
    return Found(
        evidence=f"innodb_flush_method is {now}: pages lie in the buffer pool and in the kernel's page cache.",
        settings={"innodb_flush_method": "O_DIRECT"},
    )


def _flush_unsafe(facts: Facts) -> Found | None:
    now = facts.text("innodb_flush_method")
    if now not in _UNSAFE_FLUSH:
        return None
    told = f"innodb_flush_method is {now}: data files are not synced, and what the kernel held is lost with the machine."
    return Found(evidence=told, settings={"innodb_flush_method": "O_DIRECT"})


def _native_aio(facts: Facts) -> Found | None:
    if facts.on("innodb_use_native_aio"):
        return None
    told = "innodb_use_native_aio is OFF: each of InnoDB's I/O threads waits for one operation at a time."
    if facts.origins and "innodb_use_native_aio" not in facts.origins:
        # ON is the default. Where the kernel refuses it, the server turns it off itself, and would again.
        return Found(evidence=f"{told} No configuration says so: the server turned it off as it started, and its log has why.")
    return Found(evidence=told, settings={"innodb_use_native_aio": "ON"})


def _scheduler(facts: Facts) -> Found | None:
    disk, known = _disk(facts), _no_seek(facts)
    if not disk or disk.scheduler not in _FAIR_QUEUES or not known:
        return None
    return Found(
        evidence=f"{disk.device} has the scheduler {disk.scheduler}; {known}.",
        commands=(f"echo none > /sys/block/{disk.device}/queue/scheduler",),
    )


def _barriers(facts: Facts) -> Found | None:
    disk = _disk(facts)
    off = [each for each in disk.mount_options if each in _NO_BARRIERS] if disk else []
    if not disk or not off:
        return None
    return Found(
        evidence=f"The data folder's {disk.file_system} is mounted with {off[0]}.",
        commands=(f'mount -o remount,barrier=1 "$(findmnt -no TARGET -T {quote(facts.text("datadir"))})"',),
    )


def _in_memory(facts: Facts) -> Found | None:
    disk = _disk(facts)
    if not disk or disk.file_system not in _IN_MEMORY:
        return None
    return _elsewhere(facts, disk)


def _network(facts: Facts) -> Found | None:
    disk = _disk(facts)
    if not disk or disk.file_system not in _NETWORK:
        return None
    return _elsewhere(facts, disk)


def _full(facts: Facts) -> Found | None:
    disk = _disk(facts)
    if not disk or not disk.size_bytes or disk.free_bytes >= min(_LITTLE_ROOM * disk.size_bytes, _ENOUGH_ROOM):
        return None
    told = f"{size(disk.free_bytes)} of {size(disk.size_bytes)} are free, {share(disk.free_bytes, disk.size_bytes)}."
    if facts.variables.get("log_bin", "OFF") == "ON" and not 0 < _logs_kept_days(facts) <= _PURGED_DAYS:
        return Found(evidence=told, statements=(f"PURGE BINARY LOGS BEFORE NOW() - INTERVAL {_PURGED_DAYS} DAY",))
    return Found(evidence=told, commands=(f"du -xh --max-depth=1 {quote(facts.text('datadir'))}",))


def _logs_kept_days(facts: Facts) -> float:
    """After how many days the server removes a binary log by itself; 0: never."""
    if facts.variables.get("binlog_expire_logs_auto_purge") == "OFF":
        return 0
    seconds, days = (float(facts.variables.get(name, "0")) for name in ("binlog_expire_logs_seconds", "expire_logs_days"))
    return seconds / DAY_S or days


def _elsewhere(facts: Facts, disk: Disk) -> Found:
    """The data belong on a disk of the machine: into the usual folder, or, where that lies badly, into one on these disks."""
    told = f"The data folder {facts.text('datadir')} lies on {disk.file_system}."
    if facts.text("datadir").rstrip("/") != _USUAL:
        return Found(evidence=told, settings={"datadir": _USUAL})
    return Found(evidence=told, commands=("findmnt -D -t ext4,xfs,btrfs,zfs",))


RULES: tuple[Rule, ...] = (
    Rule(
        id="flush-method-unsafe",
        title="InnoDB does not sync its files",
        cause="I/O",
        severity="error",
        source=f"{_MANUAL}, innodb_flush_method",
        variables=("innodb_flush_method",),
        condition=_flush_unsafe,
        effect="Committed data survive a power failure.",
        risk="Writes wait for the disk.",
        provable=True,
    ),
    Rule(
        id="data-in-memory",
        title="The data directory is in memory",
        cause="I/O",
        severity="error",
        source="Linux kernel, Documentation/filesystems/tmpfs.rst",
        variables=("datadir",),
        needs=("machine", "file system"),
        condition=_in_memory,
        effect="The data survive a restart of the machine.",
        risk="Move the files while the server is stopped.",
    ),
    Rule(
        id="barriers-off",
        title="The file system does not flush the disk's cache",
        cause="I/O",
        severity="error",
        source="Linux kernel, Documentation/admin-guide/ext4.rst: barrier",
        variables=("datadir",),
        needs=("machine", "file system"),
        condition=_barriers,
        effect="A sync reaches the disk, and not its cache alone.",
        risk="Syncs take longer. Disks with a battery do not need it.",
    ),
    Rule(
        id="disk-nearly-full",
        title="The disk of the data is nearly full",
        cause="I/O",
        severity="error",
        source="MySQL manual: How MySQL Handles a Full Disk",
        variables=("datadir",),
        needs=("machine", "file system"),
        condition=_full,
        effect="Writes do not stop.",
        risk="Binary logs that a replica or a restore still needs are gone: look first.",
    ),
    Rule(
        id="data-on-network",
        title="The data directory is on a network file system",
        cause="I/O",
        severity="warning",
        source="MySQL manual: Using NFS with MySQL",
        variables=("datadir",),
        needs=("machine", "file system"),
        condition=_network,
        effect="Syncs do not cross the network, and locks hold.",
        risk="Move the files while the server is stopped.",
    ),
    Rule(
        id="flush-method",
        title="Pages are cached twice",
        cause="I/O",
        severity="warning",
        source=f"{_MANUAL}, innodb_flush_method",
        variables=("innodb_flush_method",),
        condition=_flush_method,
        effect="The page cache's memory is free, and pages are not copied through it.",
        risk="Without the page cache a small buffer pool reads more from the disk.",
        provable=True,
    ),
    Rule(
        id="io-capacity-low",
        title="Background writes are held back on a fast disk",
        cause="I/O",
        severity="note",
        source="MySQL manual: Configuring InnoDB I/O Capacity",
        variables=("innodb_io_capacity", "innodb_io_capacity_max"),
        needs=("disk speed",),
        condition=_capacity_low,
        effect="Dirty pages are written before the redo log fills up.",
        risk="More writes a second; pages that change often are written more often.",
        provable=True,
    ),
    Rule(
        id="io-capacity-high",
        title="Background writes are more than the disk can do",
        cause="I/O",
        severity="warning",
        source="MySQL manual: Configuring InnoDB I/O Capacity",
        variables=("innodb_io_capacity", "innodb_io_capacity_max"),
        needs=("disk speed",),
        condition=_capacity_high,
        effect="Background writes leave the disk to reads and commits.",
        risk="Dirty pages pile up under many writes. A RAID of many disks can do more.",
        provable=True,
    ),
    Rule(
        id="flush-neighbors",
        title="Neighbouring pages are written, and no seek is saved",
        cause="I/O",
        severity="warning",
        source="MySQL manual: Configuring Buffer Pool Flushing",
        variables=("innodb_flush_neighbors",),
        needs=("disk",),
        condition=_neighbors,
        effect="Only pages that must be are written.",
        risk="None that is known on such a disk.",
        provable=True,
    ),
    Rule(
        id="native-aio-off",
        title="InnoDB does not use the kernel's asynchronous I/O",
        cause="I/O",
        severity="warning",
        source="MySQL manual: Using Asynchronous I/O on Linux",
        variables=("innodb_use_native_aio",),
        condition=_native_aio,
        effect="Read-ahead and flushing keep more operations under way.",
        risk="The server does not start when fs.aio-max-nr is used up.",
        provable=True,
    ),
    Rule(
        id="io-scheduler",
        title="A scheduler for rotating disks on a disk that does not rotate",
        cause="I/O",
        severity="note",
        source="Linux kernel, Documentation/block/bfq-iosched.rst",
        needs=("disk",),
        condition=_scheduler,
        effect="Requests go to the disk as they come.",
        risk="One program's requests may crowd out another's. A udev rule keeps the line after a restart.",
    ),
)
