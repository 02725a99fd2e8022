"""Without BOLT: for good when the recipe or the machine says so, and for this once when it failed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import FakeKind, FakeProgress, FakeShell, Output, toolchain

from upshift.build import bolt
from upshift.build.model import Build
from upshift.build.recipe import Recipe
from upshift.errors import LoadFailed, NotEnoughRoom
from upshift.profile.model import Gated, HotSet, Profile
from upshift.run.directory import Manifest, RunDirectory
from upshift.run.stages import Stages
from upshift.source.model import Source
from upshift.stages import post_link
from upshift.stages.data import Filled
from upshift.stages.post_link import PostLinked
from upshift.stages.work import Trained

SOURCE = Source(kind="fake", version="1", origin="", sha256="0", verified="", path=Path("/source"))
PLAIN = Build(
    recipe=Recipe(),
    toolchain=toolchain(),
    source_sha256="0",
    tree=Path("/tree"),
    server=Path("/tree/server"),
    sha256="0",
    objects=1,
)
NO_FUNCTIONS = HotSet(method="perf", objects=(), coverage=1, all_objects=1, samples=1000, functions=())
PROFILE = Profile.model_construct(kind="gcc", sha256="0")
TRAINED = Trained.model_construct(hot_set=NO_FUNCTIONS, gated=Gated.model_construct(profile=PROFILE))


def linked(folder: Path, recipe: Recipe, build: Build = PLAIN, trained: Trained | None = TRAINED) -> PostLinked:
    manifest = Manifest(command=("upshift",), options={}, started_at="2026-11-21T05:15:00+00:00", upshift_version="0.1.0")
    says = "LLVM (http://llvm.org/):\n  LLVM version 21.1.0\n"
    shell, progress = FakeShell({"llvm-bolt --version": Output(says)}), FakeProgress()
    stages = Stages(RunDirectory.create("x", manifest), folder / "stages", shell, progress)
    lab: Any = SimpleNamespace(stages=stages, kind=FakeKind(), shell=shell, progress=progress, jobs=2)
    filled = Filled(path=Path("/data"), sha256="0")
    return post_link.post_link(lab, SOURCE, build, trained, (), filled, recipe, seconds=1)


@pytest.fixture
def failures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[BaseException]:
    """What BOLT's training raises, one a time."""
    monkeypatch.setenv("UPSHIFT_CACHE", str(tmp_path))
    waiting: list[BaseException] = [NotEnoughRoom("memory is short"), LoadFailed("the load failed")]

    def counts(*_given: Any, **_named: Mapping[str, Any]) -> None:
        raise waiting.pop(0)

    monkeypatch.setattr(post_link, "bolt_counts", counts)
    return waiting


def test_a_failure_is_not_kept(tmp_path: Path, failures: list[BaseException]) -> None:
    with_bolt = Recipe(post_link="bolt")
    assert linked(tmp_path, with_bolt).reason == "memory is short"
    assert linked(tmp_path, with_bolt).reason == "the load failed"
    assert failures == []


def test_without_a_training_bolt_is_all_there_is_and_its_failure_an_error(
    tmp_path: Path, failures: list[BaseException]
) -> None:
    with pytest.raises(NotEnoughRoom, match="memory is short"):
        linked(tmp_path, Recipe(post_link="bolt"), trained=None)


def test_what_the_recipe_or_the_machine_says_is_kept(tmp_path: Path, failures: list[BaseException]) -> None:
    assert linked(tmp_path, Recipe()).reason == "the recipe has none"
    no_bolt = PLAIN.model_copy(update={"toolchain": toolchain().model_copy(update={"bolt": None})})
    assert "there is no BOLT" in linked(tmp_path, Recipe(post_link="bolt"), no_bolt).reason
    kept = list((tmp_path / "stages").glob("*/stage.json"))
    assert len(kept) == 2 and len(failures) == 2


def test_a_recipe_that_its_tests_train_is_laid_out_by_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPSHIFT_CACHE", str(tmp_path))
    asked: list[str] = []

    def counts(*_given: Any, tests: str) -> None:
        asked.append(tests)
        raise LoadFailed("enough")

    monkeypatch.setattr(post_link, "bolt_counts", counts)
    by_tests = Recipe(profile="ir", training="mtr", training_tests="main.join", post_link="bolt")
    for recipe in (by_tests, Recipe(profile="ir", post_link="bolt")):
        linked(tmp_path, recipe)
    assert asked == ["main.join", ""]


@pytest.mark.parametrize("family", ["clang", "gcc"])
def test_bolt_alone_names_the_recipe_that_was_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str) -> None:
    """--level quick: its provenance named the plain recipe, and said nothing of BOLT's flags. What was not done stays out."""
    monkeypatch.setenv("UPSHIFT_CACHE", str(tmp_path))
    for name in ("bolt_counts", "file_sha256"):
        monkeypatch.setattr(post_link, name, lambda *_given, **_named: "0")
    for name in ("merge_fdata", "optimise"):
        monkeypatch.setattr(bolt, name, lambda *_given: None)
    kept = ("-fno-reorder-blocks-and-partition",) if family == "gcc" else ()
    told = {
        "name": "mine",
        "description": "d",
        "toolchain": family,
        "flags": kept,
        "post_link": "bolt",
        "post_link_flags": ("-split-all-cold",),
    }
    trained = {"profile": "ir", "lto": "thin", "scope": "hot", "training": "mtr"} if family == "clang" else {"lto": "full"}
    made_by = Recipe(name="plain", toolchain=family)  # type: ignore[arg-type]
    plain = PLAIN.model_copy(update={"recipe": made_by, "toolchain": toolchain(family)})
    for _once_and_from_the_store in range(2):
        made = linked(tmp_path, Recipe.model_validate({**told, **trained}), plain, None)
        assert made.build.recipe == Recipe.model_validate(told)
        assert PostLinked.model_validate_json(made.model_dump_json()) == made
    # GCC borrows it: the version is BOLT's own.
    assert made.applied == ("bolt 22.1.8" if family == "clang" else "bolt 21.1.0")
