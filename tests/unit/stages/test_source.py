"""One run has one source, and what is built is of the source that was hashed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import FakeKind, FakeProgress, FakeShell, toolchain

from upshift.build.model import Build
from upshift.build.recipe import Recipe
from upshift.errors import CommandFailed, SourceError
from upshift.patches.fit import Fitted
from upshift.patches.model import Patch
from upshift.profile.model import HotSet
from upshift.source import fetch
from upshift.source.fetch import obtain
from upshift.source.model import Source
from upshift.stages import builds, patching
from upshift.stages import source as of_source
from upshift.stages.lab import Lab
from upshift.stages.source import get_source
from upshift.workbench import Workbench


def get(run: Path, version: str) -> Source:
    found = Source(kind="fake", version=version, origin=f"apt: {version}", sha256=version, verified="", path=Path("/source"))
    stages = SimpleNamespace(run=lambda *_given, **_named: found)
    lab: Any = SimpleNamespace(stages=stages, kind=FakeKind(), run=SimpleNamespace(path=run))
    return get_source(lab, None, "")


def test_a_resumed_run_takes_no_other_source(tmp_path: Path) -> None:
    assert get(tmp_path, "9.7.4") == get(tmp_path, "9.7.4")
    with pytest.raises(SourceError, match=r"began with the source apt: 9\.7\.4, and now there is apt: 9\.7\.5"):
        get(tmp_path, "9.7.5")


PLAIN = Build(
    recipe=Recipe(name="plain"), toolchain=toolchain(), source_sha256="0", tree=Path("/tree"), server=Path("/tree/server"),
    sha256="0", objects=1,
)  # fmt: skip
HOT_SET = HotSet.model_construct(objects=())
PATCH = Patch(name="one", file="1.patch", what="", versions=">=1", text="x")


def _plain(lab: Lab, source: Source) -> object:
    return builds.build_plain(lab, source, Recipe(), toolchain(), relocations=True)


def _instrumented(lab: Lab, source: Source) -> object:
    return builds.build_instrumented(lab, source, Recipe(), toolchain(), PLAIN, HOT_SET)


def _optimised(lab: Lab, source: Source) -> object:
    return builds.build_optimised(lab, source, Recipe(), toolchain(), PLAIN, HOT_SET, None, None)


def _patched(lab: Lab, source: Source) -> object:
    return patching.patch_source(lab, source, (PATCH,))


class Built:
    """A room that reads the source, in which a user changes it meanwhile."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object]) -> None:
        self.tree = folder / "mine"
        self.tree.mkdir()
        (self.tree / "a.cc").write_text("int a;")
        self.folder, self.cache, self.change = folder / "stage", folder / "cache", change
        self.folder.mkdir()
        for module, name in ((builds, "build_whole"), (builds, "build_hot"), (patching, "copy_patched")):
            monkeypatch.setattr(module, name, self.make)
        monkeypatch.setattr(patching, "refuse_unfit", lambda *_given: Fitted(fits=(), changed={}))

    def make(self, *_given: object, **_named: object) -> Build:
        (self.folder / "a.o").write_text("half of it")
        self.change(self.tree)
        return PLAIN

    def lab(self) -> Lab:
        def run(_name: str, _output: type, action: Any, **_given: object) -> object:
            return action(Workbench(self.folder, FakeShell(), self.folder / "log", FakeProgress()))

        lab: Any = SimpleNamespace(
            stages=SimpleNamespace(run=run), kind=FakeKind(), cache=self.cache, jobs=1, shell=FakeShell()
        )
        return lab  # type: ignore[no-any-return]

    def source(self) -> Source:
        return obtain(
            str(self.tree), kind=FakeKind(), cache=self.cache, shell=FakeShell(), say=print, log=self.folder.with_name("log")
        )


@pytest.mark.parametrize("stage", [_plain, _instrumented, _optimised, _patched])
def test_a_directory_that_changes_while_it_is_built_makes_no_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: Callable[[Lab, Source], object]
) -> None:
    """As by `git switch`: plain and optimised server would come from two sources, and be kept as from the first."""
    built = Built(tmp_path, monkeypatch, lambda tree: (tree / "a.cc").write_text("int b;"))
    with pytest.raises(SourceError, match="mine has changed while it was used") as caught:
        stage(built.lab(), built.source())
    assert caught.value.hint and "a.cc" in caught.value.message
    assert list(built.folder.iterdir()) == [], "a build would go on from what there is"


def test_a_build_that_fails_because_the_directory_changed_does_not_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def switch(tree: Path) -> None:
        (tree / "a.cc").unlink()
        raise CommandFailed("there is no a.cc")

    built = Built(tmp_path, monkeypatch, switch)
    with pytest.raises(SourceError, match="has changed"):
        _optimised(built.lab(), built.source())
    assert list(built.folder.iterdir()) == []


def test_a_directory_that_stays_is_built_and_goes_on_after_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = Built(tmp_path, monkeypatch, lambda tree: (tree / "a.cc").touch())
    for stage in (_plain, _instrumented, _optimised, _patched):
        assert stage(built.lab(), built.source())

    def fail(_tree: Path) -> None:
        raise CommandFailed("no memory")

    built.change = fail
    with pytest.raises(CommandFailed, match="no memory"):
        _plain(built.lab(), built.source())
    assert (built.folder / "a.o").is_file()


def test_the_account_of_a_stage_outlives_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its meter rewrites the account each second, also while the files go."""
    built = Built(tmp_path, monkeypatch, lambda tree: (tree / "a.cc").write_text("int b;"))
    (built.folder / "objects").mkdir()
    for name in ("spent.json", "spent.json.partial"):
        (built.folder / name).touch()
    with pytest.raises(SourceError, match="has changed"):
        _plain(built.lab(), built.source())
    assert {file.name for file in built.folder.iterdir()} == {"spent.json", "spent.json.partial"}


def test_a_directory_that_cannot_be_read_costs_no_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = Built(tmp_path, monkeypatch, lambda _tree: None)
    source = built.source()

    def unreadable(_tree: Path) -> str:
        raise SourceError("a.cc cannot be read")

    monkeypatch.setattr(fetch, "_tree_sha256", unreadable)
    with pytest.raises(SourceError, match="cannot be read"):
        _plain(built.lab(), source)
    assert (built.folder / "a.o").is_file()


def test_what_upshift_unpacked_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = Built(tmp_path, monkeypatch, lambda tree: (tree / "a.cc").write_text("int b;"))
    built.cache = tmp_path
    assert _plain(built.lab(), built.source()) == PLAIN.model_copy(update={"recipe": Recipe()})


def test_ctrl_c_does_not_wait_for_the_hash_of_a_directory_that_nobody_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_tree: Path) -> None:
        raise KeyboardInterrupt

    built = Built(tmp_path, monkeypatch, interrupt)
    source = built.source()
    monkeypatch.setattr(of_source, "refuse_changed", lambda _source: pytest.fail("the tree is read"))
    with pytest.raises(KeyboardInterrupt):
        _plain(built.lab(), source)


def test_ctrl_c_after_a_switch_leaves_nothing_to_go_on_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def switch(tree: Path) -> None:
        (tree / "b.cc").write_text("int b;")
        raise KeyboardInterrupt

    built = Built(tmp_path, monkeypatch, switch)
    with pytest.raises(SourceError, match="has changed"):
        _plain(built.lab(), built.source())
    assert list(built.folder.iterdir()) == []
