"""For each rule a server that it names, and one that comes near and that it must not name."""

from __future__ import annotations

from dataclasses import dataclass

from cards import calls, card, steady
from served import (
    GIB,
    MARIADB,
    MIB,
    SMALL,
    WELL,
    changed,
    column,
    index,
    part,
    stored,
    table,
    use,
)

from upshift.check.model import Facts, Running, Transaction
from upshift.check.rules import RULES
from upshift.server.huge_text import Text


@dataclass(frozen=True)
class Example:
    firing: Facts
    silent: Facts
    fix: str
    """A line of the fix, as it is."""


def _variable(name: str, bad: str, good: str, then: str) -> Example:
    """One setting alone."""
    return Example(changed(variables={name: bad}), changed(variables={name: good}), f"{name} = {then}")


_TALL = {"innodb_buffer_pool_size": str(2 * GIB)}
_MANY = {"table_open_cache": "60000", "open_files_limit": "300000"}
_TABLES = tuple(table(f"t{number}", engine="MEMORY") for number in range(500))
_ONE = WELL.indexes
_OTHER = (*_ONE, index("orders", "again", "customer", "day"))

_TURNING = card(read_us_p50=steady(8000.0), fsync_us_p50=steady(9000.0))
_DEAR_CALLS = card(calls=calls(steady(12.0), steady(31.0), steady(15.0)))

EXAMPLES: dict[str, Example] = {
    # Memory
    "buffer-pool-above-memory": Example(
        changed(variables={"innodb_buffer_pool_size": str(15 * GIB)}),
        changed(variables={"innodb_buffer_pool_size": str(13 * GIB)}),
        "innodb_buffer_pool_size = 10752M",
    ),
    "buffer-pool-below-data": Example(
        changed(variables=_TALL, status={"innodb_buffer_pool_reads": "90000000"}),
        changed(variables=_TALL),  # next to no page was missed
        "innodb_buffer_pool_size = 6759M",
    ),
    "connections-above-memory": Example(
        changed(variables={**_MANY, "max_connections": "50000"}),
        changed(variables={**_MANY, "max_connections": "5000"}),
        "max_connections = 4809",
    ),
    "server-swapped": Example(
        changed(host={"swapped_bytes": GIB}), changed(host={"swapped_bytes": 30 * MIB}), "innodb_buffer_pool_size = 8G"
    ),
    "swappiness": Example(
        changed(host={"swap_bytes": GIB}), changed(host={"swap_bytes": GIB, "swappiness": 1}), "sysctl -w vm.swappiness=1"
    ),
    "idle-cpus-halt": Example(
        changed(host={"idle_poll_ns": 0}),
        changed(host={"idle_poll_ns": 200_000}),
        "echo 200000 > /sys/module/haltpoll/parameters/guest_halt_poll_ns",
    ),
    "numa-interleave": Example(
        changed(host={"numa_nodes": 2}, variables={"innodb_numa_interleave": "OFF"}),
        changed(host={"numa_nodes": 2}),
        "innodb_numa_interleave = ON",
    ),
    "huge-pages-always": Example(
        changed(host={"huge_pages": "always"}),
        changed(host={"huge_pages": "always"}, variables={"innodb_buffer_pool_size": str(6 * GIB)}),
        "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
    ),
    "text-small-pages": Example(
        changed(card=_DEAR_CALLS, host={"program": "/usr/sbin/mysqld"}),
        changed(card=_DEAR_CALLS, host={"text": Text(size_bytes=48 * MIB, huge_bytes=44 * MIB)}),
        "mkdir -p /etc/systemd/system/mysql.service.d && "
        "printf '[Service]\\nEnvironment=LD_PRELOAD=/usr/local/lib/libupshift_hugetext.so UPSHIFT_HUGETEXT_PROGRAM=mysqld\\n' "
        "> /etc/systemd/system/mysql.service.d/hugetext.conf && systemctl daemon-reload",
    ),
    "dedicated-server-shared": Example(
        changed(variables={"innodb_dedicated_server": "ON"}, host={"others_bytes": 5 * GIB}),
        changed(variables={"innodb_dedicated_server": "ON"}),
        "innodb_buffer_pool_size = 7885M",
    ),
    "dedicated-server-ignored": Example(
        changed(variables={"innodb_dedicated_server": "ON"}, origins={"innodb_buffer_pool_size": "/etc/my.cnf"}),
        changed(variables={"innodb_dedicated_server": "ON"}),
        "innodb_dedicated_server = OFF",
    ),
    "container-unaware": Example(changed(SMALL, variables={"container_aware": "OFF"}), changed(), "container_aware = ON"),
    "key-buffer-unused": Example(
        changed(variables={"key_buffer_size": str(GIB)}),
        changed(variables={"key_buffer_size": str(GIB)}, tables=(table("old", engine="MyISAM"),)),
        "key_buffer_size = 8M",
    ),
    "buffer-pool-cold": _variable("innodb_buffer_pool_load_at_startup", "OFF", "ON", "ON"),
    "performance-schema-memory": Example(
        changed(SMALL, variables={"performance_schema": "ON"}, performance_schema_bytes=90 * MIB, unseen={}),
        changed(SMALL, variables={"performance_schema": "ON"}, performance_schema_bytes=20 * MIB, unseen={}),
        "performance_schema = OFF",
    ),
    "sort-buffer-global": _variable("sort_buffer_size", str(8 * MIB), str(4 * MIB), "256K"),
    "join-buffer-global": _variable("join_buffer_size", str(9 * MIB), str(8 * MIB), "256K"),
    "read-buffer-global": _variable("read_buffer_size", str(8 * MIB), str(4 * MIB), "128K"),
    "read-rnd-buffer-global": _variable("read_rnd_buffer_size", str(8 * MIB), str(4 * MIB), "256K"),
    # Redo and durability
    "doublewrite-off": Example(
        changed(variables={"innodb_doublewrite": "OFF"}),
        changed(variables={"innodb_doublewrite": "OFF"}, disk={"file_system": "zfs"}),
        "innodb_doublewrite = ON",
    ),
    "checksums-off": _variable("innodb_checksum_algorithm", "none", "strict_crc32", "crc32"),
    "redo-log-disabled": Example(
        changed(status={"innodb_redo_log_enabled": "OFF"}), changed(), "ALTER INSTANCE ENABLE INNODB REDO_LOG"
    ),
    "force-recovery": _variable("innodb_force_recovery", "3", "0", "0"),
    "log-not-written": _variable("innodb_flush_log_at_trx_commit", "0", "2", "1"),
    "durability-pair": Example(
        changed(variables={"sync_binlog": "0"}),
        changed(variables={"sync_binlog": "0", "log_bin": "OFF"}),
        "sync_binlog = 1",
    ),
    "log-not-synced": Example(
        changed(variables={"innodb_flush_log_at_trx_commit": "2", "sync_binlog": "0"}),
        changed(variables={"innodb_flush_log_at_trx_commit": "2"}),  # durability-pair names this one
        "innodb_flush_log_at_trx_commit = 1",
    ),
    "redo-small": Example(
        changed(status={"innodb_os_log_written": str(6000 * GIB)}), changed(), "innodb_redo_log_capacity = 36572M"
    ),
    "redo-small-mariadb": Example(
        changed(MARIADB, status={"innodb_os_log_written": str(6000 * GIB)}), MARIADB, "innodb_log_file_size = 36572M"
    ),
    "log-buffer-waits": Example(
        changed(status={"innodb_log_waits": "90000"}),
        changed(status={"innodb_log_waits": "100"}),
        "innodb_log_buffer_size = 128M",
    ),
    "log-buffer-small": _variable("innodb_log_buffer_size", str(MIB), str(4 * MIB), "16M"),
    "group-commit-delay": _variable("binlog_group_commit_sync_delay", "50000", "500", "0"),
    "redo-unwoken": Example(
        changed(status={"innodb_log_write_requests": "9000000000"}),
        changed(variables={"redo_wakeup": "ON"}, status={"innodb_log_write_requests": "9000000000"}),
        "innodb_log_writer_threads = ON",
    ),
    "shutdown-crash": _variable("innodb_fast_shutdown", "2", "0", "1"),
    # I/O
    "flush-method-unsafe": _variable("innodb_flush_method", "nosync", "O_DIRECT_NO_FSYNC", "O_DIRECT"),
    "flush-method": Example(
        changed(variables={"innodb_flush_method": "fsync"}),
        changed(variables={"innodb_flush_method": "fsync"}, disk={"file_system": "zfs"}),
        "innodb_flush_method = O_DIRECT",
    ),
    "data-in-memory": Example(
        changed(variables={"datadir": "/dev/shm/mysql/"}, disk={"file_system": "tmpfs"}),
        changed(disk={"file_system": "xfs"}),
        "datadir = /var/lib/mysql",
    ),
    "barriers-off": Example(
        changed(disk={"mount_options": ("rw", "nobarrier")}),
        changed(disk={"mount_options": ("rw", "barrier=1")}),
        'mount -o remount,barrier=1 "$(findmnt -no TARGET -T /var/lib/mysql/)"',
    ),
    "disk-nearly-full": Example(
        changed(disk={"free_bytes": 10 * GIB}),
        changed(disk={"free_bytes": 100 * GIB, "size_bytes": 9000 * GIB}),
        "PURGE BINARY LOGS BEFORE NOW() - INTERVAL 7 DAY",
    ),
    "data-on-network": Example(
        changed(variables={"datadir": "/mnt/nfs/mysql/"}, disk={"file_system": "nfs4"}),
        changed(disk={"file_system": "btrfs"}),
        "datadir = /var/lib/mysql",
    ),
    "io-capacity-low": Example(
        changed(variables={"innodb_io_capacity": "200", "innodb_io_capacity_max": "2000"}),
        changed(variables={"innodb_io_capacity": "200"}, card=_TURNING),
        "innodb_io_capacity = 2000",
    ),
    "io-capacity-high": Example(
        changed(card=_TURNING),
        changed(card=_TURNING, variables={"innodb_io_capacity": "400"}),
        "innodb_io_capacity = 100",
    ),
    "flush-neighbors": Example(
        changed(variables={"innodb_flush_neighbors": "1"}),
        changed(variables={"innodb_flush_neighbors": "1"}, card=_TURNING),
        "innodb_flush_neighbors = 0",
    ),
    "native-aio-off": _variable("innodb_use_native_aio", "OFF", "ON", "ON"),
    "io-scheduler": Example(
        changed(disk={"scheduler": "bfq"}),
        changed(disk={"scheduler": "mq-deadline"}),
        "echo none > /sys/block/nvme0n1/queue/scheduler",
    ),
    # Connections and threads
    "connections-near-limit": Example(
        changed(status={"max_used_connections": "480"}),
        changed(status={"max_used_connections": "400"}),
        "max_connections = 960",
    ),
    "thread-pool": Example(
        changed(threads_running=(60, 2, 70, 64, 58)),
        changed(threads_running=(60, 2, 3, 64, 4)),
        "plugin_load_add = thread_pool.so",
    ),
    "thread-concurrency-low": _variable("innodb_thread_concurrency", "2", "16", "0"),
    "thread-cache-off": Example(
        changed(variables={"thread_cache_size": "0"}),
        changed(variables={"thread_cache_size": "0", "thread_handling": "loaded-dynamically"}),
        "thread_cache_size = 13",
    ),
    "thread-cache-small": Example(
        changed(status={"threads_created": "30000"}),
        changed(status={"threads_created": "3000"}),
        "thread_cache_size = 64",
    ),
    "back-log-small": _variable("back_log", "5", "50", "500"),
    "somaxconn": Example(
        changed(host={"somaxconn": 128}),
        changed(host={"somaxconn": 128}, variables={"skip_networking": "ON"}),
        "sysctl -w net.core.somaxconn=4096",
    ),
    "open-files-limit": Example(
        changed(variables={"open_files_limit": "1024", "table_open_cache": "400", "max_connections": "214"}),
        changed(variables={"open_files_limit": "1024", "table_open_cache": "400", "max_connections": "151"}),
        "open_files_limit = 5000",
    ),
    "lock-wait-long": _variable("innodb_lock_wait_timeout", "3600", "600", "50"),
    "deadlock-detect-off": Example(
        changed(variables={"innodb_deadlock_detect": "OFF"}),
        changed(variables={"innodb_deadlock_detect": "OFF", "innodb_lock_wait_timeout": "2"}),
        "innodb_deadlock_detect = ON",
    ),
    "query-without-limit": Example(
        changed(statements=(Running(thread=7, age_s=9000, verb="SELECT"),)),
        changed(statements=(Running(thread=7, age_s=9000, verb="ALTER"), Running(thread=8, age_s=90, verb="SELECT"))),
        "KILL QUERY 7",
    ),
    "prepared-near-limit": Example(
        changed(status={"prepared_stmt_count": "16000"}),
        changed(status={"prepared_stmt_count": "6000"}),
        "max_prepared_stmt_count = 65528",
    ),
    # Temporary tables and sorts
    "tmp-table-pair": Example(
        changed(variables={"tmp_table_size": str(256 * MIB), "internal_tmp_mem_storage_engine": "MEMORY"}),
        changed(variables={"tmp_table_size": str(256 * MIB)}),
        "max_heap_table_size = 256M",
    ),
    "tmp-engine-memory": _variable("internal_tmp_mem_storage_engine", "MEMORY", "TempTable", "TempTable"),
    "tmp-table-large": _variable("tmp_table_size", str(4 * GIB), str(GIB), "64M"),
    "temptable-ram": _variable("temptable_max_ram", str(12 * GIB), str(4 * GIB), "1G"),
    "tmp-tables-on-disk": Example(
        changed(status={"created_tmp_disk_tables": "500000"}),
        changed(status={"created_tmp_disk_tables": "500", "created_tmp_tables": "600"}),
        "tmp_table_size = 32M",
    ),
    "sort-merge-passes": Example(
        changed(status={"sort_merge_passes": "90000"}),
        changed(status={"sort_merge_passes": "9000"}),
        "sort_buffer_size = 1M",
    ),
    "joins-without-index": Example(
        changed(status={"select_full_join": "90000000"}),
        changed(status={"select_full_join": "900000"}),
        "SELECT schema_name, digest_text, count_star, sum_rows_examined FROM "
        "performance_schema.events_statements_summary_by_digest WHERE sum_select_full_join > 0 "
        "ORDER BY sum_timer_wait DESC LIMIT 10",
    ),
    # Caches
    "table-cache-small": Example(
        changed(status={"open_tables": "4000", "opened_tables": "9000000"}),
        changed(status={"open_tables": "900", "opened_tables": "9000000"}),  # FLUSH TABLES, not a full cache
        "table_open_cache = 8000",
    ),
    "table-cache-below-connections": Example(
        changed(variables={"table_open_cache": "400"}, status={"uptime_since_flush_status": "60"}),
        changed(variables={"table_open_cache": "400"}),  # a week has shown that it is enough
        "table_open_cache = 4000",
    ),
    "definition-cache-small": Example(
        changed(variables={"table_definition_cache": "400"}, tables=_TABLES),
        changed(tables=_TABLES),
        "table_definition_cache = 1000",
    ),
    "adaptive-hash-index": Example(
        changed(variables={"innodb_adaptive_hash_index": "ON"}),
        changed(
            variables={"innodb_adaptive_hash_index": "ON"},
            metrics={**WELL.metrics, "adaptive_hash_searches": 90_000_000},
        ),
        "innodb_adaptive_hash_index = OFF",
    ),
    "query-cache": Example(
        changed(MARIADB, variables={"query_cache_type": "ON"}),
        changed(MARIADB, variables={"query_cache_type": "ON", "query_cache_size": "0"}),
        "query_cache_type = OFF",
    ),
    "binlog-cache-disk": Example(
        changed(status={"binlog_cache_disk_use": "9000000"}),
        changed(status={"binlog_cache_disk_use": "90000"}),
        "binlog_cache_size = 1M",
    ),
    # Schema
    "auto-increment-near-end": Example(
        changed(
            tables=(table("orders", auto_increment=2_000_000_000),),
            columns=(column("id", "orders", kind="int", counts=True),),
        ),
        changed(
            tables=(table("orders", auto_increment=2_000_000_000),),
            columns=(column("id", "orders", kind="int unsigned", counts=True),),
        ),
        "ALTER TABLE `shop`.`orders` MODIFY `id` BIGINT NOT NULL AUTO_INCREMENT",
    ),
    "myisam-tables": Example(
        changed(tables=(table("old", engine="MyISAM"),)),
        changed(tables=(table("old", engine="MEMORY"),)),
        "ALTER TABLE `shop`.`old` ENGINE=InnoDB",
    ),
    "no-primary-key": Example(
        changed(indexes=tuple(each for each in _ONE if each.name != "PRIMARY" or each.table != "lines")),
        changed(
            indexes=(
                *(each for each in _ONE if each.name != "PRIMARY" or each.table != "lines"),
                index("lines", "one", part("order_id", nullable=False), unique=True),
            )
        ),
        "ALTER TABLE `shop`.`lines` ADD COLUMN my_row_id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT INVISIBLE PRIMARY KEY",
    ),
    "duplicate-index": Example(
        changed(indexes=_OTHER),
        changed(indexes=(*_ONE, index("orders", "again", part("customer", 10), "day"))),
        "ALTER TABLE `shop`.`orders` DROP INDEX `customer`",
    ),
    "redundant-index": Example(
        changed(indexes=(*_ONE, index("orders", "short", "customer"))),
        changed(
            indexes=(*_ONE, index("orders", "short", "customer", unique=True), index("orders", "words", "day", kind="FULLTEXT"))
        ),
        "ALTER TABLE `shop`.`orders` DROP INDEX `short`",
    ),
    "unused-index": Example(
        changed(index_use=(*WELL.index_use[:2], use("orders", "by_day", 0), *WELL.index_use[3:])),
        changed(index_use=(*WELL.index_use[:2], use("orders", "by_day", 0)), references=(("shop", "orders", "day"),)),
        "ALTER TABLE `shop`.`orders` ALTER INDEX `by_day` INVISIBLE",
    ),
    "row-format-old": Example(
        changed(tables=(table("orders", row_format="COMPACT"),)),
        changed(tables=(table("orders", row_format="COMPRESSED"),)),
        "ALTER TABLE `shop`.`orders` ROW_FORMAT=DYNAMIC",
    ),
    "row-format-compressed": Example(
        changed(tables=(table("orders", row_format="COMPRESSED"),)),
        changed(tables=(table("orders", row_format="REDUNDANT"),)),
        "ALTER TABLE `shop`.`orders` ROW_FORMAT=DYNAMIC KEY_BLOCK_SIZE=0",
    ),
    "file-per-table-off": _variable("innodb_file_per_table", "OFF", "ON", "ON"),
    "table-mostly-free": Example(
        changed(tables=(table("orders", free_bytes=9 * GIB),)),
        changed(tables=(table("orders", data_bytes=0, index_bytes=0, free_bytes=GIB),)),
        "OPTIMIZE TABLE `shop`.`orders`",
    ),
    # Statistics
    "statistics-stale": Example(
        changed(statistics=(stored("orders", 1000),)),
        changed(statistics=(stored("orders", 1000, age_s=5),)),  # InnoDB's own update is on its way
        "ANALYZE TABLE `shop`.`orders`",
    ),
    "statistics-never-updated": Example(
        changed(variables={"innodb_stats_auto_recalc": "OFF"}),
        changed(variables={"innodb_stats_auto_recalc": "OFF", "innodb_stats_persistent": "OFF"}),
        "innodb_stats_auto_recalc = ON",
    ),
    "statistics-frozen": Example(
        changed(tables=(table("orders", options="stats_auto_recalc=0"),)),
        changed(tables=(table("orders", options="stats_auto_recalc=1 stats_persistent=1"),)),
        "ALTER TABLE `shop`.`orders` STATS_AUTO_RECALC=DEFAULT",
    ),
    "statistics-not-kept": _variable("innodb_stats_persistent", "OFF", "ON", "ON"),
    "statistics-few-pages": _variable("innodb_stats_persistent_sample_pages", "2", "20", "20"),
    "statistics-on-metadata": Example(
        changed(variables={"innodb_stats_on_metadata": "ON", "innodb_stats_persistent": "OFF"}),
        changed(variables={"innodb_stats_on_metadata": "ON"}),
        "innodb_stats_on_metadata = OFF",
    ),
    # Character sets
    "charset-mixed": Example(
        changed(
            indexes=(*_ONE, index("orders", "code", "article")),
            columns=(column("article", "lines", "utf8mb4"), column("article", "orders", "latin1")),
        ),
        changed(columns=(column("article", "lines", "utf8mb4"), column("article", "orders", "latin1"))),
        "ALTER TABLE `shop`.`orders` CONVERT TO CHARACTER SET utf8mb4",
    ),
    "charset-server-old": _variable("character_set_server", "latin1", "utf8mb4", "utf8mb4"),
    "charset-utf8mb3": Example(
        changed(columns=(column("article", "lines", "utf8mb3"),)),
        changed(columns=(column("article", "lines", "latin1"),)),
        "ALTER TABLE `shop`.`lines` CONVERT TO CHARACTER SET utf8mb4",
    ),
    # Transactions
    "isolation-serializable": _variable("transaction_isolation", "SERIALIZABLE", "READ-COMMITTED", "REPEATABLE-READ"),
    "isolation-read-uncommitted": _variable("transaction_isolation", "READ-UNCOMMITTED", "READ-COMMITTED", "READ-COMMITTED"),
    "autocommit-off": _variable("autocommit", "OFF", "ON", "ON"),
    "long-transaction": Example(
        changed(transactions=(Transaction(thread=9, age_s=7000, rows_modified=0),)),
        changed(transactions=(Transaction(thread=9, age_s=70, rows_modified=0),)),
        "KILL 9",
    ),
    "history-long": Example(
        changed(metrics={"trx_rseg_history_len": 9_000_000}),
        changed(metrics={"trx_rseg_history_len": 90_000}),
        "innodb_purge_threads = 4",
    ),
    # Observation
    "debug-build": Example(
        changed(version_text="MySQL 9.7.4-debug"), changed(version_text="MySQL 9.7.4-0ubuntu1"), "./upshift build plain"
    ),
    "general-log-on": _variable("general_log", "ON", "OFF", "OFF"),
    "slow-log-all": Example(
        changed(variables={"slow_query_log": "ON", "long_query_time": "0.000000"}),
        changed(variables={"slow_query_log": "ON", "long_query_time": "0.000000", "log_slow_rate_limit": "100"}),
        "long_query_time = 1",
    ),
    "slow-log-unindexed": Example(
        changed(variables={"slow_query_log": "ON", "log_queries_not_using_indexes": "ON"}),
        changed(
            variables={
                "slow_query_log": "ON",
                "log_queries_not_using_indexes": "ON",
                "log_throttle_queries_not_using_indexes": "60",
            }
        ),
        "log_throttle_queries_not_using_indexes = 10",
    ),
    "instruments-many": Example(
        changed(instruments=300), changed(instruments=12), "performance_schema_instrument = wait/synch/%=OFF"
    ),
    "performance-schema-off": Example(changed(variables={"performance_schema": "OFF"}), SMALL, "performance_schema = ON"),
    "innodb-monitor-on": Example(
        changed(variables={"innodb_status_output": "ON"}),
        changed(variables={"innodb_status_output_locks": "ON"}),  # shows locks in SHOW ENGINE INNODB STATUS, and writes nothing
        "innodb_status_output = OFF",
    ),
    "binlog-kept-forever": Example(
        changed(variables={"binlog_expire_logs_seconds": "0"}),
        changed(variables={"binlog_expire_logs_seconds": "0", "log_bin": "OFF"}),
        "binlog_expire_logs_seconds = 604800",
    ),
    "binlog-purge-off": Example(
        changed(variables={"binlog_expire_logs_auto_purge": "OFF"}),
        changed(variables={"binlog_expire_logs_auto_purge": "OFF", "log_bin": "OFF"}),
        "binlog_expire_logs_auto_purge = ON",
    ),
    "binlog-format-statement": _variable("binlog_format", "STATEMENT", "MIXED", "ROW"),
}


def option_file(base: Facts) -> str:
    """The my.cnf lines of all fixes for a server of this family, as an option file."""
    lines: dict[str, str] = {}
    for rule in RULES:
        if rule.holds_for(base):
            found = rule.condition(EXAMPLES[rule.id].firing.model_copy(update={"family": base.family}))
            assert found
            lines |= found.settings
    del lines["datadir"]  # a folder of this machine's
    return "[mysqld]\n" + "".join(f"{name} = {value}\n" for name, value in lines.items())
