"""The compilers' launcher, which brings precompiled headers in from outside."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from real_clang import clang_here

from upshift.build import pch_launcher
from upshift.build.whole import read_fallbacks
from upshift.errors import CommandFailed
from upshift.run.directory import write_json
from upshift.shell import Command, SystemShell
from upshift.toolchain.find import find
from upshift.toolchain.model import Toolchain


@pytest.fixture(scope="module")
def clang() -> Toolchain:
    return clang_here()


@pytest.fixture(scope="module")
def shell() -> Iterator[SystemShell]:
    made = SystemShell()
    yield made
    made.close()


def launch(shell: SystemShell, folder: Path, header: Path, *compile_: str, gcc: bool = False) -> tuple[int, str]:
    """Compile through the launcher as ninja does."""
    plan = folder / "pch.json"
    headers = [[str(folder / "src"), [str(header)]]]
    log = str(folder / "fallbacks.log")
    write_json(plan, {"folder": str(folder / "pch"), "log": log, "headers": headers, "gcc": gcc})
    argv = (sys.executable, "-I", "-S", pch_launcher.__file__, str(plan), *compile_)
    done = shell.run(Command(argv, cwd=folder), check=False)
    return done.returncode, done.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "common.h").write_text("#pragma once\ninline int common() { return 3; }\n")
    (tmp_path / "src" / "a.cc").write_text('#include "common.h"\nint a() { return common(); }\n')
    return tmp_path


def test_the_launcher_makes_one_header_for_each_set_of_flags(project: Path, shell: SystemShell, clang: Toolchain) -> None:
    header = project / "src" / "common.h"
    (project / "src" / "b.cc").write_text("int b() { return common(); }\n")  # compiles with the header brought in alone
    for name, flag in (("a", "-O1"), ("b", "-O1"), ("a", "-O2")):
        source = str(project / "src" / f"{name}.cc")
        assert launch(shell, project, header, str(clang.cxx), flag, "-MD", "-MF", "d", "-o", f"{name}.o", "-c", source) == (
            0,
            "",
        )
    assert len(list((project / "pch").glob("*.pch"))) == 2
    assert read_fallbacks(project) == ()


def test_gcc_is_given_headers_in_its_own_way(project: Path, shell: SystemShell) -> None:
    header = project / "src" / "common.h"
    (project / "src" / "b.cc").write_text("int b() { return common(); }\n")  # compiles with the header brought in alone
    gcc = str(find("gcc", version=None, shell=shell).cxx)
    for name, options in (("a", ("-O1",)), ("b", ("-O1",)), ("b", ("-O2", "-flto", "-fno-fat-lto-objects"))):
        compile_ = (gcc, *options, "-Winvalid-pch", "-Werror", "-o", f"{name}.o", "-c", str(project / "src" / f"{name}.cc"))
        assert launch(shell, project, header, *compile_, gcc=True) == (0, "")
    assert len(list((project / "pch").glob("*.h.gch"))) == 2
    assert read_fallbacks(project) == ()


def test_the_launcher_lets_errors_through(project: Path, shell: SystemShell, clang: Toolchain) -> None:
    (project / "src" / "a.cc").write_text("int a() { return nothing; }\n")
    code, output = launch(
        shell, project, project / "src" / "common.h", str(clang.cxx), "-o", "a.o", "-c", str(project / "src" / "a.cc")
    )
    assert code != 0 and output.count("undeclared identifier 'nothing'") == 1


def test_a_header_that_does_not_compile_is_done_without(project: Path, shell: SystemShell, clang: Toolchain) -> None:
    broken = project / "broken.h"
    broken.write_text("#error not alone\n")
    compile_ = (str(clang.cxx), "-o", "a.o", "-c", str(project / "src" / "a.cc"))
    for _ in range(2):
        assert launch(shell, project, broken, *compile_) == (0, "")
    (failed,) = (project / "pch").glob("*.failed")
    assert b"not alone" in failed.read_bytes()
    assert list((project / "pch").glob("*.pch*")) == []


def test_other_files_and_links_pass_through(project: Path, shell: SystemShell, clang: Toolchain) -> None:
    (project / "main.cc").write_text("int main() {}\n")  # outside the folders with headers
    (project / "src" / "c.c").write_text("int c(void) { return 1; }\n")
    header = project / "src" / "common.h"
    assert launch(shell, project, header, str(clang.cxx), "-o", "main.o", "-c", str(project / "main.cc")) == (0, "")
    assert launch(shell, project, header, str(clang.cc), "-o", "c.o", "-c", str(project / "src" / "c.c")) == (0, "")
    assert launch(shell, project, header, str(clang.cxx), "-o", "main", "main.o", "c.o") == (0, "")
    assert not (project / "pch").exists() and (project / "main").is_file()


def test_a_plan_that_is_gone_is_an_error(project: Path, shell: SystemShell, clang: Toolchain) -> None:
    argv = (sys.executable, "-I", "-S", pch_launcher.__file__, "/gone.json", str(clang.cxx), "-c", str(project / "src/a.cc"))
    with pytest.raises(CommandFailed, match=r"gone\.json"):
        shell.run(Command(argv))
