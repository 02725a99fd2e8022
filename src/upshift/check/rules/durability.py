"""Redo log and durability: what a crash loses, and what a commit costs."""

from __future__ import annotations

from upshift.check.model import Facts, Found, NothingKnown
from upshift.check.rule import Rule
from upshift.check.rules.words import GIB, MIB, amount, size
from upshift.report.words import duration

_ATOMIC_WRITES = ("zfs",)
"""File systems that never leave half a page."""
_AURORA = "aurora_version"
"""A variable of Amazon Aurora alone, whose storage writes no pages: its doublewrite buffer is always off."""
_REDO_S = 1800
"""A redo log that holds less than half an hour of writes makes InnoDB flush pages sooner than it must."""
_GROUP_DELAY_US = 10_000
_SYNCED = ("1", "3")
"""Values of innodb_flush_log_at_trx_commit that sync at each commit: 3 is MariaDB's, with a sync more."""
_MOST_REDO = 128 * GIB
_REDO_REQUESTS = 1000
"""A second: with fewer, it is rare that one session waits for another's redo."""


def _redo(facts: Facts) -> Found | None:
    if "innodb_redo_log_capacity" not in facts.variables:  # Before 8.0.30.
        if "innodb_log_files_in_group" not in facts.variables:
            return None
        files = facts.number("innodb_log_files_in_group")
        return _small_redo(facts, files * facts.number("innodb_log_file_size"), "innodb_log_file_size", files)
    # innodb_log_file_size or innodb_dedicated_server may have set the capacity, and the variable does not show it.
    capacity = facts.counted("innodb_redo_log_capacity_resized") or facts.number("innodb_redo_log_capacity")
    return _small_redo(facts, capacity, "innodb_redo_log_capacity")


def _redo_mariadb(facts: Facts) -> Found | None:
    # There is one file, whatever innodb_log_files_in_group says.
    return _small_redo(facts, facts.number("innodb_log_file_size"), "innodb_log_file_size")


def _small_redo(facts: Facts, capacity: int, setting: str, files: int = 1) -> Found | None:
    """``setting`` is the size of each of ``files``, which together have this capacity."""
    a_second = facts.a_second("innodb_os_log_written")
    disk = facts.host.disk if facts.host and _is_beside_data(facts) else None
    room = capacity + disk.free_bytes / 2 if disk else _MOST_REDO
    better = min(2 * a_second * _REDO_S, room, _MOST_REDO)
    if a_second * _REDO_S <= capacity or capacity >= _MOST_REDO:
        return None
    told = f"{size(a_second)} of redo a second fill {size(capacity)} in {duration(capacity / a_second)}."
    if better < capacity + MIB:
        return Found(evidence=f"{told} The disk has no room for more.")
    return Found(evidence=told, settings={setting: amount(better / files)}, now={setting: str(capacity // files)})


def _is_beside_data(facts: Facts) -> bool:
    """Whether the redo log lies in the data directory, of which alone the disk is known."""
    folder = facts.variables.get("innodb_log_group_home_dir", "").rstrip("/")
    return folder in ("", ".", facts.variables.get("datadir", "").rstrip("/"))


def _log_waits(facts: Facts) -> Found | None:
    now = facts.number("innodb_log_buffer_size")
    if facts.a_second("innodb_log_waits") * 60 < 1 or now >= GIB:
        return None
    waits, up_h = facts.counted("innodb_log_waits"), facts.counted("uptime") / 3600
    told = f"The log buffer of {size(now)} was full {waits:,} times in {up_h:.0f} h."
    return Found(evidence=told, settings={"innodb_log_buffer_size": amount(min(2 * now, GIB))})


def _log_buffer(facts: Facts) -> Found | None:
    now = facts.number("innodb_log_buffer_size")
    if now >= 4 * MIB:
        return None
    return Found(
        evidence=f"innodb_log_buffer_size is {size(now)}: a transaction that writes more waits for the disk before its commit.",
        settings={"innodb_log_buffer_size": "16M"},
    )


def _pair(facts: Facts) -> Found | None:
    redo, binlog = facts.text("innodb_flush_log_at_trx_commit"), facts.text("sync_binlog")
    if not facts.on("log_bin") or (redo in _SYNCED) == (binlog == "1"):
        return None
    return Found(
        evidence=f"innodb_flush_log_at_trx_commit is {redo}, sync_binlog {binlog}: after a power failure the two logs differ.",
        settings={"innodb_flush_log_at_trx_commit": "1", "sync_binlog": "1"},
    )


def _not_synced(facts: Facts) -> Found | None:
    redo = facts.text("innodb_flush_log_at_trx_commit")
    if redo != "2" or (facts.on("log_bin") and facts.text("sync_binlog") == "1"):
        return None
    return Found(
        evidence="innodb_flush_log_at_trx_commit is 2: the log is synced once a second.",
        settings={"innodb_flush_log_at_trx_commit": "1", **({"sync_binlog": "1"} if facts.on("log_bin") else {})},
    )


def _not_written(facts: Facts) -> Found | None:
    if facts.text("innodb_flush_log_at_trx_commit") != "0":
        return None
    # Beside a binary log that is synced, durability-pair has 1.
    better = "1" if facts.on("log_bin") and facts.text("sync_binlog") == "1" else "2"
    return Found(
        evidence="innodb_flush_log_at_trx_commit is 0: the log stays in the server's memory for up to a second.",
        settings={"innodb_flush_log_at_trx_commit": better},
    )


def _doublewrite(facts: Facts) -> Found | None:
    now = facts.text("innodb_doublewrite").upper()
    if now not in ("OFF", "0", "FALSE", "DETECT_ONLY") or _AURORA in facts.variables:
        return None
    if facts.host is None:
        raise NothingKnown(
            f"innodb_doublewrite is {now}, and whether the disk may leave half a page is not known: "
            f"{facts.unseen.get('machine', 'its machine cannot be seen')}"
        )
    disk = facts.host.disk
    if disk and disk.file_system in _ATOMIC_WRITES:
        return None
    where = f" The data lie on {disk.file_system}, which may leave half a page." if disk else ""
    return Found(evidence=f"innodb_doublewrite is {now}.{where}", settings={"innodb_doublewrite": "ON"})


def _checksums(facts: Facts) -> Found | None:
    now = facts.text("innodb_checksum_algorithm")
    if now not in ("none", "strict_none"):
        return None
    return Found(evidence=f"innodb_checksum_algorithm is {now}.", settings={"innodb_checksum_algorithm": "crc32"})


def _redo_disabled(facts: Facts) -> Found | None:
    if facts.status.get("innodb_redo_log_enabled", "ON").upper() != "OFF":
        return None
    return Found(evidence="Innodb_redo_log_enabled is OFF.", statements=("ALTER INSTANCE ENABLE INNODB REDO_LOG",))


def _recovery(facts: Facts) -> Found | None:
    level = facts.number("innodb_force_recovery")
    return Found(evidence=f"innodb_force_recovery is {level}.", settings={"innodb_force_recovery": "0"}) if level else None


def _shutdown(facts: Facts) -> Found | None:
    if facts.text("innodb_fast_shutdown") != "2":
        return None
    return Found(
        evidence="innodb_fast_shutdown is 2: a stop flushes nothing, and the next start recovers as after a crash.",
        settings={"innodb_fast_shutdown": "1"},
    )


def _group_delay(facts: Facts) -> Found | None:
    name = "binlog_group_commit_sync_delay"
    delay_us = facts.number(name)
    if not facts.on("log_bin") or delay_us < _GROUP_DELAY_US:
        return None
    return Found(evidence=f"Each commit waits for {delay_us / 1000:g} ms before its sync.", settings={name: "0"})


def _redo_unwoken(facts: Facts) -> Found | None:
    a_second = facts.a_second("innodb_log_write_requests")
    is_woken = facts.on("innodb_log_writer_threads") or facts.variables.get("redo_wakeup", "OFF").upper() == "ON"
    if is_woken or a_second < _REDO_REQUESTS:
        return None
    told = "innodb_log_writer_threads is OFF: a commit that waits for the redo of another session sleeps for 100 ms."
    return Found(
        evidence=f"{told} {a_second:,.0f} write requests for the redo log a second.",
        settings={"innodb_log_writer_threads": "ON"},
    )


_MANUAL = "MySQL manual: InnoDB Startup Options and System Variables"
RULES: tuple[Rule, ...] = (
    Rule(
        id="doublewrite-off",
        title="Pages are written without the doublewrite buffer",
        cause="durability",
        severity="error",
        source="MySQL manual: Doublewrite Buffer",
        variables=("innodb_doublewrite",),
        condition=_doublewrite,
        effect="A page that a power failure tore in half is repaired at the next start.",
        risk="Pages are written twice. Disks and file systems that never tear 16 KiB do not need it.",
        provable=True,
    ),
    Rule(
        id="checksums-off",
        title="Pages have no checksums",
        cause="durability",
        severity="error",
        source=f"{_MANUAL}, innodb_checksum_algorithm",
        variables=("innodb_checksum_algorithm",),
        condition=_checksums,
        effect="A damaged page is found when it is read.",
        risk="A little CPU time for each page that is read or written.",
        provable=True,
    ),
    Rule(
        id="redo-log-disabled",
        title="The redo log is off",
        cause="durability",
        severity="error",
        source="MySQL manual: Redo Log, Disabling Redo Logging",
        condition=_redo_disabled,
        effect="A crash no longer costs the whole data folder.",
        risk="Writes cost again what they should.",
        families=("mysql",),
    ),
    Rule(
        id="force-recovery",
        title="InnoDB runs in its emergency mode",
        cause="durability",
        severity="error",
        source="MySQL manual: Forcing InnoDB Recovery",
        variables=("innodb_force_recovery",),
        condition=_recovery,
        effect="Purge, rollback and writes work as they should.",
        risk="What made you set it may stop the server: dump the data first.",
    ),
    Rule(
        id="log-not-written",
        title="A crash of the server alone loses a second of commits",
        cause="durability",
        severity="warning",
        source=f"{_MANUAL}, innodb_flush_log_at_trx_commit",
        variables=("innodb_flush_log_at_trx_commit", "sync_binlog", "log_bin"),
        condition=_not_written,
        effect="Only a crash of the machine loses commits, or none with the value 1.",
        risk="A write to the page cache at each commit; with the value 1 each commit waits for a sync.",
        provable=True,
    ),
    Rule(
        id="durability-pair",
        title="Redo log and binary log are not equally durable",
        cause="durability",
        severity="warning",
        source="MySQL manual: Binary Logging Options and Variables, sync_binlog",
        variables=("innodb_flush_log_at_trx_commit", "sync_binlog", "log_bin"),
        condition=_pair,
        effect="Both logs tell the same transactions after a crash. With 2 and 0 they are equally fast instead.",
        risk="Each commit waits for two syncs.",
        provable=True,
    ),
    Rule(
        id="log-not-synced",
        title="A power failure loses a second of commits",
        cause="durability",
        severity="note",
        source=f"{_MANUAL}, innodb_flush_log_at_trx_commit",
        variables=("innodb_flush_log_at_trx_commit", "sync_binlog", "log_bin"),
        condition=_not_synced,
        effect="A commit that was answered is never lost.",
        risk="Each commit waits for the disk. Leave it where a lost second is acceptable.",
        provable=True,
    ),
    Rule(
        id="redo-small",
        title="The redo log is small for what is written",
        cause="durability",
        severity="warning",
        source="MySQL manual: Redo Log, Configuring Redo Log Capacity",
        families=("mysql",),
        needs=("traffic",),
        condition=_redo,
        effect="Pages are flushed later, and so less often.",
        risk="Disk space; recovery after a crash takes longer.",
        provable=True,
    ),
    Rule(
        id="redo-small-mariadb",
        title="The redo log is small for what is written",
        cause="durability",
        severity="warning",
        source="MariaDB documentation: InnoDB Redo Log",
        variables=("innodb_log_file_size",),
        needs=("traffic",),
        condition=_redo_mariadb,
        effect="Pages are flushed later, and so less often.",
        risk="Disk space; recovery after a crash takes longer.",
        families=("mariadb",),
    ),
    Rule(
        id="log-buffer-waits",
        title="Transactions wait for room in the log buffer",
        cause="durability",
        severity="warning",
        source=f"{_MANUAL}, innodb_log_buffer_size",
        variables=("innodb_log_buffer_size",),
        needs=("traffic",),
        condition=_log_waits,
        effect="Large transactions no longer wait for the log before their commit.",
        risk="That much memory.",
        provable=True,
    ),
    Rule(
        id="log-buffer-small",
        title="The log buffer is very small",
        cause="durability",
        severity="warning",
        source=f"{_MANUAL}, innodb_log_buffer_size",
        variables=("innodb_log_buffer_size",),
        condition=_log_buffer,
        effect="Large transactions no longer wait for the log before their commit.",
        risk="16 MiB of memory.",
        provable=True,
    ),
    Rule(
        id="group-commit-delay",
        title="A setting delays commits",
        cause="durability",
        severity="warning",
        source="MySQL manual: Binary Logging Options and Variables, binlog_group_commit_sync_delay",
        variables=("binlog_group_commit_sync_delay", "log_bin"),
        condition=_group_delay,
        effect="A commit takes that much less time.",
        risk="More syncs a second.",
        provable=True,
    ),
    Rule(
        id="redo-unwoken",
        title="Commits stall for 100 ms now and then",
        cause="durability",
        severity="note",
        source="MySQL 9.7 source: storage/innobase/log/log0buf.cc, closer_event",
        variables=("innodb_log_writer_threads",),
        needs=("traffic",),
        condition=_redo_unwoken,
        effect="Threads of their own write the redo, and wake the sessions. So does the patch redo_wakeup.",
        risk="These threads take CPU time: measure it where CPUs are few.",
        families=("mysql",),
        since=(9, 7, 4),
        provable=True,
    ),
    Rule(
        id="shutdown-crash",
        title="The server skips a clean shutdown",
        cause="durability",
        severity="warning",
        source=f"{_MANUAL}, innodb_fast_shutdown",
        variables=("innodb_fast_shutdown",),
        condition=_shutdown,
        effect="Starts are short.",
        risk="Stops take as long as the flushing of dirty pages.",
    ),
)
