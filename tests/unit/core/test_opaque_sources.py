"""A whole build with link-time optimisation leaves out the sources that callers must not see into; with the real CMake."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes import FakeKind, FakeProgress, toolchain

from upshift.build.recipe import Recipe
from upshift.build.whole import OPAQUE, build_whole, configure_command
from upshift.errors import MissingTool
from upshift.server.mysql import MySQL
from upshift.shell import SystemShell
from upshift.source.model import Source
from upshift.stages.keys import opaque_key
from upshift.toolchain import flags
from upshift.toolchain.find import find
from upshift.values import file_sha256
from upshift.workbench import Workbench

PROJECT = {
    "CMakeLists.txt": """cmake_minimum_required(VERSION 3.20)
project(toy CXX)
add_subdirectory(sql)
add_executable(server main.cc deep/main_check.cc)
target_link_libraries(server sql)
""",
    "sql/CMakeLists.txt": "project(sql CXX)\nadd_library(sql STATIC check.cc parse.cc)\n",
    "sql/check.cc": "int check() { return 0; }\n",
    "sql/parse.cc": "int check();\nint parse() { return check(); }\n",
    "deep/main_check.cc": "int main_check() { return 0; }\n",
    "main.cc": "int parse();\nint main_check();\nint main() { return parse() + main_check(); }\n",
}
KIND = FakeKind(opaque=("sql/check.cc", "deep/main_check.cc"))
MYSQL = Source(kind="mysql", version="9.7.4", origin="tests", sha256="0", verified="none", path=Path("/mysql"))
BITCODE = b"BC\xc0\xde"


@pytest.fixture
def shell() -> Iterator[SystemShell]:
    made = SystemShell()
    yield made
    made.close()


@pytest.mark.parametrize("asks", [{"lto": "thin"}, {"flags": ("-flto=thin",), "link_flags": ("-flto=thin",)}])
def test_opaque_sources_are_no_bitcode(
    tmp_path: Path, shell: SystemShell, asks: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for program in ("cmake", "ninja"):
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program}")
    try:
        clang = find("clang", shell=shell)
    except MissingTool as missing:
        pytest.skip(missing.message)
    # The folder's room is real, but the tests' disk may be small.
    monkeypatch.setattr("upshift.build.whole.TREE_BYTES", 1_000_000)
    source = tmp_path / "the source"
    for name, text in PROJECT.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text)
    recipe = Recipe(name="own", precompiled_headers=False, **asks)  # type: ignore[arg-type]
    extra = flags.thin_lto("clang", jobs=1) if recipe.lto != "none" else flags.Flags()
    bench = Workbench(tmp_path, shell, tmp_path / "log", FakeProgress())
    whole = Source(kind="fake", version="1", origin="tests", sha256="0", verified="none", path=source)
    built = build_whole(bench, KIND, whole, recipe, clang, extra=extra, jobs=2)
    objects = {file.name: file.read_bytes()[:4] for file in built.tree.rglob("*.cc.o")}
    assert {name for name, start in objects.items() if start == BITCODE} == {"main.cc.o", "parse.cc.o"}
    assert {name for name, start in objects.items() if start == b"\x7fELF"} == {"check.cc.o", "main_check.cc.o"}


def test_a_build_without_link_time_optimisation_needs_none_of_it() -> None:
    def configured(recipe: Recipe) -> str:
        tree = Path("/stage/tree")
        command = configure_command(
            MySQL(), MYSQL, recipe, toolchain("clang"), tree, (), extra=flags.Flags(), relocations=False
        )
        return command.pasteable()

    assert "OPAQUE" not in configured(Recipe(name="plain"))
    assert not opaque_key(MySQL(), Recipe(name="plain"))
    assert opaque_key(MySQL(), Recipe(name="late", lto="thin")) == {"opaque": file_sha256(OPAQUE)}
    late = configured(Recipe(name="late", lto="thin"))
    assert "-DOPAQUE_SOURCES=sql/check_stack.cc" in late and "-DCMAKE_PROJECT_INCLUDE=/stage/opaque.cmake" in late
