"""The programs that read machine code and symbols; an explanation goes on without any of them."""

from __future__ import annotations

import shutil
from pathlib import Path

from upshift.toolchain.find import llvm_program
from upshift.values import Value


class Tools(Value):
    """None: not on this machine."""

    objdump: Path | None
    symbolizer: Path | None
    demangler: Path | None


def find_tools() -> Tools:
    """LLVM's newest, and for names binutils' c++filt where there is no LLVM."""
    filt = shutil.which("c++filt")
    return Tools(
        objdump=llvm_program("llvm-objdump"),
        symbolizer=llvm_program("llvm-symbolizer"),
        demangler=llvm_program("llvm-cxxfilt") or (Path(filt) if filt else None),
    )
