"""`--speed-probe`: what is planned, shown and refused."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from upshift import resolve
from upshift.cli import app
from upshift.errors import UsageError
from upshift.measure.model import Plan
from upshift.options import Options
from upshift.resolve import measuring_plan

TWO = ("a=/bin/true", "b=/bin/echo")


@pytest.fixture(autouse=True)
def right(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of this user to real-time priority."""
    monkeypatch.setattr(resolve, "refuse_without_right", lambda: None)


def upshift(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Any:
    monkeypatch.setattr(sys, "argv", ["upshift", *arguments])
    with pytest.raises(SystemExit) as end:
        app.main()
    return end.value.code or 0


def test_a_plan_without_a_probe_is_written_as_older_versions_wrote_it() -> None:
    without, probed = (measuring_plan(Options(speed_probe=each)) for each in (False, True))
    assert "speed_probe" not in without.model_dump() and Plan.model_validate_json(without.model_dump_json()) == without
    assert Plan.model_validate_json(probed.model_dump_json()) == probed


@pytest.mark.parametrize("command", [("measure", *TWO), ("optimize",)])
def test_without_the_right_to_real_time_priority_it_is_refused_before_any_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    def refuse() -> None:
        raise UsageError("the speed probe cannot have real-time priority: Operation not permitted", "run as root")

    monkeypatch.setattr(resolve, "refuse_without_right", refuse)
    assert upshift(monkeypatch, *command, "--dry-run", "--speed-probe") == 2
    assert "Operation not permitted" in capsys.readouterr().err
    assert upshift(monkeypatch, *command, "--dry-run") == 0
