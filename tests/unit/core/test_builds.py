"""A toy project built whole, then its hot object alone, with the real clang, CMake and ninja."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes import DiskUsage, FakeKind, FakeProgress, FakeShell, Output, toolchain
from real_clang import clang_here

from upshift.build import bitcode, rules
from upshift.build.hot import HotPart, build_hot, builds_alike
from upshift.build.model import Build
from upshift.build.ninja import Step, steps
from upshift.build.recipe import Recipe
from upshift.build.relink import build_touched, link_again
from upshift.build.steps import archive_members, link_command
from upshift.build.touched import Touched
from upshift.build.whole import build_whole
from upshift.errors import CommandFailed, NotEnoughRoom, UpshiftError
from upshift.paths import CHECKOUT
from upshift.profile import llvm
from upshift.profile.hotness import map_plain_server
from upshift.profile.model import HotObject, HotSet
from upshift.server.mysql import MySQL
from upshift.shell import Command, SystemShell
from upshift.source.model import Source
from upshift.toolchain import flags
from upshift.toolchain.flags import Flags
from upshift.toolchain.model import Toolchain
from upshift.values import content_hash
from upshift.workbench import Workbench

PADDING = "-Wl,--randomize-section-padding=2"
PROJECT = {
    "CMakeLists.txt": """
cmake_minimum_required(VERSION 3.20)
project(toy CXX)
add_library(core STATIC core/hot.cc core/cold.cc)
add_executable(server main.cc)
target_link_libraries(server core)
""",
    "core/core.h": "#pragma once\n#include <initializer_list>\nint hot(int n);\nint cold(int n);\n",
    "core/hot.cc": """#include "core.h"
int hot(int n) { int s = 0; for (int x : {0, n}) s += x; return s; }
#ifdef HOT
extern const char* const built; const char* const built = "hot build";
#else
extern const char* const built; const char* const built = "plain build";
#endif
""",
    # It has a name of its own that is the header's: it does not compile with the header brought in.
    "core/cold.cc": "static int hot = 1;\nint cold(int n) { return n - hot; }\n",
    "main.cc": """#include <cstdio>
int hot(int); int cold(int); extern const char* const built;
int main(int c, char**) { std::printf("%s %d\\n", built, hot(c) + cold(c)); }
""",
}
PLAIN = Recipe(name="plain")


@pytest.fixture(scope="module")
def clang() -> Toolchain:
    for program in ("cmake", "ninja"):
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program}")
    return clang_here()


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    path = tmp_path_factory.mktemp("toy source")
    for name, text in PROJECT.items():
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_text(text)
    return Source(kind="fake", version="1", origin="tests", sha256="0", verified="none", path=path)


KIND = FakeKind(headers={"core": ("core/core.h",)})


@pytest.fixture(scope="module")
def shell() -> Iterator[SystemShell]:
    made = SystemShell()
    yield made
    made.close()


def bench_in(folder: Path, shell: SystemShell | FakeShell) -> Workbench:
    folder.mkdir(parents=True, exist_ok=True)
    return Workbench(folder, shell, folder / "log", FakeProgress())


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, shell: SystemShell, source: Source, clang: Toolchain) -> Build:
    # The folder's room is real, but the tests' disk may be small.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("upshift.build.whole.TREE_BYTES", 1_000_000)
        return build_whole(bench_in(tmp_path_factory.mktemp("plain"), shell), KIND, source, PLAIN, clang, jobs=2)


def test_flags_of_the_environment_reach_no_build(tmp_path: Path, shell: SystemShell, source: Source, clang: Toolchain) -> None:
    """No key knows them."""
    command = MySQL().configure(source.path, tmp_path, clang, build_type="Release", compile_flags=(), link_flags=(), options={})
    flags = {"CFLAGS": "-DSEEN", "CXXFLAGS": "-DSEEN", "LDFLAGS": "-L/SEEN"}
    shell.run(dataclasses.replace(command, env={**command.env, **flags}))
    assert "SEEN" not in (tmp_path / "CMakeCache.txt").read_text() + (tmp_path / "build.ninja").read_text()


def says(shell: SystemShell, server: Path) -> str:
    return shell.run(Command((str(server),))).stdout


def hot_set(*paths: str) -> HotSet:
    objects = tuple(HotObject(path=path, share=0.5) for path in paths)
    return HotSet(method="perf", objects=objects, coverage=1, all_objects=3, samples=1000, functions=())


HOT = "CMakeFiles/core.dir/core/hot.cc.o"


def test_a_whole_build(plain: Build, shell: SystemShell) -> None:
    assert says(shell, plain.server) == "plain build 1\n"
    assert plain.objects == 3


def test_headers_are_precompiled_from_outside_and_a_file_that_cannot_have_them_falls_back(plain: Build, source: Source) -> None:
    assert not (plain.tree.parent / "pch").exists(), "of no use any more"
    assert plain.fallbacks == (str(source.path / "core/cold.cc"),)
    assert not list(source.path.rglob("*.pch"))


def test_a_build_that_was_interrupted_goes_on(plain: Build, shell: SystemShell, source: Source, clang: Toolchain) -> None:
    bench = bench_in(plain.tree.parent, shell)
    (plain.tree / HOT).unlink()
    again = build_whole(bench, KIND, source, PLAIN, clang, jobs=1)
    assert again == plain
    assert "configure" not in [detail for *_, detail in _progress(bench).updates]
    assert [detail for *_, detail in _progress(bench).updates if "hot" in detail]


def test_headers_that_fail_are_told_and_tried_again_by_a_build_that_goes_on(
    tmp_path: Path, shell: SystemShell, source: Source, clang: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("upshift.build.whole.TREE_BYTES", 1_000_000)
    bench, broken = bench_in(tmp_path / "stage", shell), FakeKind(headers={"core": ("core/gone.h",)})
    (left := bench.folder / "pch" / "0.failed").parent.mkdir()
    left.write_text("clang: error: unable to execute command: Killed")
    build_whole(bench, broken, source, PLAIN, clang, jobs=1)
    (note,) = _progress(bench).notes
    assert note.startswith("sets of precompiled headers that failed, whose files were compiled without: 1; the first: ")
    assert "'" + str(source.path / "core/gone.h") + "' file not found" in note


def _progress(bench: Workbench) -> FakeProgress:
    assert isinstance(bench.progress, FakeProgress)
    return bench.progress


def test_the_hot_object_alone_is_compiled_again_and_linked_first(
    tmp_path: Path, plain: Build, shell: SystemShell, source: Source, clang: Toolchain
) -> None:
    bench = bench_in(tmp_path / "hot build", shell)
    recipe = Recipe(name="hot", scope="hot", flags=("-DHOT",))
    made = build_hot(bench, HotPart(KIND, source, recipe, clang, plain, hot_set(HOT), Flags()), jobs=1)
    assert says(shell, made.server) == "hot build 1\n"
    assert says(shell, plain.server) == "plain build 1\n"
    assert (made.objects, made.tree, made.fallbacks) == (1, plain.tree, ())
    assert [file.name for file in (bench.folder / "objects").rglob("*.o")] == ["hot.cc.o"]
    rules = (bench.folder / "build.ninja").read_text().splitlines()
    [arguments] = [line for line in rules if line.startswith("  arguments = ")]
    assert "-DHOT" in arguments, "compile flags stand on the link line too: link-time optimisation compiles there"


def test_native_objects_and_bitcode_link_together(
    tmp_path: Path, plain: Build, shell: SystemShell, source: Source, clang: Toolchain
) -> None:
    thin = Flags(compile=("-flto=thin",), link=("-flto=thin",))
    recipe = Recipe(name="thin", scope="hot", lto="thin", flags=("-DHOT",), precompiled_headers=False)
    made = build_hot(
        bench_in(tmp_path, shell), HotPart(KIND, source, recipe, clang, plain, hot_set(HOT, _main(plain)), thin), jobs=1
    )
    assert says(shell, made.server) == "hot build 1\n" and made.objects == 2
    assert (tmp_path / "objects" / HOT).read_bytes()[:2] == b"BC"


def functions(shell: SystemShell, object_: Path) -> dict[str, int]:
    """The functions of a native object with their sizes."""
    listed = shell.run(Command(("nm", "-S", "--defined-only", str(object_)))).stdout
    return {words[3]: int(words[1], 16) for words in map(str.split, listed.splitlines()) if len(words) == 4}


def test_sources_are_parsed_once_for_the_instrumented_and_the_optimised_build(
    tmp_path: Path, plain: Build, shell: SystemShell, source: Source, clang: Toolchain
) -> None:
    recipe = Recipe(name="hot", scope="hot", flags=("-DHOT",))
    counting, optimising = bench_in(tmp_path / "counting", shell), bench_in(tmp_path / "optimising", shell)
    counters = flags.instrument("clang", tmp_path / "counters")
    instrumented = build_hot(
        counting, HotPart(KIND, source, recipe, clang, plain, hot_set(HOT, _main(plain)), counters), jobs=1
    )
    raw = tmp_path / "raw.profraw"
    shell.run(Command((str(instrumented.server),), env={"LLVM_PROFILE_FILE": str(raw)}))
    profile, _ = llvm.merge(shell, clang, [(raw, 1.0)], tmp_path, tmp_path / "log")
    # A function whose hash is not the profile's would be a warning, and here an error.
    strict = Flags(compile=(f"-fprofile-use={profile}", "-Wprofile-instr-out-of-date", "-Wbackend-plugin", "-Werror"))
    parsed = bitcode.folder_of(counting.folder)
    made = build_hot(
        optimising, HotPart(KIND, source, recipe, clang, plain, hot_set(HOT, _main(plain)), strict, parsed), jobs=1
    )
    assert says(shell, made.server) == "hot build 1\n"
    assert "-c " + str(source.path) not in (optimising.folder / "build.ninja").read_text().replace("'", "")
    (step,) = (each for each in steps(shell, plain.tree, "server") if each.output == HOT)
    argv = list(step.argv[step.argv.index(str(clang.cxx)) :])
    argv[argv.index("-o") + 1] = str(tmp_path / "direct.o")
    shell.run(Command((*argv, *recipe.flags, *strict.compile), cwd=plain.tree))
    assert functions(shell, tmp_path / "direct.o") == functions(shell, optimising.folder / "objects" / HOT) != {}


def test_assembler_and_other_compilers_have_no_bitcode() -> None:
    step = Step(("clang", "-o", "a.o", "-c", "a.cc"), "a.o", "a.cc")
    assert bitcode.can_parse(toolchain(), step) and not bitcode.can_parse(toolchain("gcc"), step)
    assert not bitcode.can_parse(toolchain(), dataclasses.replace(step, source="a.S"))


def test_a_compilation_from_bitcode_leaves_out_what_belongs_to_its_source() -> None:
    argv = ("clang++", "-O3", "-MD", "-MT", "a.o", "-MF", "a.o.d", "--language=c++", "-o", "a.o", "-c", "a.cc")
    assert bitcode.from_bitcode(argv, Path("/a.bc"), ("-flto=thin",)) == (
        *("clang++", "-O3", "-o", "a.o", "-x", "ir", "-c", "/a.bc", "-flto=thin", "-Wno-unused-command-line-argument"),
    )


COMPOSED = {1: "31c247ebd06e64d6"}
"""What ``rules.VERSION`` stands for."""


def test_other_commands_for_the_same_hot_set_are_another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # With a path of its own, the stage's folder would be part of what is compared.
    monkeypatch.chdir(tmp_path)
    bench = bench_in(Path("stage"), FakeShell({"-t commands": Output(_COMMANDS), "ninja -C": Output(effect=_links)}))
    recipe = Recipe(scope="hot", flags=("-DHOT",), precompiled_headers=False)
    extra = Flags(compile=("-fprofile-use=p",), link=("-flto=thin",))
    fixed = Source(kind="fake", version="1", origin="", sha256="0", verified="", path=Path("/source"))
    composed = ""
    for tools, parsed in ((toolchain(), None), (toolchain(), Path("parsed")), (toolchain("gcc"), None)):
        plain = Build(
            recipe=PLAIN,
            toolchain=tools,
            source_sha256="0",
            tree=Path("/tree"),
            server=Path("/tree/server"),
            sha256="0",
            objects=3,
        )
        build_hot(bench, HotPart(FakeKind(), fixed, recipe, tools, plain, hot_set("main.o", "a.o"), extra, parsed), jobs=1)
        composed += (bench.folder / "build.ninja").read_text()
    assert content_hash(composed)[:16] == COMPOSED[rules.VERSION], "raise VERSION, and write the new hash beside it"


_COMMANDS = """\
/tools/clang++ -O2 -MD -MT a.o -MF a.o.d -o a.o -c /source/a.cc
/tools/clang++ -O2 -MD -MT main.o -MF main.o.d -o main.o -c /source/main.cc
/tools/ar qc core.a a.o
: && /tools/clang++ -O2 -o server main.o core.a -lz && :
"""


def _links(command: Command) -> None:
    server = Path(command.argv[2], Path(command.argv[-1]).name)
    server.parent.mkdir(exist_ok=True)
    server.touch()


def test_a_link_command_may_be_longer_than_an_argument_of_a_shell(
    tmp_path: Path, plain: Build, shell: SystemShell, source: Source, clang: Toolchain
) -> None:
    many = tuple(f"-L/no/$such/folder {n}/{'x' * 100}" for n in range(1500))
    bench = bench_in(tmp_path / "whole $tree", shell)
    made = build_hot(bench, HotPart(KIND, source, PLAIN, clang, plain, hot_set(HOT), Flags(link=many)), jobs=1)
    assert says(shell, made.server).endswith("build 1\n")


@pytest.mark.parametrize("scope", ["hot", "lto", "all"])
def test_a_server_is_linked_again_in_another_layout(
    tmp_path: Path, plain: Build, shell: SystemShell, source: Source, clang: Toolchain, scope: str
) -> None:
    made = plain
    if scope != "all":
        recipe, extra = PLAIN, Flags()
        if scope == "lto":
            # Without what link-time optimisation is told, the layouts of a server would differ in their code.
            recipe, extra = Recipe(name="lto", flags=("-O3",)), flags.thin_lto("clang", jobs=1) + Flags(link=("-Wl,--lto-O0",))
        bench = bench_in(tmp_path / "hot", shell)
        made = build_hot(bench, HotPart(KIND, source, recipe, clang, plain, hot_set(HOT, _main(plain)), extra), jobs=1)
    same, other, again = (
        link_again(bench_in(tmp_path / name, shell), KIND, made, flags)
        for name, flags in (("same", ()), ("other", (PADDING,)), ("again", (PADDING,)))
    )
    assert same.sha256 == made.sha256
    assert other.sha256 == again.sha256 != made.sha256
    assert says(shell, other.server) == says(shell, made.server)


@pytest.mark.parametrize(
    ("changes", "alike", "compiled"),
    [({"flags": ("-DHOT", "-DNOTHING")}, True, 2), ({"flags": ()}, False, 1), ({"link_flags": (PADDING,)}, False, 2)],
)
def test_flags_that_change_nothing_make_the_same_server(
    tmp_path: Path, plain: Build, shell: SystemShell, clang: Toolchain, source: Source, changes: Any, alike: bool, compiled: int
) -> None:
    recipe, extra = Recipe(flags=("-DHOT",)), flags.thin_lto("clang", jobs=1)
    hot = HotPart(KIND, source, recipe, clang, plain, hot_set(HOT, _main(plain)), extra)
    made = build_hot(bench_in(tmp_path / "made", shell), hot)
    other = bench_in(tmp_path / "other", shell)
    assert builds_alike(other, hot._replace(recipe=recipe.model_copy(update=changes)), made, jobs=1) is alike
    assert len(list((other.folder / "objects").rglob("*.o"))) == compiled, "it ends with the first that differs"
    steps = [(done, of) for done, of, _detail in _progress(other).updates if of > 1]
    assert steps[: 2 * compiled] == [(1 + number, 5) for number in range(2 * compiled)]


def _main(plain: Build) -> str:
    return "CMakeFiles/server.dir/main.cc.o"


def test_a_hot_set_of_another_build_is_refused(
    tmp_path: Path, plain: Build, shell: SystemShell, source: Source, clang: Toolchain
) -> None:
    with pytest.raises(UpshiftError, match=r"1 objects of the hot set are not in the plain build, gone\.cc\.o first"):
        build_hot(
            bench_in(tmp_path, shell), HotPart(KIND, source, PLAIN, clang, plain, hot_set(HOT, "gone.cc.o"), Flags()), jobs=1
        )


def test_a_compiler_that_refuses_its_flags_says_why(
    tmp_path: Path, plain: Build, shell: SystemShell, source: Source, clang: Toolchain
) -> None:
    recipe = Recipe(name="bad", scope="hot", flags=("-fno-such-flag",))
    with pytest.raises(CommandFailed, match="no-such-flag") as caught:
        build_hot(bench_in(tmp_path, shell), HotPart(KIND, source, recipe, clang, plain, hot_set(HOT), Flags()), jobs=1)
    assert str(tmp_path / "log") in caught.value.hint


def test_the_plain_servers_map_says_whose_code_is_where(tmp_path: Path, plain: Build, shell: SystemShell) -> None:
    found = map_plain_server(shell, KIND, plain, tmp_path, tmp_path / "log")
    assert found.symbols["_Z3hoti"] == {"libcore.a(hot.cc.o)"}
    assert found.symbols["main"] == {_main(plain)}
    assert archive_members(shell, plain.tree, "server")["libcore.a(hot.cc.o)"] == [HOT]
    assert list(tmp_path.glob("mapped*")) == []


def test_the_map_of_a_patched_server_has_the_order_of_its_link_and_not_that_of_names(
    tmp_path: Path, plain: Build, shell: SystemShell, source: Source, clang: Toolchain
) -> None:
    touched = Touched(tuple(each for each in steps(shell, plain.tree, "server") if each.source))
    names = ("_Z3hoti", "_Z4coldi")
    patched = build_touched(bench_in(tmp_path / "patched", shell), KIND, source, clang, plain, source.path, touched, jobs=1)
    found = map_plain_server(shell, KIND, patched, tmp_path, tmp_path / "log")
    laid_out = shell.run(Command(("nm", "-n", str(patched.server)))).stdout.split()
    assert [each for each in found.symbol_names if each in names] == [each for each in laid_out if each in names]


def test_a_tree_that_will_not_fit_is_refused_before_the_build(
    tmp_path: Path, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: DiskUsage(4_000_000_000))
    shell = FakeShell()
    with pytest.raises(NotEnoughRoom, match=r"needs about 5 GB, 4\.0 GB are free"):
        build_whole(bench_in(tmp_path, shell), KIND, source, PLAIN, toolchain())
    assert shell.ran == []


def test_the_launcher_is_the_recipes_choice_and_outlives_the_checkout(
    tmp_path: Path, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    for needed in ("TREE_BYTES", "GCC_HEADERS_BYTES"):
        monkeypatch.setattr(f"upshift.build.whole.{needed}", 0)

    def configured(recipe: Recipe) -> str:
        shell = FakeShell({"-t commands": Output("clang++ -o server -c main.cc\n"), "ninja -C": Output(effect=_links)})
        build_whole(bench_in(tmp_path, shell), KIND, source, recipe, toolchain(recipe.toolchain), jobs=1)
        return shell.lines[0]

    assert "pch_launcher.py" in configured(PLAIN)
    assert str(CHECKOUT) not in configured(PLAIN), "a kept build folder outlives the checkout that made it"
    assert "pch_launcher.py" not in configured(Recipe(name="x", precompiled_headers=False))
    assert "pch_launcher.py" in configured(Recipe(name="x", toolchain="gcc"))


def test_bolt_gets_its_relocations_and_gcc_without_bolt_stays_as_it_is(
    tmp_path: Path, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    for needed in ("TREE_BYTES", "GCC_HEADERS_BYTES"):
        monkeypatch.setattr(f"upshift.build.whole.{needed}", 0)
    shell = FakeShell({"-t commands": Output("clang++ -o server -c main.cc\n"), "ninja -C": Output(effect=_links)})
    build_whole(bench_in(tmp_path, shell), KIND, source, PLAIN, toolchain(), jobs=1)
    assert "-Wl,--emit-relocs" in shell.lines[0]
    build_whole(bench_in(tmp_path, shell), KIND, source, Recipe(name="g", toolchain="gcc"), toolchain("gcc"), jobs=1)
    assert "-Wl,--emit-relocs" not in shell.lines[3]
    shutil.rmtree(tmp_path / "tree", ignore_errors=True)
    gcc = Recipe(name="g", toolchain="gcc")
    build_whole(bench_in(tmp_path, shell), KIND, source, gcc, toolchain("gcc"), relocations=True, jobs=1)
    assert "-Wl,--emit-relocs" in shell.lines[6]


def test_rebuilt_objects_take_their_place_and_archives_members_come_first() -> None:
    link = Step(("clang++", "a.o", "b.o", "-o", "server", "libx.a"), "server", "")
    rebuilt = {"a.o": Path("/hot/a.o"), "x/c.o": Path("/hot/x/c.o")}
    assert link_command(link, rebuilt, Path("/out/server"), ("-flto=thin",)) == (
        *("clang++", "/hot/a.o", "b.o", "-o", "/out/server", "/hot/x/c.o", "libx.a", "-flto=thin"),
    )


@pytest.mark.parametrize(
    "given", [("-Wl,--dependency-file=sql/link.d",), ("-Xlinker", "--dependency-file=sql/link.d")], ids=["gcc", "clang"]
)
def test_a_link_that_is_repeated_leaves_no_file_of_dependencies_in_the_tree(given: tuple[str, ...]) -> None:
    """CMake since 3.27 has ninja's link write one, which ninja removes."""
    link = Step(("c++", "-fuse-ld=lld", *given, "-Xlinker", "--gc-sections", "a.o", "-o", "server"), "server", "")
    argv = link_command(link, {}, Path("/out/server"), ())
    assert argv == ("c++", "-fuse-ld=lld", "-Xlinker", "--gc-sections", "a.o", "-o", "/out/server")
