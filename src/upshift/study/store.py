"""A study's result on disk: ``result.json`` in the run's folder, by its own schema."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection
from pathlib import Path

from pydantic import ValidationError

from upshift.errors import UpshiftError, UsageError
from upshift.machine import describe_machine
from upshift.measure.model import Metric
from upshift.measure.noise import CALM, Noise, in_blocks
from upshift.report.store import RESULT_FILE
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
    """Raises UsageError when the run has no result, UpshiftError when it is damaged or of another version."""
    path = run_folder / RESULT_FILE
    try:
        result = StudyResult.model_validate_json(path.read_text())
    except FileNotFoundError as error:
        raise UsageError(
            f"the run {run_folder.name} has no result", "it did not end: `upshift study FILE --resume RUN` goes on with it"
        ) from error
    except ValidationError as error:
        raise UpshiftError(f"{path} is damaged, or another version of Upshift wrote it", "measure again") from error
    if result.schema_version != SCHEMA_VERSION:
        raise UpshiftError(
            f"{path} has schema version {result.schema_version}, this Upshift reads version {SCHEMA_VERSION}",
            f"measure again, or read it with the Upshift that wrote it: {result.upshift_version}",
        )
    return result
