"""The commands that stages compose are pinned beside the stages' versions: a kept result knows of no others."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import FakeClock, FakeKind, FakeProcess, FakeProgress, FakeShell, Output, counter_file, toolchain

from upshift.build import bolt
from upshift.build.model import Build
from upshift.build.recipe import Recipe
from upshift.instructions import count as counting
from upshift.instructions import perf_stat
from upshift.instructions.executed import Executed
from upshift.instructions.model import Count
from upshift.instructions.tools import Tool
from upshift.measure.variant import Variant
from upshift.profile import hotness
from upshift.profile import training as trainings
from upshift.profile.model import Gated, HotFunction, HotSet, Profile
from upshift.profile.places import Places
from upshift.server import instance, mtr, mysql, nesting, postgres
from upshift.server.kind import Program
from upshift.source.model import Source
from upshift.stages import count, data, hot_set, layout, post_link, training, verify
from upshift.stages.builds import Instrumented
from upshift.stages.data import Filled
from upshift.stages.lab import Lab
from upshift.stages.post_link import PostLinked
from upshift.stages.work import Measuring, Stock, Trained
from upshift.values import content_hash
from upshift.verify import hardening
from upshift.workbench import Workbench
from upshift.workload.model import Workload

HOT_SET = {4: "b2a5bc3e4d7a8be7"}
"""What ``hot_set.VERSION`` stands for."""
POST_LINK = {1: "5c1eae61a8105a70"}
"""What ``post_link.VERSION`` stands for."""
TRAIN = {3: "63bfabe8ded7e3db"}
"""What ``training.VERSION`` stands for."""
COUNT = {3: "9f8204d4a9500c78"}
"""What ``count.VERSION`` stands for."""
DATA = {5: "ed2c39a4b48e0352"}
"""What ``data.VERSION`` stands for."""
CHANGED_DATA = {3: "c9c94cd4f1359e25"}
"""What ``data.CHANGED_VERSION`` stands for."""
LAYOUT = {2: "8bda24e5d56b5412"}
"""What ``layout.VERSION`` stands for."""
VERIFY = {9: "38d0157a50186fb3"}
"""What ``verify.VERSION`` stands for."""
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
COUNTS = "events: Ir\nfn=(1) main\n0 1\ntotals: 1\n"
STATISTICS = "program-wide dynostats\n 1 : executed instructions\n 1 : all function calls\n 1 : taken branches\n"
TESTED = "[100%] main.1st  w1  [ pass ]  6\nCompleted: All 1 tests were successful.\n"


class Machine(FakeShell):
    """Commands leave the files that the next ones read, and servers the counters that they are started to leave."""

    def __init__(self) -> None:
        leaves = {
            " dump": Output(effect=lambda command: self._dumped(command.argv)),
            "-dyno-stats": Output(STATISTICS),
            "mysql-test-run.pl": Output(TESTED, effect=lambda command: self._tested(command.env["MTR_BINDIR"])),
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
        self._dumps = itertools.count(1)
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
                file = Path(name.format(where).replace("%p", str(pid)))
                self._write(file, "counters")
                if file.suffix == ".gcda":
                    file.write_bytes(counter_file(7))
        server = "server" in command.argv[0] or "setarch" in command.argv
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

    def _dumped(self, argv: tuple[str, ...]) -> None:
        (option,) = (part for part in argv if part.startswith("--vgdb-prefix="))
        folder = Path(option.removeprefix("--vgdb-prefix=")).parent
        self._write(folder / f"counts.{next(self._dumps)}-01", COUNTS)

    def _tested(self, shadow: str) -> None:
        server = Path(shadow, "runtime_output_directory", "mysqld")
        log = f"[Server] {server} (mysqld 9.7.4) starting as process 7\n"
        self._write(Path(shadow, "mysql-test", "var", "log", "mysqld.1.err"), log)

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
    monkeypatch.setattr(Places, "for_workloads", lambda *_given, **_named: Places([(2, 3)]))
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

    def lab(self, kind: Any = None) -> Lab:
        shell = self.machine = Machine()
        bench = Workbench(Path("stage"), shell, Path("log"), FakeProgress())

        def run(_name: str, _output: type, action: Callable[[Workbench], Any], *, version: int, **_given: Any) -> Any:
            self.versions.add(version)
            made = action(bench)
            here = str(Path.cwd())
            said = (re.sub(r"/[^\s=]*/upshift-\w+", "/run", line).replace(here, "") for line in shell.said)
            # Asked twice, ninja says the same.
            self._commands.append(list(dict.fromkeys(said)))
            return made

        kind = kind or FakeKind(queries=iter(range(0, 100_000, 1000)))
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


def test_other_commands_that_count_are_another_version(composed: Composed, monkeypatch: pytest.MonkeyPatch) -> None:
    fixed = {"command": ("load", "{transactions}", "{socket}"), "transactions": 100}
    workload = Workload.model_validate({**WORKLOADS[0].model_dump(), "fixed": fixed})
    measuring = Measuring.model_construct(train_on=(workload,), hold_out=())
    arms = (Variant(name="plain", program=Program(kind="fake", binary=Path("tree/server"))),)
    tools = {source: Tool(source=source, version="1") for source in ("perf stat", "callgrind")}
    monkeypatch.setattr(count, "find_tool", lambda _shell, by_function: tools["callgrind" if by_function else "perf stat"])
    monkeypatch.setattr(count, "find_bolt", lambda _shell: Tool(source="bolt", version="1", toolchain=toolchain()))
    monkeypatch.setattr(counting, "time", FakeClock())
    made = Count(arm="plain", workload="a", instructions_per_query=1, calls_per_query=None, queries=1)
    monkeypatch.setattr(counting, "slope", lambda *_given, **_named: made)
    for name, does in {"_await_counting": None, "_commands": (), "read": (Executed(1),)}.items():
        monkeypatch.setattr(perf_stat, name, lambda _given, does=does: does)
    for how in ({}, {"by_function": True}, {"by_function": True, "simulate": True}, {"by_bolt": True}):
        found = count.count_instructions(composed.lab(), arms, {"plain": FILLED}, measuring, **how)
        assert found.counts == (made,), found.not_counted
    assert composed.versions == {count.VERSION}
    assert composed.hash() == COUNT[count.VERSION], RAISE


class Answers:
    """A connection of either client library: it notes statements, and knows one table."""

    def __init__(self, said: list[str]) -> None:
        self._said = said
        self.description = ()

    def __enter__(self) -> Answers:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing."""

    def cursor(self) -> Answers:
        return self

    def execute(self, statement: str | bytes, given: object = ()) -> None:
        self._said.append(f"{statement!r} {given}")

    def fetchall(self) -> list[tuple[str, str]]:
        return [("db", "t")]

    def nextset(self) -> bool:
        return False


@pytest.fixture
def kinds(composed: Composed, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The kinds as they are; their servers answer at once and do nothing by themselves."""
    for library in ("pymysql", "psycopg"):
        monkeypatch.setattr(f"{library}.connect", lambda **_named: Answers(composed.machine.said))
    monkeypatch.setattr(mysql, "_is_root", lambda: False)
    monkeypatch.setattr(postgres, "_as_postgres", tuple)
    # The keys hold a kind's settings: other ones are other data without another version.
    monkeypatch.setattr(postgres, "_SETTINGS", {})
    found: dict[str, Any] = {"mysql": mysql.MySQL(), "postgres": postgres.PostgreSQL()}
    for each in found.values():
        monkeypatch.setattr(each, "ready", lambda _socket: True)
        monkeypatch.setattr(each, "quiet", lambda _socket: True)
    Path("tree/initdb").touch()
    return found


def test_other_commands_that_fill_data_are_another_version(composed: Composed, kinds: dict[str, Any]) -> None:
    for name, kind in kinds.items():
        program = Program(kind=name, binary=Path("tree/server"))
        data.fill_data(composed.lab(kind), program, WORKLOADS, settings={"a": "b"})
    assert composed.versions == {data.VERSION}
    assert composed.hash() == DATA[data.VERSION], RAISE


def test_other_commands_that_change_data_are_another_version(composed: Composed, kinds: dict[str, Any]) -> None:
    sql = Path("change.sql")
    sql.write_text("CREATE INDEX a ON t (b);")
    for name, kind in kinds.items():
        program = Program(kind=name, binary=Path("tree/server"))
        data.change_data(composed.lab(kind), program, FILLED, (sql,), WORKLOADS, {"a": "b"})
    assert composed.versions == {data.CHANGED_VERSION}
    assert composed.hash() == CHANGED_DATA[data.CHANGED_VERSION], RAISE


def test_another_command_that_lays_out_is_another_version(composed: Composed) -> None:
    Path("stage/server").write_text("linked")
    layout.lay_out(composed.lab(), plain(), 2)
    assert composed.versions == {layout.VERSION}
    assert content_hash(Path("stage/build.ninja").read_text())[:16] == LAYOUT[layout.VERSION], RAISE


def test_another_test_of_a_server_is_another_version(
    composed: Composed, kinds: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("runtime_output_directory", "mysql-test"):
        Path("tree", folder).mkdir()
    monkeypatch.setattr(hardening, "examine", lambda _server: {"PIE": "yes"})
    monkeypatch.setattr(mtr, "memory_folder", lambda _shadow, _jobs: Path("/memory"))

    def takes(_socket: Path, statement: str) -> bool:
        composed.machine.said.append(f"{statement[:40]} {len(statement)}")
        return len(statement) < 10_000

    monkeypatch.setattr(nesting, "_takes", takes)
    linked = PostLinked(build=plain(), applied="bolt", reason="")
    verify.verify(composed.lab(kinds["mysql"]), SOURCE, plain(), plain(), linked, "short", None)
    assert composed.versions == {verify.VERSION}
    assert composed.hash() == VERIFY[verify.VERSION], RAISE


def profile() -> Profile:
    """One of an earlier training."""
    Path("first.profdata").write_text("counters")
    return Profile.model_construct(kind="ir", path=Path("first.profdata"), sha256="0")
