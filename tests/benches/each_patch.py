"""Does each patch answer as stock does by itself, and does a server with all of them off take none of their short paths?

    PYTHONPATH=src .venv/bin/python tests/benches/each_patch.py --stock PLAIN/mysqld --patched PATCHED/mysqld --json FILE

`upshift patch prove` runs with all switches ON. Here one patch is on at a time, with the patches that it needs, and once none:
each time `mix`, and ``--statements`` random statements beside stock. The patch's counters must grow, and no counter of a patch
that is off. A run takes about a minute. The exit code is 1 when one is not as it should be. The file is written again as each
run ends.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from upshift.cli import programs
from upshift.machine import describe_machine
from upshift.native.programs import DIFFER
from upshift.patches.model import Patch, read_series
from upshift.paths import CHECKOUT
from upshift.prove.model import Asked, Proof
from upshift.prove.proving import prove
from upshift.server.mysql import KIND
from upshift.shell import Shell, SystemShell

SERIES = CHECKOUT / "server" / "mysql-9.7"
NONE = "none"
"""What a row with all switches OFF is called."""


def with_needs(patches: Sequence[Patch], name: str) -> tuple[Patch, ...]:
    """Those with a switch that must be on for the patch of this name to do anything."""
    found = {name}
    for each in reversed(patches):
        if each.name in found:
            found |= set(each.needs)
    return tuple(each for each in patches if each.name in found and each.variable)


def used(patches: Iterable[Patch]) -> set[str]:
    return {name for each in patches for name in each.counters if name.endswith("_used")}


def row(name: str, on: tuple[Patch, ...], patches: Sequence[Patch], proof: Proof, wall_s: float) -> dict[str, Any]:
    taken = dict.fromkeys(used(patches), 0)
    for part in proof.parts:
        for counter, count in part.short_paths.items():
            taken[counter] += count
    own = used(each for each in patches if each.name == name)
    return {
        "patch": name,
        "on": [each.variable for each in on],
        "verdict": proof.verdict,
        "short_paths": {counter: count for counter, count in sorted(taken.items()) if count},
        "untaken": sorted(counter for counter in own if not taken[counter]),
        "others_taken": sorted(counter for counter, count in taken.items() if count and counter not in used(on)),
        "parts": [
            {
                "name": part.name,
                "statements": part.statements,
                "allowed": part.detail["allowed"],
                "wrong": list(part.wrong),
                "unsteady": list(part.unsteady),
            }
            for part in proof.parts
        ],
        "wall_s": round(wall_s, 1),
    }


def is_right(each: dict[str, Any]) -> bool:
    return each["verdict"] == "equal" and not each["untaken"] and not each["others_taken"]


def run(shell: Shell, differ: Path, given: argparse.Namespace, on: tuple[Patch, ...], patches: Sequence[Patch]) -> Proof:
    switched = {each.variable: "ON" if each in on else "OFF" for each in patches if each.variable}
    asked = Asked(
        stock=given.stock.resolve(),
        patched=given.patched.resolve(),
        settings=switched | dict(each.split("=", 1) for each in given.setting),
        statements=given.statements,
        seed=given.seed,
        minutes=0,
        allow=SERIES / "allowed.toml",
    )
    with tempfile.TemporaryDirectory(prefix="upshift-each-") as folder:
        return prove(shell, KIND, differ, asked, Path(folder), say=lambda _line: None)


def said(each: dict[str, Any]) -> str:
    statements = sum(part["statements"] for part in each["parts"])
    wrong = "".join(f"\n{what}" for part in each["parts"] for what in part["wrong"])
    odd = f", untaken {each['untaken']}, taken besides {each['others_taken']}" if not is_right(each) else ""
    return f"{each['patch']}: {each['verdict']}, {statements} statements in {each['wall_s']:.0f} s{odd}{wrong}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stock", type=Path, required=True)
    parser.add_argument("--patched", type=Path, required=True, help="with all patches")
    parser.add_argument("--only", action="append", metavar="PATCH", help=f"this patch alone; {NONE}: all off; repeatable")
    parser.add_argument("--statements", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--setting", action="append", default=[], metavar="NAME=VALUE", help="for both servers; repeatable")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    patches = read_series(SERIES).patches
    names = [NONE, *(each.name for each in patches if each.variable)]
    if unknown := set(given.only or ()) - set(names):
        parser.error(f"--only: there is no patch {', '.join(sorted(unknown))} with a switch")
    rows: list[dict[str, Any]] = []
    shell = SystemShell()
    try:
        differ = programs.built_programs(shell, allow_install=False, say=lambda _line: None) / DIFFER
        for name in given.only or names:
            on = with_needs(patches, name)
            began_s = time.monotonic()
            proof = run(shell, differ, given, on, patches)
            rows.append(row(name, on, patches, proof, time.monotonic() - began_s))
            sys.stdout.write(said(rows[-1]))
            sys.stdout.flush()
            if given.json:
                told = {
                    "machine": describe_machine().model_dump(mode="json"),
                    "statements": given.statements,
                    "seed": given.seed,
                }
                given.json.write_text(json.dumps({"schema_version": 1, **told, "rows": rows}, indent=1) + "\n")
    finally:
        shell.close()
    return 0 if all(map(is_right, rows)) else 1


if __name__ == "__main__":
    sys.exit(main())
