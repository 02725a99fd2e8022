"""A study's report: all that was measured is in it, whatever became of the recommended set."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from example_study import LOADS, part, plan, two_factors
from fakes import FakeKind
from rich.console import Console

from upshift.instructions.model import Count, Instructions
from upshift.measure.samples import Samples
from upshift.measure.variant import Variant
from upshift.server.kind import Program
from upshift.stages.card import Carded
from upshift.stages.study import Measured
from upshift.stages.study_report import Best, report_study, uncounted_warnings
from upshift.stages.work import Measuring
from upshift.study.analysis import Part, analyse
from upshift.study.change import Change
from upshift.study.file import Study
from upshift.study.plan import Arm, StudyPlan
from upshift.study.result import StudyResult
from upshift.study.terminal import show

LACKING = "the recommended set was not confirmed: arm 'a': it crashed"
UNCOUNTED = "no row's instructions of a query were counted: no workload has a fixed command"


def written(file: Path, slices: Part) -> None:
    samples = Samples(file, "hash")
    samples.open((), 0)
    for each in slices.slices:
        samples.add(each)
    samples.finish()


def shown(found: StudyResult) -> str:
    console = Console(file=io.StringIO(), width=200)
    show(found, console)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def reported(folder: Path, best: Best, lacking: tuple[str, ...] = ()) -> StudyResult:
    design, measured = two_factors(), part({"off": 20.0, "a": 19.0, "b": 22.0, "a+b": 20.9})
    names = {row: design.name(row) for row in design.rows}
    (folder / "server").touch()
    servers = tuple(Variant(name=name, program=Program(kind="fake", binary=folder / "server")) for name in names.values())
    arms = tuple(Arm(name=name, row=row, change=Change(binary=folder / "server"), recipe=None) for row, name in names.items())
    written(folder / "parts" / "measure-1.parquet", measured)
    manifest = SimpleNamespace(started_at="2026-11-22T12:00:00+00:00", command=("upshift", "study", "mine.toml"))
    lab: Any = SimpleNamespace(
        run=SimpleNamespace(name="a-study", path=folder, manifest=manifest),
        stages=SimpleNamespace(records=lambda: ()),
        kind_of=lambda _program: FakeKind(),
    )
    study = Study.model_construct(name="mine", base=Change(binary=folder / "server"))
    return report_study(
        lab,
        study,
        StudyPlan.model_construct(design=design, arms=arms, trials=12),
        Measuring.model_construct(options=SimpleNamespace(connections=(8,)), train_on=(), hold_out=(), plan=plan()),
        servers,
        {name: name for name in names.values()},
        Carded(card=None),
        Measured(parts=(measured,), died={}, flags=()),
        analyse(design, names, (measured,), LOADS, study.metric),
        Instructions(source="none", baseline="off"),
        None,
        lacking,
        best,
    )


def test_a_set_that_could_not_be_confirmed_is_said_beside_all_that_was_measured(tmp_path: Path) -> None:
    change = Change(binary=tmp_path / "server")
    found = reported(tmp_path, Best(row=(1, 0), arm=Arm(name="a", row=(1, 0), change=change, recipe=None), lacking=LACKING))
    assert found.warnings == (LACKING, UNCOUNTED) and found.confirmed is None and found.recommended == ("a",)
    assert len(found.cells) == 3 * len(LOADS)
    assert found.trials == found.plan.trials == 12
    page = (tmp_path / "report.html").read_text()
    assert "The recommended set was not confirmed: arm &#39;a&#39;: it crashed" in page
    for text in (shown(found), page):
        assert "a may help; nothing was confirmed, so there is no gain to publish" in " ".join(text.split())
    assert LACKING in shown(found)
    assert "Not confirmed" in Path(found.recommended_file).read_text()
    assert StudyResult.model_validate_json((tmp_path / "result.json").read_text()) == found


def test_a_set_of_which_no_server_can_be_made_is_named_without_a_file(tmp_path: Path) -> None:
    without = "row 'a', training 1, layout 1: without BOLT: memory is short"
    found = reported(tmp_path, Best(row=(1, 1), lacking=LACKING), (without,))
    assert found.recommended == ("a", "b") and found.recommended_file == ""
    assert found.warnings == (LACKING, without, UNCOUNTED)
    assert not (tmp_path / "recommended.toml").exists()


def test_rows_whose_instructions_were_not_counted_are_named_with_the_reason() -> None:
    counts = tuple(
        Count(arm=arm, workload="reads", instructions_per_query=1, calls_per_query=1, queries=1) for arm in ("off", "a")
    )
    why = "server 'v4' under workload 'reads': valgrind does not know an instruction"
    counted = Instructions(source="callgrind", baseline="off", counts=counts, not_counted=(why,))
    said = uncounted_warnings(("off", "a", "v4"), counted, ("reads",))
    assert said == (f"row 'v4' is left out of the instructions of a query: {why}",)
    nothing = Instructions(source="none", baseline="off", not_counted=("there is no valgrind",))
    assert uncounted_warnings(("off", "a"), nothing, ("reads",)) == (
        "no row's instructions of a query were counted: there is no valgrind",
    )
    assert uncounted_warnings(("off", "a"), counted, ("reads",)) == ()
