"""What rules must know of a server's family, version and size: misleading figures, and fixes that would do nothing, or harm."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping
from typing import Any

import pytest
from examples import EXAMPLES
from served import GIB, MARIADB, MIB, SMALL, WELL, changed, index, part, stored, table

from upshift.check.model import Facts, Finding
from upshift.check.rule import Rule, judge
from upshift.check.rules import RULES

BY_ID = {each.id: each for each in RULES}
# In every server that check supports.
ALWAYS = {"plugin_dir", "datadir", "max_connections", "innodb_lock_wait_timeout"}
OPTIONAL = {
    *("log_slow_rate_limit", "log_output", "max_execution_time", "max_statement_time", "internal_tmp_mem_storage_engine"),
    *("innodb_redo_log_capacity", "innodb_log_files_in_group", "innodb_log_file_size", "binlog_expire_logs_seconds"),
    *("expire_logs_days", "max_binlog_total_size", "binlog_space_limit", "transaction_isolation", "tx_isolation"),
}


def findings(facts: Facts, *ids: str) -> dict[str, Finding]:
    rules = [BY_ID[each] for each in ids] or RULES
    return {each.id: each for each in judge(facts, rules, server="db").findings}


def not_judged(facts: Facts, id: str) -> str:
    (only,) = judge(facts, [BY_ID[id]], server="db").not_judged
    return only.why


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_asks_only_for_variables_that_it_names(rule: Rule) -> None:
    """A server without one of them is then left alone. MariaDB may run without InnoDB, and has no variable of its then."""
    for facts in (EXAMPLES[rule.id].firing, EXAMPLES[rule.id].silent):
        kept = {*rule.variables, *OPTIONAL, *ALWAYS}
        bare = facts.model_copy(update={"variables": {key: value for key, value in facts.variables.items() if key in kept}})
        judge(bare, [rule], server="db")


@pytest.mark.parametrize("value", ["", "many"])
def test_a_variable_that_is_no_number_takes_no_other_rule_with_it(value: str) -> None:
    report = judge(changed(variables={"innodb_io_capacity": value, "general_log": "ON"}), RULES, server="db")
    assert [each.id for each in report.findings] == ["general-log-on"]
    assert "io-capacity-low" in {each.id for each in report.not_judged if "not the number" in each.why}


def test_no_doublewrite_buffer_is_missed_where_storage_may_write_whole_pages() -> None:
    """Amazon's Aurora has none by design, and RDS none where its disks write 16 KiB at once."""
    aurora = changed(variables={"innodb_doublewrite": "OFF", "aurora_version": "3.10.0"})
    assert not findings(aurora, "doublewrite-off")
    away = changed(variables={"innodb_doublewrite": "OFF"}, unseen={"machine": "it runs elsewhere"})
    away = away.model_copy(update={"host": None})
    assert not_judged(away, "doublewrite-off").endswith("half a page is not known: it runs elsewhere")
    well = away.model_copy(update={"variables": WELL.variables})
    assert [each.id for each in judge(well, [BY_ID["doublewrite-off"]], server="db").well] == ["doublewrite-off"]


def test_a_mariadb_without_innodb() -> None:
    kept = {name: value for name, value in MARIADB.variables.items() if not name.startswith("innodb_")}
    judge(MARIADB.model_copy(update={"variables": kept}), RULES, server="db")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_fix_changes_something(rule: Rule) -> None:
    (finding,) = judge(EXAMPLES[rule.id].firing, [rule], server="db").findings
    assert finding.sql or finding.shell or finding.settings_then != finding.settings_now
    same = {name for name, value in finding.settings_then.items() if finding.settings_now.get(name, "").rstrip("/") == value}
    assert same <= {"sync_binlog", "innodb_flush_log_at_trx_commit"}, "the pair is written whole"


@pytest.mark.parametrize(
    "facts",
    [
        changed(variables={"max_connections": "9000"}, status={"max_used_connections": "8000"}),
        changed(
            variables={"innodb_buffer_pool_size": str(15 * GIB)},
            host={"swapped_bytes": GIB, "others_bytes": 2 * GIB},
        ),
        changed(variables={"tmp_table_size": str(3 * GIB)}, status={"created_tmp_disk_tables": "500000"}),
        changed(
            variables={"tmp_table_size": str(8 * GIB), "internal_tmp_mem_storage_engine": "MEMORY"},
            status={"created_tmp_disk_tables": "500000"},
        ),
        changed(
            variables={"tmp_table_size": str(64 * MIB), "internal_tmp_mem_storage_engine": "MEMORY"},
            status={"created_tmp_disk_tables": "500000"},
        ),
        changed(
            variables={"table_open_cache": "400", "max_connections": "2000"},
            status={"opened_tables": "9000000", "open_tables": "400"},
        ),
        changed(variables={"innodb_flush_log_at_trx_commit": "0"}),
        changed(variables={"innodb_flush_log_at_trx_commit": "0", "sync_binlog": "0"}),
    ],
    ids=[
        *("connections", "buffer pool", "temporary tables", "temporary tables of MEMORY", "temporary tables and their pair"),
        *("table cache", "logs", "no syncs"),
    ],
)
def test_two_findings_do_not_contradict_each_other(facts: Facts) -> None:
    settings: dict[str, str] = {}
    found = findings(facts)
    assert found
    for each in found.values():
        for name, value in each.settings_then.items():
            assert settings.setdefault(name, value) == value, (each.id, name)


def test_a_setting_is_not_turned_off_and_asked_for() -> None:
    """performance_schema takes a tenth of 4 GiB: to turn it off would only bring the finding that it is off."""
    facts = changed(SMALL, variables={"performance_schema": "ON"}, performance_schema_bytes=600 * MIB, unseen={})
    for memory, named in ((1 * GIB, True), (4 * GIB, False)):
        assert facts.host
        host = facts.host.model_copy(update={"memory_bytes": memory})
        assert ("performance-schema-memory" in findings(facts.model_copy(update={"host": host}))) is named


# Counters


@pytest.mark.parametrize("since_flush", ["604800", "7200"])
def test_rates_are_not_those_since_the_last_flush_status(since_flush: str) -> None:
    """FLUSH STATUS resets neither InnoDB's counters nor those of tables (MySQL 9.7 source: sql/mysqld.cc, refresh_status)."""
    status = {
        "uptime_since_flush_status": since_flush,
        "opened_tables": "300000",
        "open_tables": "4000",
        "innodb_log_waits": "9000",
    }
    assert findings(changed(status=status)) == {}


def test_mariadb_resets_more_with_flush_global_status() -> None:
    status = {"uptime_since_flush_status": "7200", "opened_tables": "30000", "open_tables": "4000"}
    facts = changed(MARIADB, version=(11, 8, 2), status=status, variables={**MARIADB.variables})
    assert "4.2 tables are opened a second" in findings(facts)["table-cache-small"].evidence


def test_the_redo_log_may_be_larger_than_its_variable_says() -> None:
    """Where innodb_log_file_size or innodb_dedicated_server set it, the variable keeps its default."""
    variables = {"innodb_redo_log_capacity": str(100 * MIB)}
    assert "redo-small" in findings(changed(variables=variables))
    assert "redo-small" not in findings(changed(variables=variables, status={"innodb_redo_log_capacity_resized": str(4 * GIB)}))


@pytest.mark.parametrize(
    ("origins", "named"),
    [
        ({}, {"dedicated-server-shared"}),
        ({"innodb_buffer_pool_size": "/etc/my.cnf"}, {"dedicated-server-ignored"}),
        ({"innodb_buffer_pool_size": "a SET"}, {"dedicated-server-shared"}),  # the next start takes three quarters again
    ],
)
def test_innodb_dedicated_server_sizes_a_pool_that_nobody_has_configured(origins: Mapping[str, str], named: set[str]) -> None:
    """Else a pool of 1 GiB beside other programs would be an error, and three quarters of what is left the fix."""
    facts = changed(variables={"innodb_dedicated_server": "ON"}, host={"others_bytes": 5 * GIB}, origins=origins)
    found = findings(facts, "dedicated-server-shared", "dedicated-server-ignored")
    assert found.keys() == named
    assert all("innodb_redo_log_capacity" in each.risk and "innodb_flush_method" in each.risk for each in found.values())


@pytest.mark.parametrize(
    ("capacity", "free", "said"),
    [(64 * GIB, GIB, "innodb_redo_log_capacity = 66048M"), (64 * GIB, 0, None), (200 * GIB, 900 * GIB, "nothing")],
)
def test_a_redo_log_that_cannot_grow_is_not_made_smaller(capacity: int, free: int, said: str | None) -> None:
    status = {"innodb_os_log_written": str(90_000 * GIB)}
    facts = changed(status=status, variables={"innodb_redo_log_capacity": str(capacity)}, disk={"free_bytes": free})
    found = findings(facts, "redo-small")
    if said == "nothing":
        assert not found
        return
    assert found["redo-small"].my_cnf == ((said,) if said else ())
    assert found["redo-small"].provable is bool(said)


def test_a_redo_log_on_another_disk_has_not_the_datas_room() -> None:
    status, disk = {"innodb_os_log_written": str(6000 * GIB)}, {"free_bytes": 0}
    for folder, grows in (("./", False), ("/var/lib/mysql", False), ("/redo/", True)):
        facts = changed(status=status, variables={"innodb_log_group_home_dir": folder}, disk=disk)
        found = findings(facts, "redo-small")["redo-small"]
        assert bool(found.my_cnf) is grows and ("The disk has no room" in found.evidence) is not grows


def test_mariadb_has_one_redo_log_file() -> None:
    """innodb_log_files_in_group is deprecated and ignored since 10.5."""
    bad = changed(MARIADB, status={"innodb_os_log_written": str(2000 * GIB)})
    assert "redo-small-mariadb" in findings(bad)
    variables = {**bad.variables, "innodb_log_files_in_group": "4"}
    assert "redo-small-mariadb" in findings(bad.model_copy(update={"variables": variables}))


def test_a_log_buffer_is_not_made_smaller() -> None:
    facts = changed(status={"innodb_log_waits": "90000"}, variables={"innodb_log_buffer_size": str(2 * GIB)})
    assert "log-buffer-waits" not in findings(facts)


# Families


def test_mariadb_ignores_flush_neighbors_where_the_kernel_says_that_nothing_turns() -> None:
    variables = {**MARIADB.variables, "innodb_flush_neighbors": "1"}
    for called, named in ((False, False), (True, True), (None, True)):
        facts = changed(MARIADB, disk={"called_rotational": called, "rotational": None}, variables=variables)
        assert ("flush-neighbors" in findings(facts)) is named


@pytest.mark.parametrize(
    ("origins", "fixed"),
    [({}, True), ({"innodb_use_native_aio": "/etc/my.cnf"}, True), ({"datadir": "/etc/my.cnf"}, False)],
)
def test_asynchronous_io_that_the_kernel_refused_is_not_asked_for_again(origins: Mapping[str, str], fixed: bool) -> None:
    """MariaDB's io_uring in most containers: the server falls back to OFF. Who set it is not always known."""
    for base, measured in ((WELL, True), (MARIADB, False)):
        facts = changed(base, variables={"innodb_use_native_aio": "OFF"}, origins=origins)
        finding = findings(facts)["native-aio-off"]
        assert bool(finding.my_cnf) is fixed and finding.provable is (fixed and measured)
        assert ("its log has why" in finding.evidence) is not fixed


@pytest.mark.parametrize(
    ("variables", "kept"),
    [
        ({}, True),
        ({"expire_logs_days": "7"}, False),  # MySQL 8.0 sets the seconds to 0 then
        ({"expire_logs_days": "0"}, True),
        ({"max_binlog_total_size": "1073741824"}, False),
        ({"binlog_space_limit": "0"}, True),
    ],
)
def test_binary_logs_may_be_limited_in_other_ways(variables: Mapping[str, str], kept: bool) -> None:
    facts = changed(variables={"binlog_expire_logs_seconds": "0", **variables})
    assert ("binlog-kept-forever" in findings(facts)) is kept


def test_a_log_that_goes_nowhere_costs_little() -> None:
    on = {"general_log": "ON", "slow_query_log": "ON", "long_query_time": "0", "log_queries_not_using_indexes": "ON"}
    assert findings(changed(variables={**on, "log_output": "TABLE"})).keys() == {
        *("general-log-on", "slow-log-all", "slow-log-unindexed")
    }
    assert findings(changed(variables={**on, "log_output": "NONE"})) == {}


def test_a_debug_build_of_mariadb_is_not_answered_with_mysql() -> None:
    assert not findings(changed(MARIADB, version_text="MariaDB 11.8.2-MariaDB-debug"))["debug-build"].shell


def test_indexes_are_hidden_where_the_server_can() -> None:
    unused = EXAMPLES["unused-index"].firing
    for family, version, fix in (
        ("mysql", (8, 0, 36), "ALTER INDEX `by_day` INVISIBLE"),
        ("mariadb", (10, 6, 0), "ALTER INDEX `by_day` IGNORED"),
    ):
        facts = unused.model_copy(update={"family": family, "version": version})
        assert findings(facts, "unused-index")["unused-index"].sql == (f"ALTER TABLE `shop`.`orders` {fix}",)
    older = findings(unused.model_copy(update={"family": "mariadb", "version": (10, 5, 26)}), "unused-index")["unused-index"]
    assert older.sql == () and "MariaDB hides no index before 10.6" in older.evidence


def test_reads_of_full_text_are_not_counted() -> None:
    facts = EXAMPLES["unused-index"].firing
    indexes = tuple(each.model_copy(update={"kind": "FULLTEXT"}) if each.name == "by_day" else each for each in facts.indexes)
    assert not findings(facts.model_copy(update={"indexes": indexes}), "unused-index")


# Sizes and tables


def test_an_index_is_not_called_unused_within_a_day() -> None:
    facts = EXAMPLES["unused-index"].firing
    facts = facts.model_copy(update={"status": {**facts.status, "uptime": "80000", "uptime_since_flush_status": "80000"}})
    assert "a day is the least" in not_judged(facts, "unused-index")


def test_a_limit_that_another_one_lowers_is_not_large() -> None:
    variables = {"tmp_table_size": str(4 * GIB), "max_heap_table_size": str(16 * MIB)}
    facts = changed(MARIADB, variables=variables)
    found = findings(facts)
    assert "tmp-table-large" not in found
    assert found["tmp-table-pair"].my_cnf == ("max_heap_table_size = 2G",), (
        "an eighth of the memory, not all that was asked for"
    )


def test_buffers_are_made_smaller_where_they_are_large_and_else_the_pool() -> None:
    status = {"max_used_connections": "498"}
    large = changed(variables={"sort_buffer_size": str(16 * MIB), "innodb_buffer_pool_size": str(12 * GIB)}, status=status)
    found = findings(large, "connections-above-memory")["connections-above-memory"]
    assert found.my_cnf == ("sort_buffer_size = 256K",)
    least = changed(variables={"innodb_buffer_pool_size": str(int(15.8 * GIB))}, status=status)
    (line,) = findings(least, "connections-above-memory")["connections-above-memory"].my_cnf
    name, size = line.split(" = ")
    assert name == "innodb_buffer_pool_size" and int(size.removesuffix("M")) < 14 * 1024


def test_more_connections_are_not_advised_than_memory_holds() -> None:
    near = {"max_used_connections": "480"}
    tight = changed(status=near, variables={"innodb_buffer_pool_size": str(int(14.0 * GIB))}, host={"others_bytes": 0})
    (finding,) = findings(tight, "connections-near-limit").values()
    assert finding.my_cnf == () and "Memory does not suffice" in finding.evidence


def test_connections_that_an_earlier_limit_refused() -> None:
    status = {"max_used_connections": "152", "connection_errors_max_connections": "12"}
    assert "connections-near-limit" not in findings(changed(status=status, variables={"max_connections": "1000"}))
    (finding,) = findings(changed(status=status, variables={"max_connections": "151"}), "connections-near-limit").values()
    assert finding.my_cnf == ("max_connections = 304",) and "12 were refused" in finding.evidence


@pytest.mark.parametrize(
    ("kept", "option", "named"),
    [("ON", "", True), ("ON", "stats_persistent=0", False), ("OFF", "", False), ("OFF", "stats_persistent=1", True)],
)
def test_statistics_that_are_not_stored_are_neither_stale_nor_frozen(kept: str, option: str, named: bool) -> None:
    """What is left of them in mysql.innodb_table_stats the optimizer does not read, and ANALYZE TABLE does not renew."""
    facts = changed(
        variables={"innodb_stats_persistent": kept},
        tables=(table("orders", options=f"stats_auto_recalc=0 {option}"),),
        statistics=(stored("orders", 1000),),
    )
    assert findings(facts, "statistics-stale", "statistics-frozen").keys() == (
        {"statistics-stale", "statistics-frozen"} if named else set()
    )


def test_the_users_own_tables_in_memory_keep_their_limit() -> None:
    facts = changed(status={"created_tmp_disk_tables": "500000"}, variables={"max_heap_table_size": str(GIB)})
    assert findings(facts)["tmp-tables-on-disk"].settings_then == {"tmp_table_size": "32M"}


def test_the_most_prepared_statements_are_not_lowered() -> None:
    facts = changed(status={"prepared_stmt_count": "9000000"}, variables={"max_prepared_stmt_count": "9000000"})
    assert findings(facts)["prepared-near-limit"].my_cnf == ()


def test_the_free_space_of_a_shared_tablespace_is_no_tables_own() -> None:
    shared = [table(f"t{number}", free_bytes=90 * GIB) for number in range(3)]
    assert "table-mostly-free" not in findings(changed(tables=(*WELL.tables, *shared)))


def test_a_unique_prefix_is_no_key() -> None:
    """MySQL 9.7 source: sql/table.cc takes no index of a column's beginning for the primary key."""
    others = [each for each in WELL.indexes if (each.table, each.name) != ("lines", "PRIMARY")]
    for prefix, named in ((None, False), (10, True)):
        unique = index("lines", "code", part("code", prefix, nullable=False), unique=True)
        assert ("no-primary-key" in findings(changed(indexes=(*others, unique)))) is named


def test_purge_threads_have_a_most() -> None:
    facts = changed(metrics={"trx_rseg_history_len": 9_000_000}, variables={"innodb_purge_threads": "32"})
    assert findings(facts)["history-long"].my_cnf == ()


@pytest.mark.parametrize(
    ("variables", "purged"),
    [
        ({"binlog_expire_logs_seconds": "604801"}, True),
        ({"binlog_expire_logs_seconds": "0"}, True),
        ({"binlog_expire_logs_seconds": "604800"}, False),
        ({"binlog_expire_logs_seconds": "604800", "binlog_expire_logs_auto_purge": "OFF"}, True),
        ({"binlog_expire_logs_seconds": "0", "expire_logs_days": "3.000000"}, False),
    ],
)
def test_binary_logs_that_are_gone_already_are_not_purged(variables: Mapping[str, str], purged: bool) -> None:
    finding = findings(changed(variables=variables, disk={"free_bytes": GIB}), "disk-nearly-full")["disk-nearly-full"]
    assert bool(finding.sql) is purged is not bool(finding.shell)


# Shell


@pytest.mark.parametrize("id", ["barriers-off", "disk-nearly-full"])
def test_folders_are_quoted_for_the_shell(id: str) -> None:
    folder = "/srv/my data; rm -rf x"
    change: dict[str, Any] = {"datadir": folder, "log_bin": "OFF"}
    facts = EXAMPLES[id].firing
    facts = facts.model_copy(update={"variables": {**facts.variables, **change}})
    (line,) = findings(facts, id)[id].shell
    assert shlex.quote(folder) in line
    subprocess.run(("sh", "-n", "-c", line), check=True)


@pytest.mark.parametrize(("id", "kind"), [("data-in-memory", "tmpfs"), ("data-on-network", "nfs4")])
def test_data_that_lie_badly_in_the_usual_folder_are_not_sent_there(id: str, kind: str) -> None:
    finding = findings(changed(disk={"file_system": kind}))[id]
    assert not finding.my_cnf and finding.shell == ("findmnt -D -t ext4,xfs,btrfs,zfs",)
