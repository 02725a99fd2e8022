"""The commands that stages compose are pinned beside the stages' versions: a kept result knows of no others."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import FakeClock, FakeKind, FakeProcess, FakeProgress, FakeShell, Output, toolchain

from upshift.build import bolt
from upshift.build.model import Build
from upshift.build.recipe import Recipe
from upshift.profile import hotness
from upshift.profile import training as trainings
from upshift.profile.model import Gated, HotFunction, HotSet, Profile
from upshift.profile.places import Places
from upshift.server import instance
from upshift.source.model import Source
from upshift.stages import hot_set, post_link, training
from upshift.stages.builds import Instrumented
from upshift.stages.data import Filled
from upshift.stages.lab import Lab
from upshift.stages.work import Stock, Trained
from upshift.values import content_hash
from upshift.workbench import Workbench
from upshift.workload.model import Workload

HOT_SET = {3: "b2a5bc3e4d7a8be7"}
"""What ``hot_set.VERSION`` stands for."""
POST_LINK = {1: "5c1eae61a8105a70"}
"""What ``post_link.VERSION`` stands for."""
TRAIN = {2: "63bfabe8ded7e3db"}
"""What ``training.VERSION`` stands for."""
RAISE = "raise VERSION, and write the new hash beside it"

SOURCE = Source(kind="fake", version="1", origin="", sha256="0", verified="", path=Path("/source"))
FILLED = Filled(path=Path("data"), sha256="0")
WORKLOADS = tuple(
    Workload.model_validate(
        {"name": name, "weight": weight, "fill": {"command": ("f",)}, "load": {"command": (f"load-{name}", "{socket}")}}
    )
    for name, weight in (("a", 1.0), ("b", 3.0))
)
FUNCTIONS = HotSet(
    method="perf", objects=(), coverage=1, all_objects=2, samples=1000, functions=(HotFunction(symbol="main", share=1),)
)
COMMANDS = """/tools/clang++ -O3 -o main.o -c /source/main.cc
/tools/clang++ -O3 -o parse.o -c /source/parse.cc
: && /tools/ar qc libsql.a parse.o && :
: && /tools/clang++ main.o -o server libsql.a && :
"""
MAP = """             VMA              LMA     Size Align Out     In      Symbol
            1000             1000      300    16 .text
            1000             1000       40    16         main.o:(.text.main)
            1000             1000       40     1                 main
"""
SAMPLES = "server 7 PERF_RECORD_MMAP2 7/7: [0x5500000000(0x1000) @ 0x800 fe:01 5 6]: r-xp tree/server\n" + (
    "server 7 cpu-clock:u:  5500000010 (tree/server)\n" * 600
)
BRANCHES = "1 main 0 1 main 0 0 600\n"


class Machine(FakeShell):
    """Commands leave the files that the next ones read, and servers the counters that they are started to leave."""

    def __init__(self) -> None:
        leaves = {
            "-t commands": Output(COMMANDS),
            "-Wl,-Map=": Output(effect=lambda command: self._linked(command.argv)),
            "perf script": Output(SAMPLES.replace("tree/server", str(Path("tree/server").resolve()))),
            "--instrument ": Output(effect=lambda command: self._counting(command.argv)),
            "show --all-functions": Output("  main:\n    Function count: 7\n"),
            "cp -a": Output(effect=lambda command: Path(command.argv[-1]).mkdir()),
            " -o ": Output(effect=lambda command: self._made(command.argv)),
        }
        super().__init__(leaves)
        self._counts = ""
        self._pids = itertools.count(1)
        self.said: list[str] = []

    def run(self, command: Any, **named: Any) -> Any:
        self.said.append(command.pasteable())
        return super().run(command, **named)

    def spawn(self, command: Any, *, log: Path) -> FakeProcess:
        self.said.append(command.pasteable())
        super().spawn(command, log=log)
        pid = next(self._pids)
        for variable, name in (("LLVM_PROFILE_FILE", "{}"), ("GCOV_PREFIX", "{}/counters/objects/a.gcda")):
            if where := command.env.get(variable):
                self._write(Path(name.format(where).replace("%p", str(pid))), "counters")
        server = "server" in command.argv[0]
        if server and self._counts:
            self._write(Path(f"{self._counts}.{pid}.fdata"), BRANCHES)
        for file in (part for option, part in itertools.pairwise(command.argv) if option == "-o"):
            self._write(Path(file), "samples")
        return FakeProcess(pid=pid) if server else FakeProcess(pid=pid, code=0)

    def _linked(self, argv: tuple[str, ...]) -> None:
        self._made(argv)
        (option,) = (part for part in argv if part.startswith("-Wl,-Map="))
        self._write(Path(option.removeprefix("-Wl,-Map=")), MAP)

    def _counting(self, argv: tuple[str, ...]) -> None:
        self._made(argv)
        (option,) = (part for part in argv if part.startswith("--instrumentation-file="))
        self._counts = option.removeprefix("--instrumentation-file=")

    def _made(self, argv: tuple[str, ...]) -> None:
        self._write(Path(argv[argv.index("-o") + 1]), "made")

    def _write(self, file: Path, text: str) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@pytest.fixture(autouse=True)
def fixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of this machine and day is in a command, nor what is in the keys by itself."""
    monkeypatch.chdir(tmp_path)
    for folder in ("tree", "data", "stage"):
        Path(folder).mkdir()
    Path("tree/server").write_text("plain")
    monkeypatch.setattr(instance, "time", FakeClock())
    # One after the other: commands come in their order.
    monkeypatch.setattr(Places, "for_workloads", lambda _kind, _workloads: Places([(2, 3)]))
    seconds = itertools.accumulate(itertools.cycle((1.0, 0.5, 1.0, 2.0)))
    monkeypatch.setattr(trainings, "cpu_s", lambda _pid: next(seconds))
    monkeypatch.setattr(hotness, "_segments", lambda _server: [(0x800, 0x800, 0x1000)])
    monkeypatch.setattr(hotness, "SAMPLE_HZ", 1000)
    monkeypatch.setattr(bolt, "OPTIMISE_FLAGS", ("-flag",))
    monkeypatch.setattr(bolt, "names_of", lambda _server, symbols: sorted(symbols))


def plain(family: str = "clang") -> Build:
    return Build(
        recipe=Recipe(), toolchain=toolchain(family), source_sha256="0", tree=Path("tree"), server=Path("tree/server"),
        sha256="0", objects=2,
    )  # fmt: skip


class Composed:
    """What stages do, as far as it shows in the commands that they run, and the versions that they have."""

    def __init__(self) -> None:
        self.versions: set[int] = set()
        self._commands: list[list[str]] = []

    def lab(self) -> Lab:
        shell = Machine()
        bench = Workbench(Path("stage"), shell, Path("log"), FakeProgress())

        def run(_name: str, _output: type, action: Callable[[Workbench], Any], *, version: int, **_given: Any) -> Any:
            self.versions.add(version)
            made = action(bench)
            said = (re.sub(r"/[^\s=]*/upshift-\w+/s\.sock", "/run/s.sock", line) for line in shell.said)
            # Asked twice, ninja says the same.
            self._commands.append(list(dict.fromkeys(said)))
            return made

        kind = FakeKind(queries=iter(range(0, 100_000, 1000)))
        made: Any = SimpleNamespace(
            stages=SimpleNamespace(run=run), kind=kind, kind_of=lambda _program: kind, shell=shell, jobs=2
        )
        return made  # type: ignore[no-any-return]

    def hash(self) -> str:
        assert all(self._commands)
        return content_hash(self._commands)[:16]


@pytest.fixture
def composed() -> Iterator[Composed]:
    yield Composed()


def test_other_commands_that_find_a_hot_set_are_another_version(composed: Composed) -> None:
    for use_perf in (True, False):
        found = hot_set.find_hot_set(composed.lab(), SOURCE, plain(), WORKLOADS, FILLED, seconds=2, use_perf=use_perf)
        assert [each.path for each in found.objects] == ["main.o"]
    hot_set.whole_tree(composed.lab(), plain())
    assert composed.versions == {hot_set.VERSION}
    assert composed.hash() == HOT_SET[hot_set.VERSION], RAISE


def test_other_commands_after_the_linker_are_another_version(composed: Composed) -> None:
    gated = Gated(profile=profile(), notes=())
    stock = Stock(source=SOURCE, plain=plain())
    trained = Trained(source=SOURCE, plain=plain(), stock=stock, data=FILLED, hot_set=FUNCTIONS, gated=gated, parsed=None)
    recipe = Recipe(post_link="bolt", post_link_flags=("-more",))
    for before in (trained, None):
        made = post_link.post_link(composed.lab(), SOURCE, plain(), before, WORKLOADS, FILLED, recipe, seconds=2)
        assert made.applied == "bolt 22.1.8", made.reason
    assert composed.versions == {post_link.VERSION}
    assert composed.hash() == POST_LINK[post_link.VERSION], RAISE


def test_other_commands_that_train_a_profile_are_another_version(composed: Composed) -> None:
    for family, first in (("clang", None), ("clang", profile()), ("gcc", None)):
        instrumented = Instrumented(build=plain(family), counters=Path("/counters"), objects=Path("/objects"))
        training.train_profile(composed.lab(), SOURCE, Recipe(), instrumented, WORKLOADS, FILLED, first, seconds=2)
    assert composed.versions == {training.VERSION}
    assert composed.hash() == TRAIN[training.VERSION], RAISE


def profile() -> Profile:
    """One of an earlier training."""
    Path("first.profdata").write_text("counters")
    return Profile.model_construct(kind="ir", path=Path("first.profdata"), sha256="0")
