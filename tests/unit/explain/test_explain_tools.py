"""Which programs an explanation reads machine code with."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from fakes import FakeShell, Output

from upshift.explain import tools
from upshift.explain.tools import find_tools

LLVM, BINUTILS = Path("/usr/lib/llvm-14/bin/llvm-cxxfilt"), Path("/usr/bin/c++filt")


@pytest.mark.parametrize(
    ("refuses", "found"),
    [
        ((), LLVM),
        # LLVM 14: "error: unknown argument '-p'".
        ((LLVM,), BINUTILS),
        ((LLVM, BINUTILS), None),
    ],
)
def test_names_are_read_by_a_program_that_leaves_parameters_out(
    refuses: tuple[Path, ...], found: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "llvm_program", LLVM.with_name)
    monkeypatch.setattr(shutil, "which", lambda _name: str(BINUTILS))
    shell = FakeShell({str(each): Output("", returncode=1) for each in refuses})
    assert find_tools(shell).demangler == found
