"""A finished study's result anew: what its kept samples say by today's analysis."""

from __future__ import annotations

import itertools
from pathlib import Path

from upshift.run.directory import RunDirectory, write_json
from upshift.stages.study import numbered, read_died, samples_of, slices_of
from upshift.study.analysis import Part, analyse
from upshift.study.crossing import crossings
from upshift.study.dealing import group_count
from upshift.study.file import Study
from upshift.study.page import write_page
from upshift.study.plan import StudyPlan
from upshift.study.result import StudyResult
from upshift.study.store import load_study
from upshift.values import checked


def report_again(run: RunDirectory) -> StudyResult:
    """The study's result, with all that follows from its samples found again; ``result.json`` and ``report.html`` are written.

    What was recommended and confirmed stays: those trials were of that set. Without samples the result stays as it is.
    Raises UsageError when the run has no result.
    """
    result = load_study(run.path)
    options = run.manifest.options
    study, plan = checked(Study, options["study"]), checked(StudyPlan, options["plan"])
    parts = _parts(run.path, result, plan)
    if parts:
        standing = {
            arm.row: row.same_as or row.name for arm, row in zip(plan.arms, result.rows, strict=True) if row.died is None
        }
        crossed = crossings(study, plan.arms, result.loads)
        found = analyse(plan.design, standing, parts, result.loads, result.metric, crossed)
        result = result.model_copy(update=found._asdict())
        write_json(run.path / "result.json", result.model_dump(mode="json"))
    write_page(result, run.path / "report.html")
    return result


def _parts(folder: Path, result: StudyResult, plan: StudyPlan) -> list[Part]:
    """In the order in which they were measured: the groups of each layout of each training."""
    groups = group_count(sum(row.same_as is None for row in result.rows), plan.arms_at_once)
    made = itertools.product(range(1, result.trainings + 1), range(1, result.layouts + 1))
    died = read_died(folder)
    return [
        Part(training=training, layout=layout, slices=slices_of(file, died, at))
        for at, (training, layout), _group in numbered(made, range(groups))
        if (file := folder / samples_of(at)).is_file()
    ]
