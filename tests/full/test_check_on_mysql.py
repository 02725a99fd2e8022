"""`upshift check` on a real MySQL: planted faults are named, a well-set server hears nothing, and nothing is changed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from examples import option_file
from marks import only_full
from real_server import OF_THE_MACHINE, READS, changes_of, checked, initialised, started
from served import WELL

from upshift.cli.test import MYSQLD

pytestmark = only_full

MIB = 1 << 20
BASE = ("--mysqlx=OFF", "--secure-file-priv=NULL")
OPTIONS = {
    "connections-above-memory": ("--max-connections=50000",),
    "dedicated-server-ignored": ("--innodb-dedicated-server=ON", "--innodb-buffer-pool-size=64M"),
    "key-buffer-unused": ("--key-buffer-size=256M",),
    "sort-buffer-global": ("--sort-buffer-size=16M",),
    "join-buffer-global": ("--join-buffer-size=64M",),
    "read-buffer-global": ("--read-buffer-size=16M",),
    "read-rnd-buffer-global": ("--read-rnd-buffer-size=16M",),
    "doublewrite-off": ("--innodb-doublewrite=OFF",),
    "checksums-off": ("--innodb-checksum-algorithm=none",),
    "durability-pair": ("--sync-binlog=0",),
    "log-buffer-small": ("--innodb-log-buffer-size=1M",),
    "group-commit-delay": ("--binlog-group-commit-sync-delay=50000",),
    "shutdown-crash": ("--innodb-fast-shutdown=2",),
    "flush-method": ("--innodb-flush-method=fsync",),
    "native-aio-off": ("--innodb-use-native-aio=OFF",),
    "thread-concurrency-low": ("--innodb-thread-concurrency=1",),
    "thread-cache-off": ("--thread-cache-size=0",),
    "back-log-small": ("--back-log=5",),
    "lock-wait-long": ("--innodb-lock-wait-timeout=3600",),
    "deadlock-detect-off": ("--innodb-deadlock-detect=OFF",),
    "tmp-table-pair": ("--tmp-table-size=64M", "--max-heap-table-size=1M"),
    "tmp-engine-memory": ("--internal-tmp-mem-storage-engine=MEMORY",),
    "temptable-ram": ("--temptable-max-ram=1000G",),
    "table-cache-below-connections": ("--table-open-cache=60",),
    "statistics-never-updated": ("--innodb-stats-auto-recalc=OFF",),
    "statistics-few-pages": ("--innodb-stats-persistent-sample-pages=2",),
    "charset-server-old": ("--character-set-server=latin1",),
    "isolation-serializable": ("--transaction-isolation=SERIALIZABLE",),
    "autocommit-off": ("--autocommit=OFF",),
    "general-log-on": ("--general-log=ON",),
    "slow-log-all": ("--slow-query-log=ON", "--long-query-time=0"),
    "slow-log-unindexed": ("--log-queries-not-using-indexes=ON",),
    "instruments-many": ("--performance-schema-instrument=wait/synch/%=ON",),
    "innodb-monitor-on": ("--innodb-status-output=ON",),
    "binlog-kept-forever": ("--binlog-expire-logs-seconds=0",),
    "binlog-purge-off": ("--binlog-expire-logs-auto-purge=OFF",),
    "binlog-format-statement": ("--binlog-format=STATEMENT",),
}
TABLES = {
    "no-primary-key": "CREATE TABLE no_key (a INT)",
    "duplicate-index": "CREATE TABLE two (id INT PRIMARY KEY, a INT, b INT, KEY one (a, b), KEY other (a, b))",
    "redundant-index": "CREATE TABLE short (id INT PRIMARY KEY, a INT, b INT, KEY a (a), KEY a_b (a, b))",
    "row-format-old": "CREATE TABLE compact (id INT PRIMARY KEY) ROW_FORMAT=COMPACT",
    "row-format-compressed": "CREATE TABLE compressed (id INT PRIMARY KEY) ROW_FORMAT=COMPRESSED",
    "auto-increment-near-end": "CREATE TABLE ending (id TINYINT PRIMARY KEY AUTO_INCREMENT) AUTO_INCREMENT=120",
    "statistics-frozen": "CREATE TABLE frozen (id INT PRIMARY KEY) STATS_AUTO_RECALC=0",
    "charset-utf8mb3": "CREATE TABLE three (id INT PRIMARY KEY, code VARCHAR(9) CHARACTER SET utf8mb3, KEY (code))",
    "charset-mixed": "CREATE TABLE four (id INT PRIMARY KEY, code VARCHAR(9) CHARACTER SET utf8mb4, KEY (code))",
}
OF_COUNTER = "FROM information_schema.columns WHERE table_name = 'kept' AND column_name = 'id'"
LATER = {
    "file-per-table-off": "SET GLOBAL innodb_file_per_table = OFF",
    "redo-log-disabled": "ALTER INSTANCE DISABLE INNODB REDO_LOG",
}


@pytest.fixture(scope="module")
def mysqld() -> str:
    if MYSQLD not in os.environ:
        pytest.skip(f"{MYSQLD} names no server")
    return os.environ[MYSQLD]


@pytest.fixture(scope="module")
def data(mysqld: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new data folder."""
    return initialised(mysqld, tmp_path_factory.mktemp("mysql") / "data")


def test_a_well_set_server_hears_nothing_and_is_only_read(mysqld: str, data: Path) -> None:
    with started(mysqld, data, BASE) as server:
        variables, counted = server.table("SHOW GLOBAL VARIABLES"), server.table("SHOW GLOBAL STATUS LIKE 'Com\\_%'")
        report = checked(server.url)
        ran = changes_of(counted, server.table("SHOW GLOBAL STATUS LIKE 'Com\\_%'"))
        assert server.table("SHOW GLOBAL VARIABLES") == variables
        # What the how-to grants shows all that root sees.
        server.run("CREATE USER checker@localhost", "GRANT SELECT, PROCESS ON *.* TO checker@localhost")
        assert checked(server.url.replace("root@", "checker@"))["unseen"] == report["unseen"]
    assert "Com_select" in ran and all(each.startswith(READS) for each in ran), ran
    assert {each["id"] for each in report["findings"]} <= OF_THE_MACHINE
    assert report["on_this_machine"] and len(report["well"]) > 70
    reasons = ("the counters cover", "disk", "no machine card")
    assert all(any(reason in each["why"] for reason in reasons) for each in report["not_judged"])


def test_planted_faults_are_named_and_their_fixes_run(mysqld: str, data: Path) -> None:
    options = [each for given in OPTIONS.values() for each in given]
    with started(mysqld, data, [*BASE, *options]) as server:
        partitioned = "CREATE TABLE parted (a INT) PARTITION BY HASH (a) PARTITIONS 2"
        server.run("CREATE DATABASE shop", "USE shop", partitioned, *TABLES.values(), *LATER.values())
        findings = {each["id"]: each for each in checked(server.url)["findings"]}
        of_tables = set(TABLES) | {"redo-log-disabled"}
        server.run(*(each for name in sorted(of_tables) for each in findings[name]["sql"]))
        server.run("DROP TABLE shop.parted")
        left = {each["id"] for each in checked(server.url)["findings"]}
    planted = {*OPTIONS, *TABLES, *LATER}
    assert findings.keys() - planted <= OF_THE_MACHINE
    assert planted - findings.keys() == set()
    assert not left & of_tables


@pytest.mark.parametrize("mode", ["", "NO_BACKSLASH_ESCAPES"])
def test_a_counter_keeps_its_definition(mysqld: str, data: Path, mode: str) -> None:
    counter = "`id` int(4) unsigned zerofill NOT NULL AUTO_INCREMENT /*!80023 INVISIBLE */ COMMENT "
    comment = "'it''s \\\\here'" if not mode else "'it''s \\here'"
    attributed = "id TINYINT PRIMARY KEY AUTO_INCREMENT SECONDARY_ENGINE_ATTRIBUTE '{}'"
    with started(mysqld, data, [*BASE, f"--sql-mode={mode}"]) as server:
        create = f"CREATE TABLE kept ({counter}{comment}, a INT, PRIMARY KEY (id)) AUTO_INCREMENT = 4200000000"
        server.run("CREATE DATABASE counting", "USE counting", create, f"CREATE TABLE more ({attributed}) AUTO_INCREMENT = 120")
        (found,) = checked(server.url, "--only", "auto-increment-near-end")["findings"]
        ((_name, created),) = server.run(*found["sql"], "SHOW CREATE TABLE counting.kept")
        ((said,),) = server.run(f"SELECT column_comment {OF_COUNTER}")
        server.run("DROP DATABASE counting")
    assert len(found["sql"]) == 1 and "counting.more.id from SHOW CREATE TABLE" in found["evidence"]
    assert counter.replace("int", "bigint") in created and said == "it's \\here"


def test_the_server_takes_the_fixes_of_persisted_settings(mysqld: str, data: Path) -> None:
    bad = {
        "sort_buffer_size": 16 * MIB,
        "innodb_io_capacity": 5000,
        "long_query_time": 0,
        "transaction_isolation": "'SERIALIZABLE'",
    }
    bad |= {"general_log": "ON", "character_set_server": "latin1", "internal_tmp_mem_storage_engine": "'MEMORY'"}
    names = ("sort-buffer-global", "general-log-on", "isolation-serializable", "charset-server-old", "tmp-engine-memory")
    with started(mysqld, data, BASE) as server:
        server.run(*(f"SET PERSIST {name} = {value}" for name, value in bad.items()))
        findings = {each["id"]: each for each in checked(server.url)["findings"]}
        assert not any(each.startswith(tuple(bad)) for name in names for each in findings[name]["my_cnf"])
        server.run(*(each for name in names for each in findings[name]["sql"]))
        persisted = server.table("SELECT * FROM performance_schema.persisted_variables")
        server.run("RESET PERSIST")
    assert persisted["sort_buffer_size"] == "262144" and persisted["general_log"] == "OFF"
    assert persisted["character_set_server"] == "utf8mb4" and persisted["transaction_isolation"] == "REPEATABLE-READ"


def test_the_server_takes_the_lines_of_all_fixes(mysqld: str, tmp_path: Path) -> None:
    file = tmp_path / "my.cnf"
    file.write_text(option_file(WELL).replace("plugin_load_add", "loose_plugin_load_add"))
    as_root = ("--user=root",) if os.geteuid() == 0 else ()
    command = (mysqld, f"--defaults-file={file}", *as_root, *BASE, "--validate-config")
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
