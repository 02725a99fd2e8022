"""Would regression on what the kernel counted beside a slice narrow the intervals, and would they still hold?

    PYTHONPATH=src .venv/bin/python tests/benches/covariates.py simulate --json FILE
    PYTHONPATH=src .venv/bin/python tests/benches/covariates.py samples RUN/samples.parquet

``simulate`` makes experiments whose noise follows a covariate by so much, with the spread of ``spread.json``, and compares
three intervals of the ratio: ``student``, as Upshift has it; ``regressed``, with the trials' difference in the covariate
regressed out; ``cuped``, with the slope taken from the baseline's slices and every slice corrected (Deng and others,
"Improving the Sensitivity of Online Controlled Experiments by Utilizing Pre-Experiment Data", 2013). A covariate may be moved:
another on the second server than on the first, as a faster server's client leaves other programs less CPU time. Beside that it
collects how much of one covariate, steal, the kept measurements met. ``samples`` compares the intervals on a run's samples, for
each covariate, on many choices of a few of its trials.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.signal import lfilter
from scipy.special import stdtrit

from upshift.measure.model import Slice
from upshift.measure.samples import read_samples

CHECKOUT = Path(__file__).resolve().parents[2]
MEASUREMENTS = CHECKOUT / "docs" / "measurements"
SPREADS = json.loads((CHECKOUT / "tests" / "unit" / "measure" / "spread.json").read_text())
EXPERIMENTS = 4000
CONFIDENCE = 0.95
MEMORY = 0.8
"""Correlation of noise and covariate from one slice to the next."""
TRIALS = (6, 24)
CASES = ((0.0, 0.0), (0.25, 0.0), (0.5, 0.0), (0.75, 0.0), (0.5, 0.5), (0.5, 1.0))
"""Of a slice's noise, the share of its variance that the covariate explains; and by how many of its standard deviations the
covariate is another on the second server."""
ROUNDS = 2
CHOICES = 2000
COVARIATES: Mapping[str, Callable[[Slice], float]] = {
    "steal": lambda each: each.steal_s / each.wall_s,
    "other load": lambda each: each.other_cpu_s / each.wall_s,
    "run-queue delay": lambda each: each.run_delay_s / each.wall_s,
}
FIGURES: Mapping[str, Callable[[Slice], float]] = {
    "qps": lambda each: math.log(each.queries / each.wall_s),
    "total_cpu_us_per_query": lambda each: math.log(each.total_cpu_s / each.queries),
}


class Estimates(NamedTuple):
    """Of many experiments at once: the mean's estimate and half of its interval's width."""

    mean: np.ndarray
    half: np.ndarray

    def row(self, truth: float, student: Estimates) -> dict[str, float]:
        return {
            "covered": round(float(np.mean(np.abs(self.mean - truth) <= self.half)), 4),
            "width": round(float(np.median(self.half / student.half)), 4),
        }


def student(logs: np.ndarray) -> Estimates:
    """Of experiments x trials."""
    trials = logs.shape[1]
    half = stdtrit(trials - 1, (1 + CONFIDENCE) / 2) * logs.std(axis=1, ddof=1) / math.sqrt(trials)
    return Estimates(logs.mean(axis=1), half)


def over_trials(logs: np.ndarray, beside: np.ndarray) -> Estimates:
    """The intercept of a regression of the trials' log-ratios on the arms' difference in the covariate."""
    trials = logs.shape[1]
    middle = beside.mean(axis=1, keepdims=True)
    spread = ((beside - middle) ** 2).sum(axis=1)
    safe = np.where(spread > 0, spread, np.inf)
    slope = ((beside - middle) * logs).sum(axis=1) / safe
    mean = logs.mean(axis=1) - slope * middle[:, 0]
    rest = logs - mean[:, None] - slope[:, None] * beside
    variance = (rest**2).sum(axis=1) / (trials - 2) * (1 / trials + middle[:, 0] ** 2 / safe)
    return Estimates(mean, stdtrit(trials - 2, (1 + CONFIDENCE) / 2) * np.sqrt(variance))


def over_baseline(figures: np.ndarray, beside: np.ndarray) -> Estimates:
    """Of experiments x trials x rounds x arms, baseline first: its slices, each beside its trial's mean, give the slope."""

    def within(values: np.ndarray) -> np.ndarray:
        base = values[..., 0]
        return (base - base.mean(axis=2, keepdims=True)).reshape(len(base), -1)  # type: ignore[no-any-return]

    x, y = within(beside), within(figures)
    squares = (x**2).sum(axis=1)
    slope = (x * y).sum(axis=1) / np.where(squares > 0, squares, np.inf)
    corrected = figures - slope[:, None, None, None] * beside
    return student(difference(corrected))


def difference(figures: np.ndarray) -> np.ndarray:
    """Experiments x trials: the second arm less the first."""
    means = figures.mean(axis=2)
    return means[..., 1] - means[..., 0]  # type: ignore[no-any-return]


def compared(figures: np.ndarray, beside: np.ndarray, truth: float) -> dict[str, dict[str, float]]:
    plain = student(difference(figures))
    found = {
        "student": plain,
        "regressed": over_trials(difference(figures), difference(beside)),
        "cuped": over_baseline(figures, beside),
    }
    return {name: each.row(truth, plain) for name, each in found.items()}


def simulated(
    trials: int, explained: float, moved: float, machine: str, chance: np.random.Generator
) -> dict[str, dict[str, float]]:
    """Slices in A B B A order, under noise of which a covariate that is known explains a share."""
    shape = (EXPERIMENTS, trials, ROUNDS, 2)
    depth = SPREADS[machine]["pair_log_sd"] / math.sqrt(2 * (1 - MEMORY))

    def wave() -> np.ndarray:
        steps = chance.normal(0, math.sqrt(1 - MEMORY**2), (EXPERIMENTS, trials * ROUNDS * 2 + 50))
        slices: np.ndarray = lfilter([1], [1, -MEMORY], steps, axis=1)[:, 50:].reshape(shape)
        slices[:, :, 1::2] = slices[:, :, 1::2, ::-1]
        return slices

    beside = wave()
    starts = chance.normal(0, SPREADS[machine]["start_log_sd"] / math.sqrt(2), (EXPERIMENTS, trials, 1, 2))
    noise = depth * (math.sqrt(explained) * beside + math.sqrt(1 - explained) * wave())
    beside[..., 1] += moved
    return compared(starts + noise, beside, 0.0)


def simulate() -> dict[str, Any]:
    chance = np.random.default_rng(1)
    rows = [
        {
            **{"machine": machine, "trials": trials, "explained": explained, "moved": moved},
            **simulated(trials, explained, moved, machine, chance),
        }
        for machine in SPREADS
        for trials in TRIALS
        for explained, moved in CASES
    ]
    found = {"schema_version": 1, "what": "covariates", "experiments": EXPERIMENTS, "rounds": ROUNDS}
    return {**found, "rows": rows, "met": list(met())}


def met() -> Iterator[dict[str, Any]]:
    """What the kept measurements say of the covariates."""
    for file in sorted(MEASUREMENTS.rglob("result.json")):
        experiment = json.loads(file.read_text()).get("experiment") or {}
        if "steal_share" in experiment:
            other_load = any(flag["name"] == "other-load" for flag in experiment["flags"])
            name = str(file.parent.relative_to(MEASUREMENTS))
            yield {"measurement": name, "steal_share": round(experiment["steal_share"], 6), "other_load": other_load}


def of_samples(file: Path, trials: int) -> dict[str, Any]:
    slices = read_samples(file)
    arms = sorted({each.arm for each in slices})[:2]
    rows = []
    for load in sorted({(each.workload, each.connections) for each in slices}):
        mine = [each for each in slices if (each.workload, each.connections) == load and each.arm in arms and each.queries]
        for figure, of_figure in FIGURES.items():
            for name, of_beside in COVARIATES.items():
                figures, beside = (table(mine, arms, read) for read in (of_figure, of_beside))
                chance = np.random.default_rng(1)
                chosen = np.array([chance.choice(len(figures), trials, replace=False) for _ in range(CHOICES)])
                whole = np.corrcoef(difference(figures[None])[0], difference(beside[None])[0])[0, 1] ** 2
                rows.append(
                    {
                        **{"workload": load[0], "connections": load[1], "figure": figure, "covariate": name},
                        "explained": round(float(np.nan_to_num(whole)), 4),
                        **compared(figures[chosen], beside[chosen], 0.0),
                    }
                )
    return {"schema_version": 1, "what": "covariates of samples", "trials": trials, "rows": rows}


def table(slices: list[Slice], arms: list[str], read: Callable[[Slice], float]) -> np.ndarray:
    """Trials x rounds x arms, of the trials that have all of them."""
    found = {(each.trial, each.round, each.arm): read(each) for each in slices}
    rounds = sorted({each.round for each in slices})
    whole = [
        [[found[trial, number, arm] for arm in arms] for number in rounds]
        for trial in sorted({each.trial for each in slices})
        if all((trial, number, arm) in found for number in rounds for arm in arms)
    ]
    return np.array(whole)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_subparsers(dest="what", required=True)
    made, real = what.add_parser("simulate"), what.add_parser("samples")
    for each in (made, real):
        each.add_argument("--json", type=Path)
    real.add_argument("file", type=Path)
    real.add_argument("--trials", type=int, default=6)
    given = parser.parse_args()
    result = simulate() if given.what == "simulate" else of_samples(given.file, given.trials)
    for row in result["rows"]:
        sys.stdout.write(json.dumps(row) + "\n")
    if given.json:
        given.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
