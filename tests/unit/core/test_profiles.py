"""Profiles: read, merged, and refused when they are empty or too thin."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from fakes import FakeShell, Output, counter_file, toolchain
from real_clang import clang_here

from upshift.errors import ProfileRefused
from upshift.profile import gcc, llvm
from upshift.profile.gate import examine
from upshift.profile.model import HotFunction, HotSet, Profile, Provenance
from upshift.profile.weights import whole_factors
from upshift.shell import Command, SystemShell
from upshift.toolchain.find import find
from upshift.toolchain.model import Toolchain

WANTED = Provenance(source_sha256="s", compiler="clang 22.1.8", flags=("-O3",), workloads=("w",))


def profile(queries: int | None = 50_000, corrupt: int = 0, made: Mapping[str, object] = {}) -> Profile:
    return Profile(
        kind="ir",
        path=Path("/p/abc.profdata"),
        sha256="0",
        provenance=WANTED.model_copy(update=made),
        duration_s=20,
        queries=queries,
        corrupt=corrupt,
    )


def hot(*symbols: str) -> HotSet:
    functions = tuple(HotFunction(symbol=symbol, share=1 / len(symbols)) for symbol in symbols)
    return HotSet(method="perf", objects=(), coverage=1, all_objects=9, samples=1000, functions=functions)


COUNTS = {"a": 10, "b": 20, "c": 0, "d": 1, "e": 5, "f": 7}


def test_a_good_profile_is_described() -> None:
    found = examine(COUNTS, hot("a", "b", "gone"), profile(corrupt=2), named=lambda symbols: map(str.upper, symbols))
    notes = "\n".join(found)
    assert "2 of the 3 hottest functions have counts" in notes
    assert "5 of 6 functions have counts" in notes and "50000 statements in 20 s" in notes
    assert "compilation's): GONE" in notes and "2 raw profiles or counters were damaged" in notes


@pytest.mark.parametrize("counts", [{}, {"a": 0, "b": 0}, {"a": 1, "b": 1, "c": 1, "d": 1}])
def test_an_empty_profile_is_refused(counts: Mapping[str, int]) -> None:
    with pytest.raises(ProfileRefused, match="the profile is empty"):
        examine(counts, hot(), profile())


def test_a_thin_profile_is_refused_with_what_to_do() -> None:
    with pytest.raises(ProfileRefused, match="too thin: the server executed 999 statements") as caught:
        examine(COUNTS, hot("a"), profile(queries=999))
    assert "--train-seconds" in caught.value.hint


def test_gcc_s_counts_are_files_and_say_nothing_of_hot_functions() -> None:
    notes = examine(COUNTS, hot(), profile().model_copy(update={"kind": "gcc"}))
    assert notes[0] == "5 of 6 files have counts"
    assert not any("hottest" in note for note in notes)


def test_a_profile_from_the_servers_own_tests_has_no_count_of_statements() -> None:
    assert "the server's own tests in 20 s of training" in examine(COUNTS, hot("a"), profile(queries=None))


def test_a_profile_that_does_not_know_the_hot_functions_is_refused() -> None:
    with pytest.raises(ProfileRefused, match="lacks hot functions: 2 of 4"):
        examine(COUNTS, hot("a", "b", "c", "x"), profile())
    assert "3 of the 5 hottest functions have counts" in examine(COUNTS, hot("a", "b", "d", "c", "x"), profile())  # just enough


SHOWN = """Counters:
  main:
    Hash: 0x0209aa3e3852da94
    Counters: 2
    Block counts: [0, 10]
  _ZN3Foo3barEv:
    Hash: 0x0a4d0ad3efffffff
    Counters: 1
    Block counts: [0]
  a.cc;_ZL6helperi:
    Hash: 0x1
    Counters: 3
    Block counts: [7, 900, 3]
  /src/b.cc:_ZL6helperi:
    Hash: 0x1
    Counters: 1
    Block counts: [2]
Functions shown: 4
Maximum function count: 10
"""


def test_each_function_has_its_largest_count_and_static_ones_lose_their_file() -> None:
    assert llvm.parse(SHOWN) == {"main": 10, "_ZN3Foo3barEv": 0, "_ZL6helperi": 900}


@pytest.mark.parametrize("text", ["", "Functions shown: 0\nTotal functions: 0\n"])
def test_an_empty_listing_has_no_functions(text: str) -> None:
    assert llvm.parse(text) == {}


def written_by(content: str) -> Callable[[Command], None]:
    def effect(command: Command) -> None:
        Path(command.argv[command.argv.index("-o") + 1]).write_text(content)

    return effect


def test_profiles_are_merged_by_share_and_named_by_content(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.profraw", "b.profraw", "empty.profraw")]
    for file in files[:2]:
        file.write_text("raw")
    files[2].touch()
    shell = FakeShell({"merge": Output(f"warning: {files[1]}: corrupt\n", effect=written_by("merged"))})
    merged, damaged = llvm.merge(shell, toolchain(), list(zip(files, (0.5, 1.0, 1.0), strict=True)), tmp_path, tmp_path / "log")
    assert damaged == {*files[1:]}
    assert merged.suffix == ".profdata" and merged.read_text() == "merged"
    assert f"-weighted-input=100,{files[0]}" in shell.ran[0].argv and f"-weighted-input=200,{files[1]}" in shell.ran[0].argv
    assert not any("empty" in part for part in shell.ran[0].argv)
    shell.outputs["merge"] = Output(effect=written_by("other"))
    assert llvm.merge(shell, toolchain(), [(files[0], 1)], tmp_path, tmp_path / "log")[0] != merged


@pytest.mark.parametrize(
    ("shares", "factors"),
    [
        ([], []),
        ([0.3], [1]),
        ([7.0, 7.0], [1, 1]),
        ([0.01, 0.0123], [100, 123]),
        ([1e-9, 1.0], [1, 1_000_000]),
    ],
)
def test_shares_become_whole_factors(shares: list[float], factors: list[int]) -> None:
    assert whole_factors(shares) == factors


def test_each_damaged_profile_of_a_merge_is_told_however_much_it_prints(tmp_path: Path, clang: Toolchain) -> None:
    good = tmp_path / "good.profraw"
    (tmp_path / "a.cc").write_text("int main() {}\n")
    shell = SystemShell()
    shell.run(Command((str(clang.cxx), "-fprofile-generate", "a.cc", "-o", "a"), cwd=tmp_path))
    shell.run(Command(("./a",), cwd=tmp_path, env={"LLVM_PROFILE_FILE": str(good)}))
    bad = [tmp_path / f"{number}.profraw" for number in range(300)]
    for file in bad:
        file.write_text("not a profile")
    _merged, damaged = llvm.merge(shell, clang, [(file, 1.0) for file in (good, *bad)], tmp_path, tmp_path / "log")
    assert damaged == {*bad}


def test_a_training_that_left_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.profraw").touch()
    for weighted in ([], [(tmp_path / "a.profraw", 1.0)]):
        with pytest.raises(ProfileRefused, match="left no profile"):
            llvm.merge(FakeShell(), toolchain(), weighted, tmp_path, tmp_path / "log")


@pytest.fixture(scope="module")
def clang() -> Toolchain:
    return clang_here()


CODE = """
static int helper(int x) { return x * 3; }
__attribute__((noinline)) int hot(int n) { int s = 0; for (int i = 0; i < n; i++) s += helper(i); return s; }
__attribute__((noinline)) int cold(int n) { return n - 1; }
int main(int c, char **) { return c > 5 ? cold(c) : hot(c * 100) & 0; }
"""


def test_a_real_profile_with_a_damaged_one_beside_it(tmp_path: Path, clang: Toolchain) -> None:
    (tmp_path / "a.cc").write_text(CODE)
    shell, log = SystemShell(), tmp_path / "log"
    compiled = (str(clang.cxx), "-O1", "-fprofile-generate", "a.cc", "-o", "a")
    shell.run(Command(compiled, cwd=tmp_path), log=log)
    shell.run(Command(("./a",), cwd=tmp_path, env={"LLVM_PROFILE_FILE": "good.profraw"}), log=log)
    (tmp_path / "bad.profraw").write_text("not a profile")
    merged, damaged = llvm.merge(
        shell, clang, [(tmp_path / "good.profraw", 1.0), (tmp_path / "bad.profraw", 1.0)], tmp_path, log
    )
    counts = llvm.read(shell, clang, merged)
    assert damaged == {tmp_path / "bad.profraw"}
    assert counts["_Z3hoti"] >= 100 and counts["_Z4coldi"] == 0 and counts["main"] >= 1
    only_bad, _ = llvm.merge(shell, clang, [(tmp_path / "bad.profraw", 1.0)], tmp_path, log)
    with pytest.raises(ProfileRefused, match="the profile is empty"):
        examine(llvm.read(shell, clang, only_bad), hot("_Z3hoti"), profile())


def gcda(folder: Path, name: str, content: bytes) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)


WHOLE = counter_file(3, 4)


def test_gcc_counters_are_judged_by_being_whole(tmp_path: Path) -> None:
    contents = {"a.gcda": WHOLE, "sub/a.gcda": WHOLE[:8], "c.gcda": b"y" * 24, "d.gcda": b"", "e.gcda": WHOLE[:-4]}
    for name, content in contents.items():
        gcda(tmp_path, name, content)
    assert gcc.counts(tmp_path) == {"a.gcda": 1, "sub/a.gcda": 0, "c.gcda": 0, "d.gcda": 0, "e.gcda": 0}


def test_older_gccs_count_the_words_of_a_record() -> None:
    """GCC 11 and before, which writes no checksum, and GCC 4.8, whose version begins with a digit."""
    for version in (b"*31B", b"*804"):
        records = struct.pack("<5I", 0x01000000, 3, 1, 2, 3) + struct.pack("<2I2QI", 0x01A10000, 4, 5, 6, 0)
        content = struct.pack("<I4sI", 0x67636461, version, 7) + records
        assert gcc.is_whole(content)
        assert not any(gcc.is_whole(content[:size]) for size in range(len(content)))


def test_counters_that_are_all_zero_are_not_in_the_file() -> None:
    content = counter_file()[:-8] + struct.pack("<iI", -16, 0)
    assert gcc.is_whole(content) and not gcc.is_whole(content[:-1])


def test_gcc_counters_are_hashed_by_name_and_content(tmp_path: Path) -> None:
    gcda(tmp_path / "1", "a.gcda", WHOLE)
    gcda(tmp_path / "2", "a.gcda", WHOLE)
    gcda(tmp_path / "3", "b.gcda", WHOLE)
    gcda(tmp_path / "4", "a.gcda", WHOLE + b"z")
    one, same, *others = (gcc.sha256(tmp_path / name) for name in "1234")
    assert one == same and len({one, *others}) == 3


def test_gcc_without_counters(tmp_path: Path) -> None:
    with pytest.raises(ProfileRefused, match="left no counters"):
        gcc.sha256(tmp_path / "none")


COUNTED = """
__attribute__((noinline)) int hot(int n) { int s = 0; for (int i = 0; i < n; i++) s += i; return s; }
int main(int c, char **) { int s = 0; for (int i = 0; i < c * 100; i++) s += hot(i); return s & 0; }
"""


@pytest.fixture
def instrumented(tmp_path: Path) -> Path:
    """A program whose object was ``objects/sub/a.o`` and which was compiled to write its counters into ``counters``."""
    gcc_cxx = str(find("gcc", shell=SystemShell()).cxx)
    objects = tmp_path / "objects" / "sub"
    objects.mkdir(parents=True)
    (tmp_path / "a.cc").write_text(COUNTED)
    counts = f"-fprofile-generate={tmp_path / 'counters'}"
    for argv in ((gcc_cxx, "-O1", counts, "-c", "a.cc", "-o", str(objects / "a.o")), (gcc_cxx, counts, str(objects / "a.o"))):
        SystemShell().run(Command(argv, cwd=tmp_path))
    return tmp_path


def trained(folder: Path, name: str, times: int) -> Path:
    """A training in which the program ran so many times."""
    raw = folder / "raw" / name
    for _ in range(times):
        SystemShell().run(Command(("./a.out",), cwd=folder, env=gcc.redirected(raw)))
    return raw


def collected(folder: Path, raw: Path) -> Path:
    (folder / "kept").mkdir(exist_ok=True)
    return gcc.collect(raw, folder / "counters", folder / "objects", folder / "kept").path


def test_a_real_counter_file_is_whole_or_cut(instrumented: Path) -> None:
    """Cut between two records as well as within one: GCC only warns of the one, and of the other says nothing."""
    (file,) = trained(instrumented, "a", 1).rglob("*.gcda")
    content = file.read_bytes()
    assert gcc.is_whole(content)
    assert not any(gcc.is_whole(content[:size]) for size in range(len(content)))


def test_gcc_counters_that_were_cut_short_are_left_out_and_told(instrumented: Path) -> None:
    raw = trained(instrumented, "a", 1)
    (file,) = raw.rglob("*.gcda")
    kept = gcc.collect(raw, instrumented / "counters", instrumented / "objects", instrumented)
    (file.parent / "b.gcda").write_bytes(file.read_bytes()[: file.stat().st_size // 3])
    found = gcc.collect(raw, instrumented / "counters", instrumented / "objects", instrumented)
    assert (kept.cut, found.cut) == (0, 1) and found.path == kept.path
    assert gcc.counts(found.path) == {"sub/a.gcda": 1}
    file.unlink()
    with pytest.raises(ProfileRefused, match="left no whole counters"):
        gcc.collect(raw, instrumented / "counters", instrumented / "objects", instrumented)


def largest_count(counters: Path) -> int:
    (file,) = counters.rglob("*.gcda")
    tool = str(find("gcc", shell=SystemShell()).cc).replace("gcc", "gcov-dump")
    shown = SystemShell().run(Command((tool, "-l", str(file)))).stdout
    rows = re.findall(r": {10,}\d+: ([\d ]+)$", shown, re.M)
    return max(int(number) for row in rows for number in row.split())


def test_gcc_counters_add_up_and_a_kept_profile_stays_when_another_is_made(instrumented: Path) -> None:
    one, three = (collected(instrumented, trained(instrumented, name, times)) for name, times in (("a", 1), ("b", 3)))
    assert largest_count(three) == 3 * largest_count(one)
    assert one.name == f"{gcc.sha256(one)[:20]}.counters" and (one / "sub" / "a.gcda").is_file()
    assert not (instrumented / "counters").exists(), "nothing is written where the server was compiled to write"


def test_gcc_finds_merged_counters_for_objects_in_another_folder(instrumented: Path) -> None:
    counters = collected(instrumented, trained(instrumented, "a", 1))
    others = instrumented / "optimised"
    (others / "sub").mkdir(parents=True)
    placed = gcc.place(counters, others, instrumented / "placed")
    argv = ("-O1", f"-fprofile-use={placed}", "-Wmissing-profile", "-Werror", "-c", "a.cc", "-o", str(others / "sub" / "a.o"))
    SystemShell().run(Command((str(find("gcc", shell=SystemShell()).cxx), *argv), cwd=instrumented))


def test_a_gcc_training_that_left_nothing(tmp_path: Path) -> None:
    with pytest.raises(ProfileRefused, match="left no counters"):
        collected(tmp_path, tmp_path / "raw")
