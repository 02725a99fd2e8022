"""The programs that read machine code and symbols; an explanation goes on without any of them."""

from __future__ import annotations

import shutil
from pathlib import Path

from upshift.shell import Command, Shell
from upshift.toolchain.find import llvm_program
from upshift.values import Value

_TIMEOUT_S = 20.0


class Tools(Value):
    """None: not on this machine."""

    objdump: Path | None
    symbolizer: Path | None
    demangler: Path | None


def find_tools(shell: Shell) -> Tools:
    """LLVM's newest, and for names binutils' c++filt where there is no LLVM that can leave parameters out."""
    return Tools(
        objdump=llvm_program("llvm-objdump"),
        symbolizer=llvm_program("llvm-symbolizer"),
        demangler=_demangler(shell),
    )


def _demangler(shell: Shell) -> Path | None:
    """One that knows ``-p``: that of LLVM 14 does not."""
    filt = shutil.which("c++filt")
    for each in (llvm_program("llvm-cxxfilt"), Path(filt) if filt else None):
        if each and shell.run(Command((str(each), "-p", "_Z1fv")), check=False, timeout_s=_TIMEOUT_S).returncode == 0:
            return each
    return None
