"""From samples and branch counts to the objects that run, and training, which leaves them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes import DiskUsage, FakeClock, FakeKind, FakeProcess, FakeProgress, FakeShell, Output, half_a_copy, toolchain

from upshift.build.model import Build
from upshift.build.recipe import Recipe
from upshift.build.steps import archive_members
from upshift.errors import CommandFailed, LoadFailed, ProfileRefused, ServerFailed
from upshift.profile import hotness, training
from upshift.profile.hotness import (
    Counted,
    attribute,
    count_fdata,
    hot_set,
    merged,
    record_command,
    whole_tree,
)
from upshift.profile.link_map import LinkMap, read_link_map
from upshift.profile.places import Places
from upshift.profile.training import train
from upshift.server import instance
from upshift.server.kind import Program
from upshift.shell import Command, SystemShell
from upshift.workbench import Workbench
from upshift.workload.model import Workload
from upshift.workload.reports import LoadReport

# As lld prints it: a static function of two objects, an archive's member, an empty section, and data.
MAP = """             VMA              LMA     Size Align Out     In      Symbol
             2e0              2e0       1c     1 .interp
             2e0              2e0       1c     1         <internal>:(.interp)
            1000             1000      300    16 .text
            1000             1000       40    16         sql/main.cc.o:(.text.main)
            1000             1000       40     1                 main
            1040             1040       20    16         lib/libsql.a(parse.cc.o):(.text._Z5parsev)
            1040             1040       10     1                 _Z5parsev
            1050             1050       10     1                 _ZL6helperv
            1060             1060        0    16         lib/libsql.a(empty.cc.o):(.text)
            1080             1080       20    16         lib/libsql.a(plan.cc.o):(.text.hot.)
            1080             1080       20     1                 _ZL6helperv
            2000             2000      100    16 .data
            2000             2000      100    16         sql/main.cc.o:(.data)
            2000             2000        8     1                 table
"""

COMMANDS = """/tools/clang++ -O3 -o sql/main.cc.o -c /src/sql/main.cc
/tools/clang++ -O3 -o sql/parse.cc.o -c /src/sql/parse.cc
/tools/clang++ -O3 -o sql/plan.cc.o -c /src/sql/plan.cc
/tools/clang++ -O3 -o sql/empty.cc.o -c /src/sql/empty.cc
: && rm -f lib/libsql.a && /tools/llvm-ar qc lib/libsql.a  sql/parse.cc.o sql/plan.cc.o sql/empty.cc.o && :
: && /tools/clang++ sql/main.cc.o -o server lib/libsql.a && :
"""


@pytest.fixture
def link_map(tmp_path: Path) -> LinkMap:
    (tmp_path / "map").write_text(MAP)
    return read_link_map(tmp_path / "map")


@pytest.fixture
def shell() -> FakeShell:
    return FakeShell({"-t commands": Output(COMMANDS)})


@pytest.fixture
def plain() -> Build:
    return Build(
        recipe=Recipe(name="plain"),
        toolchain=toolchain(),
        source_sha256="s",
        tree=Path("/tree"),
        server=Path("/tree/server"),
        sha256="0",
        objects=4,
    )


@pytest.mark.parametrize(
    ("address", "origin", "symbol"),
    [
        (0x2E0, None, None),
        (0xFFF, None, None),
        (0x1000, "sql/main.cc.o", "main"),
        (0x103F, "sql/main.cc.o", "main"),
        (0x1045, "lib/libsql.a(parse.cc.o)", "_Z5parsev"),
        (0x105F, "lib/libsql.a(parse.cc.o)", "_ZL6helperv"),
        (0x1070, None, "_ZL6helperv"),
        (0x1090, "lib/libsql.a(plan.cc.o)", "_ZL6helperv"),
        (0x2000, None, "_ZL6helperv"),
    ],
)
def test_whose_code_lies_at_an_address(link_map: LinkMap, address: int, origin: str | None, symbol: str | None) -> None:
    assert (link_map.origin(address), link_map.symbol(address)) == (origin, symbol)


def test_a_static_functions_name_stands_in_several_objects(link_map: LinkMap) -> None:
    assert link_map.symbols["_ZL6helperv"] == {"lib/libsql.a(parse.cc.o)", "lib/libsql.a(plan.cc.o)"}
    assert "table" not in link_map.symbols


def test_a_map_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "map").write_text("")
    assert read_link_map(tmp_path / "map").origin(0x1000) is None


def test_gnu_lds_map_is_read_too(tmp_path: Path) -> None:
    if shutil.which("g++") is None:
        pytest.skip("there is no g++")
    for name, text in (
        (
            "hot",
            "static int helper(int x) { return x * 3; }\nint a_function_with_a_long_name(int n) { return helper(n) + n; }\n",
        ),
        (
            "main",
            "int a_function_with_a_long_name(int);\nint main(int c, char**) { return a_function_with_a_long_name(c) & 0; }\n",
        ),
    ):
        (tmp_path / f"{name}.cc").write_text(text)
    build = (
        "g++ -O0 -ffunction-sections -c hot.cc main.cc && ar qc libx.a hot.o"
        " && g++ main.o libx.a -o server -Wl,-Map=map -Wl,--no-demangle && nm server"
    )
    listed = SystemShell().run(Command(("sh", "-c", build), cwd=tmp_path)).stdout
    addresses = {line.split()[2]: int(line.split()[0], 16) for line in listed.splitlines() if len(line.split()) == 3}
    found = read_link_map(tmp_path / "map")
    name = "_Z27a_function_with_a_long_namei"
    assert found.origin(addresses[name] + 1) == "libx.a(hot.o)" == found.origin(addresses["_ZL6helperi"])
    assert found.origin(addresses["main"]) == "main.o"
    assert found.symbol(addresses[name]) == name and found.symbols[name] == {"libx.a(hot.o)"}


SERVER = Path("/with a space/server")
# perf script: the server's code (file offset 0x800 is address 0x1000) mapped at 0x5500000000, and samples.
SCRIPT = f"""
server 7 PERF_RECORD_MMAP2 7/7: [0x5500000000(0x1000) @ 0x800 fe:01 5 6]: r-xp {SERVER}
server 7 PERF_RECORD_MMAP2 7/7: [0x5600000000(0x1000) @ 0 fe:01 5 6]: r-xp /lib/libc.so.6
server 7 cpu-clock:u:  5500000010 ({SERVER})
server 7 cpu-clock:u:  5500000044 ({SERVER})
server 7 cpu-clock:u:  5500000044 ({SERVER})
server 7 cpu-clock:u:  5600000044 (/lib/libc.so.6)
server 7 cpu-clock:u:  ffffffff81 ([unknown])
server 7 cpu-clock:u:  5500000f00 ({SERVER})
"""


def test_samples_go_to_objects_and_symbols(link_map: LinkMap) -> None:
    counted = attribute(SCRIPT.splitlines(), SERVER, [(0x800, 0x800, 0x1000)], link_map)
    assert counted.by_origin == {"sql/main.cc.o": 1, "lib/libsql.a(parse.cc.o)": 2}
    assert counted.by_symbol == {"main": 1, "_Z5parsev": 2}
    assert (counted.total, counted.seen, counted.method) == (3, 3, "perf")


def test_samples_of_a_server_below_a_link(link_map: LinkMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """perf has the kernel's name for it."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "cache").symlink_to("disk")
    (tmp_path / "disk" / "server").touch()
    monkeypatch.setattr(hotness, "_segments", lambda _server: [(0x800, 0x800, 0x1000)])
    shell = FakeShell({"perf script": Output(SCRIPT.replace(str(SERVER), str((tmp_path / "disk" / "server").resolve())))})
    counted = hotness.count_samples(shell, tmp_path / "a.perf", tmp_path / "cache" / "server", link_map)
    assert counted.total == 3


def test_samples_of_another_server_count_for_nothing(link_map: LinkMap) -> None:
    assert attribute(SCRIPT.splitlines(), Path("/other/server"), [(0x800, 0x800, 0x1000)], link_map).total == 0


def test_branch_counts_go_to_objects_and_symbols(link_map: LinkMap, tmp_path: Path) -> None:
    file = tmp_path / "a.fdata"
    file.write_text(
        "boltedcollection\n1 main 0 1 _Z5parsev 0 0 100\n1 _Z5parsev.cold 4 1 main 8 0 7\n"
        "1 _ZL6helperv/1 0 1 main 0 0 5\n1 memcpy 0 1 main 0 0 9\n0 [unknown] 0 1 main 0 0 3\n1 cut short"
    )
    counted = count_fdata(file, link_map)
    assert counted.by_symbol == {"main": 100, "_Z5parsev": 7, "_ZL6helperv": 5, "memcpy": 9}
    assert counted.by_origin == {"sql/main.cc.o": 100, "lib/libsql.a(parse.cc.o)": 12, "lib/libsql.a(plan.cc.o)": 5}


def test_a_branch_whose_count_was_cut_short_is_not_counted(link_map: LinkMap, tmp_path: Path) -> None:
    file = tmp_path / "a.fdata"
    file.write_text("1 main 0 1 _Z5parsev 0 0 100\n1 main 0 1 _Z5parsev 0 0 12")
    assert count_fdata(file, link_map).by_symbol == {"main": 100}


def counted(**by_object: int) -> Counted:
    origins = {"main": "sql/main.cc.o", **{name: f"lib/libsql.a({name}.cc.o)" for name in ("parse", "plan", "empty")}}
    return Counted({origins[name]: n for name, n in by_object.items()}, by_object, sum(by_object.values()), "perf")


def test_the_hot_set_is_the_hottest_objects_that_hold_the_share_asked_for(shell: FakeShell, plain: Build) -> None:
    found = hot_set(shell, FakeKind(), plain, counted(main=100, parse=890, plan=8, empty=2), coverage=0.99)
    assert [item.path for item in found.objects] == ["sql/parse.cc.o", "sql/main.cc.o"]
    assert found.objects[0].share == 0.89
    assert (found.coverage, found.all_objects, found.samples) == (0.99, 4, 1000)
    assert [function.symbol for function in found.functions] == ["parse", "main"]


def test_the_whole_share_takes_every_object_that_ran(shell: FakeShell, plain: Build) -> None:
    found = hot_set(shell, FakeKind(), plain, counted(main=100, parse=890, plan=10), coverage=1.0)
    assert len(found.objects) == 3 and found.coverage == 1.0


def test_what_must_stay_opaque_is_never_compiled_again(shell: FakeShell, plain: Build, link_map: LinkMap) -> None:
    kind = FakeKind(opaque=("sql/parse.cc",))
    for found in (
        hot_set(shell, kind, plain, counted(main=100, parse=10, plan=890), coverage=1.0),
        whole_tree(shell, kind, plain, link_map),
    ):
        assert {each.path for each in found.objects} == {"sql/main.cc.o", "sql/plan.cc.o"} and found.all_objects == 4


@pytest.mark.parametrize("samples", [0, 499])
def test_too_few_samples_are_refused(shell: FakeShell, plain: Build, samples: int) -> None:
    with pytest.raises(LoadFailed, match=f"only {samples} samples") as caught:
        hot_set(shell, FakeKind(), plain, counted(main=samples))
    assert "longer" in caught.value.hint


def test_archives_are_read_from_ninjas_commands(shell: FakeShell) -> None:
    assert archive_members(shell, Path("/tree"), "server") == {
        f"lib/libsql.a({name}.cc.o)": [f"sql/{name}.cc.o"] for name in ("parse", "plan", "empty")
    }


def test_the_whole_tree_is_what_the_server_holds(shell: FakeShell, plain: Build, link_map: LinkMap) -> None:
    found = whole_tree(shell, FakeKind(), plain, link_map)
    assert [each.path for each in found.objects] == ["sql/main.cc.o", "sql/parse.cc.o", "sql/plan.cc.o"]
    assert (found.method, found.all_objects, found.coverage) == ("all", 4, 1.0)


def test_several_workloads_counts_add_up_by_their_shares() -> None:
    both = merged([(counted(main=1, parse=2), 1.0), (counted(main=10), 0.5)])
    assert both.by_symbol == {"main": 6, "parse": 2} and both.total == 8
    # 8 squared by 3 * 1.0 squared and 10 * 0.5 squared.
    assert (both.seen, both.worth) == (13, 12)


def test_a_few_samples_with_a_large_share_are_too_few(shell: FakeShell, plain: Build) -> None:
    """The other workload has thousands."""
    few, many = counted(main=20), counted(parse=5000)
    assert merged([(few, 1.0), (many, 1.0)]).worth == 5020
    with pytest.raises(LoadFailed, match=r"only 5020 samples .* worth no more than 80, because a workload with a large share"):
        hot_set(shell, FakeKind(), plain, merged([(few, 1 / 20), (many, 1 / 5000)]))


def test_a_workload_without_a_sample_is_not_passed_over() -> None:
    """The others have samples enough for a hot set."""
    sampled, silent = Counted({"a.o": 900}, {"f": 900}, 900, "perf"), Counted({}, {}, 0, "perf")
    with pytest.raises(LoadFailed, match="1 of 2 workloads left no sample"):
        merged([(sampled, 1.0), (silent, 9.0)])


def test_a_workload_that_was_sampled_for_longer_makes_no_other_hot_set(shell: FakeShell, plain: Build) -> None:
    short, long = counted(main=400, parse=40), counted(main=4000, parse=400)
    other = counted(plan=2400, parse=80)
    found = [
        hot_set(shell, FakeKind(), plain, merged([(sampled, 1 / cpu_s), (other, 1 / 6)]), coverage=0.9)
        for sampled, cpu_s in ((short, 1.0), (long, 10.0))
    ]
    assert found[0].objects == found[1].objects and found[0].functions == found[1].functions


def test_perf_samples_user_code_without_a_pmu() -> None:
    argv = record_command(42, Path("/o.perf"), 12).argv
    assert argv[:4] == ("perf", "record", "-e", "cpu-clock:u") and argv[argv.index("-p") + 1] == "42"
    assert argv[-3:] == ("--", "sleep", "12")


def workloads(*names: str) -> tuple[Workload, ...]:
    return tuple(
        Workload.model_validate(
            {"name": name, "weight": 2.0, "fill": {"command": ["f"]}, "load": {"command": [f"load-{name}"]}}
        )
        for name in names
    )


class Class:
    """Where training takes place."""

    def __init__(self, folder: Path, processes: list[FakeProcess]) -> None:
        self.shell = FakeShell({"cp -a": Output(effect=lambda command: Path(command.argv[-1]).mkdir())}, iter(processes))
        self.progress = FakeProgress()
        self.bench = Workbench(folder, self.shell, folder / "log", self.progress)
        (folder / "template").mkdir()
        self.template = folder / "template"
        self.program = Program(kind="fake", binary=Path("/instrumented/server"))


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(instance, "time", FakeClock())
    # One after the other, as with little memory: the fake processes come in their order.
    monkeypatch.setattr(Places, "for_workloads", lambda _kind, _workloads: Places([()]))
    monkeypatch.setattr(training, "cpu_s", FakeCpuClock())
    yield


class FakeCpuClock:
    """Servers that need half a second of CPU time for each load."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self, _pid: int) -> float:
        self.now_s += 0.5
        return self.now_s


def test_each_workload_trains_a_server_of_its_own_that_ends_cleanly(tmp_path: Path) -> None:
    servers = [FakeProcess(), FakeProcess()]
    room = Class(tmp_path, [servers[0], FakeProcess(code=0), servers[1], FakeProcess(code=0)])
    kind = FakeKind(queries=iter((0, 2000, 10, 4010)))
    trained = train(
        room.bench,
        kind,
        room.program,
        room.template,
        workloads("a", "b"),
        seconds=2,
        environment=lambda each: {"LLVM_PROFILE_FILE": f"/raw/{each.name}/%p.profraw"},
    )
    assert [(each.name, each.weight, each.queries) for each in trained] == [("a", 2.0, 2000), ("b", 2.0, 4000)]
    assert [server.signals for server in servers] == [[15], [15]]
    assert [command.argv[0] for command in room.shell.spawned[1::2]] == ["load-a", "load-b"]
    assert room.shell.spawned[0].env["LLVM_PROFILE_FILE"] == "/raw/a/%p.profraw"
    assert [(each.cpu_s, each.share) for each in trained] == [(0.5, 4.0)] * 2
    assert list(tmp_path.glob("data*")) == []


@pytest.mark.parametrize(("errors", "told"), [(20, 0), (21, 1)])
def test_a_training_that_meets_errors_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, errors: int, told: int) -> None:
    """A table that is missing makes a profile of how the server says so."""
    monkeypatch.setattr(training, "run_load", lambda *_given, **_named: (LoadReport(errors=errors), 2000))
    room = Class(tmp_path, [FakeProcess()])
    train(
        room.bench,
        FakeKind(),
        room.program,
        room.template,
        workloads("a"),
        seconds=2,
        environment=lambda _each: {},
    )
    assert room.progress.notes == [f"workload 'a' met {errors} errors, and the server was sampled or trained with them"] * told


def test_a_recorder_that_overstays_is_told_to_end(tmp_path: Path) -> None:
    recorder = FakeProcess()
    room = Class(tmp_path, [FakeProcess(), recorder, FakeProcess(code=0)])
    train(
        room.bench,
        FakeKind(queries=iter((0, 2000))),
        room.program,
        room.template,
        workloads("a"),
        seconds=2.2,
        environment=lambda _each: {},
        samples=lambda each: tmp_path / f"{each.name}.perf",
    )
    assert room.shell.spawned[1].argv[-1] == "3" and recorder.signals == [2]


def test_an_instrumented_server_that_crashes_at_its_end_leaves_no_profile(tmp_path: Path) -> None:
    room = Class(tmp_path, [FakeProcess(ends_with=-11), FakeProcess(code=0)])
    with pytest.raises(ServerFailed, match="SIGSEGV"):
        train(
            room.bench,
            FakeKind(queries=iter((0, 2000))),
            room.program,
            room.template,
            workloads("a"),
            seconds=2,
            environment=lambda _each: {},
        )


def test_a_copy_that_fails_leaves_no_half_of_the_data(tmp_path: Path) -> None:
    room = Class(tmp_path, [])
    room.shell.outputs["cp -a"] = Output("cp: No space left on device", 1, half_a_copy)
    with pytest.raises(CommandFailed):
        train(room.bench, FakeKind(), room.program, room.template, workloads("a"), seconds=2, environment=lambda _each: {})
    assert list(tmp_path.glob("data*")) == []


def test_a_full_disk_is_told_before_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = Class(tmp_path, [])
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: DiskUsage(100_000_000))
    with pytest.raises(ProfileRefused, match="the disk is full"):
        train(room.bench, FakeKind(), room.program, room.template, workloads("a"), seconds=2, environment=lambda _each: {})
    assert room.shell.spawned == []
