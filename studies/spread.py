"""How far slices and server starts of a run lie apart: what the simulation of the statistics takes for its machine.

    python studies/spread.py RUN/samples.parquet "what was measured where" > tests/unit/measure/spread.json

Of each load and pair of arms, ln of their ratio in every round of every trial: ``pair_log_sd`` is the standard deviation of a
round within its trial, ``start_log_sd`` that of a trial's true mean beyond what its rounds explain (analysis of variance).
Both are root mean squares over loads. With one round the two cannot be told apart: all of it counts as ``pair_log_sd``.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path

import numpy as np

from upshift.measure.model import Slice
from upshift.measure.samples import read_samples


def spread(slices: Iterable[Slice]) -> dict[str, float]:
    within, between = [], []
    for members in _grouped(slices, lambda each: f"{each.workload} {each.connections}"):
        baseline, *others = _grouped(members, lambda each: each.arm)
        for other in others:
            trials = [_logs(baseline, other, trial) for trial in sorted({each.trial for each in other})]
            rounds = len(trials[0])
            inside = float(np.mean([np.var(logs, ddof=1) for logs in trials])) if rounds > 1 else math.nan
            means = float(np.var([np.mean(logs) for logs in trials], ddof=1))
            within.append(inside if rounds > 1 else means)
            between.append(max(0.0, means - inside / rounds) if rounds > 1 else 0.0)
    return {
        "pair_log_sd": round(math.sqrt(np.mean(within)), 4),
        "start_log_sd": round(math.sqrt(np.mean(between)), 4),
    }


def _logs(baseline: list[Slice], other: list[Slice], trial: int) -> list[float]:
    rates = [
        {each.round: each.queries / each.wall_s for each in members if each.trial == trial and each.queries}
        for members in (baseline, other)
    ]
    return [math.log(rates[1][number] / rates[0][number]) for number in sorted(rates[0].keys() & rates[1].keys())]


def _grouped(slices: Iterable[Slice], name: Callable[[Slice], str]) -> Iterator[list[Slice]]:
    """The slices of each name, in the order of the names."""
    for _name, members in groupby(sorted(slices, key=name), key=name):
        yield list(members)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="How far slices and server starts of a run lie apart")
    parser.add_argument("samples", type=Path, help="a run's samples.parquet")
    parser.add_argument("provenance", help="what was measured where")
    args = parser.parse_args()
    print(json.dumps({"provenance": args.provenance, **spread(read_samples(args.samples))}, indent=2))
