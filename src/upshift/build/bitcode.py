"""Sources parsed once: the front end's bitcode, from which the instrumented and the optimised objects are both compiled.

LLVM's instrumentation works on bitcode, as does the optimiser that reads the profile. What both are given is then the
same by construction, and C++, which takes most of a compilation, is read once.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from upshift.build.ninja import Step
from upshift.toolchain.model import Toolchain

PARSE_FLAGS = (
    "-flto=thin",  # the front end then writes the type information that link-time optimisation looks for
    "-emit-llvm",
    *("-Xclang", "-disable-llvm-passes"),  # as the front end leaves it, without any optimisation
)
_LANGUAGES = (".c", ".cc", ".cpp", ".cxx")
_OF_SOURCES = ("-MF", "-MT", "-MQ")


def can_parse(toolchain: Toolchain, step: Step) -> bool:
    """Whether the step compiles C or C++ with clang: assembler has no bitcode, and GCC and icx are not known to do so."""
    return toolchain.family == "clang" and step.source.endswith(_LANGUAGES)


def folder_of(stage: Path) -> Path:
    """Where a stage keeps the bitcode that it made."""
    return stage / "bitcode"


def parse_command(argv: Sequence[str], flags: Sequence[str]) -> tuple[str, ...]:
    """A compile command that ends with bitcode; ``flags`` are those that every later compilation has as well."""
    return (*argv, *flags, *PARSE_FLAGS)


def from_bitcode(argv: Sequence[str], bitcode: Path, flags: Sequence[str]) -> tuple[str, ...]:
    """The same compile command, given ``bitcode`` in place of its source."""
    kept: list[str] = []
    parts = iter(argv)
    for part in parts:
        if part in _OF_SOURCES:
            next(parts)
        elif part == "-c":
            next(parts)
            kept += ["-x", "ir", "-c", str(bitcode)]
        elif part not in ("-MD", "-MMD") and not part.startswith("--language"):
            kept.append(part)
    # Definitions and include folders have done their work.
    return (*kept, *flags, "-Wno-unused-command-line-argument")
