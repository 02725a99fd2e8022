"""The stage that measures the machine: its failure is a sentence, never the end of a run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cards import card
from fakes import FakeProgress, FakeShell, Output

from upshift.errors import MissingTool
from upshift.run.directory import Manifest, RunDirectory
from upshift.run.stages import Stages
from upshift.stages import card as stage
from upshift.stages.lab import Lab

PROGRAM = Path("/programs/upshift-card")


@pytest.fixture(autouse=True)
def built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("UPSHIFT_CACHE", str(tmp_path))
    monkeypatch.setattr(stage, "build_card", lambda _shell, **_named: PROGRAM)


def lab_with(folder: Path, output: Output) -> tuple[Lab, FakeShell]:
    shell = FakeShell({"upshift-card": output})
    manifest = Manifest(command=("upshift",), options={}, started_at="2026-11-22T05:15:00+00:00", upshift_version="0.1.0")
    run = RunDirectory.create("measure", manifest)
    lab: Any = SimpleNamespace(stages=Stages(run, folder / "stages", shell, FakeProgress()), run=run)
    return lab, shell


def test_the_disk_of_the_run_is_measured_once_and_kept_for_the_run_alone(tmp_path: Path) -> None:
    lab, shell = lab_with(tmp_path, Output(card().model_dump_json()))
    assert stage.measure_machine(lab, 20.0).card == card()
    assert stage.measure_machine(lab, 20.0).card == card()
    (command,) = shell.ran
    assert Path(command.argv[2]).is_relative_to(lab.run.path)
    other, shell = lab_with(tmp_path, Output(card().model_dump_json()))
    stage.measure_machine(other, 20.0)
    assert len(shell.ran) == 1


def test_a_failure_is_said_and_the_card_measured_again_when_the_run_is_resumed(tmp_path: Path) -> None:
    lab, shell = lab_with(tmp_path, Output("ERROR: /x has 3 MiB free\nhint: free some\n", returncode=1))
    found = stage.measure_machine(lab, 20.0)
    assert (found.card, found.lacking) == (None, "the machine card was not measured: /x has 3 MiB free")
    shell.outputs["upshift-card"] = Output(card().model_dump_json())
    assert stage.measure_machine(lab, 20.0).card == card()


def test_a_machine_without_cargo_has_a_report_without_a_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(*_given: Any, **_named: Any) -> Path:
        raise MissingTool("there is no working cargo")

    monkeypatch.setattr(stage, "build_card", build)
    lab, _shell = lab_with(tmp_path, Output())
    assert stage.measure_machine(lab, 20.0).lacking.endswith("there is no working cargo")


def test_no_seconds_mean_no_card_and_no_complaint(tmp_path: Path) -> None:
    lab, shell = lab_with(tmp_path, Output())
    found = stage.measure_machine(lab, 0.0)
    assert (found.card, found.lacking, shell.ran) == (None, "", [])
