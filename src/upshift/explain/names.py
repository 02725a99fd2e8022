"""What a symbol's function is called in the source: compilers and post-link tools add to the names of what they copy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from upshift.shell import Command, Shell

# GCC: .part .isra .constprop .lto_priv .cold .localalias; LLVM: .llvm.HASH .specialized .__uniq .argprom .cold;
# BOLT: .cold.N .warm .org.N for a second copy of a function, and /FILE/N behind the name of a local symbol.
_ADDED = re.compile(
    r"(?:\.(?:cold|warm|org|part|isra|constprop|lto_priv|localalias|llvm|specialized|argprom|argelim|retelim|__uniq|eh)"
    r"(?:\.[0-9a-f]+)*|/.*)+$"
)
_COLD = re.compile(r"\.(?:cold|warm|eh)(?:\.\d+)*$")
_BRACKETS = re.compile(r"(?<!\boperator)(?:<[^<>]*>|\([^()]*\))")
_QUALIFIERS = re.compile(r"(?<=\))(?: (?:const|volatile|&&?))+(?=::|$)")
"""Of a method, behind its parameters."""
_ABI_TAG = re.compile(r"\[abi:\w+\]")
"""What demanglers write behind the name of a function that returns a std::string of C++11."""
_ARGUMENT_BYTES = 100_000
"""Linux takes 128 KiB as one argument (MAX_ARG_STRLEN in linux/binfmts.h), and 2 MiB or less as all of a command's."""


def source_name(symbol: str) -> str:
    """The linkage name that the source's function has, without what was added for a copy or a part of it."""
    return _ADDED.sub("", symbol) or symbol


def plain_name(shown: str) -> str:
    """A name for people without template arguments, parameters, qualifiers, ABI tags, what a template returns, and unnamed
    namespaces.
    """
    name = _ABI_TAG.sub("", _QUALIFIERS.sub("", shown.replace("(anonymous namespace)::", "")))
    while (bare := _BRACKETS.sub("", name)) != name:
        name = bare
    # An operator's template arguments stand behind a blank: operator<< <char>.
    name = name.strip()
    return name if "operator " in name else name.rpartition(" ")[2]


def is_cold(symbol: str) -> bool:
    """Whether a compiler or BOLT moved this part of a function out of the hot code."""
    return _COLD.search(symbol) is not None


def demangled(shell: Shell, program: Path | None, names: Iterable[str]) -> Mapping[str, str]:
    """Linkage names as a person writes them, without parameters, by c++filt or llvm-cxxfilt; without one, as they are."""
    wanted = sorted(set(names))
    found = dict(zip(wanted, wanted, strict=True))
    mangled = [name for name in wanted if name.startswith("_Z")] if program else []
    for part in for_commands(mangled):
        lines = shell.run(Command((str(program), "-p", *part))).stdout.splitlines()
        found.update(zip(part, lines, strict=True))
    return found


def for_commands(names: Iterable[str]) -> Iterator[list[str]]:
    """The names in parts that a command line takes, even as one argument: names of templates have kilobytes."""
    part: list[str] = []
    size_bytes = 0
    for name in names:
        own_bytes = len(name.encode()) + 1
        if part and size_bytes + own_bytes > _ARGUMENT_BYTES:
            yield part
            part, size_bytes = [], 0
        part.append(name)
        size_bytes += own_bytes
    if part:
        yield part
