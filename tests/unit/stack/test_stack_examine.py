"""`upshift stack examine` in this process, with an export in place of the program's."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeShell
from faulty_shop import shop
from story import Story

from upshift import console, shell
from upshift.cli import app as cli_app
from upshift.shell import Command, Completed
from upshift.stack.report import Report

Examine = Callable[..., tuple[int, str, str]]


@pytest.fixture
def examine(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Examine:
    """Runs the command on a trace that is exported as this story, or fails as the program does with ``code``."""
    monkeypatch.setattr("upshift.native.programs.programs_are_built", lambda: True)
    monkeypatch.setattr("upshift.native.programs.build_programs", lambda _shell, **_: tmp_path)
    monkeypatch.setattr(console.out, "width", 80)

    def run(*arguments: str, story: Story | None = None, code: int = 0, said: str = "") -> tuple[int, str, str]:
        trace = tmp_path / "app.trace"
        trace.write_text("a trace")

        class Program(FakeShell):
            def run(self, command: Command, **_: Any) -> Completed:
                program, verb, given, folder = command.argv
                assert (Path(program).name, verb, given) == ("upshift-stack", "export", str(trace))
                if story:
                    story.export(Path(folder))
                return Completed(code, said, 0, 0, 0)

            def close(self) -> None:
                pass

        monkeypatch.setattr(shell, "SystemShell", Program)
        monkeypatch.setattr(sys, "argv", ["upshift", "stack", "examine", *(arguments or (str(trace),))])
        with pytest.raises(SystemExit) as end:
            cli_app.main()
        captured = capsys.readouterr()
        return int(end.value.code or 0), captured.out, captured.err

    return run


def test_the_report_names_what_is_guilty_innocent_and_unseen(examine: Examine) -> None:
    code, out, err = examine(story=shop(["C3", "C7"], client="MySQL Connector/J"))
    assert (code, err) == (0, "")
    assert out.startswith("2 suspects, first C3, fetches rows in small parts")
    for part in (
        "client gap",
        "network",
        "server",
        "commit",
        "request transfer",
        "where the time goes",
        "statements with the most time",
    ):
        assert part in out
    assert "C7 batch not rewritten" in out and "rewriteBatchedStatements=true" in out and "INSERT INTO line VALUES (...)" in out
    assert "ruled out  C1 prepares each time" in out and "not seen  P1 examines too many rows" in out
    assert max(map(len, out.splitlines())) <= 80


def test_json_is_the_whole_report(examine: Examine, tmp_path: Path) -> None:
    code, out, _ = examine("--json", "--top", "3", str(tmp_path / "app.trace"), story=shop(["C3"]))
    report = Report.model_validate_json(out)
    assert code == 0 and len(report.statements) == 3
    assert report.total_us == report.budget.total_us
    assert [each.suspect for each in report.findings] == ["C3"]
    (named,) = [each for each in report.statements if each.suspects]
    assert named.statement == report.findings[0].statements[0].statement and named.suspects == ("C3",)
    assert json.loads(out)["schema_version"] == 1


def test_a_threshold_and_a_driver_may_be_given(examine: Examine, tmp_path: Path) -> None:
    arguments = ("--json", "--threshold", "C3.share=1000", "--driver", "pymysql", str(tmp_path / "app.trace"))
    report = Report.model_validate_json(examine(*arguments, story=shop(["C3", "C7"]))[1])
    assert [each.suspect for each in report.findings] == ["C7"] and report.thresholds["C3.share"] == 1000
    assert report.findings[0].fixes[0].driver == "PyMySQL" and {each.driver for each in report.clients} == {"PyMySQL"}


@pytest.mark.parametrize(
    ("facts", "note"),
    [
        ({"whole": False}, "the trace was cut short"),
        ({"whole": False, "stopped": "the disk is full"}, "the capture ended by itself: the disk is full"),
        ({"whole": False, "lost": 7}, "the capture could not write 7 exchanges in time"),
        ({"incomplete": 2, "server_version": None}, "2 answers were not seen to the end"),
        ({"gaps": {"connections": 2, "bytes": 3000}}, "the capture lost 3,000 bytes of 2 connections"),
        ({"unread": {"not_the_protocol": 1}}, "1 connection could not be read: not the protocol"),
        ({"masked": True}, "the trace is masked"),
        ({"added_us_p50": 12.0, "added_us_p99": 90.0}, "the proxy added 12 µs"),
    ],
)
def test_what_the_capture_missed_is_said(examine: Examine, facts: dict[str, Any], note: str) -> None:
    story = Story(**facts)
    story.connection(joined_late=True, tls=True, compressed=True).asks("SELECT 1 FROM t")
    code, out, _ = examine(story=story)
    flat = " ".join(out.split())
    assert code == 0 and f"NOTE {note}" in flat
    assert "1 connection began before the capture" in flat and "1 connection asked for TLS" in flat
    assert "1 connection compressed the protocol" in flat


@pytest.mark.parametrize(
    ("unread", "hint"),
    [
        ({"encrypted": 2}, "sslMode=DISABLED"),
        ({"encrypted": 1}, "--tls-certificate"),
        ({"compressed": 1}, "could not be read: compressed"),
        ({}, "let the application work"),
    ],
)
def test_a_trace_without_requests_is_refused_with_the_reason(examine: Examine, unread: dict[str, int], hint: str) -> None:
    code, out, err = examine(story=Story(unread=unread))
    flat = " ".join(err.split())
    assert (code, out) == (1, "") and "has no requests" in flat and hint in flat


def test_a_trace_of_requests_alone_is_refused(examine: Examine) -> None:
    code, out, err = examine(story=Story(incomplete=12))
    flat = " ".join(err.split())
    assert (code, out) == (1, "") and "has no request with its whole answer" in flat
    assert "it has 12 requests without one: capture both directions" in flat


def test_bad_input_is_refused_with_a_hint(examine: Examine, tmp_path: Path) -> None:
    trace = str(tmp_path / "app.trace")
    for arguments, said in (
        ((str(tmp_path / "gone"),), "there is no trace"),
        ((trace, "--threshold", "C1.sharp=1"), "no threshold 'C1.sharp'"),
        ((trace, "--driver", "odbc"), "there is no driver 'odbc'"),
    ):
        code, out, err = examine(*arguments)
        assert (code, out) == (2, "") and said in " ".join(err.split()) and "hint:" in err


def test_the_program_s_own_words_are_shown(examine: Examine) -> None:
    code, _, err = examine(code=2, said="ERROR: app.trace is no trace\nhint: `upshift stack capture` writes them\n")
    assert code == 2 and "ERROR app.trace is no trace" in err and "hint: `upshift stack capture` writes them" in err
    code, _, err = examine(code=1, said="something else")
    assert code == 1 and "something else" in err
    code, _, err = examine(code=-9)
    assert code == 1 and "ended by SIGKILL" in err


def test_a_server_of_another_family_is_refused_before_it_is_asked(examine: Examine, tmp_path: Path) -> None:
    code, _, err = examine(str(tmp_path / "app.trace"), "--server", "postgres://a@/b", story=shop())
    assert code == 2 and "--server names a PostgreSQL" in " ".join(err.split())


def test_nothing_is_left_behind(examine: Examine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    assert examine(story=shop())[0] == 0
    assert list(place.iterdir()) == []
    shutil.rmtree(place)
