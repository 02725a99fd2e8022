"""A patched build: what the patches touch, by the plain build's commands; whole where that would not do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import FakeKind, FakeProgress, FakeShell, Output, toolchain

from upshift.build import rules
from upshift.build.model import Build
from upshift.build.recipe import Recipe
from upshift.build.relink import link_of
from upshift.build.steps import replaced
from upshift.errors import ProfileRefused
from upshift.patches.model import Patch
from upshift.profile.gate import refuse_another_source
from upshift.profile.model import Profile
from upshift.shell import Command
from upshift.source.model import Source
from upshift.stages import patching
from upshift.stages.lab import Lab
from upshift.stages.names import Stage, all_stages, building_stages
from upshift.values import content_hash
from upshift.workbench import Workbench

COMPOSED = {1: "ad8635c8e6bc3288"}
"""What ``rules.VERSION`` stands for."""
COMMANDS = """\
/usr/bin/launcher /tools/clang++ -I/stock/sql -O2 -MD -MT a.o -MF a.o.d -o a.o -c /stock/a.cc
/tools/clang++ -O2 -MD -MT main.o -MF main.o.d -o main.o -c /stock/main.cc
/tools/ar qc core.a a.o
: && /tools/clang++ -O2 -o server main.o core.a -lz && :
"""
PLUGINS = """\
/tools/clang++ -I/stock/sql -O2 -fPIC -o p/a.o -c /stock/a.cc
/tools/clang++ -O2 -fPIC -o p/p.o -c /stock/p.cc
: && /tools/clang++ -shared -Xlinker --dependency-file=x.d -o plugins/p.so p/a.o p/p.o -lz && :
"""
STOCK = Source(kind="fake", version="1.5", origin="here", sha256="0", verified="", path=Path("/stock"))
RECIPE = Recipe(name="plain", precompiled_headers=False)


def patched(tmp: Path, *changed: str) -> Source:
    return STOCK.model_copy(update={"sha256": "1", "path": tmp, "patches": ("one",), "changed": changed})


def plain() -> Build:
    return Build(
        recipe=RECIPE, toolchain=toolchain(), source_sha256="0", tree=Path("tree"), server=Path("tree/server"), sha256="0",
        objects=2,
    )  # fmt: skip


class Runs:
    """Stages that run their actions and remember what they were asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.versions: set[int] = set()
        self.shell = FakeShell({"-t commands": Output(COMMANDS), "ninja -C": Output(effect=self._links)})

    def run(self, name: str, _output: type, action: Any, *, inputs: Any, version: int = 1, **_given: Any) -> Any:
        self.asked.append((name, content_hash(inputs)))
        self.versions.add(version)
        folder = Path("stage")
        folder.mkdir(exist_ok=True)
        return action(Workbench(folder, self.shell, Path("log"), FakeProgress()))

    def _links(self, command: Command) -> None:
        for target in command.argv[5:]:
            Path(target).write_text("linked")


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    # With paths of its own, the test's folder would be part of what is compared.
    monkeypatch.chdir(tmp_path)
    for file in ("patched/a.cc", "patched/main.cc", "tree/server"):
        Path(file).parent.mkdir(exist_ok=True)
        Path(file).write_text("")
    return Runs()


def lab_of(runs: Runs, kind: FakeKind | None = None) -> Lab:
    made: Any = SimpleNamespace(
        stages=runs, shell=runs.shell, jobs=1, cache=Path("cache"), progress=FakeProgress(), kind=kind or Loads()
    )
    return made  # type: ignore[no-any-return]


class Loads(FakeKind):
    """It has no plugins."""

    def plugins(self, tree: Path) -> tuple[str, ...]:
        return ()


def test_what_is_touched_is_compiled_from_the_patched_source(runs: Runs) -> None:
    made = patching.build_patched(lab_of(runs), STOCK, patched(Path.cwd() / "patched", "a.cc"), plain(), relocations=True)
    assert made.objects == 1 and made.source_sha256 == "1" and made.recipe == RECIPE
    assert made.patched and (made.patched.configured, made.patched.source) == (Path("/stock"), Path.cwd() / "patched")
    composed = Path("stage/build.ninja").read_text().replace(f"{Path.cwd()}/", "")
    assert "-Ipatched/sql -O2 -MD -MT stage/objects/a.o" in composed and "-c patched/a.cc" in composed
    assert "main.cc" not in composed and "/stock" not in composed and "launcher" not in composed
    assert "-o stage/server stage/objects/a.o main.o core.a -lz" in composed
    assert runs.versions == {rules.VERSION}
    assert content_hash(composed)[:16] == COMPOSED[rules.VERSION], "raise VERSION, and write the new hash beside it"


@dataclass
class HasPlugin(FakeKind):
    def plugins(self, tree: Path) -> tuple[str, ...]:
        return ("plugins/p.so",)


def test_touched_plugins_are_linked_apart_and_stand_in_a_tree_of_links(runs: Runs) -> None:
    runs.shell.outputs = {"-t commands plugins/p.so": Output(PLUGINS), **runs.shell.outputs}
    for file in ("tree/plugins/p.so", "tree/plugins/other.so", "tree/share/errmsg.sys"):
        Path(file).parent.mkdir(exist_ok=True)
        Path(file).write_text("old")
    Path("patched/p.cc").write_text("")
    top = Path.cwd()
    before = plain().model_copy(update={"tree": top / "tree", "server": top / "tree/server"})
    lab, source = lab_of(runs, HasPlugin()), patched(top / "patched", "p.cc")
    Path("stage/tree/plugins").mkdir(parents=True)  # an interrupted attempt's
    made = patching.build_patched(lab, STOCK, source, before, relocations=True)
    assert made.objects == 1 and made.patched and made.patched.tree == before.tree
    assert made.server == Path("stage/server") and made.tree == Path("stage/tree")
    assert replaced(made) == {}, "an object of a plugin is none of the server's"
    composed = Path("stage/build.ninja").read_text().replace(f"{top}/", "")
    assert "-o stage/plugins/p/p.o -c patched/p.cc" in composed and "a.cc" not in composed
    assert "-shared -o stage/plugins/plugins/p.so p/a.o stage/plugins/p/p.o -lz" in composed
    assert link_of(lab.shell, lab.kind, made).argv[-3:] == ("main.o", "core.a", "-lz")
    found = {str(path.relative_to(made.tree)): path.is_symlink() for path in sorted(made.tree.rglob("*"))}
    assert found == {"plugins": False, "plugins/other.so": True, "plugins/p.so": False, "server": True, "share": True}
    assert (made.tree / "plugins/p.so").read_text() == "linked" and (made.tree / "share/errmsg.sys").read_text() == "old"
    assert Path("tree/plugins/p.so").read_text() == "old"


def test_a_source_without_patches_passes_through(runs: Runs) -> None:
    assert patching.patch_source(lab_of(runs), STOCK, ()) is STOCK
    assert patching.build_patched(lab_of(runs), STOCK, STOCK, plain(), relocations=True) == plain()
    assert runs.asked == []


def test_the_key_of_a_patched_source_is_the_patches_contents(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(name: str, *_given: Any, inputs: Any, **_named: Any) -> Source:
        runs.asked.append((name, content_hash(inputs)))
        return STOCK

    monkeypatch.setattr(runs, "run", asked)
    for patch in (
        Patch(name="one", file="1.patch", what="", versions=">=1", text="x"),
        Patch(name="one", file="2.patch", what="said otherwise", versions=">=1", text="x"),
        Patch(name="one", file="1.patch", what="", versions=">=1", text="y"),
    ):
        patching.patch_source(lab_of(runs), STOCK, (patch,))
    first, same, other = (key for _name, key in runs.asked)
    assert first == same != other


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (("CMakeLists.txt",), "CMakeLists.txt is nothing that a compiler reads"),
        (("a.cc", "parser.yy"), "parser.yy is nothing that a compiler reads"),
        (("tests/t.test", "a.cc"), ""),
        (("tests/t.test",), ""),
    ],
)
def test_what_no_compiler_reads_is_built_whole(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, changed: tuple[str, ...], why: str
) -> None:
    whole = plain().model_copy(update={"sha256": "whole"})
    monkeypatch.setattr(patching, "build_plain", lambda _lab, source, *_given, **_named: whole if source.patches else None)
    lab = lab_of(runs, Loads(unbuilt=("tests/",)))
    made = patching.build_patched(lab, STOCK, patched(Path.cwd() / "patched", *changed), plain(), relocations=True)
    assert (made == whole) == bool(why)
    assert why or made.objects == len(changed) - 1


def test_stages_of_patches_stand_where_they_run() -> None:
    recipe = Recipe(patches=("one",))
    assert building_stages(recipe)[:4] == (Stage.SOURCE, Stage.PATCHED_SOURCE, Stage.PLAIN_BUILD, Stage.PATCHED_BUILD)
    assert Stage.PATCHED_BUILD not in all_stages("quick", Recipe())
    assert list(all_stages("full", Recipe(profile="ir", patches=("one",)))) == sorted(
        all_stages("full", Recipe(profile="ir", patches=("one",))), key=list(Stage).index
    )


def test_a_profile_of_other_patches_is_refused() -> None:
    provenance = {"source_sha256": "0", "compiler": "", "flags": (), "workloads": ()}
    profile = Profile.model_validate(
        {"kind": "ir", "path": "/p", "sha256": "", "provenance": provenance, "duration_s": 1, "queries": 1, "corrupt": 0}
    )
    refuse_another_source(profile, "0")
    with pytest.raises(ProfileRefused, match="other patches") as error:
        refuse_another_source(profile, "1")
    assert error.value.hint
