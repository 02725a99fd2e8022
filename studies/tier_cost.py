"""What share of a server's CPU time goes to the tier when it cannot help: all data in the buffer pool.

    PYTHONPATH=src .venv/bin/python studies/tier_cost.py --mysqld BIN/mysqld --cache PATH/upshift-cache --work FOLDER

perf samples the whole machine by the CPU clock while sysbench loads a server behind the tier; the samples in the server's
process are counted by the file that their code came from. Throughput differs by several per cent from one start of a server
to the next; this share does not. `at most` is the upper limit of Clopper and Pearson's 95 % interval (Biometrika, 1934). The
tier copies pages with the C library, whose samples are not the tier's: the bytes are given. Needs perf and root; four minutes
with the defaults.
"""

from __future__ import annotations

import re
import subprocess
import time

from scipy.stats import beta
from tier_compare import TABLES, Arm, Bench, arguments

LIBRARY = "libupshift_tier.so"
WORKLOADS = ("oltp_point_select", "oltp_read_only", "oltp_read_write", "oltp_write_only")
POOLS = 8
"""The buffer pool in times `--pool-mb`: twice the data."""


def samples(bench: Bench, seconds: int) -> tuple[int, int]:
    """Of the server's samples during ``seconds``: those in the tier's library, and all."""
    file = bench.work / "perf.data"
    pid = (bench.work / "pid").read_text().strip()
    record = ["perf", "record", "-q", "-a", "-F", "1999", "-e", "cpu-clock", "-o", str(file), "--", "sleep", str(seconds)]
    subprocess.run(record, check=True, capture_output=True)
    script = ["perf", "script", "-i", str(file), "-F", "pid,ip,dso"]
    done = subprocess.run(script, check=True, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if re.match(rf"\s*{pid}\b", line)]
    file.unlink()
    return sum(1 for line in lines if LIBRARY in line), len(lines)


def main() -> None:
    parser = arguments("The tier's share of CPU time when all data are in the buffer pool")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--threads", type=int, default=8)
    args = parser.parse_args()
    bench = Bench(args)
    if not bench.filled:
        with bench.filling(pool=POOLS):
            bench.sql("CREATE DATABASE sbtest")
            bench.sysbench("oltp_read_only", "prepare", "--threads=2", rows=bench.rows, tables=TABLES)
    print("workload            samples  in the tier    share  at most      queries    reads  MB copied")
    options = ("--innodb-flush-log-at-trx-commit=2",)
    with bench.server(Arm("tier", pool=POOLS, tier=POOLS, options=options)):
        for workload in WORKLOADS:
            words = (f"--threads={args.threads}", "run")
            bench.sysbench(workload, *words, "--time=8", rows=bench.rows, tables=TABLES)
            before = bench.stat()["counters"]
            load = subprocess.Popen(
                bench.sysbench_command(workload, *words, f"--time={args.seconds + 4}", rows=bench.rows, tables=TABLES),
                stdout=subprocess.PIPE,
                text=True,
            )
            time.sleep(2)
            inside, all_ = samples(bench, args.seconds)
            said, _ = load.communicate(timeout=args.seconds + 60)
            after = bench.stat()["counters"]
            queries = re.search(r"queries:\s+(\d+)", said)
            most = float(beta.ppf(0.975, inside + 1, all_ - inside))
            moved = {name: after[name] - before[name] for name in after}
            reads, copied_mb = moved["hits"] + moved["misses"], (moved["fill_bytes"] + moved["hit_bytes"]) / 1e6
            shares = f"{all_:>8,} {inside:>12} {inside / all_:>8.3%} {most:>8.3%}"
            print(f"{workload:<18} {shares} {int(queries[1]) if queries else 0:>12,} {reads:>8,} {copied_mb:>10.1f}")


if __name__ == "__main__":
    main()
