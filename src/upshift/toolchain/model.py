"""A compiler with the tools that belong to it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from upshift.values import Value

Family = Literal["clang", "gcc", "icx"]


class Toolchain(Value):
    """One installed compiler and its companions, all of one version; None where a tool is not there."""

    family: Family
    version: str
    """As the compiler says: ``22.1.8``."""
    cc: Path
    cxx: Path
    linker: Path | None
    """lld; None means the system's default linker (GCC)."""
    profdata: Path | None
    """llvm-profdata, or None (GCC needs none)."""
    bolt: Path | None
    """llvm-bolt, by its real path: through a link it seeks its run-time library in the wrong folder."""
    merge_fdata: Path | None
    major: int
    sha256: str = ""
    """Of its contents, with the tools of a build; empty where no key needs it."""
    development_sha256: str = ""
    """Of the headers and libraries on the machine that a build may read; empty where no key needs it."""
