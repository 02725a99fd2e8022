"""Finding a compiler together with the tools of its own version."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from upshift.errors import CommandFailed, MissingTool, UsageError
from upshift.shell import Command, Shell
from upshift.toolchain.contents import development_sha256, toolchain_sha256
from upshift.toolchain.model import Family, Toolchain

OLDEST: dict[Family, int] = {"clang": 14, "gcc": 11, "icx": 2023}
"""The oldest major version that builds today's MySQL and has the profile flags used here."""

PACKAGES: dict[Family, str] = {
    "clang": "clang-{n} lld-{n} llvm-{n} libclang-rt-{n}-dev bolt-{n} libbolt-{n}-dev",
    "gcc": "g++",
    "icx": "intel-oneapi-compiler-dpcpp-cpp",
}
BOLT_ORDER = "cdsort"
"""The order of functions that BOLT is asked for: its own help names it from LLVM 18 on. Older ones fail when all is built."""
_NEWEST_PACKAGED = 22
_PROBE_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Places:
    """Where to look; tests bring a folder of their own."""

    root: Path = Path("/")
    path: tuple[Path, ...] = ()
    """Folders of executables; empty: those of ``$PATH``."""

    def folders(self) -> tuple[Path, ...]:
        return self.path or tuple(Path(entry) for entry in os.environ.get("PATH", "").split(os.pathsep) if entry)


def find(family: Family, *, version: str | None = None, shell: Shell, places: Places | None = None) -> Toolchain:
    """The newest usable compiler of a family with the hashes of its contents, preferring one that has BOLT.

    ``version`` asks for one version by its leading numbers (``19``, ``19.1``). Raises MissingTool when there
    is none, when all are older than ``OLDEST``, or when lld, llvm-profdata or the profile run-time is absent.
    """
    places = places or Places()
    found, broken = _search(family, shell, places)
    if version:
        found = [one for one in found if matches(one.version, version)]
    usable = [one for one in found if one.major >= OLDEST[family]]
    if usable:
        best = max(usable, key=lambda one: (one.bolt is not None, _numbers(one.version)))
        contents = toolchain_sha256(best, shell, places.folders())
        return best.model_copy(update={"sha256": contents, "development_sha256": development_sha256(places.root)})
    if found:
        best = max(found, key=lambda one: _numbers(one.version))
        raise MissingTool(
            f"{best.cc} is too old: found {family} {best.version}, needed {OLDEST[family]} or newer",
            _hint(family, None),
        )
    wanted = f"{family} {version}" if version else family
    because = f" ({'; '.join(broken)})" if broken else ""
    raise MissingTool(f"no usable {wanted} on this machine{because}", _hint(family, version))


def find_all(family: Family, *, shell: Shell, places: Places | None = None) -> tuple[Toolchain, ...]:
    """Every complete compiler of a family, newest first, too old ones as well; without the hashes of their contents."""
    found, _ = _search(family, shell, places or Places())
    return tuple(sorted(found, key=lambda one: _numbers(one.version), reverse=True))


def llvm_program(name: str) -> Path | None:
    """A tool of the newest LLVM that has it, else the one on ``$PATH``; None when there is none."""
    places = Places()
    return _first((*_llvm_folders(places), *places.folders()), name)


def matches(version: str, wanted: str) -> bool:
    """Whether ``version`` begins with the numbers of ``wanted``: 19.1.7 matches 19 and 19.1, not 1."""
    asked = _numbers(wanted)
    if not asked:
        raise UsageError(f"{wanted!r} is not a compiler version", "write numbers: 22 or 22.1.8")
    return _numbers(version)[: len(asked)] == asked


def _search(family: Family, shell: Shell, places: Places) -> tuple[list[Toolchain], list[str]]:
    """The complete toolchains, and for each incomplete one a sentence that says what it lacks."""
    found: list[Toolchain] = []
    broken: list[str] = []
    compilers = {"clang": _clangs, "gcc": _gccs, "icx": _icxs}[family](places)
    for cc, cxx in _each_once(compilers):
        if not _runs(cxx):
            broken.append(f"{cc} has no {cxx.name} beside it")
            continue
        version = _version(cc, shell)
        if version is None:
            broken.append(f"{cc} does not say its version")
            continue
        if (beside := _version(cxx, shell)) != version:  # Debian's alternatives are chosen one by one
            broken.append(f"{cc} is {version}, and {cxx.name} beside it is {beside or 'of no version'}")
            continue
        one = _toolchain(family, version, cc, cxx, shell)
        if lacking := _lacking(one):
            broken.append(f"{cc} lacks {', '.join(lacking)}")
            continue
        found.append(one)
    if family != "clang":  # BOLT comes with LLVM and works on every compiler's output
        bolt = _newest_bolt(places, shell)
        if bolt:
            found = [one.model_copy(update={"bolt": bolt[0], "merge_fdata": bolt[1]}) for one in found]
    return found, broken


def _toolchain(family: Family, version: str, cc: Path, cxx: Path, shell: Shell) -> Toolchain:
    # icx keeps its LLVM tools in a folder below its own.
    folders = (cc.parent, cc.parent / "compiler") if family == "icx" else (cc.parent,)
    llvm = family != "gcc"
    bolt = _bolt_in(cc.parent, shell) if family == "clang" else None
    return Toolchain(
        family=family,
        version=version,
        cc=cc,
        cxx=cxx,
        linker=_first(folders, "ld.lld") if llvm else None,
        profdata=_first(folders, "llvm-profdata") if llvm else None,
        bolt=bolt[0] if bolt else None,
        merge_fdata=bolt[1] if bolt else None,
        major=_numbers(version)[0],
    )


def _lacking(one: Toolchain) -> list[str]:
    if one.family == "gcc":
        return []
    lacking = [name for name, path in (("lld", one.linker), ("llvm-profdata", one.profdata)) if path is None]
    if one.family == "clang" and not _has_profile_runtime(one.cc.parent):
        lacking.append("its run-time libraries (libclang-rt)")
    return lacking


def _has_profile_runtime(binaries: Path) -> bool:
    pattern = "clang/*/lib/*/libclang_rt.profile*.a"
    return any(next((binaries.parent / lib).glob(pattern), None) for lib in ("lib", "lib64"))


def _bolt_in(binaries: Path, shell: Shell) -> tuple[Path, Path] | None:
    """llvm-bolt and merge-fdata of an LLVM, if its run-time library is in ../lib, where it is looked for, and it knows
    ``BOLT_ORDER``.
    """
    bolt, merge = binaries / "llvm-bolt", binaries / "merge-fdata"
    runtime = any((binaries.parent / lib / "libbolt_rt_instr.a").is_file() for lib in ("lib", "lib64"))
    whole = _runs(bolt) and _runs(merge) and runtime
    return (bolt.resolve(), merge.resolve()) if whole and _knows_order(bolt, shell) else None


def _knows_order(bolt: Path, shell: Shell) -> bool:
    try:
        done = shell.run(Command((str(bolt), "--help")), check=False, timeout_s=_PROBE_TIMEOUT_S)
    except CommandFailed:  # of another processor
        return False
    return BOLT_ORDER in done.stdout


def _newest_bolt(places: Places, shell: Shell) -> tuple[Path, Path] | None:
    for folder in _llvm_folders(places):
        if bolt := _bolt_in(folder, shell):
            return bolt
    return None


def _llvm_folders(places: Places) -> list[Path]:
    """Folders of LLVM executables, newest first: Debian's, Fedora's, hand-made ones, then ``$PATH``."""
    patterns = ("usr/lib/llvm-*/bin", "usr/lib64/llvm*/bin", "usr/local/llvm*/bin", "opt/llvm*/bin")
    versioned = [folder for pattern in patterns for folder in places.root.glob(pattern)]
    versioned.sort(key=lambda folder: _numbers(folder.parent.name), reverse=True)
    on_path = [(folder / "clang").resolve().parent for folder in places.folders() if (folder / "clang").exists()]
    return [*versioned, *on_path]


def _clangs(places: Places) -> Iterator[tuple[Path, Path]]:
    for folder in _llvm_folders(places):
        if _runs(folder / "clang"):
            yield folder / "clang", folder / "clang++"


def _gccs(places: Places) -> Iterator[tuple[Path, Path]]:
    for folder in places.folders():
        for cc in sorted(folder.glob("gcc*")):
            if re.fullmatch(r"gcc(-\d+)?", cc.name) and _runs(cc):
                yield cc, folder / cc.name.replace("gcc", "g++")


def _icxs(places: Places) -> Iterator[tuple[Path, Path]]:
    for folder in (*places.folders(), *places.root.glob("opt/intel/oneapi/compiler/*/bin")):
        if _runs(folder / "icx"):
            yield folder / "icx", folder / "icpx"


def _each_once(pairs: Iterable[tuple[Path, Path]]) -> Iterator[tuple[Path, Path]]:
    """Without second names for the same two compilers.

    ccache stands in for many compilers under one file; the compilers themselves are found elsewhere.
    """
    seen: set[tuple[Path, Path]] = set()
    for cc, cxx in pairs:
        both = cc.resolve(), cxx.resolve()
        if both[0].name != "ccache" and both not in seen:
            seen.add(both)
            yield cc, cxx


def _version(cc: Path, shell: Shell) -> str | None:
    """The first version number in the first line of ``--version``."""
    command = Command((str(cc), "--version"))
    done = shell.run(command, check=False, timeout_s=_PROBE_TIMEOUT_S)
    # GCC puts its packager's version into parentheses first: "gcc (Debian 12.2.0-14+deb12u1) 12.2.0".
    first_line = re.sub(r"\([^)]*\)", "", done.stdout.partition("\n")[0])
    match = re.search(r"\b\d+\.\d+(\.\d+)*", first_line)
    return match.group() if match and done.returncode == 0 else None


def _first(folders: Iterable[Path], name: str) -> Path | None:
    return next((folder / name for folder in folders if _runs(folder / name)), None)


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


def _hint(family: Family, version: str | None) -> str:
    major = _numbers(version)[0] if version and _numbers(version) else _NEWEST_PACKAGED
    names = PACKAGES[family].format(n=major)
    if family == "gcc" and version:
        names = f"g++-{major}"
    if family == "icx":
        return f"install Intel's oneAPI C++ compiler (package {names}, from Intel's repository), or choose clang"
    older = ", or the newest number that your release has" if family == "clang" and not version else ""
    return f"apt-get install {names}{older}"
