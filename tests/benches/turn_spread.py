"""Do long slices spread less than short ones?

    PYTHONPATH=src .venv/bin/python tests/benches/turn_spread.py [NAME=]RUN... --json FILE

Each RUN is a run of `upshift measure`, by its folder: two servers, one load. ``start_log_sd`` is the spread of the ratio of two
starts, beyond what their turns explain. ``pair_log_sd`` is the spread of two turns' ratio within a trial. ``halves`` is the
correlation of ln QPS between the halves of a slice, and ``next`` that between a slice and the next one in time, of whichever
server; both of deviations from the server's mean in the trial. If slices averaged independent noise, ``pair_log_sd`` would fall
with the root of their length.
All runs must be of one machine. A NAME becomes the row's. ``trial_log_sd`` is the spread of the second server's ratio to the
first from trial to trial, by figure: what intervals follow from.

Of a run with a speed probe, these are at the usual speed of the CPUs, and ``trial_log_sd_as_measured`` is not. ``probe`` is the
correlation of the logarithms of the probe's time and of the server's CPU time a query, over all slices, each less its server's
mean.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from upshift.measure.model import Plan, Slice
from upshift.measure.samples import read_samples
from upshift.measure.speed import at_usual_speed, slowed_share
from upshift.measure.statistics import pairs
from upshift.measure.variance import spread
from upshift.report.store import load_result


def row(run: Path, plan: Plan) -> dict[str, Any]:
    everything = [each for each in read_samples(run / "samples.parquet") if not each.rejected]
    slices = at_usual_speed(everything)
    halves, nexts = map(np.array, (list(_halves(slices)), list(_nexts(slices))))
    return {
        "workload": slices[0].workload,
        "connections": slices[0].connections,
        "slice_s": plan.slice_s,
        "lead_s": plan.lead_s,
        "trials": plan.trials,
        "rounds": plan.rounds,
        **spread(slices),
        "trial_log_sd": _of_trials(slices),
        "halves": round(float(np.corrcoef(halves.T)[0, 1]), 3),
        "next": round(float(np.corrcoef(nexts.T)[0, 1]), 3),
        **_probed(everything),
    }


def _probed(slices: list[Slice]) -> dict[str, Any]:
    """Nothing where no probe ran."""
    slowed = slowed_share(slices)
    if slowed is None:
        return {}
    beside = []
    for arm in dict.fromkeys(each.arm for each in slices):
        of = [each for each in slices if each.arm == arm]
        logs = np.log([(each.probe_us, each.total_cpu_s / each.queries) for each in of])
        beside.append(logs - logs.mean(axis=0))
    return {
        "slowed": round(slowed, 3),
        "probe_ratio": round(_usual_us(slices, last=True) / _usual_us(slices, last=False), 4),
        "trial_log_sd_as_measured": _of_trials([each.model_copy(update={"probe_us": 0.0}) for each in slices]),
        "probe": round(float(np.corrcoef(np.concatenate(beside).T)[0, 1]), 3),
    }


def _usual_us(slices: list[Slice], *, last: bool) -> float:
    """The probe's time beside the last server or the first one, where a tenth of its slices are below: without bursts."""
    arms = sorted({each.arm for each in slices})
    arm = arms[-1 if last else 0]
    return float(np.quantile([each.probe_us for each in slices if each.arm == arm], 0.1))


def _of_trials(slices: list[Slice]) -> dict[str, float]:
    found = pairs(slices, [slices[0].arm])
    return {each.metric: round(float(np.std(each.logs, ddof=1)), 4) for each in found if len(each.logs) > 1}


def _deviations(slices: list[Slice]) -> Iterator[tuple[Slice, float, float]]:
    """Each slice with ln QPS of its halves, less the mean of its server in its trial."""

    def key(each: Slice) -> tuple[int, str]:
        return each.trial, each.arm

    for _key, members in groupby(sorted(slices, key=key), key=key):
        of = [each for each in members if 0 < each.half_queries < each.queries]
        rates = np.log(
            [
                (each.half_queries / each.half_wall_s, (each.queries - each.half_queries) / (each.wall_s - each.half_wall_s))
                for each in of
            ]
        )
        for each, (early, late) in zip(of, rates - rates.mean(axis=0), strict=True):
            yield each, float(early), float(late)


def _halves(slices: list[Slice]) -> Iterator[tuple[float, float]]:
    for _each, early, late in _deviations(slices):
        yield early, late


def _nexts(slices: list[Slice]) -> Iterator[tuple[float, float]]:
    found = sorted(_deviations(slices), key=lambda each: (each[0].trial, each[0].started_s))
    for (one, *first), (other, *second) in pairwise(found):
        if one.trial == other.trial:
            yield sum(first) / 2, sum(second) / 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="[NAME=]RUN")
    parser.add_argument("--json", type=Path, required=True)
    arguments = parser.parse_args()
    named = [each.rpartition("=") for each in arguments.runs]
    runs = [Path(run) for _name, _equals, run in named]
    results = [load_result(each) for each in runs]
    first = results[0].machine
    if any(each.machine != first for each in results):
        raise SystemExit("the runs are of several machines")
    rows = [row(run, each.experiment.plan) for run, each in zip(runs, results, strict=True)]
    rows = [{**({"name": name} if name else {}), **each} for (name, _equals, _run), each in zip(named, rows, strict=True)]
    result = {"schema_version": 1, "what": "turn_spread", "machine": first.model_dump(mode="json"), "rows": rows}
    arguments.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
