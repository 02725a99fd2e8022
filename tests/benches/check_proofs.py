"""Can findings of `upshift check` be proven by a command, on a server that is configured badly on purpose?

    PYTHONPATH=src .venv/bin/python tests/benches/check_proofs.py --server PATH/mysqld --json FILE
    PYTHONPATH=src .venv/bin/python tests/benches/check_proofs.py --server PATH/mysqld --only group-commit-delay --budget 20s

Each case starts a server with one misconfiguration and its own data, and runs `upshift check --prove ID` on it: that names the
finding, and measures the same program without and with the fix. A proof measures for ``--budget`` at most; starts and fills of
data come on top. With a MariaDB the cases that hold for it alone run. Nothing else should run meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT / "tests" / "unit"))

from real_server import initialised, started  # noqa: E402

from upshift.machine import describe_machine  # noqa: E402

MARIADB_KIND = CHECKOUT / "tests" / "unit" / "mariadb_kind.py"
TIMEOUT_S = 900.0
OLTP = ("oltp_read_write", "--db-driver=mysql", "--mysql-user=root", "--tables=4")
SHIPPED_SIZE, LARGE_SIZE = "--table-size=100000", "--table-size=200000"
"""Rows of each table as shipped workloads have it, and where all must be a dozen times the small pool."""
GROUPING = """
description = "Groups two thousand rows by a long text, in a temporary table."
server = "{server}"
connections = 8
[fill]
command = ["sysbench", {oltp}, "--mysql-socket={{socket}}", "--mysql-db={{database}}", "prepare"]
[load]
command = [
  "{{programs}}/upshift-load", "script", "{script}", "run", "--server", "mysql://root@localhost/{{database}}?socket={{socket}}",
  "--connections", "{{connections}}", "--seconds", "{{seconds}}", "--seed", "{{seed}}", "--json", "--histogram",
]
latency = "upshift-load"
"""
SCRIPT = """
[variables]
low = { uniform = [1, 90000] }
[transactions.group]
statements = ["SELECT pad, COUNT(*) FROM sbtest1 WHERE id BETWEEN :low AND :low + 1999 GROUP BY pad ORDER BY NULL LIMIT 1"]
"""


@dataclass(frozen=True)
class Case:
    """One misconfiguration, and the load that feels it."""

    options: tuple[str, ...]
    workload: str
    connections: int = 8
    filled: bool = False
    """Whether the server that is checked needs data of its own: those of a load that reads all rows alike, far more than its
    pool."""
    mariadb: bool = True


CASES = {
    "buffer-pool-below-data": Case(("--innodb-buffer-pool-size=16M",), "point_select_uniform", filled=True),
    "group-commit-delay": Case(("--binlog-group-commit-sync-delay=20000",), "commit", mariadb=False),
    "durability-pair": Case(("--sync-binlog=0",), "commit", mariadb=False),
    "table-cache-below-connections": Case(("--table-open-cache=60",), "oltp_read_write", connections=64),
    "tmp-table-pair": Case(("--tmp-table-size=64M", "--max-heap-table-size=16K"), "grouping"),
    "general-log-on": Case(("--general-log=ON",), "oltp_point_select"),
    "slow-log-all": Case(("--slow-query-log=ON", "--long-query-time=0"), "oltp_point_select"),
    "isolation-serializable": Case(("--transaction-isolation=SERIALIZABLE",), "oltp_read_write"),
}
MYSQL_ALONE = {"tmp-table-pair": ("--internal-tmp-mem-storage-engine=MEMORY",)}
"""Options of a case that MariaDB does not have, and does not need."""


@dataclass(frozen=True)
class Server:
    """The program that is checked and measured."""

    program: Path
    version: str

    @property
    def is_mariadb(self) -> bool:
        return "MariaDB" in self.version

    @property
    def environment(self) -> dict[str, str]:
        own = {"PYTHONPATH": str(CHECKOUT / "src"), **({"UPSHIFT_SERVER_KIND": str(MARIADB_KIND)} if self.is_mariadb else {})}
        return {**os.environ, **own}

    @property
    def base(self) -> tuple[str, ...]:
        return () if self.is_mariadb else ("--mysqlx=OFF", "--secure-file-priv=NULL")

    def initialised(self, folder: Path) -> Path:
        return initialised(self.program, folder / "data")

    def workload(self, name: str, folder: Path) -> Path:
        """The file of a workload for this kind of server."""
        kind = "mariadb" if self.is_mariadb else "mysql"
        file = folder / f"{name}.toml"
        if name == "grouping":
            (script := folder / "script.toml").write_text(SCRIPT)
            oltp = ", ".join(json.dumps(word) for word in (*OLTP, SHIPPED_SIZE))
            file.write_text(GROUPING.format(server=kind, oltp=oltp, script=script))
        else:
            shipped_name = "oltp_point_select" if name == "point_select_uniform" else name
            # Without the commands that count instructions: under valgrind they take longer than all the rest.
            shipped = (CHECKOUT / "workloads" / f"{shipped_name}.toml").read_text().partition("[fixed]")[0]
            if name == "point_select_uniform":
                # sysbench's own choice of rows reads a hundredth of them most of the time: those fit into a small pool.
                uniform = f'"{LARGE_SIZE}", "--rand-type=uniform"'
                assert shipped.count(f'"{SHIPPED_SIZE}"') == 2
                shipped = shipped.replace(f'"{SHIPPED_SIZE}"', uniform)
            file.write_text(shipped.replace('server = "mysql"', f'server = "{kind}"'))
        return file


def found(program: Path) -> Server:
    said = subprocess.run((program, "--no-defaults", "--version"), check=True, capture_output=True, text=True).stdout
    return Server(program.resolve(), said.split(" Ver ")[-1].strip())


def proven(server: Server, id: str, case: Case, until: str, budget: str, slice_s: float, trials: int) -> dict[str, Any]:
    """What `upshift check --prove` came to; its own words where it failed."""
    options = (*case.options, *(() if server.is_mariadb else MYSQL_ALONE.get(id, ())))
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="upshift-proofs-") as place:
        folder = Path(place)
        workload = server.workload(case.workload, folder)
        with started(str(server.program), server.initialised(folder), (*server.base, *options)) as running:
            if case.filled:
                running.run("CREATE DATABASE sbtest")
                where = (f"--mysql-socket={running.socket}", "--mysql-db=sbtest")
                fill = ("sysbench", *OLTP, LARGE_SIZE, *where, "prepare")
                subprocess.run(fill, check=True, capture_output=True, timeout=TIMEOUT_S)
                # What the server says of its tables' sizes is else of some moment while they were filled.
                running.run(*(f"ANALYZE TABLE sbtest.sbtest{number}" for number in (1, 2, 3, 4)))
            words = (
                "check",
                "--server",
                running.url,
                "--prove",
                id,
                "--binary",
                str(server.program),
                "--workload",
                str(workload),
            )
            how = ("-c", str(case.connections), "--trials", str(trials), "--slice-seconds", str(slice_s), "--until", until)
            argv = (sys.executable, "-m", "upshift", *words, *how, "--budget", budget, "--json", "--no-install")
            done = subprocess.run(argv, env=server.environment, capture_output=True, text=True, timeout=TIMEOUT_S)
    told = [line for line in done.stderr.splitlines() if line.strip()]
    row: dict[str, Any] = {"id": id, "planted": list(options), "workload": case.workload, "connections": case.connections}
    row["wall_s"] = round(time.monotonic() - began_s, 1)
    if done.returncode != 0:
        return {**row, "failed": told[-8:]}
    result = json.loads(done.stdout)
    (qps,) = (each for each in result["experiment"]["comparisons"] if each["metric"] == "qps" and each["arm"] == "fixed")
    kept = ("verdict", "ratio", "ci_low", "ci_high", "confidence", "trials")
    settings = {each["name"]: each["settings"] for each in result["experiment"]["arms"]}
    changed = {name: [settings["now"].get(name), value] for name, value in settings["fixed"].items()}
    changed = {name: pair for name, pair in changed.items() if pair[0] != pair[1]}
    return {**row, **{name: qps[name] for name in kept}, "changed": changed, "flags": result["experiment"]["flags"]}


def said(row: dict[str, Any]) -> str:
    if "failed" in row:
        return f"{row['id']}: failed: {' '.join(row['failed'])}\n"
    interval = f"{row['ci_low']:.3f} to {row['ci_high']:.3f} at {row['confidence']:.0%}"
    return f"{row['id']}: {row['verdict']}, {row['ratio']:.3f}x ({interval}), {row['wall_s']:.0f} s in all\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", type=Path, required=True)
    parser.add_argument("--only", action="append", choices=list(CASES))
    parser.add_argument("--until", default="3%")
    parser.add_argument("--budget", default="90s")
    parser.add_argument("--slice-seconds", type=float, default=0.4)
    parser.add_argument("--trials", type=int, default=6)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    server = found(given.server)
    rows = []
    for id, case in CASES.items():
        if (given.only and id not in given.only) or (server.is_mariadb and not case.mariadb):
            continue
        rows.append(proven(server, id, case, given.until, given.budget, given.slice_seconds, given.trials))
        sys.stdout.write(said(rows[-1]))
        sys.stdout.flush()
    settled = [each for each in rows if each.get("verdict") in ("faster", "slower", "equivalent")]
    sys.stdout.write(f"{len(settled)} of {len(rows)} findings settled\n")
    if given.json:
        machine = describe_machine().model_dump(mode="json")
        asked = {"until": given.until, "budget": given.budget, "trials": given.trials}
        result = {"schema_version": 1, "server": server.version, "machine": machine, "asked": asked, "proofs": rows}
        given.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if len(settled) == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
