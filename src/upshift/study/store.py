"""A study's result on disk: ``result.json`` in the run's folder, by its own schema."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from upshift.errors import UpshiftError, UsageError
from upshift.report.store import RESULT_FILE
from upshift.study.result import SCHEMA_VERSION, StudyResult


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
