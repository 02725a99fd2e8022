"""The findings of a report that was printed as JSON: of `stack examine`, `stack plans` or `stack compare`."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from upshift.errors import UsageError
from upshift.stack.evidence import Evidence
from upshift.stack.suspects.model import Finding, Outcome


class _Part(BaseModel):
    """A part of a report; its other keys do not matter here."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class _Trace(_Part):
    began: str


class _Judgement(_Part):
    findings: tuple[Finding, ...]


class _Statement(_Part):
    statement: str


class _Report(_Part):
    trace: _Trace | None = None
    """Of `examine`."""
    findings: tuple[Finding, ...] | None = None
    judgement: _Judgement | None = None
    """Of `plans` and `compare`."""
    statements: tuple[_Statement, ...] = ()
    """Of `plans` and `compare`, all that were looked at."""


def read_findings(file: Path, evidence: Evidence) -> tuple[Outcome, ...]:
    """Its findings, with shares of the trace's time. Raises UsageError for no report, and for one of another trace."""
    report = _read(file)
    if report.trace and report.trace.began != evidence.trace.began:
        raise UsageError(
            f"{file} is the report of another trace, which began {report.trace.began}",
            f"this one began {evidence.trace.began}: examine it with --json",
        )
    if report.findings is not None:
        return report.findings
    assert report.judgement
    known = {each.statement for each in evidence.statements}
    for finding in report.judgement.findings:
        if not known & {each.statement for each in finding.statements}:
            raise UsageError(
                f"{file}: no statement of {finding.suspect} is in this trace",
                "make the report with the trace: not with a file of SQL",
            )
    # Shares of plans are of the time of the report's statements.
    looked_at = {each.statement for each in report.statements}
    part = evidence.budget.share(sum(each.server_us for each in evidence.statements if each.statement in looked_at))
    return tuple(_scaled(each, part) for each in report.judgement.findings)


def _scaled(finding: Finding, part: float) -> Finding:
    statements = tuple(each.model_copy(update={"share": each.share * part}) for each in finding.statements)
    return finding.model_copy(update={"share": finding.share * part, "statements": statements})


def _read(file: Path) -> _Report:
    hint = "`upshift stack examine`, `plans` and `compare` print one with --json"
    try:
        report = _Report.model_validate_json(file.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}", hint) from error
    except ValidationError as error:
        raise UsageError(f"{file} is no report", hint) from error
    if report.findings is None and report.judgement is None:
        raise UsageError(f"{file} has no findings", hint)
    return report
