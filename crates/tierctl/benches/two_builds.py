"""Is one build of the page cache as fast as another?

    PYTHONPATH=src .venv/bin/python crates/tierctl/benches/two_builds.py --before OLD/upshift-cache
        --after NEW/upshift-cache --work DIR --json FILE

Runs `upshift-cache bench` of both builds in turn, in changing order, and prints the ratios of IOPS, after / before, for each
medium and size of a read: geometric mean and Student's 95 % interval over rounds. The rows without a tier (the disk, tmpfs)
show what the machine alone does. Six minutes with the defaults; nothing else should run meanwhile.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from upshift.machine import describe_machine
from upshift.measure.statistics import geometric_mean

CONFIDENCE = 0.95
SIZES = "4K,16K,64K,1M"

Rows = list[dict[str, Any]]


def bench(program: Path, work: Path, seconds: int) -> Rows:
    """One run of a build's own benchmark, on memory and on a file."""
    shutil.rmtree(work, ignore_errors=True)
    (work / "data").mkdir(parents=True)
    media = f"memory,file:{work / 'medium'}"
    sizes = ["--sizes", SIZES, "--file-size", "128M", "--seconds", str(seconds)]
    command = [str(program), "bench", "--dir", str(work / "data"), "--medium", media, *sizes, "--json"]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout
    return [{**row, "medium": row["medium"].partition(":")[0]} for row in json.loads(said)["rows"]]


def compare(rounds: list[dict[str, Rows]]) -> list[dict[str, Any]]:
    """IOPS after / before by medium and size."""
    compared = []
    for like in rounds[0]["before"]:
        named = {name: like[name] for name in ("medium", "block_size_bytes")}

        def iops(rows: Rows, named: dict[str, Any] = named) -> float:
            return next(float(row["iops"]) for row in rows if named.items() <= row.items())

        ratio = geometric_mean([math.log(iops(one["after"]) / iops(one["before"])) for one in rounds], CONFIDENCE)
        mean = {build: math.exp(sum(math.log(iops(one[build])) for one in rounds) / len(rounds)) for build in rounds[0]}
        limits = {"ratio": ratio.value, "ci_low": ratio.low, "ci_high": ratio.high}
        compared.append({**named, "iops_before": mean["before"], "iops_after": mean["after"], **limits})
    return compared


def main() -> None:
    parser = argparse.ArgumentParser(description="Two builds of the page cache side by side")
    parser.add_argument("--before", type=Path, required=True, help="upshift-cache of one build")
    parser.add_argument("--after", type=Path, required=True, help="upshift-cache of the other")
    parser.add_argument("--work", type=Path, required=True, help="a folder on the disk of the data; it is removed")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=int, default=1, help="of each row")
    parser.add_argument("--json", type=Path, required=True, help="write every figure here")
    args = parser.parse_args()
    rounds: list[dict[str, Rows]] = []
    for number in range(args.rounds):
        order = ("after", "before") if number % 2 == 0 else ("before", "after")
        rounds.append({build: bench(getattr(args, build), args.work, args.seconds) for build in order})
    found = {"machine": describe_machine().model_dump(mode="json"), "compared": compare(rounds), "rounds": rounds}
    args.json.write_text(json.dumps(found, indent=1))
    for row in found["compared"]:
        sys.stdout.write(f"{json.dumps(row)}\n")


if __name__ == "__main__":
    main()
