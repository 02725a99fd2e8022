"""Servers as frozen facts: well-set ones, and ways to change them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cards import card

from upshift.check.model import Column, Disk, Facts, Host, Index, IndexColumn, IndexUse, StoredStatistics, Table
from upshift.server.huge_text import Text

GIB, MIB = 1 << 30, 1 << 20

# As `SHOW GLOBAL VARIABLES` of MySQL 9.7.4 has them without a configuration, but for what a machine of 16 GiB needs.
VARIABLES: Mapping[str, str] = {
    "autocommit": "ON",
    "back_log": "10000",
    "binlog_cache_size": "32768",
    "binlog_expire_logs_auto_purge": "ON",
    "binlog_expire_logs_seconds": "2592000",
    "binlog_format": "ROW",
    "binlog_group_commit_sync_delay": "0",
    "character_set_server": "utf8mb4",
    "container_aware": "OFF",
    "datadir": "/var/lib/mysql/",
    "general_log": "OFF",
    "innodb_adaptive_hash_index": "OFF",
    "innodb_buffer_pool_dump_at_shutdown": "ON",
    "innodb_buffer_pool_load_at_startup": "ON",
    "innodb_buffer_pool_size": str(10 * GIB),
    "innodb_checksum_algorithm": "crc32",
    "innodb_deadlock_detect": "ON",
    "innodb_dedicated_server": "OFF",
    "innodb_doublewrite": "ON",
    "innodb_fast_shutdown": "1",
    "innodb_file_per_table": "ON",
    "innodb_flush_log_at_trx_commit": "1",
    "innodb_flush_method": "O_DIRECT",
    "innodb_flush_neighbors": "0",
    "innodb_force_recovery": "0",
    "innodb_io_capacity": "10000",
    "innodb_io_capacity_max": "20000",
    "innodb_lock_wait_timeout": "50",
    "innodb_log_buffer_size": "67108864",
    "innodb_log_writer_threads": "OFF",
    "innodb_numa_interleave": "ON",
    "innodb_purge_threads": "1",
    "innodb_redo_log_capacity": str(4 * GIB),
    "innodb_stats_auto_recalc": "ON",
    "innodb_stats_on_metadata": "OFF",
    "innodb_stats_persistent": "ON",
    "innodb_stats_persistent_sample_pages": "20",
    "innodb_status_output": "OFF",
    "innodb_status_output_locks": "OFF",
    "innodb_thread_concurrency": "0",
    "innodb_use_native_aio": "ON",
    "internal_tmp_mem_storage_engine": "TempTable",
    "join_buffer_size": "262144",
    "key_buffer_size": "8388608",
    "log_bin": "ON",
    "log_queries_not_using_indexes": "OFF",
    "log_throttle_queries_not_using_indexes": "0",
    "long_query_time": "10.000000",
    "max_connections": "500",
    "max_execution_time": "0",
    "max_heap_table_size": "16777216",
    "max_prepared_stmt_count": "16382",
    "net_buffer_length": "16384",
    "open_files_limit": "20000",
    "performance_schema": "ON",
    "plugin_dir": "/usr/lib/mysql/plugin/",
    "read_buffer_size": "131072",
    "read_rnd_buffer_size": "262144",
    "server_memory": "0",
    "skip_networking": "OFF",
    "slow_query_log": "OFF",
    "sort_buffer_size": "262144",
    "sync_binlog": "1",
    "table_definition_cache": "2000",
    "table_open_cache": "4000",
    "temptable_max_ram": "1073741824",
    "thread_cache_size": "9",
    "thread_handling": "one-thread-per-connection",
    "tmp_table_size": "16777216",
    "transaction_isolation": "REPEATABLE-READ",
}
# A week of a busy shop.
STATUS: Mapping[str, str] = {
    "uptime": "604800",
    "uptime_since_flush_status": "604800",
    "questions": "900000000",
    "connections": "60000",
    "threads_created": "140",
    "max_used_connections": "130",
    "connection_errors_max_connections": "0",
    "created_tmp_tables": "900000",
    "created_tmp_disk_tables": "900",
    "innodb_buffer_pool_read_requests": "9000000000",
    "innodb_buffer_pool_reads": "800000",
    "innodb_log_waits": "0",
    "innodb_os_log_written": str(600 * GIB),
    "innodb_redo_log_enabled": "ON",
    "open_tables": "900",
    "opened_tables": "2500",
    "prepared_stmt_count": "60",
    "select_full_join": "1200",
    "sort_merge_passes": "30",
    "sort_range": "80000",
    "sort_scan": "60000",
    "binlog_cache_use": "50000000",
    "binlog_cache_disk_use": "400",
}
DISK = Disk(
    device="nvme0n1",
    rotational=False,
    file_system_number=2049,
    scheduler="none",
    file_system="ext4",
    mount_options=("rw", "relatime"),
    free_bytes=300 * GIB,
    size_bytes=400 * GIB,
)
HOST = Host(
    memory_bytes=16 * GIB,
    limited=False,
    resident_bytes=11 * GIB,
    swapped_bytes=0,
    swap_bytes=0,
    others_bytes=GIB,
    cpus=8,
    numa_nodes=1,
    swappiness=60,
    huge_pages="madvise",
    somaxconn=4096,
    disk=DISK,
    thread_pool=True,
    text=Text(size_bytes=48 * MIB, huge_bytes=0),
)


def part(name: str, prefix: int | None = None, *, nullable: bool = True, descending: bool = False) -> IndexColumn:
    return IndexColumn(name=name, prefix=prefix, descending=descending, nullable=nullable)


def index(table: str, name: str, *columns: str | IndexColumn, unique: bool = False, kind: str = "BTREE") -> Index:
    primary = name == "PRIMARY"
    return Index(
        schema_name="shop",
        table=table,
        name=name,
        unique=unique or primary,
        kind=kind,
        visible=True,
        columns=tuple(part(each, nullable=not primary) if isinstance(each, str) else each for each in columns),
    )


def table(name: str, **changes: Any) -> Table:
    values: dict[str, Any] = {
        "schema_name": "shop",
        "name": name,
        "engine": "InnoDB",
        "row_format": "DYNAMIC",
        "rows": 1_000_000,
        "data_bytes": 2 * GIB,
        "index_bytes": GIB,
        "free_bytes": 4 * MIB,
        "auto_increment": None,
        "collation": "utf8mb4_0900_ai_ci",
        "options": "",
    }
    return Table(**{**values, **changes})


def column(name: str, of: str, charset: str = "", kind: str = "varchar(20)", *, counts: bool = False) -> Column:
    return Column(schema_name="shop", table=of, name=name, type=kind, charset=charset, counts=counts)


def stored(name: str, rows: int, age_s: int = 3600) -> StoredStatistics:
    return StoredStatistics(schema_name="shop", table=name, rows=rows, age_s=age_s)


def use(of: str, name: str, reads: int) -> IndexUse:
    return IndexUse(schema_name="shop", table=of, index=name, reads=reads)


WELL = Facts(
    family="mysql",
    version=(9, 7, 4),
    version_text="MySQL 9.7.4",
    variables=VARIABLES,
    status=STATUS,
    threads_running=(2, 3, 1, 4, 2),
    tables=(table("orders", auto_increment=1_000_001), table("lines")),
    indexes=(
        index("orders", "PRIMARY", "id"),
        index("orders", "customer", "customer", "day"),
        index("orders", "by_day", "day"),
        index("lines", "PRIMARY", "order_id", "number"),
        index("lines", "article", "article"),
    ),
    columns=(column("id", "orders", kind="bigint unsigned", counts=True), column("article", "lines", "utf8mb4")),
    references=(("shop", "lines", "order_id"),),
    statistics=(stored("orders", 990_000), stored("lines", 1_000_000)),
    index_use=(
        use("orders", "PRIMARY", 800_000),
        use("orders", "customer", 9_000),
        use("orders", "by_day", 300),
        use("lines", "PRIMARY", 70_000),
        use("lines", "article", 20_000),
    ),
    instruments=3,
    performance_schema_bytes=220 * MIB,
    metrics={"trx_rseg_history_len": 4000, "adaptive_hash_searches": 0, "adaptive_hash_searches_btree": 9_000_000},
    host=HOST,
    card=card(),
)


def changed(
    base: Facts = WELL,
    *,
    variables: Mapping[str, str] = {},
    status: Mapping[str, str] = {},
    host: Mapping[str, Any] = {},
    disk: Mapping[str, Any] = {},
    **others: Any,
) -> Facts:
    """The same server, but for these."""
    assert base.host and base.host.disk
    there = base.host.model_copy(update={**host, "disk": base.host.disk.model_copy(update=dict(disk))})
    merged = {"variables": {**base.variables, **variables}, "status": {**base.status, **status}, "host": there, **others}
    return Facts.model_validate({**{name: getattr(base, name) for name in Facts.model_fields}, **merged})


# A container of 256 MiB, set for it.
SMALL = changed(
    variables={
        "innodb_buffer_pool_size": str(64 * MIB),
        "innodb_log_buffer_size": str(8 * MIB),
        "innodb_redo_log_capacity": str(64 * MIB),
        "max_connections": "50",
        "table_open_cache": "400",
        "table_definition_cache": "400",
        "open_files_limit": "1024",
        "temptable_max_ram": str(16 * MIB),
        "performance_schema": "OFF",
        "container_aware": "ON",
        "back_log": "50",
    },
    status={"max_used_connections": "20", "innodb_os_log_written": str(GIB), "open_tables": "120"},
    host={"memory_bytes": 256 * MIB, "limited": True, "resident_bytes": 190 * MIB, "cpus": 1.0, "others_bytes": 9 * GIB},
    tables=(table("orders", data_bytes=90 * MIB, index_bytes=20 * MIB), table("lines", data_bytes=MIB, index_bytes=MIB)),
    index_use=(),
    instruments=0,
    performance_schema_bytes=0,
    unseen={"index use": "performance_schema is off", "instruments": "performance_schema is off"},
)

_MYSQL_ONLY = (
    *("innodb_redo_log_capacity", "internal_tmp_mem_storage_engine", "temptable_max_ram", "innodb_dedicated_server"),
    *("innodb_numa_interleave", "container_aware", "server_memory", "binlog_group_commit_sync_delay", "max_execution_time"),
    *("innodb_checksum_algorithm", "binlog_expire_logs_auto_purge", "innodb_stats_on_metadata"),
)
MARIADB = changed(
    family="mariadb",
    version=(10, 11, 14),
    version_text="MariaDB 10.11.14-MariaDB-0+deb12u2",
).model_copy(
    update={
        "variables": {
            **{name: value for name, value in VARIABLES.items() if name not in _MYSQL_ONLY},
            "innodb_log_file_size": str(4 * GIB),
            "max_statement_time": "0.000000",
            "query_cache_type": "OFF",
            "query_cache_size": "1048576",
            "expire_logs_days": "10.000000",
            "performance_schema": "OFF",
        },
        "index_use": (),
        "unseen": {"index use": "performance_schema is off", "instruments": "performance_schema is off"},
    }
)
