"""What the server writes down about itself: logs, performance_schema, the binary log."""

from __future__ import annotations

from upshift.check.model import Facts, Found
from upshift.check.rule import Rule
from upshift.check.rules.words import SMALL_MEMORY_BYTES

_MANY_INSTRUMENTS = 20


def _is_written(facts: Facts) -> bool:
    """Whether logs of statements go anywhere."""
    return "NONE" not in facts.variables.get("log_output", "FILE").upper().split(",")


def _general(facts: Facts) -> Found | None:
    if not facts.on("general_log") or not _is_written(facts):
        return None
    return Found(evidence="general_log is ON: each statement is written to a log.", settings={"general_log": "OFF"})


def _slow_all(facts: Facts) -> Found | None:
    if not facts.on("slow_query_log") or not _is_written(facts):
        return None
    sampled = float(facts.variables.get("log_slow_rate_limit", "1")) > 1  # Percona Server and MariaDB
    if float(facts.text("long_query_time")) > 0 or sampled:
        return None
    return Found(
        evidence="slow_query_log is ON and long_query_time 0: each statement is written to a log.",
        settings={"long_query_time": "1"},
        beside=("slow_query_log",),
    )


def _slow_unindexed(facts: Facts) -> Found | None:
    if not (facts.on("slow_query_log") and facts.on("log_queries_not_using_indexes")):
        return None
    if facts.number("log_throttle_queries_not_using_indexes") or not _is_written(facts):
        return None
    return Found(
        evidence="log_queries_not_using_indexes is ON without a limit: each look at a small table is written to a log.",
        settings={"log_throttle_queries_not_using_indexes": "10"},
    )


def _instruments(facts: Facts) -> Found | None:
    if facts.instruments < _MANY_INSTRUMENTS:
        return None
    return Found(
        evidence=f"{facts.instruments:,} instruments of latches (wait/synch) are on: each lock and unlock is timed.",
        settings={"performance_schema_instrument": "wait/synch/%=OFF"},
        now={"performance_schema_instrument": "wait/synch/%=ON"},
    )


def _off(facts: Facts) -> Found | None:
    assert facts.host
    if facts.on("performance_schema") or facts.host.memory_bytes < SMALL_MEMORY_BYTES:
        return None
    return Found(
        evidence="performance_schema is OFF: nobody can tell which statements take the time, or which indexes are used.",
        settings={"performance_schema": "ON"},
    )


def _monitor(facts: Facts) -> Found | None:
    # innodb_status_output_locks alone writes nothing: it adds locks to this, and to SHOW ENGINE INNODB STATUS.
    if not facts.on("innodb_status_output"):
        return None
    told = "innodb_status_output is ON: InnoDB writes its monitor to the error log every 15 s."
    return Found(evidence=told, settings={"innodb_status_output": "OFF"})


def _expire(facts: Facts) -> Found | None:
    # MySQL 8.0 sets the seconds to 0 when a configuration has the days; the third is MariaDB's, the fourth Percona Server's.
    limits = ("binlog_expire_logs_seconds", "expire_logs_days", "max_binlog_total_size", "binlog_space_limit")
    if not facts.on("log_bin") or any(float(facts.variables.get(name, "0")) for name in limits):
        return None
    # MariaDB has the seconds from 10.6 on.
    seconds = "binlog_expire_logs_seconds" in facts.variables
    name, week = ("binlog_expire_logs_seconds", "604800") if seconds else ("expire_logs_days", "7")
    return Found(evidence=f"{name} is 0: binary logs stay until the disk is full.", settings={name: week})


def _no_purge(facts: Facts) -> Found | None:
    if not facts.on("log_bin") or facts.on("binlog_expire_logs_auto_purge"):
        return None
    return Found(
        evidence="binlog_expire_logs_auto_purge is OFF: binary logs stay until the disk is full.",
        settings={"binlog_expire_logs_auto_purge": "ON"},
    )


def _format(facts: Facts) -> Found | None:
    now = facts.text("binlog_format").upper()
    if not facts.on("log_bin") or now != "STATEMENT":
        return None
    return Found(
        evidence="binlog_format is STATEMENT: READ COMMITTED fails, and some statements give other rows on a replica.",
        settings={"binlog_format": "ROW"},
    )


def _debug(facts: Facts) -> Found | None:
    version = facts.version_text.lower()
    if not any(each in version for each in ("-debug", "-asan", "-tsan", "-valgrind")):
        return None
    return Found(
        evidence=f"The server is {facts.version_text}: a build that checks itself at each step.",
        # Upshift's recipes are for MySQL.
        commands=("./upshift build plain",) if facts.family == "mysql" else (),
    )


RULES: tuple[Rule, ...] = (
    Rule(
        id="debug-build",
        title="The server is a debug build",
        cause="observation",
        severity="error",
        source="MySQL manual: MySQL Source-Configuration Options, WITH_DEBUG",
        condition=_debug,
        effect="The same statements take a fraction of the time.",
        risk="None: install a release build of the same version.",
    ),
    Rule(
        id="general-log-on",
        title="Each statement is written to the general log",
        cause="observation",
        severity="warning",
        source="MySQL manual: The General Query Log",
        variables=("general_log",),
        condition=_general,
        effect="Statements do not wait for the log, and the disk does not fill up.",
        risk="Auditing may need it.",
        provable=True,
    ),
    Rule(
        id="slow-log-all",
        title="Each statement is written to the slow query log",
        cause="observation",
        severity="warning",
        source="MySQL manual: The Slow Query Log",
        variables=("slow_query_log", "long_query_time"),
        condition=_slow_all,
        effect="Statements do not wait for the log, and the disk does not fill up.",
        risk="Statements below the limit are no longer seen one by one.",
        provable=True,
    ),
    Rule(
        id="slow-log-unindexed",
        title="Each statement without an index is written to the slow query log",
        cause="observation",
        severity="note",
        source="MySQL manual: The Slow Query Log",
        variables=("slow_query_log", "log_queries_not_using_indexes", "log_throttle_queries_not_using_indexes"),
        condition=_slow_unindexed,
        effect="Ten a minute tell as much.",
        risk="Rare ones may be left out.",
    ),
    Rule(
        id="instruments-many",
        title="performance_schema times each latch",
        cause="observation",
        severity="warning",
        source="MySQL manual: Performance Schema Startup Configuration",
        variables=("performance_schema",),
        needs=("instruments",),
        condition=_instruments,
        effect="Latches cost what they cost. Statements and table I/O are still counted.",
        risk="Waits for latches are no longer seen.",
        provable=True,
    ),
    Rule(
        id="performance-schema-off",
        title="performance_schema is off",
        cause="observation",
        severity="note",
        source="MySQL manual: Performance Schema Quick Start",
        variables=("performance_schema",),
        needs=("machine",),
        condition=_off,
        effect="Statement digests, waits and index use can be seen, and the sys schema works.",
        risk="Memory, some hundred MiB, and a few per cent of CPU time: measure it.",
        families=("mysql",),
        provable=True,
    ),
    Rule(
        id="innodb-monitor-on",
        title="InnoDB's monitor fills the error log",
        cause="observation",
        severity="warning",
        source="MySQL manual: Enabling InnoDB Monitors",
        variables=("innodb_status_output",),
        condition=_monitor,
        effect="The error log has errors in it.",
        risk="None: SHOW ENGINE INNODB STATUS shows the same.",
    ),
    Rule(
        id="binlog-kept-forever",
        title="Binary logs are never removed",
        cause="observation",
        severity="warning",
        source="MySQL manual: Binary Logging Options and Variables, binlog_expire_logs_seconds",
        variables=("log_bin",),
        condition=_expire,
        effect="The disk does not fill up.",
        risk="Restores to a point in time need the logs since the last backup.",
    ),
    Rule(
        id="binlog-purge-off",
        title="Binary logs are not removed when they expire",
        cause="observation",
        severity="warning",
        source="MySQL manual: Binary Logging Options and Variables, binlog_expire_logs_auto_purge",
        variables=("log_bin", "binlog_expire_logs_auto_purge"),
        condition=_no_purge,
        effect="The disk does not fill up.",
        risk="Restores to a point in time need the logs since the last backup.",
    ),
    Rule(
        id="binlog-format-statement",
        title="The binary log holds statements",
        cause="observation",
        severity="warning",
        source="MySQL manual: Replication Formats",
        variables=("log_bin", "binlog_format"),
        condition=_format,
        effect="Replicas have the same rows, and READ COMMITTED works.",
        risk="A statement that changes many rows makes a large log.",
        provable=True,
    ),
)
