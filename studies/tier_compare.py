"""What does a second tier give on a real MySQL, beside what else the same memory could do?

    PYTHONPATH=src .venv/bin/python studies/tier_compare.py --mysqld BIN/mysqld --cache PATH/upshift-cache --work FOLDER

Data of four times the buffer pool, in `--work`. Arms: the server as it is; with a tier in memory of 2, 4 and 8 times the pool;
with LZ4 in 2 times the pool; with twice the pool's memory more in the buffer pool; with the kernel's page cache
(innodb_flush_method=fsync), which may take all memory that is free. One server runs at a time; each round starts every arm
once, in another order. Ratios are against the server as it is in the same round: geometric mean and Student's 95 % interval
over rounds (upshift.measure.statistics). The tiers let scans and read-ahead in. Prints a
table; all figures go to `--json`. Workloads:

- `read_only`, `write_only`: sysbench's OLTP scripts, queries a second
- `inside`: oltp_read_only on a table that the buffer pool holds, queries a second: there the tier can only cost
- `statement_1` to `_7`: joins and scans over hosts, groups and plugins (studies/tier_schema.sql), statements a second

15 minutes with the defaults. Nothing else should use the machine.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upshift.measure.statistics import geometric_mean

SCHEMA = Path(__file__).with_name("tier_schema.sql")
STATEMENTS = Path(__file__).with_name("tier_statements.sql")
TABLES = 4
ROW_BYTES = 240
"""A row of sysbench's table in InnoDB, its secondary index included; measured."""
BASELINE = "without"
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Arm:
    """A server: its buffer pool and its tier, in times the pool, and more options."""

    name: str
    pool: int = 1
    tier: int = 0
    medium: str = "memory"
    options: tuple[str, ...] = ()


ARMS = (
    Arm(BASELINE),
    Arm("tier_2x", tier=2),
    Arm("tier_4x", tier=4),
    Arm("tier_8x", tier=8),
    Arm("tier_2x_lz4", tier=2, medium="memory-lz4"),
    Arm("tier_2x_no_aio", tier=2, options=("--innodb-use-native-aio=0",)),
    Arm("pool_3x", pool=3),
    Arm("page_cache", options=("--innodb-flush-method=fsync",)),
)


class Bench:
    """The folder, the programs and the sizes."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.work: Path = args.work.resolve()
        self.client = [str(args.mysqld.with_name("mysql")), "--no-defaults", "-uroot", "-S", str(self.work / "socket")]
        self.rows = 4 * args.pool_mb * 2**20 // ROW_BYTES // TABLES
        self.inside_rows = args.pool_mb * 2**20 // ROW_BYTES // 3
        text = STATEMENTS.read_text()
        self.statements = [one.strip() for one in re.sub(r"--.*", "", text).split(";") if one.strip()]

    def sql(self, text: str, database: str = "") -> str:
        done = subprocess.run([*self.client, "--quick", "-N", "-e", text, database], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"ERROR: {done.stderr.strip()}")
        return done.stdout

    def sysbench_command(self, script: str, *words: str, rows: int, tables: int, database: str = "sbtest") -> list[str]:
        command = ["sysbench", script, "--db-driver=mysql", f"--mysql-socket={self.work / 'socket'}", "--mysql-user=root"]
        command += [f"--mysql-db={database}", f"--tables={tables}", f"--table-size={rows}"]
        return [*command, f"--rand-type={self.args.rand_type}", *words]

    def sysbench(self, script: str, *words: str, rows: int, tables: int, database: str = "sbtest") -> str:
        command = self.sysbench_command(script, *words, rows=rows, tables=tables, database=database)
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"ERROR: sysbench: {done.stderr.strip() or done.stdout[-500:]}")
        return done.stdout

    @contextmanager
    def server(self, arm: Arm) -> Iterator[None]:
        """The arm's server, stopped at the end by its process id."""
        command = [str(self.args.mysqld), "--no-defaults", "--user=root", f"--datadir={self.work / 'data'}"]
        command += [
            f"--socket={self.work / 'socket'}",
            f"--pid-file={self.work / 'pid'}",
            "--skip-networking",
            "--secure-file-priv=NULL",
        ]
        command += ["--loose-mysqlx=OFF", "--disable-log-bin", "--innodb-buffer-pool-load-at-startup=OFF"]
        command += ["--innodb-buffer-pool-dump-at-shutdown=OFF", "--innodb-redo-log-capacity=512M"]
        command += [f"--innodb-buffer-pool-size={arm.pool * self.args.pool_mb}M", *arm.options]
        if arm.tier:
            tier = ["run", "--size", f"{arm.tier * self.args.pool_mb}M", "--medium", arm.medium]
            tier += ["--cutoff", "0", "--read-ahead", "--status", str(self.work / "status")]
            command = [str(self.args.cache), *tier, "--", *command]
        with (self.work / "server.log").open("ab") as log:
            server = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            self._await(server)
            yield
        finally:
            server.terminate()
            server.wait(120)

    def _await(self, server: subprocess.Popen[bytes]) -> None:
        end = time.monotonic() + 90
        while subprocess.run([*self.client, "-e", "SELECT 1"], capture_output=True).returncode:
            if server.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"ERROR: the server does not answer; see {self.work / 'server.log'}")
            time.sleep(0.2)

    def initialise(self) -> None:
        """An empty data folder."""
        shutil.rmtree(self.work / "data", ignore_errors=True)
        self.work.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [str(self.args.mysqld), "--no-defaults", "--initialize-insecure", "--user=root", f"--datadir={self.work / 'data'}"],
            check=True,
            capture_output=True,
        )

    def prepare(self) -> None:
        with self.filling(pool=4):
            self.sql("CREATE DATABASE sbtest; CREATE DATABASE inside; CREATE DATABASE seed")
            self.sysbench("oltp_read_only", "prepare", "--threads=2", rows=self.rows, tables=TABLES)
            self.sysbench("oltp_read_only", "prepare", rows=self.inside_rows, tables=1, database="inside")
            self.sql(SCHEMA.read_text().replace("@HOSTS@", str(self.args.pool_mb * 6000)), "seed")

    @property
    def filled(self) -> bool:
        """Whether an earlier run left its data in `--work`; they are used as they are."""
        return (self.work / "ready").exists()

    @contextmanager
    def filling(self, *, pool: int) -> Iterator[None]:
        """A server on an empty data folder, to fill; what was filled whole is kept for later runs."""
        self.initialise()
        with self.server(Arm("prepare", pool=pool, options=("--innodb-flush-log-at-trx-commit=0",))):
            yield
        (self.work / "ready").touch()

    def measure(self, arm: Arm) -> dict[str, float]:
        """Every workload once on a new server: queries or statements a second; `served`: share of page reads by the tier."""
        values: dict[str, float] = {}
        seconds = self.args.seconds
        with self.server(arm):
            self._warm()
            before = self._counted(arm)
            values["read_only"] = self._qps("oltp_read_only", seconds, self.rows, TABLES, "sbtest")
            values["served_read_only"] = self._served(arm, before)
            self._qps("oltp_read_only", 2, self.inside_rows, 1, "inside")
            values["inside"] = self._qps("oltp_read_only", seconds, self.inside_rows, 1, "inside")
            values["write_only"] = self._qps("oltp_write_only", seconds, self.rows, TABLES, "sbtest")
            before = None
            for turn in ("warm", "measured"):
                for number, statement in enumerate(self.statements, 1):
                    started = time.perf_counter()
                    self.sql(statement, "seed")
                    values[f"statement_{number}"] = 1 / (time.perf_counter() - started)
                if turn == "warm":
                    before = self._counted(arm)
            values["served_statements"] = self._served(arm, before)
        return {name: value for name, value in values.items() if not math.isnan(value)}

    def _warm(self) -> None:
        for table in range(1, TABLES + 1):
            self.sql(
                f"SELECT SUM(LENGTH(pad)) FROM sbtest{table}; SELECT COUNT(*) FROM sbtest{table} FORCE INDEX (k_{table})",
                "sbtest",
            )
        self._qps("oltp_read_only", self.args.warm_seconds, self.rows, TABLES, "sbtest")

    def _qps(self, script: str, seconds: int, rows: int, tables: int, database: str) -> float:
        said = self.sysbench(script, "--threads=4", f"--time={seconds}", "run", rows=rows, tables=tables, database=database)
        found = re.search(r"queries:\s+\d+\s+\(([\d.]+) per sec", said)
        if not found:
            raise SystemExit(f"ERROR: sysbench printed no queries\n{said}")
        return float(found[1])

    def _counted(self, arm: Arm) -> tuple[int, int] | None:
        """Hits, and all reads that the tier saw, asynchronous ones included."""
        if not arm.tier:
            return None
        now = self.stat()
        hits = now["counters"]["hits"]
        return hits, hits + now["counters"]["misses"] + sum(now["bypasses"].values())

    def stat(self) -> dict[str, Any]:
        """What `upshift cache stat` says of the server that runs."""
        command = [str(self.args.cache), "stat", "--json", "--status", str(self.work / "status")]
        found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        return found

    def _served(self, arm: Arm, before: tuple[int, int] | None) -> float:
        after = self._counted(arm)
        if before is None or after is None or after[1] == before[1]:
            return math.nan
        return (after[0] - before[0]) / (after[1] - before[1])


def compare(rounds: list[dict[str, dict[str, float]]]) -> list[dict[str, object]]:
    """Each arm against the baseline of the same round."""
    rows: list[dict[str, object]] = []
    for workload in [name for name in rounds[0][BASELINE] if not name.startswith("served")]:
        for arm in rounds[0]:
            logs = [math.log(one[arm][workload] / one[BASELINE][workload]) for one in rounds]
            ratio = geometric_mean(logs, CONFIDENCE)
            mean = math.exp(sum(math.log(one[arm][workload]) for one in rounds) / len(rounds))
            limits = {"ratio": ratio.value, "ci_low": ratio.low, "ci_high": ratio.high}
            rows.append({"workload": workload, "arm": arm, "per_s": mean, **limits})
    return rows


def print_table(rows: list[dict[str, object]], rounds: list[dict[str, dict[str, float]]]) -> None:
    print(f"{'workload':<12} {'arm':<15} {'per second':>11} {'ratio':>7}   95 % interval")
    for row in rows:
        figures = f"{row['per_s']:>11.2f} {row['ratio']:>7.3f}   {row['ci_low']:.3f} to {row['ci_high']:.3f}"
        print(f"{row['workload']:<12} {row['arm']:<15} {figures}")
    for arm, values in rounds[0].items():
        for name in [name for name in values if name.startswith("served")]:
            share = sum(one[arm][name] for one in rounds) / len(rounds)
            print(f"{arm}: {name.removeprefix('served_')}: {share:.1%} of reads served by the tier")


def arguments(description: str) -> argparse.ArgumentParser:
    """What a `Bench` needs, for the studies that have one."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--mysqld", required=True, type=Path)
    parser.add_argument("--cache", required=True, type=Path, help="upshift-cache, with libupshift_tier.so beside it")
    parser.add_argument("--work", required=True, type=Path, help="folder on the disk to measure; kept")
    parser.add_argument("--pool-mb", type=int, default=64)
    parser.add_argument("--rand-type", default="uniform", help="which rows sysbench reads: uniform, pareto, special")
    return parser


def main() -> None:
    parser = arguments("A tier beside a larger buffer pool and the kernel's page cache")
    parser.add_argument("--json", type=Path, help="file for all figures")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--warm-seconds", type=int, default=4)
    parser.add_argument("--minutes", type=float, default=15, help="no further round that would end later")
    usual = [arm.name for arm in ARMS if not arm.name.endswith("no_aio")]
    parser.add_argument("--arms", default=",".join(usual), help="of " + ", ".join(arm.name for arm in ARMS))
    args = parser.parse_args()
    started = time.monotonic()
    unknown = set(args.arms.split(",")) - {arm.name for arm in ARMS}
    if unknown:
        parser.error(f"unknown arms: {', '.join(sorted(unknown))}")
    chosen = [arm for arm in ARMS if arm.name in {BASELINE, *args.arms.split(",")}]
    bench = Bench(args)
    if not bench.filled:
        bench.prepare()
    rounds: list[dict[str, dict[str, float]]] = []
    order = random.Random(args.rounds)
    for number in range(args.rounds):
        begun = time.monotonic()
        values = {}
        for arm in order.sample(chosen, len(chosen)):
            print(f"round {number + 1} of {args.rounds}: {arm.name}", file=sys.stderr)
            values[arm.name] = bench.measure(arm)
        rounds.append({arm.name: values[arm.name] for arm in chosen})
        if 2 * time.monotonic() - begun - started > args.minutes * 60:
            break
    rows = compare(rounds)
    print_table(rows, rounds)
    if args.json:
        result = {
            "schema_version": 1,
            "cpus": os.cpu_count(),
            "pool_mb": args.pool_mb,
            "rand_type": args.rand_type,
            "rounds": rounds,
            "comparisons": rows,
        }
        args.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
