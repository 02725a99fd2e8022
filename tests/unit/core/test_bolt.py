"""BOLT on a real program: only what is executed counts its branches, and counts are scaled by their shares."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import FakeShell, Output, toolchain
from real_clang import clang_here

from upshift.build import bolt
from upshift.errors import NotEnoughRoom
from upshift.shell import Command, SystemShell
from upshift.toolchain.model import Toolchain

HELPER = "static __attribute__((noinline)) int helper(int x) { int s = 0; for (int i = 0; i < x; i++) s += i ^ x; return s; }\n"
MAIN = """int other(int);
__attribute__((noinline)) int hot(int n) { int s = 0; for (int i = 0; i < n; i++) s += helper(i); return s; }
__attribute__((noinline)) int cold(int n) { int s = 1; while (n-- > 1) s ^= n; return s; }
volatile int sink;
int main(int c, char **) { sink = hot(c * 100) + cold(c * 9) + other(c); }
"""


@pytest.fixture(scope="module")
def clang() -> Toolchain:
    found = clang_here()
    if found.bolt is None:
        pytest.skip("there is no BOLT")
    return found


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, clang: Toolchain) -> Path:
    """Two objects with a static function of one name each."""
    folder = tmp_path_factory.mktemp("bolt")
    (folder / "a.cc").write_text(HELPER + MAIN)
    (folder / "b.cc").write_text(HELPER + "int other(int n) { return helper(n * 7); }\n")
    argv = (str(clang.cxx), "-O1", "-fuse-ld=lld", "-Wl,--emit-relocs", "a.cc", "b.cc", "-o", "server")
    SystemShell().run(Command(argv, cwd=folder))
    return folder / "server"


def counted(shell: SystemShell, clang: Toolchain, program: Path, folder: Path, *executed: str) -> str:
    bolt.instrument(shell, clang, program, folder / "counting", folder / "counts", executed, folder / "log")
    shell.run(Command((str(folder / "counting"),)))
    (file,) = folder.glob("counts.*.fdata")
    return file.read_text()


def test_a_symbols_names_are_those_that_bolt_gives_it(program: Path) -> None:
    assert set(bolt.names_of(program, ["_ZL6helperi", "_Z3hoti", "gone"])) == {
        *("_ZL6helperi", "_ZL6helperi/1", "_ZL6helperi/2"),
        *("_Z3hoti", "_Z3hoti/1"),
    }


def test_bolt_says_its_own_version(clang: Toolchain) -> None:
    shell = SystemShell()
    borrowed = clang.model_copy(update={"family": "gcc", "version": "12.2.0"})
    assert bolt.version(shell, borrowed) == bolt.version(shell, clang) == clang.version
    silent = FakeShell({"--version": Output("no words", 1)})
    assert bolt.version(silent, borrowed) == str(clang.bolt)


def test_executed_functions_alone_count_their_branches(tmp_path: Path, clang: Toolchain, program: Path) -> None:
    branches = counted(SystemShell(), clang, program, tmp_path, "_ZL6helperi", "_Z3hoti")
    assert {line.split()[1] for line in branches.splitlines() if line.startswith("1 ")} >= {"_Z3hoti", "_ZL6helperi/1"}
    assert not [line for line in branches.splitlines() if line.startswith("1 _Z4coldi")]


def test_branch_counts_are_merged_by_their_shares(tmp_path: Path, clang: Toolchain, program: Path) -> None:
    shell = SystemShell()
    first = tmp_path / "first.fdata"
    first.write_text(counted(shell, clang, program, tmp_path, "_Z3hoti"))
    twice = tmp_path / "twice.fdata"
    twice.write_text("".join(_times(line, 2) for line in first.read_text().splitlines(keepends=True)))
    merged = bolt.merge_fdata(shell, clang, [(first, 1.0), (twice, 0.5)], tmp_path / "merged.fdata", tmp_path / "log")
    # The second is worth no more for having counted for longer: 200 of the first, 100 of its double.
    wanted = {tuple(_times(line, 400).split()) for line in first.read_text().splitlines() if line.startswith("1 ")}
    assert {tuple(line.split()) for line in merged.read_text().splitlines() if line.startswith("1 ")} == wanted


def _times(line: str, factor: int) -> str:
    parts = line.rstrip("\n").split(" ")
    return " ".join([*parts[:-2], *(str(int(part) * factor) for part in parts[-2:])]) + "\n"


def test_the_whole_server_is_instrumented_when_memory_holds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = tmp_path / "server"
    with server.open("wb") as file:
        file.truncate(10**13)
    shell = FakeShell()
    with pytest.raises(NotEnoughRoom, match="BOLT's instrumentation needs"):
        bolt.instrument(shell, toolchain(), server, tmp_path / "out", tmp_path / "counts", (), tmp_path / "log")
    assert shell.ran == []
