"""What a build reads beside its source, as hashes for keys: an equal version may have other contents."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from upshift.shell import Command, Shell
from upshift.toolchain.model import Toolchain
from upshift.values import file_sha256

_TIMEOUT_S = 20.0

# What GCC's driver runs, and what it links and reads beside that.
_GCC_PROGRAMS = ("cc1", "cc1plus", "collect2", "lto1", "lto-wrapper", "as", "ld")
_GCC_FILES = ("specs", "liblto_plugin.so", "libgcc.a", "libgcov.a", "libstdc++.a", "crtbegin.o", "crtbeginS.o", "crtend.o")
# Programs that builds run beside the compiler.
_TOOLS = ("cmake", "ninja", "bison", "m4", "protoc", "rpcgen", "pkg-config", "ar", "ranlib", "as", "ld")

# Two files of a line of ldd: the loader that a program names, if it is not the system's, stands before an arrow, too.
_LOADED = re.compile(r"^\s+(?:(/.*?)|.*?)(?: => (/.*))? \(0x[0-9a-f]+\)$", re.M)
_CONFIGURATION = re.compile(r"^Configuration file: (.+)$", re.M)

# LLVM's own files: installing another clang must not make GCC's builds anew, and toolchain_sha256 has those of a clang that
# compiles. Debian's clang also brings GCC's run-time library of Objective-C.
_NOT_LLVM = rb"(?!usr/(?:include|lib)/llvm|usr/lib/[^\n]*(?:LLVM|objc))"
# Lines of dpkg's lists of checksums ("MD5  PATH"): headers, objects, archives, and what CMake, pkg-config and bison read.
_BUILD_FILE = re.compile(
    rb"^[0-9a-f]{32}  " + _NOT_LLVM + rb"(?:usr/include/|usr/lib/gcc/|usr/share/(?:cmake|bison|pkgconfig)"
    rb"|(?:usr/)?lib(?:32|64|x32)?/[^\n]*\.(?:a|o|pc|cmake)$).*$",
    re.M,
)
_SHARED_LIBRARY = re.compile(
    rb"^[0-9a-f]{32}  " + _NOT_LLVM + rb"(?:usr/)?(lib(?:32|64|x32)?/(?:[^\n]*/)?lib[^/\n]*\.so[^/\n]*)$", re.M
)
# What the linker looks for: mostly links to shared libraries, some are texts that name them.
_SHORT_NAMES = ("usr/lib/*-linux-*/lib*.so", "usr/lib/lib*.so", "usr/lib64/lib*.so")
# What no package brought, and compilers, linkers and CMake look into all the same.
_LOCAL = (
    "include/**/*",
    "lib*/lib*",
    "lib*/*-linux-*/lib*",
    "lib*/**/cmake/**/*",
    "lib*/**/pkgconfig/*",
    "share/cmake*/**/*",
    "share/pkgconfig/*",
)


def toolchain_sha256(one: Toolchain, shell: Shell, folders: Iterable[Path]) -> str:
    """Of the compiler and its companions, the tools of a build in ``folders``, the shared libraries that they load, and the
    compiler's own headers and libraries.

    Raises MissingTool without ldd.
    """
    named = (one.cc, one.cxx, one.linker, one.profdata, one.bolt, one.merge_fdata)
    path = os.pathsep.join(map(str, folders))
    found = (shutil.which(name, path=path) for name in _TOOLS)
    programs = {each.resolve() for each in (*named, *(Path(tool) for tool in found if tool)) if each}
    beside: set[Path] = set()
    if one.family == "gcc":
        programs |= {file.resolve() for name in _GCC_PROGRAMS if (file := _asked(one.cxx, f"-print-prog-name={name}", shell))}
        beside |= {file for name in _GCC_FILES if (file := _asked(one.cxx, f"-print-file-name={name}", shell))}
    else:
        if folder := _asked(one.cxx, "-print-resource-dir", shell):
            beside |= {file for file in folder.rglob("*") if file.is_file()}
        beside |= {Path(file) for file in _CONFIGURATION.findall(_said((str(one.cxx), "--version"), shell))}
    if one.bolt:
        beside |= set(one.bolt.parent.parent.glob("lib*/libbolt_rt*.a"))
    return _contents_sha256(programs | loaded(programs, shell) | beside)


def loaded(programs: Iterable[Path], shell: Shell, environment: Mapping[str, str] = {}) -> set[Path]:
    """The shared libraries that programs load when they start in this environment. Raises MissingTool without ldd."""
    said = _said(("ldd", *map(str, sorted(programs))), shell, environment)
    return {Path(file).resolve() for files in _LOADED.findall(said) for file in files if file}


def development_sha256(root: Path) -> str:
    """Of headers, libraries and CMake's files for building: those of packages by dpkg's checksums, those in usr/local by
    their contents.

    Without dpkg those in usr/local alone. A packaged file that was changed by hand is not seen.
    """
    lists = [file.read_bytes() for file in sorted((root / "var/lib/dpkg/info").glob("*.md5sums"))]
    targets = {os.path.realpath(link) for pattern in _SHORT_NAMES for link in root.glob(pattern)}
    within = {os.path.relpath(file, os.path.realpath(root)) for file in targets}
    # A package may list its files below /lib where that is a link to /usr/lib.
    linked = {file.removeprefix("usr/").encode(errors="surrogateescape") for file in within}
    lines = {line for text in lists for line in _BUILD_FILE.findall(text)}
    lines |= {found[0] for text in lists for found in _SHARED_LIBRARY.finditer(text) if found[1] in linked}
    local = {file for pattern in _LOCAL for file in (root / "usr/local").glob(pattern) if file.is_file()}
    return hashlib.sha256(b"\n".join([*sorted(lines), _contents_sha256(local).encode()])).hexdigest()


def _contents_sha256(files: Iterable[Path]) -> str:
    """Of files' paths and contents."""
    ordered = sorted(files)
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        contents = list(pool.map(file_sha256, ordered))
    digest = hashlib.sha256()
    for file, sha256 in zip(ordered, contents, strict=True):
        digest.update(f"{file}\0{sha256}\0".encode(errors="surrogateescape"))
    return digest.hexdigest()


def _asked(compiler: Path, question: str, shell: Shell) -> Path | None:
    """The file or folder that a compiler names; None when it has none: it then repeats the name."""
    answer = _said((str(compiler), question), shell).strip()
    return Path(answer) if answer.startswith("/") and Path(answer).exists() else None


def _said(argv: tuple[str, ...], shell: Shell, environment: Mapping[str, str] = {}) -> str:
    return shell.run(Command(argv, env=environment), check=False, timeout_s=_TIMEOUT_S).stdout
