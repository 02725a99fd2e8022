"""What the last experiment on this machine says of the next one's noise."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path

import duckdb
from pydantic import ValidationError

from upshift.errors import UpshiftError
from upshift.machine import describe_machine
from upshift.measure.model import Slice
from upshift.measure.noise import CALM, Noise, in_blocks
from upshift.measure.samples import read_samples
from upshift.measure.speed import at_usual_speed
from upshift.measure.variance import spread
from upshift.report.store import load_result
from upshift.run.directory import all_runs

_LEAST_TRIALS = 3
_VERBS = ("measure", "optimize")


def last_noise(workloads: Collection[str], *, duet: bool = False, speed_probe: bool = False) -> Noise:
    """What the newest run of `measure` or `optimize` on this machine saw under one of ``workloads`` at least, in a duet or in
    turns, with a speed probe or without; a quiet machine's where there is none.
    """
    here = describe_machine()
    for run in all_runs():
        samples = run.path / "samples.parquet"
        if run.manifest.verb not in _VERBS or not samples.is_file():
            continue
        # A damaged file says nothing.
        with contextlib.suppress(UpshiftError, duckdb.Error, ValidationError):
            found = load_result(run.path)
            plan = found.experiment.plan
            alike = found.machine == here and (bool(plan.duet), plan.speed_probe) == (duet, speed_probe)
            if alike and (noise := _noise(samples, workloads, plan.slice_s, run.name)):
                return noise
    return CALM


def _noise(samples: Path, workloads: Collection[str], slice_s: float, run: str) -> Noise | None:
    slices = tuple(_whole(each for each in read_samples(samples) if each.workload in workloads))
    if len({each.arm for each in slices}) < 2 or len({each.trial for each in slices}) < _LEAST_TRIALS:
        return None
    if not (found := spread(at_usual_speed(slices))):
        return None
    a_block = found["pair_log_sd"] * in_blocks(slice_s) ** 0.5
    return Noise(start_log_sd=found["start_log_sd"], pair_log_sd=a_block, run=run)


def _whole(slices: Iterable[Slice]) -> list[Slice]:
    """Those of trials in which each server had all of its turns, and ended queries in them."""
    found = list(slices)
    counts = Counter(each.trial for each in found if each.queries)
    most = max(counts.values(), default=0)
    return [each for each in found if counts[each.trial] == most]
