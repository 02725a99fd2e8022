"""A study that is resumed is the one that began: the same rows, of the same recipes."""

from __future__ import annotations

from pathlib import Path

import pytest

from upshift.cli.study import _resumed
from upshift.errors import UsageError
from upshift.resolve import measuring_plan
from upshift.run.directory import Manifest, RunDirectory
from upshift.server.mysql import KIND
from upshift.study.file import Study, read_study
from upshift.study.plan import StudyPlan, arm_of, make_plan

HEAD = 'budget = "2h"\nworkloads = ["oltp_read_only"]\n[base]\nrecipe = "mine.toml"\n'
NATIVE = '[factors.native.on]\nbuild = { flags = ["-march=native"] }\n'
FEW = "[factors.unroll.few]\nbuild = { flags = ['-u1'] }\n"
MANY = "[factors.unroll.many]\nbuild = { flags = ['-u2'] }\n"
RECIPE = 'toolchain = "clang"\nflags = ["-O2"]\n'


def written(folder: Path, *factors: str, recipe: str = RECIPE) -> Study:
    (folder / "mine.toml").write_text(recipe)
    (folder / "study.toml").write_text(HEAD + "".join(factors))
    return read_study(folder / "study.toml")


@pytest.fixture
def began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StudyPlan:
    """The plan of a run in the folder ``run``, as its manifest has it."""
    monkeypatch.setenv("UPSHIFT_CACHE", str(tmp_path / "cache"))
    study = written(tmp_path, NATIVE, FEW, MANY)
    return begin(study)


def begin(study: Study) -> StudyPlan:
    """A run of the study."""
    plan = make_plan(study, KIND, measuring_plan(study.options()), {})
    manifest = Manifest(
        command=("upshift", "study", "study.toml"),
        options={"study": study.model_dump(mode="json"), "plan": plan.model_dump(mode="json")},
        started_at="2026-11-22T12:00:00+00:00",
        upshift_version="0",
    )
    RunDirectory.create("study", manifest)
    return plan


def test_what_has_not_changed_goes_on_by_its_own_plan(tmp_path: Path, began: StudyPlan) -> None:
    assert _resumed(written(tmp_path, NATIVE, FEW, MANY), "last") == began


@pytest.mark.parametrize(
    ("factors", "recipe", "changed"),
    [
        ((NATIVE, FEW), RECIPE, "began: factors"),
        ((FEW, MANY, NATIVE), RECIPE, "the order of factors or levels"),
        ((NATIVE, MANY, FEW), RECIPE, "the order of factors or levels"),
        ((NATIVE, FEW, MANY), RECIPE.replace("-O2", "-O3"), "what row 'off' is"),
    ],
)
def test_what_has_changed_is_refused(
    tmp_path: Path, began: StudyPlan, factors: tuple[str, ...], recipe: str, changed: str
) -> None:
    with pytest.raises(UsageError, match=changed) as error:
        _resumed(written(tmp_path, *factors, recipe=recipe), "last")
    assert error.value.exit_code == 2 and error.value.hint


def test_what_confirms_is_the_row_that_was_measured_whatever_its_recipe_says_now(tmp_path: Path, began: StudyPlan) -> None:
    now = written(tmp_path, NATIVE, FEW, MANY, recipe=RECIPE.replace("-O2", "-O3"))
    assert arm_of(now, began, (1, 0)) == began.arms[began.design.rows.index((1, 0))]
    assert arm_of(now, began, None) is None


def test_a_row_whose_executable_is_gone_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was a traceback."""
    monkeypatch.setenv("UPSHIFT_CACHE", str(tmp_path / "cache"))
    server = tmp_path / "mysqld"
    server.touch(mode=0o755)
    spin = '[factors.spin.none]\nsettings = { innodb_spin_wait_delay = "0" }\n'
    (tmp_path / "study.toml").write_text(HEAD.replace('recipe = "mine.toml"', 'binary = "mysqld"') + spin)
    study = read_study(tmp_path / "study.toml")
    begin(study)
    server.unlink()
    with pytest.raises(UsageError, match=f"row 'off': {server} is not an executable"):
        _resumed(study, "last")


def test_another_budget_is_told_to_be_left_out(tmp_path: Path, began: StudyPlan) -> None:
    longer = written(tmp_path, NATIVE, FEW, MANY).model_copy(update={"budget": 9000.0})
    with pytest.raises(UsageError, match="began: budget") as error:
        _resumed(longer, "last", "150m")
    assert error.value.hint.startswith("leave --budget out")
    with pytest.raises(UsageError, match="began: budget") as error:
        _resumed(longer, "last")
    assert error.value.hint.startswith("restore the file")
