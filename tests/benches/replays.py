"""Does a replay on eight connections answer as the recording's order says, on the same server and on another build?

    PYTHONPATH=src .venv/bin/python tests/benches/replays.py --server PATH/mysqld --other PATH/mysqld --json FILE

The load client records TPC-C, or one of sysbench's scripts (``--workload read_write``), on the first server. The trace is
replayed there one transaction after the other (`--order serial`), which gives the digests of all answers. Each replay after
that begins with the same data and is compared with them: on each server with `--order commit`, and on the first with
`--order off`, which has to differ, or the comparison could not fail. Transactions that overlapped in the recording have no
order; what they answer otherwise is counted apart. Nothing is timed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT / "tests" / "unit"))

from real_server import initialised, started  # noqa: E402

from upshift.machine import describe_machine  # noqa: E402

DATABASE = "replayed"
TPCC = "tpcc"
OPTIONS = (
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-buffer-pool-size=512M",
    "--max-prepared-stmt-count=100000",
    "--skip-log-bin",
    "--mysqlx=OFF",
    "--secure-file-priv=NULL",
)
TIMEOUT_S = 1800.0
TABLES = 4
UNIFORM = ("--distribution", "uniform")
"""Transactions that overlap seldom write the same row, so that their unknown order seldom shows."""
COUNTED = ("differences", "counted_otherwise", "ended_otherwise")
SHOWN = ("request", "statement", "sql", "cell", "earlier", "now")
LISTED_MAX = 5
"""Differences in order that a row of the result lists."""


@dataclass(frozen=True)
class Bench:
    """Where the servers' data and the traces are."""

    folder: Path
    workload: str
    """``tpcc``, or one of sysbench's scripts."""
    size: int
    """Warehouses, or rows of each of four tables."""
    transactions: int
    rate_per_s: float
    options: tuple[str, ...]

    def load(self, socket: Path, *words: str) -> dict[str, Any]:
        """The result of the load client, which exits with 1 where answers differ."""
        url = f"mysql://root@localhost/{DATABASE}?socket={socket}"
        argv = (str(CHECKOUT / "upshift"), "load", *words, "--server", url)
        done = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_S)
        if done.returncode not in (0, 1) or (done.returncode == 1 and "--compare" not in words):
            raise SystemExit(f"{' '.join(argv)}: exit {done.returncode}\n{done.stderr[-2000:]}")
        return json.loads(done.stdout) if "--json" in words else {}

    def copied(self) -> Path:
        """The data that the recording began with."""
        data = self.folder / "data"
        subprocess.run(("rm", "-rf", str(data)), check=True)
        subprocess.run(("cp", "-a", "--reflink=auto", str(self.folder / "saved"), str(data)), check=True)
        return data

    def words(self, command: str) -> tuple[str, ...]:
        """What asks the load client to prepare or run the workload."""
        if self.workload == TPCC:
            warehouses = str(self.size) if command == "prepare" else "any"
            return (TPCC, command, "--warehouses", warehouses)
        tables = ("--tables", str(TABLES), "--table-size", str(self.size))
        drawn = UNIFORM if command == "run" else ()
        return ("oltp", self.workload, command, *tables, *drawn)

    def prepare(self, server: Path) -> None:
        saved = initialised(server, self.folder / "saved", self.options)
        with started(str(server), saved, (*OPTIONS, *self.options)) as running:
            running.run(f"CREATE DATABASE {DATABASE}")
            self.load(running.socket, *self.words("prepare"))

    def record(self, server: Path) -> dict[str, Any]:
        trace = str(self.folder / "trace")
        paced = ("-c", "8", "--rate", str(self.rate_per_s), "--arrivals", "uniform")
        bounds = ("--max-transactions", str(self.transactions), "--seconds", "1200")
        with started(str(server), self.copied(), (*OPTIONS, *self.options)) as running:
            return self.load(running.socket, *self.words("run"), *paced, *bounds, "--record", trace, "--json")

    def replay(self, server: Path, options: tuple[str, ...], order: str, *words: str) -> dict[str, Any]:
        with started(str(server), self.copied(), (*OPTIONS, *self.options, *options)) as running:
            asked = ("replay", str(self.folder / "trace"), "-c", "8", "--order", order, "--json")
            return self.load(running.socket, *asked, *words)


def row(server: str, order: str, result: dict[str, Any]) -> dict[str, Any]:
    told = result["replay"]
    counted = {name: told[name] - told[f"{name}_overlapped"] for name in COUNTED}
    overlapped = {f"{name}_overlapped": told[f"{name}_overlapped"] for name in COUNTED}
    done = sum(each["count"] + each["rolled_back"] for each in result["transactions"].values())
    shown = [{name: each[name] for name in SHOWN} for each in told["differing"] if not each["overlapped"]]
    told_of = {"server": server, "order": order, "transactions": done, "overlapped": told["overlapped"]}
    return told_of | counted | overlapped | {"differing": shown[:LISTED_MAX]}


def said(each: dict[str, Any]) -> str:
    ordered = ", ".join(f"{each[name]} {name}" for name in COUNTED)
    return f"{each['server']}, --order {each['order']}: {each['transactions']} transactions, in order: {ordered}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", type=Path, required=True, help="records, and replays")
    parser.add_argument("--other", type=Path, help="another build of the same version, which replays")
    parser.add_argument(
        "--other-option", action="append", default=[], help="an option of its server, such as --name=ON; repeatable"
    )
    parser.add_argument(
        "--server-option",
        action="append",
        default=[],
        help="an option of each server, such as --lc-messages-dir=FOLDER of one that is not installed; repeatable",
    )
    parser.add_argument("--transactions", type=int, default=5000)
    parser.add_argument("--rate", type=float, default=40.0, help="transactions a second in the recording")
    parser.add_argument("--workload", default=TPCC, help="tpcc (default), or one of sysbench's scripts, such as read_write")
    parser.add_argument("--warehouses", type=int, default=2, help="of TPC-C")
    parser.add_argument("--table-size", type=int, default=100_000, help="rows of each of the four tables of another workload")
    parser.add_argument("--replays", type=int, default=1, help="of each server with --order commit")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="upshift-replays-") as place:
        size = given.warehouses if given.workload == TPCC else given.table_size
        options = tuple(given.server_option)
        bench = Bench(Path(place), given.workload, size, given.transactions, given.rate, options)
        bench.prepare(given.server)
        recorded = bench.record(given.server)
        digest = str(bench.folder / "digest")
        bench.replay(given.server, (), "serial", "--digest", digest)
        result = {
            "schema_version": 1,
            "machine": describe_machine().model_dump(mode="json"),
            "version": recorded["server"],
            "asked": {
                "workload": given.workload,
                "transactions": given.transactions,
                "rate_per_s": given.rate,
                "warehouses" if given.workload == TPCC else "table_size": size,
            },
            "other_options": given.other_option,
            "replays": rows,
        }
        runs = [("recorded on", given.server, (), "commit")]
        if given.other:
            runs.append(("other", given.other, tuple(given.other_option), "commit"))
        runs *= given.replays
        runs.append(("recorded on", given.server, (), "off"))
        for name, server, own, order in runs:
            rows.append(row(name, order, bench.replay(server, own, order, "--compare", digest)))
            sys.stdout.write(said(rows[-1]))
            sys.stdout.flush()
            # After each replay: many of them take hours, and what an interrupted bench has is kept.
            if given.json:
                given.json.write_text(json.dumps(result, indent=1) + "\n")
    in_order = [sum(each[name] for name in COUNTED) for each in rows]
    return 0 if not any(in_order[:-1]) and in_order[-1] else 1


if __name__ == "__main__":
    sys.exit(main())
