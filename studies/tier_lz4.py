"""How much more do InnoDB's pages take with LZ4, and what does a hit cost: sysbench's tables and TPC-C's.

    PYTHONPATH=src .venv/bin/python studies/tier_lz4.py --mysqld BIN/mysqld --cache PATH/upshift-cache --load PATH/upshift-load

Each data set in turn behind a tier that holds all of it, with `memory` and with `memory-lz4`; a small buffer pool, so that the
tier is asked. The tables are scanned, then loaded (oltp_read_only with uniform keys; TPC-C's mix). Capacity: bytes of the
pages held, by bytes of memory that they take. Hit times are upper bounds of power-of-two buckets, as `upshift cache stat`
gives them; one hit in 16 is timed. The data lie in `--work`. Two minutes with the defaults.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tier_compare import TABLES, Arm, Bench, arguments

TIER_POOLS = 24
"""The tier's size in times the buffer pool: more than either data set."""


def prepare(bench: Bench) -> None:
    with bench.filling(pool=8):
        bench.sql("CREATE DATABASE sbtest; CREATE DATABASE tpcc")
        bench.sysbench("oltp_read_only", "prepare", "--threads=2", rows=bench.rows, tables=TABLES)
        tpcc(bench, "prepare", "--warehouses", str(bench.args.warehouses))


def tpcc(bench: Bench, *words: str) -> None:
    server = f"mysql://root@/tpcc?socket={bench.work / 'socket'}"
    done = subprocess.run([str(bench.args.load), "tpcc", *words, "--server", server], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"ERROR: upshift-load: {done.stderr.strip()}")


def scan(bench: Bench, database: str) -> None:
    """Reads each index of each table, with all columns that it has."""
    listed = bench.sql(
        "SELECT DISTINCT table_name, index_name FROM information_schema.statistics "
        f"WHERE table_schema = '{database}' ORDER BY table_name, index_name"
    )
    for line in listed.splitlines():
        table, index = line.split("\t")
        columns = bench.sql(
            f"SELECT column_name FROM information_schema.columns WHERE table_schema = '{database}' AND table_name = '{table}'"
        ).split()
        wanted = " + ".join(f"COALESCE(LENGTH(`{column}`), 0)" for column in columns) if index == "PRIMARY" else "1"
        bench.sql(f"SELECT SUM({wanted}) FROM `{table}` FORCE INDEX (`{index}`)", database)


def load(bench: Bench, database: str) -> None:
    seconds = str(bench.args.seconds)
    if database == "tpcc":
        tpcc(bench, "run", "--connections", "4", "--seconds", seconds)
    else:
        bench.sysbench("oltp_read_only", "--threads=4", f"--time={seconds}", "run", rows=bench.rows, tables=TABLES)


def main() -> None:
    parser = arguments("LZ4 in the tier on sysbench's and TPC-C's tables")
    parser.add_argument("--load", required=True, type=Path, help="upshift-load")
    parser.add_argument("--warehouses", type=int, default=4)
    parser.add_argument("--seconds", type=int, default=10)
    bench = Bench(parser.parse_args())
    if not bench.filled:
        prepare(bench)
    print("data     medium       pages held  MiB taken  capacity  hit p50 us   p99 us       hits")
    for database in ("sbtest", "tpcc"):
        for medium in ("memory", "memory-lz4"):
            with bench.server(Arm(medium, tier=TIER_POOLS, medium=medium)):
                scan(bench, database)
                load(bench, database)
                now = bench.stat()
            held, taken = now["used_pages"], now["used_bytes"]
            capacity = held * now["page_size_bytes"] / taken
            p50_us, p99_us, counters = now["hit_latency_us_p50"], now["hit_latency_us_p99"], now["counters"]
            times = f"{p50_us:>11.2f} {p99_us:>8.2f} {counters['hits']:>10,}"
            print(f"{database:<8} {medium:<12} {held:>10,} {taken / 2**20:>10.1f} {capacity:>9.2f} {times}")


if __name__ == "__main__":
    main()
