"""What this machine can do: compilers, linkers, BOLT, profilers, load drivers, and room to work in."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from upshift import control_groups, needs
from upshift.errors import MissingTool, UpshiftError
from upshift.native.programs import require_cargo
from upshift.paths import cache_dir
from upshift.shell import Command, Completed, Shell
from upshift.toolchain.find import OLDEST, Places, find, find_all
from upshift.toolchain.model import Family, Toolchain
from upshift.toolchain.system import install_line, missing_packages
from upshift.values import Value, environment_number

State = Literal["found", "too old", "too small", "missing"]

_GIB = 1024**3
_MEMORY_NEEDED_GIB = 10
"""For BOLT's instrumentation of all functions (``--level quick``): docs/measurements/2026-11-22-bolt-memory."""
_SAMPLING = "perf sampling"
_CPUS_NEEDED = 2
"""One for the server and one for the load: sharing one, they measure each other."""
_PROBE_TIMEOUT_S = 20.0


class Finding(Value):
    """One thing that Upshift needs or can use, as it is on this machine."""

    name: str
    state: State
    version: str
    """Its version, or its size with the unit; empty when it is missing."""
    hint: str
    """How to get it; empty when it was found."""
    allows: str
    """What it is good for."""
    required: bool
    """Whether `upshift optimize` with its default recipe cannot do without."""


def examine(shell: Shell, *, disk_bytes: int, places: Places | None = None) -> tuple[Finding, ...]:
    """Look at everything; takes a second or two, installs nothing, raises nothing for what is missing.

    ``disk_bytes`` is what `optimize` needs.
    """
    clangs, gccs, icxs = (_all(family, shell, places) for family in ("clang", "gcc", "icx"))

    def why_not(family: Family) -> Callable[[], str]:
        return lambda: _why_not(family, shell, places)

    with tempfile.TemporaryDirectory(prefix="upshift-doctor-") as folder:
        perf = _perf(shell, Path(folder) / "perf.data")
    return (
        _compiler("clang", clangs, why_not("clang"), "PGO, ThinLTO, BOLT: the default recipe", required=True),
        _compiler("gcc", gccs, why_not("gcc"), "the stock build to compare with; PGO and LTO", required=False),
        _compiler("icx", icxs, why_not("icx"), "PGO and ThinLTO with Intel's compiler", required=False),
        _linker(clangs),
        _bolt((*clangs, *gccs)),
        *(_program(shell, *row) for row in _PROGRAMS),
        _cargo(shell),
        *_packages(shell),
        *perf,
        *_machine(cache_dir(), disk_bytes, samples=any(each.name == _SAMPLING and each.state == "found" for each in perf)),
    )


_PROGRAMS = (
    ("ld", "binutils", "linking with GCC", False),
    ("cmake", "cmake", "configuring the server's build", True),
    ("ninja", "ninja-build", "building", True),
    ("bison", "bison", "MySQL's parser", True),
    ("perl", "perl libjson-perl", "MySQL's own tests, the correctness gate", True),
    ("sysbench", "sysbench", "the workloads that come with Upshift", True),
    ("valgrind", "valgrind", "counting the instructions of a query", False),
    ("taskset", "util-linux", "repeating a logged command on the same CPUs", False),
)


def _all(family: Family, shell: Shell, places: Places | None) -> tuple[Toolchain, ...]:
    try:
        return find_all(family, shell=shell, places=places)
    except UpshiftError:
        return ()


def _why_not(family: Family, shell: Shell, places: Places | None) -> str:
    try:
        find(family, shell=shell, places=places)
    except UpshiftError as error:
        return f"{error.message}: {error.hint}"
    return ""


def _compiler(
    family: Family, found: tuple[Toolchain, ...], why_not: Callable[[], str], allows: str, *, required: bool
) -> Finding:
    if not found:
        return _missing(family, why_not(), allows, required=required)
    usable = [one.version for one in found if one.major >= OLDEST[family]]
    return Finding(
        name=family,
        state="found" if usable else "too old",
        version=", ".join(usable) or found[0].version,
        hint="" if usable else why_not(),
        allows=allows,
        required=required,
    )


def _linker(clangs: tuple[Toolchain, ...]) -> Finding:
    allows = "ThinLTO, and quick links"
    newest = next((one for one in clangs if one.linker), None)
    if newest is None:
        return _missing("lld", "install lld-22", allows, required=True)
    return _found("lld", newest.version, allows, required=True)


def _bolt(toolchains: tuple[Toolchain, ...]) -> Finding:
    allows = "layout of the finished program after the link"
    with_bolt = next((one for one in toolchains if one.bolt), None)
    if with_bolt is None:
        return _missing("bolt", "install bolt-22 libbolt-22-dev; it must be of LLVM 18 or newer", allows, required=False)
    # BOLT's own version is its folder's compiler's; GCC borrows the newest.
    version = with_bolt.version if with_bolt.family == "clang" else str(with_bolt.bolt)
    return _found("bolt", version, allows, required=False)


def _program(shell: Shell, name: str, packages: str, allows: str, required: bool) -> Finding:
    done = _try(shell, name, "--version")
    if done is None or done.returncode != 0:
        return _missing(name, f"install {packages}", allows, required=required)
    return _found(name, _first_version(done.stdout), allows, required=required)


def _cargo(shell: Shell) -> Finding:
    allows = "the machine card, and the programs of cache, load, stack and patch prove"
    try:
        version = require_cargo(shell)
    except MissingTool as error:
        return _missing("cargo", error.hint, allows, required=False)
    return _found("cargo", version, allows, required=False)


def _packages(shell: Shell) -> tuple[Finding, ...]:
    """The system packages of `optimize`, the headers of libraries among them; nothing on a system without dpkg."""
    allows = "building MySQL and running its tests"
    try:
        missing = missing_packages("mysql", shell)
    except MissingTool:
        return ()
    if missing:
        return (_missing("packages", f"run `{install_line(missing)}`", allows, required=True),)
    return (_found("packages", "", allows, required=True),)


def _perf(shell: Shell, data: Path) -> tuple[Finding, ...]:
    """perf itself, then what the kernel and the processor let it do, each by trying it."""
    perf, sampling = "perf", "finding the hot set without an instrumented build"
    version = _try(shell, "perf", "--version")
    if version is None or version.returncode != 0:
        hint = "install linux-perf (Debian), or linux-tools-generic and linux-tools-$(uname -r) (Ubuntu)"
        return (_missing(perf, hint, sampling, required=False),)

    def records(*options: str) -> bool:
        done = _try(shell, "perf", "record", *options, "-o", str(data), "--", "true")
        return done is not None and done.returncode == 0

    counted = _try(shell, "perf", "stat", "-e", "cycles:u", "-x", ",", "--", "true")
    pmu = counted is not None and counted.returncode == 0 and re.search(r"^\d+,", counted.stdout, re.MULTILINE)
    no_pmu = "small virtual machines have none: take bare metal, or a machine type with a virtual PMU"
    no_clock = "sysctl kernel.perf_event_paranoid=1; in a container, also allow perf_event_open"
    rows: tuple[tuple[str, bool, str, str, str], ...] = (
        (_SAMPLING, records("-e", "cpu-clock"), "cpu-clock", no_clock, sampling),
        ("hardware counters", bool(pmu), "cycles", no_pmu, "cycles, misses and branches per query"),
    )
    return (
        _found(perf, _first_version(version.stdout), sampling, required=False),
        *(
            _found(name, what, allows, required=False) if works else _missing(name, hint, allows, required=False)
            for name, works, what, hint, allows in rows
        ),
    )


def _machine(cache: Path, disk_bytes: int, *, samples: bool) -> tuple[Finding, ...]:
    """``samples``: perf may sample; without it, the default recipe instruments the whole server."""
    cpus = control_groups.usable_cpus()
    existing = next(folder for folder in (cache, *cache.parents) if folder.exists())
    free_bytes = shutil.disk_usage(existing).free
    return (
        Finding(
            name="cpu",
            state="found" if cpus >= _CPUS_NEEDED else "too small",
            version=f"{cpus} x {_cpu_model(Path('/proc/cpuinfo').read_text)}",
            hint="" if cpus >= _CPUS_NEEDED else f"give Upshift {_CPUS_NEEDED} CPUs or more",
            allows="a CPU of its own for the server and for the load",
            required=False,
        ),
        _memory(samples=samples),
        Finding(
            name="disk",
            state="found" if free_bytes >= disk_bytes else "too small",
            version=f"{free_bytes / 1e9:.1f} GB free for {cache}",
            hint=""
            if free_bytes >= disk_bytes
            else f"free {disk_bytes / 1e9:.0f} GB, or set UPSHIFT_CACHE to a folder elsewhere",
            allows="sources, builds and data",
            required=True,
        ),
    )


def _memory(*, samples: bool) -> Finding:
    """What `optimize` refuses to begin without comes first, as free memory; then what BOLT needs for all functions."""
    memory_gib = control_groups.memory_total_bytes() / _GIB
    free_bytes = control_groups.memory_available_bytes()
    needed_bytes = environment_number("UPSHIFT_NEEDED_MEMORY_BYTES", needs.NEEDED_MEMORY_BYTES)
    if free_bytes < needed_bytes:
        return Finding(
            name="memory",
            state="too small",
            version=f"{memory_gib:.1f} GiB, {free_bytes / 1e9:.1f} GB of it free",
            hint=f"{needed_bytes / 1e9:.0f} GB must be free: stop something else, or use a machine with more memory",
            allows="building MySQL",
            required=True,
        )
    enough = memory_gib >= _MEMORY_NEEDED_GIB
    return Finding(
        name="memory",
        state="found" if enough else "too small",
        version=f"{memory_gib:.1f} GiB",
        hint=""
        if enough
        else f"{_MEMORY_NEEDED_GIB} GiB are needed for it: let perf sample (--level full), or take a recipe without BOLT",
        allows="instrumenting all functions with BOLT (--level quick, or where perf may not sample)",
        required=not samples,
    )


def _cpu_model(read: Callable[[], str]) -> str:
    match = re.search(r"^model name\s*:\s*(.+)$", read(), re.MULTILINE)  # ARM kernels do not say
    return match.group(1) if match else os.uname().machine


def _try(shell: Shell, *argv: str) -> Completed | None:
    """How a short command ends; None when the program is not there."""
    try:
        return shell.run(Command(argv), check=False, timeout_s=_PROBE_TIMEOUT_S)
    except MissingTool:
        return None


def _first_version(text: str) -> str:
    match = re.search(r"\d+\.\d+(\.\d+)*", text)
    return match.group() if match else ""


def _found(name: str, version: str, allows: str, *, required: bool) -> Finding:
    return Finding(name=name, state="found", version=version, hint="", allows=allows, required=required)


def _missing(name: str, hint: str, allows: str, *, required: bool) -> Finding:
    return Finding(name=name, state="missing", version="", hint=hint, allows=allows, required=required)
