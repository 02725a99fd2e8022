"""A whole study with made-up servers: what is built, measured and confirmed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from example_study import LOADS, part
from fakes import FakeProgress

from upshift import pipeline
from upshift.errors import CommandFailed, LoadFailed, RecipeError, ServerFailed, UpshiftError, UsageError
from upshift.instructions.model import Instructions
from upshift.server.kind import Program
from upshift.server.mysql import KIND
from upshift.stages.study import Measured
from upshift.stages.study_report import Best
from upshift.study.file import Study
from upshift.study.plan import Arm, StudyPlan, make_plan

BETTER = {"off": 20.0, "v3": 15.0}
NOTHING = {"off": 20.0, "v3": 20.0}


class Run:
    """`run_study` with stages that only note what they are asked for; ``code`` is what a recipe's server consists of."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        folder: Path,
        cpu_us: dict[str, float],
        confirm: float = 0.25,
        recipe: str = "max-clang",
        **changes: Any,
    ) -> None:
        self.asked: list[str] = []
        self.built: list[tuple[str, int]] = []
        self.layouts: list[tuple[str, int]] = []
        """Of each server that was built."""
        self.laid_out: list[tuple[str, int]] = []
        self.without_bolt = ""
        """Why BOLT is left out."""
        self.alike_in = 0
        """The training in which all servers are the same."""
        self.idle = ""
        """A flag that changes nothing."""
        self.compared: list[tuple[str, str]] = []
        """The flags that were compared, those of the server that was built before all first."""
        self.confirmed: list[tuple[str, ...]] = []
        self.fails: tuple[str, UpshiftError] | None = None
        """Where what confirms fails: ``build`` or ``confirm``, and how."""
        self.progress = FakeProgress()
        self._folder = folder
        text = {
            "name": "mine",
            "base": {"recipe": recipe},
            "factors": {"v3": {"on": {"build": {"flags": ["-march=x86-64-v3"]}}}},
            "workloads": ["oltp_read_only"],
            "held_out": ["oltp_write_only"],
            "trainings": 2,
            "confirm": confirm,
            **changes,
        }
        self.study = Study.model_validate(text)
        plan: Any = SimpleNamespace(rounds=2, slice_s=1.0, warmup_s=1.0, lead_s=0.1, duet=())
        self.plan: StudyPlan = make_plan(self.study, KIND, plan, {})
        parts = tuple(part(cpu_us, training=training, seed=training) for training in range(2))
        measured = Measured(parts=parts, died={}, flags=())
        replaced: dict[str, Any] = {
            "build": self._build,
            "train": lambda _lab, work: work,
            "_optimised": lambda _lab, work, _trained: work,
            "makes_alike": self._makes_alike,
            "lay_out": self._lay_out,
            "get_source": lambda *_given: SimpleNamespace(path=Path("/source")),
            "study_data": lambda *_given: "data",
            "count_instructions": lambda *_given: Instructions(source="none", baseline="off"),
            "templates": lambda *_given: {},
            "measure_machine": lambda *_given: None,
            "try_out": lambda *_given: None,
            "measure_arms": lambda *_given, **_named: measured,
            "asked_of": lambda _measuring: LOADS,
            "confirm": self._confirm,
            "report_study": self._report,
        }
        for name, value in replaced.items():
            monkeypatch.setattr(pipeline, name, value)

    def _lay_out(self, _lab: Any, made: Any, number: int) -> Any:
        self.laid_out.append((made.server.name, number))
        return made

    def _build(self, _lab: Any, work: Any) -> Any:
        name = " ".join(work.recipe.flags)
        self.built.append((name, work.training))
        if self.fails and self.fails[0] == "build" and work.training > self.study.trainings:
            raise self.fails[1]
        server = self._folder / f"{name}-{work.training}{work.layout if self.study.layouts > 1 else ''}"
        server.write_text("alike" if work.training == self.alike_in else name)
        self.layouts.append((name, work.layout))
        applied = "" if self.without_bolt or work.recipe.post_link == "none" else "bolt 22"
        return SimpleNamespace(
            build=SimpleNamespace(tree=self._folder, server=server), applied=applied, reason=self.without_bolt
        )

    def _makes_alike(self, _lab: Any, _trained: Any, made: Any, recipe: Any) -> bool:
        assert made.training == 1
        before, now = made.recipe.flags, recipe.flags
        self.compared.append((" ".join(before), " ".join(now)))
        return [flag for flag in now if flag != self.idle] == list(before)

    def _confirm(self, _lab: Any, arms: Any, _data: Any, _measuring: Any, trials: int, metric: str) -> str:
        assert (trials, metric) == (self.plan.confirm_trials, self.study.metric)
        self.confirmed.append(tuple(arm.program.binary.name for arm in arms))
        if self.fails:
            raise self.fails[1]
        return "confirmed"

    def _report(self, *given: Any) -> Any:
        self.best: Best = given[-1]
        self.lacking: list[str] = given[-2]
        self.measured: Measured = given[7]

    def go(self) -> Best:
        kind = SimpleNamespace(name="fake", program=lambda _source, _tree, server: Program(kind="fake", binary=server))
        lab: Any = SimpleNamespace(kind=kind, progress=self.progress)
        options = SimpleNamespace(source=None)
        work: Any = SimpleNamespace(options=options, source_identity="")
        work.model_copy = lambda update: SimpleNamespace(options=options, source_identity="", **update)
        measuring: Any = SimpleNamespace(train_on=(), hold_out=(), counted=())

        def work_of(arm: Arm) -> Any:
            self.asked.append(arm.name)
            return work

        pipeline.run_study(lab, self.study, self.plan, measuring, work_of)
        return self.best


def test_the_recommended_set_is_confirmed_with_a_training_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = Run(monkeypatch, tmp_path, BETTER)
    best = run.go()
    flag = "-march=x86-64-v3"
    assert run.built == [("", 1), (flag, 1), ("", 2), (flag, 2), ("", 3), (flag, 3)]
    assert run.confirmed == [("-3", f"{flag}-3")]
    assert best.arm and best.arm.name == "v3"
    assert best == Best(row=(1,), arm=best.arm, confirmed="confirmed")  # type: ignore[arg-type]


def test_the_recommended_set_may_be_none_of_the_rows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    factors = {
        "v3": {"on": {"build": {"flags": ["-march=x86-64-v3"]}}},
        "unroll": {"few": {"build": {"flags": ["-u1"]}}, "many": {"build": {"flags": ["-u2"]}}},
    }
    cpu_us = {"off": 20.0, "v3": 15.0, "unroll=few": 16.0, "unroll=many": 20.0}
    run = Run(monkeypatch, tmp_path, cpu_us, factors=factors, design="one-at-a-time", budget=7200.0)
    run.go()
    assert run.asked[-2:] == ["off", "v3+unroll=few"] and "v3+unroll=few" not in [arm.name for arm in run.plan.arms]
    assert run.confirmed == [("-3", "-march=x86-64-v3 -u1-3")]


def test_each_training_has_its_layouts_and_what_confirms_another(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = Run(monkeypatch, tmp_path, BETTER, layouts=2)
    run.go()
    assert [training for name, training in run.built if not name] == [1, 1, 2, 2, 3]
    assert run.confirmed == [("-33", "-march=x86-64-v3-33")]
    assert run.laid_out == [], "BOLT, trained anew, makes them"


def test_without_bolt_the_linker_makes_the_layouts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = Run(monkeypatch, tmp_path, BETTER, recipe="plain", trainings=1, layouts=2)
    run.go()
    assert [number for name, number in run.laid_out if name.startswith("-1")] == [1, 2]
    assert [number for name, number in run.laid_out if name.startswith("-2")] == [3], "what confirms"


def test_what_bolt_alone_laid_out_is_confirmed_in_another_layout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A further training of the profile, which it does not have, would give the same server."""
    only_bolt = tmp_path / "only-bolt.toml"
    only_bolt.write_text('post_link = "bolt"\n')
    run = Run(monkeypatch, tmp_path, BETTER, recipe=str(only_bolt), trainings=1)
    run.go()
    assert run.layouts == [("", 1), ("-march=x86-64-v3", 1), ("", 2), ("-march=x86-64-v3", 2)]
    assert len(run.confirmed) == 1 and run.laid_out == []


def test_a_server_that_bolt_was_left_out_of_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = Run(monkeypatch, tmp_path, BETTER, trainings=1, layouts=2)
    run.without_bolt = "memory is short\nsee the log"
    run.go()
    assert run.lacking == [
        f"row '{row}', training {training}, layout {layout}: without BOLT: memory is short"
        for training, layout in ((1, 1), (1, 2), (2, 3))
        for row in ("off", "v3")
    ]
    for recipe in ("max-clang", "plain"):
        run = Run(monkeypatch, tmp_path, BETTER, recipe=recipe, trainings=1)
        run.go()
        assert run.lacking == []


def test_without_a_share_that_confirms_nothing_is_published(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = Run(monkeypatch, tmp_path, BETTER, confirm=0)
    best = run.go()
    assert best.row == (1,) and best.confirmed is None and best.lacking == ""


def test_where_nothing_helps_nothing_is_confirmed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = Run(monkeypatch, tmp_path, NOTHING)
    assert run.go() == Best(row=None) and run.confirmed == []


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ("confirm", ServerFailed("arm 'v3': it crashed\nits log", "see the log")),
        ("confirm", LoadFailed("arm 'v3': it crashed", "see the log")),
        ("build", CommandFailed("arm 'v3': it crashed", "see the log")),
    ],
)
def test_a_set_that_cannot_be_confirmed_loses_nothing_of_the_study(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, where: str, error: UpshiftError
) -> None:
    run = Run(monkeypatch, tmp_path, BETTER)
    run.fails = where, error
    best = run.go()
    assert best.row == (1,) and best.arm and best.arm.name == "v3" and best.confirmed is None
    assert best.lacking == "the recommended set was not confirmed: arm 'v3': it crashed"
    assert run.progress.notes == [best.lacking]


def test_a_recommended_set_of_which_no_recipe_can_be_made_is_still_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def arm_of(*_given: Any) -> Arm:
        raise RecipeError("the recipe of row 'v3' is impossible")

    run = Run(monkeypatch, tmp_path, BETTER)
    monkeypatch.setattr(pipeline, "arm_of", arm_of)
    lacking = "the recommended set was not confirmed: the recipe of row 'v3' is impossible"
    assert run.go() == Best(row=(1,), lacking=lacking)


def test_a_row_without_figures_is_left_out_and_the_others_keep_theirs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hours of measuring would be lost with it."""
    factors = {"v3": {"on": {"build": {"flags": ["-v3"]}}}, "idle": {"on": {"build": {"flags": ["-idle"]}}}}
    cpu_us = {**BETTER, "idle": 0.0, "v3+idle": 15.0}
    run = Run(monkeypatch, tmp_path, cpu_us, factors=factors, budget=7200.0)
    assert run.go().row == (1, 0)
    assert run.measured.died == {"idle": "no trial has a figure for total_cpu_us_per_query under each load"}


def test_a_set_whose_server_died_is_not_recommended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    factors = {"v3": {"on": {"build": {"flags": ["-v3"]}}}, "unroll": {"on": {"build": {"flags": ["-u"]}}}}
    run = Run(monkeypatch, tmp_path, BETTER, factors=factors, budget=7200.0, trainings=1)
    parts = (part({**BETTER, "unroll": 16.0}),)
    measured = Measured(parts=parts, died={"v3+unroll": "arm 'v3+unroll': it crashed"}, flags=())
    monkeypatch.setattr(pipeline, "measure_arms", lambda *_given, **_named: measured)
    assert run.go().row == (1, 0)


def test_a_study_of_which_only_the_base_lives_ends_with_what_ended_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It asked for another metric."""
    run = Run(monkeypatch, tmp_path, BETTER)
    measured = Measured(parts=(), died={"v3": "arm 'v3': it crashed\nits log"}, flags=())
    monkeypatch.setattr(pipeline, "measure_arms", lambda *_given, **_named: measured)
    with pytest.raises(LoadFailed) as error:
        run.go()
    assert error.value.message == "no row is left to compare: row 'v3' was left out: arm 'v3': it crashed"
    assert error.value.hint and "metric" not in error.value.hint


def test_a_flag_that_changes_nothing_is_not_trained_by_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Another training gives another server by chance."""
    factors = {name: {"on": {"build": {"flags": [f"-{name}"]}}} for name in ("idle", "v3")}
    run = Run(monkeypatch, tmp_path, {"off": 20.0, "v3": 15.0}, factors=factors, budget=7200.0, trainings=1)
    run.idle = "-idle"
    assert run.go().row == (0, 1)
    assert [arm.name for arm in run.plan.arms] == ["off", "v3", "idle", "idle+v3"]
    assert run.compared == [("", "-v3"), ("", "-idle"), ("-v3", "-idle -v3")]
    assert run.built == [("", 1), ("-v3", 1), ("", 1), ("-v3", 1), ("", 2), ("-v3", 2)]
    assert [note.rpartition("row ")[2] for note in run.progress.notes] == ["'off'", "'v3'"]


@pytest.mark.parametrize("training", [1, 2])
def test_rows_that_are_one_server_in_one_training_alone_are_measured_apart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, training: int
) -> None:
    """As where BOLT, which they differ in, failed for want of memory: that said of all trainings that nothing changes."""
    run = Run(monkeypatch, tmp_path, BETTER)
    run.alike_in = training
    assert run.go().row == (1,)


def test_a_study_whose_rows_are_all_one_server_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = Run(monkeypatch, tmp_path, NOTHING)
    monkeypatch.setattr(pipeline, "files_of", lambda _program: ["the same"])
    with pytest.raises(UsageError, match="no factor changes the server") as error:
        run.go()
    assert error.value.hint
