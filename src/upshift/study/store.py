"""A study's result on disk: ``result.json`` in the run's folder, by its own schema."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection
from pathlib import Path

from upshift.errors import UpshiftError
from upshift.machine import describe_machine
from upshift.measure.model import Metric
from upshift.measure.noise import CALM, Noise, in_blocks
from upshift.report.store import load
from upshift.run.directory import all_runs
from upshift.study.result import SCHEMA_VERSION, StudyResult


def last_noise(metric: Metric, workloads: Collection[str], *, duet: bool = False, speed_probe: bool = False) -> Noise:
    """What the newest study on this machine saw that was judged by ``metric``, under one of ``workloads`` at least, in a duet
    or in turns, with a speed probe or without; a quiet machine's where there is none.
    """
    here = describe_machine()
    for run in all_runs():
        if run.manifest.verb != "study":
            continue
        with contextlib.suppress(UpshiftError):
            found = load_study(run.path)
            like = found.metric == metric and not {load.workload for load in found.loads}.isdisjoint(workloads)
            like = like and (bool(found.plan.duet), found.plan.speed_probe) == (duet, speed_probe)
            log_sd = {each.source: each.log_sd for each in found.variance}
            if like and found.machine == here and {"start", "block"} <= log_sd.keys():
                a_block = log_sd["block"] * math.sqrt(in_blocks(found.plan.slice_s))
                return Noise(start_log_sd=log_sd["start"], pair_log_sd=a_block, run=run.name)
    return CALM


def load_study(run_folder: Path) -> StudyResult:
    """The result of a finished study. Raises what ``load`` does."""
    return load(StudyResult, SCHEMA_VERSION, run_folder, "it did not end: `upshift study FILE --resume RUN` goes on with it")
