"""`--speed-probe`: what is planned, shown and refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from upshift import plan
from upshift.cli import app
from upshift.errors import UsageError
from upshift.measure.model import Plan
from upshift.measure.variant import Variant
from upshift.options import Options
from upshift.resolve import measuring_plan
from upshift.server.kind import Program

TWO = ("a=/bin/true", "b=/bin/echo")


def upshift(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Any:
    monkeypatch.setattr(sys, "argv", ["upshift", *arguments])
    with pytest.raises(SystemExit) as end:
        app.main()
    return end.value.code or 0


def test_a_plan_without_a_probe_is_written_as_older_versions_wrote_it() -> None:
    without, probed = (measuring_plan(Options(speed_probe=each)) for each in (False, True))
    assert "speed_probe" not in without.model_dump() and Plan.model_validate_json(without.model_dump_json()) == without
    assert Plan.model_validate_json(probed.model_dump_json()) == probed


@pytest.fixture
def without_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """To real-time priority."""

    def refuse() -> None:
        raise UsageError("the speed probe cannot have real-time priority: Operation not permitted", "run as root")

    monkeypatch.setattr(plan, "refuse_without_right", refuse)


@pytest.mark.usefixtures("without_right")
def test_without_the_right_to_real_time_priority_it_is_refused_before_any_work() -> None:
    variants = tuple(
        Variant(name=name, program=Program(kind="mysql", binary=Path("/bin/true"), tools=Path("/bin"))) for name in "ab"
    )
    with pytest.raises(UsageError, match="Operation not permitted"):
        plan.prepare_measuring(Options(speed_probe=True), variants, allow_install=False, say=print)
    with pytest.raises(UsageError, match="Operation not permitted"):
        plan.prepare(Options(speed_probe=True), allow_install=False, say=print)


@pytest.mark.usefixtures("without_right")
@pytest.mark.parametrize("command", [("measure", *TWO), ("optimize",)])
def test_a_dry_run_needs_no_right(monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]) -> None:
    assert upshift(monkeypatch, *command, "--dry-run", "--speed-probe") == 0


@pytest.mark.parametrize("command", [("measure", *TWO), ("optimize",)])
def test_one_round_has_no_slope_and_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    assert upshift(monkeypatch, *command, "--dry-run", "--rounds", "1", "--speed-probe") == 2
    assert "two rounds or more" in capsys.readouterr().err
    assert upshift(monkeypatch, *command, "--dry-run", "--rounds", "1") == 0


def test_servers_on_unlike_cpus_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    files = [tmp_path / name for name in ("a.toml", "b.toml")]
    for file in files:
        file.write_text('binary = "/bin/true"\nserver_cpus = [0]\n')
    command = ("measure", *map(str, files), "--dry-run", "--speed-probe")
    assert upshift(monkeypatch, *command) == 0
    files[1].write_text('binary = "/bin/true"\n')
    assert upshift(monkeypatch, *command) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "'b' names others than 'a' (server_cpus)" in said and "hint: name the same server_cpus for all" in said
    assert upshift(monkeypatch, *command[:-1]) == 0
