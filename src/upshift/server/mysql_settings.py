"""What a MySQL is started with: to be measured, to be counted, in a package's service."""

from __future__ import annotations

from collections.abc import Mapping

from upshift.server.kind import Repeatable, bare

SETTINGS: Mapping[str, str] = {
    "innodb_buffer_pool_size": "1G",
    "innodb_redo_log_capacity": "1G",
    # Durability on one virtual disk measures the disk: the log is written at each commit and synced once a second.
    "innodb_flush_log_at_trx_commit": "2",
    "sync_binlog": "0",
    "max_connections": "1100",
    # A connection of sysbench's oltp_read_write prepares 36 statements.
    "max_prepared_stmt_count": "65536",
    # Newer BOLT and clang instrumentation use more stack than the 1 MiB default leaves.
    "thread_stack": "2M",
}

# Of MySQL 9.7, from its source in plugin/thread_pool/src. The size follows the CPUs.
THREAD_POOL: Mapping[str, str] = {
    "plugin_load_add": "thread_pool.so",
    # The other algorithm turns direct processing off.
    "thread_pool_algorithm": "0",
    "thread_pool_query_threads_per_group": "1",
    # With a limit, a worker waits for the client of an open transaction, and threads change places several times a statement.
    "thread_pool_max_transactions_limit": "0",
}

# InnoDB's are read from the data folder's first day on; lower_case_table_names is compared with the data dictionary's.
LASTING = ("innodb_page_size", "innodb_data_file_path", "lower_case_table_names")

# What a my.cnf has, and would start a server on the data of the one that it is from, or hide what it says.
RESERVED = (
    "datadir",
    "innodb_data_home_dir",
    "innodb_log_group_home_dir",
    "innodb_undo_directory",
    "log_bin_index",
    "tmpdir",  # a server that starts removes others' temporary tables in it
    "socket",
    "pid_file",
    "log_error",
    "skip_networking",
    "daemonize",
    "user",
)

# With the path of the server in use, a binary log would go on in that server's index.
WRITTEN = (
    "log_bin",
    "relay_log",
    "relay_log_index",
    "general_log_file",
    "slow_query_log_file",
    "innodb_data_file_path",  # a raw device is overwritten when data are initialised
    "innodb_doublewrite_dir",
    "innodb_temp_data_file_path",
    "innodb_temp_tablespaces_dir",
)

# InnoDB's threads work by the clock and meet the connection's on pages, latches and malloc's arenas. The server's own
# thread serves the connection: a thread of its own may get any arena, and what lies in that decides malloc's way.
REPEATABLE = Repeatable(
    settings={
        "thread_handling": "no-threads",
        "event_scheduler": "ON",  # for leave_undisturbed()
        # Above 2^31 ms there is no limit, and the server just reads: with one, it looks first whether there is something.
        **dict.fromkeys(("wait_timeout", "net_read_timeout"), "31536000"),
        "innodb_log_writer_threads": "OFF",
        "innodb_adaptive_hash_index": "OFF",
        "innodb_stats_auto_recalc": "OFF",
        "innodb_use_native_aio": "OFF",
        "innodb_buffer_pool_load_at_startup": "OFF",
        "innodb_undo_log_truncate": "OFF",
        "innodb_purge_threads": "1",
        "innodb_parallel_read_threads": "1",  # with more, threads of InnoDB's own count the rows of a whole table
        "innodb_spin_wait_delay": "0",
        "innodb_sync_spin_loops": "0",
        # Pages are written when the log is full, or not at all.
        "innodb_max_dirty_pages_pct": "99",
        "innodb_max_dirty_pages_pct_lwm": "98",
        "innodb_adaptive_flushing": "OFF",
        "innodb_idle_flush_pct": "0",
    },
    # glibc's: an arena for each thread; no fast bins, whose consolidation comes once in a while; and the thread's own cache of
    # blocks without a limit, because what lies in the arena, and so the way to a block there, is another each time.
    environment={"GLIBC_TUNABLES": "glibc.malloc.arena_max=1000:glibc.malloc.mxfast=0:glibc.malloc.tcache_count=60000"},
)

DEFAULT_STACK: Mapping[str, str] = {"thread_stack": "1M"}


def given(settings: Mapping[str, str], name: str, default: str) -> str:
    """A setting's value for the server: ``loose_`` before its name changes nothing, and of two the last counts."""
    return next((value for key, value in reversed(list(settings.items())) if bare(key) == name), default)
