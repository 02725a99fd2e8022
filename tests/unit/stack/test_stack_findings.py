"""Findings of a printed report, as `stack prove --findings` takes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from story import Story

from upshift.errors import UsageError
from upshift.stack.evidence import Evidence
from upshift.stack.findings import read_findings
from upshift.stack.prove import find_finding
from upshift.stack.read import read_evidence
from upshift.stack.report import report_on
from upshift.stack.suspects.model import Accused, Finding, Fix
from upshift.stack.suspects.thresholds import Thresholds

SCAN = "SELECT id FROM item WHERE name = 'a'"


@pytest.fixture
def seen(tmp_path: Path) -> Evidence:
    return evidence(tmp_path / "export")


def evidence(folder: Path, **facts: str) -> Evidence:
    story = Story(**facts)
    app = story.connection()
    for _ in range(100):
        with app.transaction():
            app.asks(SCAN, rows=1, wait_us=9000, no_index_used=True)
            app.asks("CALL nightly()", wait_us=1000)
            app.pings()
    return read_evidence(story.export(folder))


def written(folder: Path, text: str) -> Path:
    file = folder / "report.json"
    file.write_text(text)
    return file


def of_plans(seen: Evidence, statement: str) -> str:
    """What `stack plans --json` says, as far as it matters."""
    accused = Accused(statement=statement, text="", share=0.5)
    finding = Finding(
        suspect="P8", share=0.5, status="counted", said="", evidence=(), statements=(accused,), fixes=(Fix(text=""),), limits=""
    )
    judgement = {"findings": [finding.model_dump(mode="json")], "innocent": []}
    return json.dumps({"executed": True, "statements": [{"statement": statement, "share": 1.0}], "judgement": judgement})


def test_an_examination_hands_its_findings_over(seen: Evidence, tmp_path: Path) -> None:
    report = report_on(seen, Thresholds())
    found = find_finding(read_findings(written(tmp_path, report.model_dump_json()), seen), "P2")
    assert found == next(each for each in report.findings if each.suspect == "P2")


def test_shares_of_plans_become_shares_of_the_traces_time(seen: Evidence, tmp_path: Path) -> None:
    """A CALL has no plan: its time is none of the report's."""
    (statement,) = (each for each in seen.statements if each.verb == "select")
    found = find_finding(read_findings(written(tmp_path, of_plans(seen, statement.statement)), seen), "P8")
    assert found.share == pytest.approx(0.5 * seen.budget.share(statement.server_us)) and 0.4 < found.share < 0.5
    assert [each.share for each in found.statements] == [found.share]


def test_findings_of_another_trace_are_refused(seen: Evidence, tmp_path: Path) -> None:
    other = evidence(tmp_path / "other", began="2026-01-01T00:00:00Z")
    file = written(tmp_path, report_on(other, Thresholds()).model_dump_json())
    with pytest.raises(UsageError, match="report of another trace, which began 2026-01-01"):
        read_findings(file, seen)
    with pytest.raises(UsageError, match="no statement of P8 is in this trace"):
        read_findings(written(tmp_path, of_plans(seen, "0" * 16)), seen)


@pytest.mark.parametrize(
    ("text", "said"), [("{", "is no report"), ('{"findings": 3}', "is no report"), ('{"arms": []}', "has no findings")]
)
def test_what_is_no_report(seen: Evidence, tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_findings(written(tmp_path, text), seen)
    with pytest.raises(UsageError, match="cannot be read"):
        read_findings(tmp_path / "absent.json", seen)
