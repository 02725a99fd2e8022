"""What ninja prints and does not know, as progress and errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import FakeProgress, FakeShell, Output

from upshift.build.ninja import run_ninja, steps
from upshift.errors import CommandFailed, UpshiftError
from upshift.workbench import Workbench


def _bench(folder: Path, shell: FakeShell) -> Workbench:
    return Workbench(folder, shell, folder / "log", FakeProgress())


@pytest.mark.parametrize("output", ["clang++: error: Killed (program cc1plus)", "fatal error: terminated by signal 9"])
def test_a_compiler_that_ran_out_of_memory(tmp_path: Path, output: str) -> None:
    with pytest.raises(CommandFailed, match="memory ran out") as caught:
        run_ninja(_bench(tmp_path, FakeShell({"ninja": Output(output, 1)})), tmp_path, ("server",), 8)
    assert "--jobs" in caught.value.hint


def test_steps_of_ninja_are_progress(tmp_path: Path) -> None:
    bench = _bench(tmp_path, FakeShell({"ninja": Output("[1/3] Building CXX object a/hot.cc.o\nnoise\n[3/3] Linking server")}))
    run_ninja(bench, tmp_path, ("server",), 2)
    assert isinstance(bench.progress, FakeProgress)
    assert bench.progress.updates == [(1, 3, "hot.cc"), (3, 3, "Linking server")]


def test_a_tree_without_commands(tmp_path: Path) -> None:
    with pytest.raises(UpshiftError, match="ninja has no commands for server") as caught:
        steps(FakeShell({"ninja": Output("it's unbalanced\n")}), tmp_path, "server")
    assert "delete the folder" in caught.value.hint
