"""The stages that merge counts hand on each workload's share, which is its weight for the CPU time that it used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import FakeKind, FakeProgress, FakeShell, counter_file, toolchain

from upshift.build import bolt
from upshift.build.model import Build
from upshift.build.recipe import Recipe
from upshift.errors import ProfileRefused, UpshiftError
from upshift.profile import hotness, llvm
from upshift.profile.training import Trained
from upshift.source.model import Source
from upshift.stages import hot_set, post_link, training
from upshift.stages.builds import Instrumented
from upshift.stages.data import Filled
from upshift.stages.lab import Lab
from upshift.workbench import Workbench
from upshift.workload.model import Workload

SOURCE = Source(kind="fake", version="1", origin="", sha256="0", verified="", path=Path("/source"))
PLAIN = Build.model_construct(recipe=Recipe(), toolchain=toolchain(), source_sha256="0", tree=Path("/tree"), server=Path("/s"))
FILLED = Filled(path=Path("/data"), sha256="0")
WORKLOADS = tuple(
    Workload.model_validate({"name": name, "fill": {"command": ("f",)}, "load": {"command": ("l",)}}) for name in ("a", "b")
)
# One was loaded four times as long.
TRAINED = (Trained("a", 1.0, 5.0, 100, cpu_s=1.0, pid=1), Trained("b", 1.0, 20.0, 400, cpu_s=4.0, pid=2))
SHARES = {"a": 1.0, "b": 0.25}


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path, FakeShell(), tmp_path / "log", FakeProgress())


@pytest.fixture
def lab(bench: Workbench) -> Lab:
    """Its stages run their actions and keep nothing."""

    def run(_name: str, _output: type, action: Callable[[Workbench], Any], **_given: Any) -> Any:
        return action(bench)

    made: Any = SimpleNamespace(stages=SimpleNamespace(run=run), kind=FakeKind(), shell=bench.shell, jobs=2)
    return made  # type: ignore[no-any-return]


def training_leaves(monkeypatch: pytest.MonkeyPatch, stage: Any, *files: Path) -> None:
    def train(*_given: Any, **_named: Any) -> tuple[Trained, ...]:
        for file in files:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("counts")
        return TRAINED

    monkeypatch.setattr(stage, "train", train)


def test_the_merged_profile(lab: Lab, bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    training_leaves(monkeypatch, training, *(bench.folder / "raw" / name / "1.profraw" for name in SHARES))
    found: dict[str, float] = {}

    def merge(_shell: Any, _tools: Any, shares: list[tuple[Path, float]], folder: Path, _log: Path) -> Any:
        found.update((file.parent.name, share) for file, share in shares)
        (folder / "merged").touch()
        return folder / "merged", frozenset()

    monkeypatch.setattr(llvm, "merge", merge)
    training.train_profile(lab, SOURCE, Recipe(), Instrumented.model_construct(build=PLAIN), WORKLOADS, FILLED, seconds=1)
    assert found == SHARES


@pytest.mark.parametrize("size_bytes", [None, 0])
def test_a_workload_without_a_profile_ends_the_training(
    lab: Lab, bench: Workbench, monkeypatch: pytest.MonkeyPatch, size_bytes: int | None
) -> None:
    """The others' counters alone would pass the gate, as the profile of a server that was not trained on this workload."""
    raw = bench.folder / "raw"
    training_leaves(monkeypatch, training, raw / "a" / "1.profraw")
    if size_bytes is not None:  # the disk was full
        (raw / "b").mkdir(parents=True)
        (raw / "b" / "2.profraw").write_bytes(b"x" * size_bytes)
    with pytest.raises(ProfileRefused, match="the training left no whole profile: b"):
        training.train_profile(lab, SOURCE, Recipe(), Instrumented.model_construct(build=PLAIN), WORKLOADS, FILLED, seconds=1)


def test_a_profile_of_the_servers_own_tests_names_them_and_no_workload(
    lab: Lab, bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So does the package."""
    raw = bench.folder / "raw" / "mtr" / "1.profraw"
    raw.parent.mkdir(parents=True)
    raw.write_text("counts")
    monkeypatch.setattr(llvm, "merge", lambda *_given: (raw, frozenset()))
    instrumented, recipe = Instrumented.model_construct(build=PLAIN), Recipe(profile="ir", training="mtr")
    made = training.train_profile(lab, SOURCE, recipe, instrumented, WORKLOADS, FILLED, seconds=1)
    assert made.provenance.workloads == ("the server's own tests: profile",) == recipe.trained_by(["a", "b"])
    assert Recipe(profile="ir").trained_by(["a", "b"]) == ("a", "b")


def test_a_workload_whose_profile_is_damaged_ends_the_training(
    lab: Lab, bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk was full when its server ended, and had room again when the profiles were merged."""
    a, b = (bench.folder / "raw" / name / "1.profraw" for name in SHARES)
    training_leaves(monkeypatch, training, a, b)
    monkeypatch.setattr(llvm, "merge", lambda *_given: (a, frozenset({b})))
    with pytest.raises(ProfileRefused, match="the training left no whole profile: b"):
        training.train_profile(lab, SOURCE, Recipe(), Instrumented.model_construct(build=PLAIN), WORKLOADS, FILLED, seconds=1)


def test_gcc_s_counters_that_were_cut_short_are_told(lab: Lab, bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    below = bench.folder / "raw" / "counters" / "objects"
    training_leaves(monkeypatch, training, below / "cut.gcda")
    (below / "whole.gcda").parent.mkdir(parents=True)
    (below / "whole.gcda").write_bytes(counter_file(7))
    build = PLAIN.model_copy(update={"toolchain": toolchain("gcc")})
    instrumented = Instrumented.model_construct(build=build, counters=Path("/counters"), objects=Path("/objects"))
    made = training.train_profile(lab, SOURCE, Recipe(), instrumented, WORKLOADS, FILLED, seconds=1)
    assert made.corrupt == 1 and [file.name for file in made.path.iterdir()] == ["whole.gcda"]


def test_the_hot_set(lab: Lab, bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    training_leaves(monkeypatch, hot_set, *(bench.folder / f"{name}.perf" for name in SHARES))
    found: list[tuple[str, float]] = []
    monkeypatch.setattr(hotness, "map_plain_server", lambda *_given: None)
    monkeypatch.setattr(hotness, "count_samples", lambda _shell, file, *_given: file.stem)
    monkeypatch.setattr(hotness, "merged", found.extend)
    monkeypatch.setattr(hotness, "hot_set", lambda *_given: None)
    hot_set.find_hot_set(lab, SOURCE, PLAIN, WORKLOADS, FILLED, seconds=1, use_perf=True)
    assert dict(found) == SHARES


def test_bolt_s_counts(lab: Lab, bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = [bench.folder / f"counts.{each.pid}.fdata" for each in TRAINED]
    training_leaves(monkeypatch, post_link, bench.folder / "server.counting", *counts)
    monkeypatch.setattr(bolt, "instrument", lambda *_given: None)
    found = post_link.bolt_counts(lab, bench, SOURCE, PLAIN, WORKLOADS, FILLED, (), 1.0)
    assert found == list(zip(counts, SHARES.values(), strict=True))


def test_bolt_s_counts_of_the_server_s_own_tests(lab: Lab, bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each server that they start leaves its own, and no workload runs."""
    counts = [bench.folder / f"counts.{pid}.fdata" for pid in (11, 12)]
    tested: list[tuple[Path, str]] = []

    def verify(_source: Path, _tree: Path, server: Path, tests: str, *_given: Any) -> None:
        tested.append((server, tests))
        for file in (server, *counts):
            file.write_text("counts")
        (bench.folder / "counts.13.fdata").touch()

    monkeypatch.setattr(lab.kind, "verify", verify)
    monkeypatch.setattr(bolt, "instrument", lambda *_given: None)
    found = post_link.bolt_counts(lab, bench, SOURCE, PLAIN, WORKLOADS, FILLED, (), 1.0, tests="main.join")
    assert found == [(file, 1.0) for file in counts]
    assert tested == [(bench.folder / "server.counting", "main.join")]
    for file in counts:
        file.unlink()
    counts.clear()
    with pytest.raises(UpshiftError, match="left no counts"):
        post_link.bolt_counts(lab, bench, SOURCE, PLAIN, WORKLOADS, FILLED, (), 1.0, tests="main.join")
