"""The stage that checks the server in use: its findings stand in the report, and its failure never ends a run."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pymysql
import pytest
from fakes import FakeProgress, FakeShell
from served import WELL, changed

from upshift.cli import app as cli_app
from upshift.errors import UsageError
from upshift.options import Options
from upshift.run.directory import Manifest, RunDirectory
from upshift.run.stages import Stages
from upshift.stages import check as stage
from upshift.stages.lab import Lab

SERVER = "mysql://app@/?socket=/run/mysqld/mysqld.sock"
BAD = changed(variables={"innodb_doublewrite": "OFF", "general_log": "ON"})


def lab_of(folder: Path, kind: str = "mysql") -> Lab:
    manifest = Manifest(command=("upshift",), options={}, started_at="2026-11-23T05:15:00+00:00", upshift_version="0.1.0")
    run = RunDirectory.create("optimize", manifest)
    stages = Stages(run, folder / "stages", FakeShell({}), FakeProgress())
    return cast(Lab, SimpleNamespace(stages=stages, run=run, kind=SimpleNamespace(name=kind)))


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("UPSHIFT_CACHE", str(tmp_path))


@pytest.fixture
def facts(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the server shows at each look: facts, or an exception."""
    looks: list[Any] = []

    @contextlib.contextmanager
    def opened(_address: Any) -> Iterator[None]:
        yield None

    def read(_session: Any) -> Any:
        look = looks.pop(0)
        if isinstance(look, Exception):
            raise look
        return look

    monkeypatch.setattr(stage, "opened", opened)
    monkeypatch.setattr(stage, "read_facts", read)
    return looks


def test_findings_are_those_of_check_and_belong_to_the_run(tmp_path: Path, facts: list[Any]) -> None:
    facts += [BAD, WELL]
    lab, options = lab_of(tmp_path), Options(server=SERVER)
    found = stage.check_server(lab, options)
    assert found.report and {"doublewrite-off", "general-log-on"} <= {each.id for each in found.report.findings}
    assert found.report.server == "/run/mysqld/mysqld.sock" and not found.failed
    # A run that is resumed has looked; another one looks again.
    assert stage.check_server(lab, options) == found
    other = stage.check_server(lab_of(tmp_path), options)
    assert other.report and not other.report.findings


@pytest.mark.parametrize(
    "error", [pymysql.OperationalError(2013, "Lost connection"), UsageError("it is too old"), OSError("gone")]
)
def test_a_failure_is_a_sentence_and_the_server_is_looked_at_again_on_resume(
    tmp_path: Path, facts: list[Any], error: Exception
) -> None:
    facts += [error, WELL]
    lab, options = lab_of(tmp_path), Options(server=SERVER)
    found = stage.check_server(lab, options)
    assert (found.report, found.failed) == (None, True) and found.why_none.startswith("the server was not checked: ")
    assert stage.check_server(lab, options).report


def test_a_server_that_is_gone_ends_no_run(tmp_path: Path) -> None:
    found = stage.check_server(lab_of(tmp_path), Options(server=f"mysql://app@/?socket={tmp_path}/none"))
    assert found.failed and "was not checked" in found.why_none


def test_without_a_server_or_without_mysql_there_is_nothing_to_check(tmp_path: Path) -> None:
    none = stage.check_server(lab_of(tmp_path), Options())
    assert (none.failed, none.why_none) == (False, "no server was named: --server takes the one that you run")
    small = stage.check_server(lab_of(tmp_path, "small"), Options(server=SERVER))
    assert (small.failed, small.why_none) == (False, "the server is no MySQL: there is nothing to check")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--server", "postgres://db"), "check supports MySQL and MariaDB"),
        (("--server", "mysql://me:secret@db"), "password"),
        (("--defaults-file", "/no/such.cnf"), "there is no option file /no/such.cnf"),
    ],
)
def test_what_is_no_server_is_refused_before_any_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["upshift", "optimize", "--dry-run", *arguments])
    with pytest.raises(SystemExit) as end:
        cli_app.main()
    captured = capsys.readouterr()
    assert end.value.code == 2 and captured.out == "" and said in " ".join(captured.err.split())
