"""The stage that explains a run's gain: its failure is a sentence, never the end of a run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cards import card
from explained_example import explanation, variant
from fakes import FakeKind, FakeProgress, FakeShell

from upshift.errors import LoadFailed
from upshift.explain.model import Explanation
from upshift.explain.tools import Tools
from upshift.instructions.model import Count, Instructions
from upshift.measure.model import Plan
from upshift.options import Options
from upshift.run.directory import Manifest, RunDirectory
from upshift.run.stages import Stages
from upshift.stages import explain as stage
from upshift.stages.card import Carded
from upshift.stages.data import Filled
from upshift.stages.lab import Lab
from upshift.stages.work import Measuring
from upshift.workload.model import Workload

COUNTED = Instructions(
    source="callgrind",
    baseline="plain",
    counts=tuple(
        Count(arm=arm, workload="mix", instructions_per_query=executed, calls_per_query=1.0, queries=10)
        for arm, executed in (("plain", 9e4), ("new", 6e4))
    ),
)
MIX = Workload.model_construct(name="mix", settings={}, description="", programs=(), unit="transaction")


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lab:
    monkeypatch.setattr(stage, "origin_of", lambda _server, _cache: None)
    monkeypatch.setenv("UPSHIFT_CACHE", str(tmp_path))
    monkeypatch.setattr(stage, "program_key", lambda program: program.binary.name)
    monkeypatch.setattr(stage, "workloads_key", lambda workloads: [each.name for each in workloads])
    monkeypatch.setattr(stage, "sampling_event", lambda _shell: "cpu-clock")
    monkeypatch.setattr(stage, "find_tools", lambda _shell: Tools(objdump=None, symbolizer=None, demangler=None))
    monkeypatch.setattr(stage, "nothing_differs", lambda _pair: False)
    manifest = Manifest(command=("upshift",), options={}, started_at="2026-11-22T05:15:00+00:00", upshift_version="0.1.0")
    run = RunDirectory.create("optimize", manifest)
    shell = FakeShell({})
    stages, kind = Stages(run, tmp_path / "stages", shell, FakeProgress()), FakeKind()
    made: Any = SimpleNamespace(stages=stages, run=run, kind=kind, kind_of=lambda _program: kind, shell=shell, cache=tmp_path)
    found: Lab = made
    return found


def explained_by(lab: Lab, **options: Any) -> stage.Why:
    plan = Plan.model_construct(client_cpus=())
    measuring = Measuring.model_construct(
        options=Options(connections=(1, 8), **options), train_on=(MIX,), hold_out=(), plan=plan
    )
    filled: dict[str, Any] = {name: Filled.model_construct(path=Path(), sha256="0") for name in ("plain", "new")}
    arms = (variant("plain"), variant("new"))
    return stage.explain_gain(lab, "9.7.4", arms, filled, COUNTED, measuring, Carded(card=card()))


def test_the_headlines_load_is_explained_with_what_was_counted(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def explain(_bench: Any, _servers: Any, _pair: Any, load: Any, *_given: Any, **named: Any) -> Any:
        counts = tuple(each.instructions_per_query for each in named["counts"])
        asked.append((load.workload, load.connections, named["seconds"], counts))
        return explanation(lab.run.path).loads[0]

    monkeypatch.setattr(stage, "explain", explain)
    found = explained_by(lab)
    assert asked == [("mix", 8, 4.0, (9e4, 6e4))]
    assert found.explanation and found.explanation.version == "9.7.4" and not found.lacking
    assert [load.unit for load in found.explanation.loads] == ["transaction"]
    assert (lab.run.path / "explanation.html").is_file()
    # The run's own result has the card; the explanation beside it is read by itself.
    assert found.explanation.card is None
    assert Explanation.model_validate_json((lab.run.path / "explanation.json").read_text()).card == card()
    explained_by(lab)
    assert len(asked) == 1


def test_what_goes_wrong_is_said_and_tried_again_when_the_run_is_resumed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def explain(*_given: Any, **_named: Any) -> Any:
        raise LoadFailed("no samples", "try again")

    monkeypatch.setattr(stage, "explain", explain)
    found = explained_by(lab)
    assert (found.explanation, found.lacking) == (None, "why it is faster was not examined: no samples")
    monkeypatch.setattr(stage, "explain", lambda *_given, **_named: explanation(lab.run.path).loads[0])
    assert explained_by(lab).explanation


def test_a_machine_without_perf_has_a_report_that_says_so(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("UPSHIFT_PERF", "off")
    monkeypatch.setattr(stage, "program_key", lambda program: program.binary.name)
    monkeypatch.setattr(stage, "workloads_key", lambda workloads: [each.name for each in workloads])
    assert explained_by(lab).lacking.startswith("why it is faster was not examined: UPSHIFT_PERF=off forbids perf")


def test_no_seconds_mean_no_explanation_and_no_complaint(lab: Lab) -> None:
    found = explained_by(lab, explain_s=0.0)
    assert (found.explanation, found.lacking) == (None, "")


def test_equal_servers_are_not_sampled(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "nothing_differs", lambda _pair: True)
    found = explained_by(lab)
    assert found.explanation and found.explanation.nothing_differs and not found.explanation.loads
