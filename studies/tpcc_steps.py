"""What does each choice of a TPC-C client cost? From BenchmarkSQL's way to a tuned one, a choice a step.

    python studies/tpcc_steps.py --load PATH/upshift-load --server URL [--connections 8] [--rounds 5] [--json FILE]

Needs tables from `upshift-load tpcc prepare`. Each round runs all steps once, in an order of its own, so that neither a drift
of the machine nor the growth of the tables favours a step. Prints for each step tpmC with a 95 % confidence interval of the
mean over the rounds, its ratio to the first step of the same round, and round trips and bytes a NewOrder. Figures are those
of this client on this machine, not comparable with published tpmC.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Two-sided 95 % quantiles of Student's t for 1, 2, ... degrees of freedom.
T_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145)
BENCHMARKSQL = ("--flavour", "benchmarksql", "--batch", "none")


@dataclass(frozen=True)
class Step:
    """A client that differs from the one before it in one choice."""

    name: str
    options: tuple[str, ...]


def switched(*statements: str) -> tuple[str, ...]:
    return tuple(option for name in statements for option in ("--statement", f"{name}=tuned"))


def steps(family: str) -> list[Step]:
    """MySQL has no cursors for text: there a client that fetches 10 rows at a time prepares each request."""
    mode = "prepare-per-request" if family == "mysql" else "text"
    prepared = (*BENCHMARKSQL, "--protocol", "prepared")
    low_stock, oldest, last = "stock_level.low_stock", "delivery.oldest_new_order", "order_status.last_order"
    result = [
        Step(f"BenchmarkSQL: {mode}, fetch 10, row by row", (*BENCHMARKSQL, "--protocol", mode, "--fetch-size", "10")),
        Step("all rows at once", (*BENCHMARKSQL, "--protocol", mode)),
        Step("text", (*BENCHMARKSQL, "--protocol", "text")),
        Step("prepared", prepared),
        Step("COUNT(*)", (*prepared, *switched(low_stock))),
        Step("MIN()", (*prepared, *switched(low_stock, oldest))),
        Step("LIMIT 1", (*prepared, *switched(low_stock, oldest, last))),
        Step("multi-row SELECT", ("--flavour", "tuned", "--protocol", "prepared", "--batch", "none")),
        Step("multi-row INSERT", ("--flavour", "tuned", "--protocol", "prepared", "--batch", "multirow")),
        Step("UPDATE with CASE", ("--flavour", "tuned", "--protocol", "prepared", "--batch", "rewritten")),
    ]
    if family == "postgres":
        del result[2]  # it is text already
        result.append(Step("pipeline instead", ("--flavour", "tuned", "--protocol", "prepared", "--batch", "pipeline")))
    return result


@dataclass(frozen=True)
class Run:
    """One step of one round."""

    tpmc: float
    round_trips: float
    bytes_sent: float
    bytes_received: float
    client_cpu_us: float


def run(args: argparse.Namespace, step: Step, seed: int) -> tuple[Run, dict[str, Any]]:
    command = [
        *(args.load, "tpcc", "run", "--server", args.server, "--json", "--seed", str(seed)),
        *("--connections", str(args.connections), "--warmup-seconds", str(args.warmup), "--seconds", str(args.seconds)),
        *step.options,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"ERROR: {' '.join(command)}\n{done.stderr}")
    result = json.loads(done.stdout)
    new_order = result["transactions"]["new_order"]
    count = new_order["count"] + new_order["rolled_back"]
    if count == 0:
        raise SystemExit(f"ERROR: {step.name}: no NewOrder in {args.seconds} s\nhint: give more --seconds")
    per_order = {key: new_order[key] / count for key in ("round_trips", "bytes_sent", "bytes_received")}
    return Run(result["tpmc"], client_cpu_us=result["client_cpu_us_per_statement"], **per_order), result["server"]


def interval(values: list[float]) -> tuple[float, float]:
    """Mean, and half the width of its 95 % confidence interval; infinite for a single value."""
    if len(values) < 2:
        return values[0], math.inf
    t = T_95[min(len(values) - 1, len(T_95)) - 1]
    return statistics.fmean(values), t * statistics.stdev(values) / math.sqrt(len(values))


def row(step: Step, runs: list[Run], first: list[Run]) -> dict[str, Any]:
    tpmc, half_width = interval([one.tpmc for one in runs])
    # Ratios are about as often doubled as halved: their logarithms are what is averaged.
    ratio, ratio_half = interval([math.log(one.tpmc / base.tpmc) for one, base in zip(runs, first, strict=True)])
    return {
        "step": step.name,
        "options": list(step.options),
        "tpmc": tpmc,
        "tpmc_half_width": half_width if math.isfinite(half_width) else None,
        "ratio": math.exp(ratio),
        "ratio_low": math.exp(ratio - ratio_half) if math.isfinite(ratio_half) else None,
        "ratio_high": math.exp(ratio + ratio_half) if math.isfinite(ratio_half) else None,
        "round_trips_per_new_order": statistics.fmean(one.round_trips for one in runs),
        "bytes_sent_per_new_order": statistics.fmean(one.bytes_sent for one in runs),
        "bytes_received_per_new_order": statistics.fmean(one.bytes_received for one in runs),
        "client_cpu_us_per_statement": statistics.fmean(one.client_cpu_us for one in runs),
        "runs_tpmc": [one.tpmc for one in runs],
    }


def print_table(rows: list[dict[str, Any]]) -> None:
    heads = f"{'step':<58}{'tpmC':>8}{'+-':>7}{'ratio':>7}{'95 %':>15}{'trips':>8}{'sent B':>8}{'recv B':>9}"
    sys.stdout.write(heads + "\n")
    for one in rows:
        bounds = "" if one["ratio_low"] is None else f"{one['ratio_low']:.2f} to {one['ratio_high']:.2f}"
        width = "" if one["tpmc_half_width"] is None else f"{one['tpmc_half_width']:.0f}"
        sys.stdout.write(
            f"{one['step']:<58}{one['tpmc']:>8.0f}{width:>7}{one['ratio']:>7.2f}{bounds:>15}"
            f"{one['round_trips_per_new_order']:>8.1f}{one['bytes_sent_per_new_order']:>8.0f}"
            f"{one['bytes_received_per_new_order']:>9.0f}\n"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="TPC-C, a client's choice a step")
    parser.add_argument("--load", required=True, help="upshift-load")
    parser.add_argument("--server", required=True, help="mysql://... or postgres://...")
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--warmup", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the rows, for a plot")
    args = parser.parse_args()
    family = "postgres" if args.server.startswith("postgres") else "mysql"
    planned = steps(family)
    order = random.Random(args.seed)
    runs: dict[str, list[Run]] = {step.name: [] for step in planned}
    server: dict[str, Any] = {}
    for number in range(args.rounds):
        for step in order.sample(planned, len(planned)):
            one, server = run(args, step, args.seed + number)
            runs[step.name].append(one)
        sys.stderr.write(f"round {number + 1} of {args.rounds}\n")
    rows = [row(step, runs[step.name], runs[planned[0].name]) for step in planned]
    print_table(rows)
    if args.json:
        asked = {key: getattr(args, key) for key in ("connections", "seconds", "warmup", "rounds", "seed")}
        args.json.write_text(json.dumps({"schema_version": 1, "server": server, **asked, "steps": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
