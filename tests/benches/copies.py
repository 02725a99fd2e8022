"""Do copies of one executable differ by more than starts of it do?

    PYTHONPATH=src .venv/bin/python tests/benches/copies.py NAME=RUN... --json FILE

Each RUN is a run of `upshift measure`, by its folder: variants of one load that are copies of one executable. Of each figure it
says what each copy's is beside the mean of all, the standard error, and the chance that copies differ so much if they are
alike: the F test of two-way analysis of variance, copies by trials, of the logarithms of trials' values. ``copies_log_sd`` is
the spread of the copies beyond the standard error. All runs must be of one machine.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import fdtrc

from upshift.measure.model import Metric
from upshift.measure.samples import read_samples
from upshift.measure.statistics import trial_values
from upshift.report.store import load_result

FIGURES: tuple[Metric, ...] = ("qps", "total_cpu_us_per_query", "typical_cpu_us_per_query")


def compared(logs: np.ndarray) -> dict[str, Any]:
    """Of the logarithms of values, a row a trial and a column a copy."""
    trials, copies = logs.shape
    logs = logs - logs.mean(axis=1, keepdims=True)
    means = logs.mean(axis=0)
    freedom = (trials - 1) * (copies - 1)
    error_squared = float(((logs - means) ** 2).sum() / freedom / trials)
    between = float(means.var(ddof=1))
    return {
        "ratios": [round(float(np.exp(each)), 4) for each in means],
        "error": round(error_squared**0.5, 5),
        "copies_log_sd": round(max(0.0, between - error_squared) ** 0.5, 4),
        "chance": round(float(fdtrc(copies - 1, freedom, between / error_squared)), 4),
    }


def row(name: str, run: Path) -> dict[str, Any]:
    values = trial_values(each for each in read_samples(run / "samples.parquet") if not each.rejected)
    arms = sorted(arm for arm, _load in values)
    (load,) = {load for _arm, load in values}
    figures = {}
    for metric in FIGURES:
        columns = [values[arm, load][metric] for arm in arms]
        figures[metric] = compared(np.log([[of[trial] for of in columns] for trial in sorted(columns[0])]))
    return {
        "name": name,
        "workload": load.workload,
        "connections": load.connections,
        "copies": arms,
        "trials": len(values[arms[0], load]["qps"]),
        "figures": figures,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="NAME=RUN")
    parser.add_argument("--json", type=Path, required=True)
    arguments = parser.parse_args()
    named = [(name, Path(run)) for name, _equals, run in (each.rpartition("=") for each in arguments.runs)]
    machines = [load_result(run).machine for _name, run in named]
    if any(each != machines[0] for each in machines):
        raise SystemExit("the runs are of several machines")
    rows = [row(name, run) for name, run in named]
    result = {"schema_version": 1, "what": "copies", "machine": machines[0].model_dump(mode="json"), "rows": rows}
    arguments.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
