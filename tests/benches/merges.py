"""How often does InnoDB split and merge pages of an index, with merge_slack OFF and ON?

    PYTHONPATH=src .venv/bin/python tests/benches/merges.py PATCHED/mysqld --json FILE

For each state a server with fresh data, on the first CPU, gets sysbench's oltp_read_write from the last one. Told are InnoDB's
own counters a transaction, among them the pages that it reads from its files, the CPU time of the purge thread, and how many
pages the secondary indexes have before and after.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import _served
from real_server import RealServer, initialised, started

OPTIONS = (
    *("--innodb-buffer-pool-size=1G", "--innodb-redo-log-capacity=1G", "--innodb-flush-log-at-trx-commit=2"),
    *("--mysqlx=OFF", "--secure-file-priv=NULL", "--sync-binlog=0", "--innodb-monitor-enable=module_index"),
)
COUNTED = {
    "index_page_merge_attempts": "attempts",
    "index_page_merge_successful": "merges",
    "index_page_splits": "splits",
    "index_page_reorg_attempts": "reorganisations",
}
TABLES = 4
# Deadlocks and the like, which sysbench repeats.
IGNORED = ("--mysql-ignore-errors=1213,1020,1205,1062",)


def counters(server: RealServer) -> dict[str, int]:
    rows = server.run("SELECT name, count FROM information_schema.innodb_metrics WHERE name LIKE 'index_page%'")
    read = server.run("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_reads'")
    return {COUNTED[name]: int(count) for name, count in rows if name in COUNTED} | {"pages_read": int(read[0][1])}


def purge_cpu_s(server: RealServer, pid: int) -> float:
    """CPU time of all purge threads."""
    rows = server.run("SELECT thread_os_id FROM performance_schema.threads WHERE name LIKE '%purge%'")
    files = [Path(f"/proc/{pid}/task/{row[0]}/schedstat") for row in rows]
    return sum(int(file.read_text().split()[0]) for file in files) / 1e9


def pages(server: RealServer) -> int:
    """Leaf pages of the secondary indexes."""
    for table in range(1, TABLES + 1):
        server.run(f"ANALYZE TABLE sbtest.sbtest{table}")
    where = "database_name = 'sbtest' AND index_name <> 'PRIMARY' AND stat_name = 'n_leaf_pages'"
    return int(server.run(f"SELECT SUM(stat_value) FROM mysql.innodb_index_stats WHERE {where}")[0][0])


def sysbench(server: RealServer, *words: str) -> str:
    argv = _served.sysbench(server, "oltp_read_write", *words)
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(argv)}: exit {done.returncode}\n{done.stdout[-2000:]}")
    return done.stdout


def figure(pattern: str, said: str) -> float:
    found = re.search(pattern + r":\s+([\d.]+)", said)
    if found is None:
        raise SystemExit(f"sysbench did not say '{pattern}':\n{said}")
    return float(found[1])


def measured(mysqld: Path, state: str, given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    data = initialised(mysqld, folder / state)
    with started(str(mysqld), data, (*OPTIONS, *given.option, f"--merge-slack={state}")) as server:
        server.run("CREATE DATABASE sbtest")
        sysbench(server, "prepare")
        pid = _served.pinned(server)
        before, begin_s, pages_before = counters(server), purge_cpu_s(server, pid), pages(server)
        said = sysbench(server, f"--threads={given.connections}", f"--time={given.seconds}", "--percentile=99", *IGNORED, "run")
        end_s, after, transactions = purge_cpu_s(server, pid), counters(server), figure("transactions", said)
        return {
            **{"state": state, "seconds": given.seconds, "transactions": int(transactions)},
            **{"transactions_per_s": round(transactions / given.seconds, 1), "latency_ms_p99": figure("99th percentile", said)},
            **{name: round((after[name] - before[name]) / transactions, 4) for name in after},
            "purge_cpu_us": round((end_s - begin_s) * 1e6 / transactions, 2),
            **{"leaf_pages_before": pages_before, "leaf_pages_after": pages(server)},
        }


def main() -> int:
    parser = _served.server_parser(__doc__, "a mysqld with the patch merge_slack")
    parser.add_argument("--seconds", type=int, default=120, help="of load, for each state")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="upshift-merges-") as folder:
        rows = [measured(given.server.resolve(), state, given, Path(folder)) for state in ("OFF", "ON")]
    for row in rows:
        counted = ", ".join(f"{row[name]} {name}" for name in (*COUNTED.values(), "pages_read"))
        sys.stdout.write(
            f"merge_slack {row['state']}: {row['transactions_per_s']:,.0f} transactions/s, p99 {row['latency_ms_p99']:.1f} ms\n"
            f"  a transaction: {counted}, {row['purge_cpu_us']} us of CPU time of purge\n"
            f"  leaf pages: {row['leaf_pages_before']:,} before, {row['leaf_pages_after']:,} after\n"
        )
    _served.keep(given, "merges", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
