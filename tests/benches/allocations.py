"""How often does a server allocate on the heap for a query, and who asks for it?

    PYTHONPATH=src .venv/bin/python tests/benches/allocations.py MYSQLD --workload oltp_point_select --json FILE

MYSQLD is an executable or a variant's .toml file. Callgrind counts the calls of the C library's allocator and keeps the callers
of each apart. As with ``upshift count``, a short load and one three times as long are compared, so that what logging in and
preparing take is left out. Instructions are those of the whole query. Callers that were inlined are not seen.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from upshift.cli.single import find_variants
from upshift.instructions import callgrind
from upshift.instructions.count import count
from upshift.instructions.executed import Executed
from upshift.instructions.loads import LONGER
from upshift.instructions.tools import Counting, Tool, find_tool
from upshift.measure.variant import Variant
from upshift.server import data
from upshift.server.mysql import KIND
from upshift.shell import Command, Shell, SystemShell
from upshift.workload.library import find_workload
from upshift.workload.model import Workload

ALLOCATOR = ("malloc", "calloc", "realloc", "aligned_alloc", "posix_memalign", "memalign", "free")
DEPTH = 12
"""Callers that are told apart, the nearest first."""
_NAME = re.compile(r"^cfn=\((\d+)\)(?: (.*))?$|^fn=\((\d+)\) (.*)$")
_PASSED_THROUGH = ("_Znw", "_Zna", "_Zdl", "_Zda", "my_malloc", "_Z9my_malloc", "my_free", "_Z7my_free")

Callers = tuple[str, ...]


class Counted(callgrind.Callgrind):
    """Callgrind that keeps what it dumped of the busiest thread."""

    def during(self, load: Callable[[], None]) -> tuple[Executed, ...]:
        self.dump()
        before = set(self.folder.iterdir())
        load()
        found = self.dump()
        new = sorted(set(self.folder.iterdir()) - before)
        busiest = max((file for file in new if file.is_file()), key=lambda file: callgrind.read(file).instructions)
        kept.append(calls_of(busiest.read_text(errors="replace")))
        return found


kept: list[Counter[Callers]] = []


class ByCaller(Tool):
    """Callgrind that tells the allocator's callers apart."""

    def before_server(self, folder: Path) -> tuple[str, ...]:
        apart = (f"--separate-callers{DEPTH + 1}={name}" for name in ALLOCATOR)
        return ("setarch", "-R", *callgrind.command(folder), *apart)

    def on(self, shell: Shell, pid: int, folder: Path, log: Path) -> Counting:
        return Counted(shell, pid, folder, log)


def calls_of(text: str) -> Counter[Callers]:
    """The allocator's calls in what callgrind dumped: the function, then its callers, the nearest first."""
    names: dict[str, str] = {}
    calls: Counter[Callers] = Counter()
    called = ""
    for line in text.splitlines():
        if name := _NAME.match(line):
            if name[2] or name[4]:
                names[name[1] or name[3]] = name[2] or name[4]
            called = names.get(name[1] or "", "")
        elif line.startswith("calls="):
            chain = tuple(each.partition("@")[0] for each in called.split("'"))
            if chain[0] in ALLOCATOR:
                calls[chain] += int(line[6:].split()[0])
    return calls


def allocations(variant: Variant, workload: Workload, folder: Path) -> dict[str, Any]:
    """Calls a query of ``workload``, by function and by who asked."""
    shell, log = SystemShell(), folder / "log"
    found = find_tool(shell, by_function=True)
    assert found is not None, "valgrind is not installed"
    assert workload.fixed is not None
    template = data.template(shell, KIND, variant.program, (workload,), folder / "template", log)
    kept.clear()
    tool = ByCaller(**found.model_dump())
    counted = count(shell, KIND, variant, workload, template, folder / "counted", tool=tool, cpus=(), log=log)
    short, long = kept
    transactions = (LONGER - 1) * workload.fixed.transactions
    each = {chain: (long[chain] - short[chain]) / transactions for chain in sorted({*short, *long})}
    return {
        **{"server": variant.name, "workload": workload.name, "queries_per_transaction": counted.queries / transactions},
        "instructions_per_query": counted.instructions_per_query,
        "calls_per_transaction": {name: sum(n for chain, n in each.items() if chain[0] == name) for name in ALLOCATOR},
        "callers": [
            {"calls_per_transaction": round(n, 4), "chain": readable(shell, chain)}
            for chain, n in sorted(each.items(), key=lambda item: -item[1])
            if round(n, 3)
        ],
    }


def readable(shell: Shell, chain: Callers) -> list[str]:
    """Without what only passes the request on; names as one writes them."""
    told = [chain[0], *(name for name in chain[1:] if not name.startswith(_PASSED_THROUGH) and not name.isdigit())]
    if shutil.which("c++filt") is None:
        return told
    plain = shell.run(Command(("c++filt", "-p", *told))).stdout.split("\n")
    return [name for name in plain if name]


def show(found: Mapping[str, Any]) -> None:
    sys.stdout.write(f"{found['server']}, {found['workload']}: {found['instructions_per_query']:,.0f} instructions a query\n")
    for name, calls in found["calls_per_transaction"].items():
        if calls:
            sys.stdout.write(f"{calls:10.2f} {name} a transaction\n")
    for caller in found["callers"]:
        sys.stdout.write(f"{caller['calls_per_transaction']:10.3f} {' < '.join(caller['chain'])}\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server", nargs="+", help="executables, or .toml files of variants, as PATH or NAME=PATH")
    parser.add_argument("--workload", action="append", help="repeatable; default: oltp_point_select")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows = []
    for variant in find_variants(given.server):
        for name in given.workload or ["oltp_point_select"]:
            with tempfile.TemporaryDirectory(prefix="upshift-allocations-") as folder:
                rows.append(allocations(variant, find_workload(name), Path(folder)))
            show(rows[-1])
    if given.json:
        given.json.write_text(json.dumps({"schema_version": 1, "what": "allocations", "rows": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
