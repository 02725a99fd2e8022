"""System packages: what each purpose needs on Debian and Ubuntu, what is missing, and installing it.

Only the standard library is imported here, directly or not: the launcher runs this before it has a ``.venv``.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterable
from typing import Literal

from upshift.errors import CommandFailed, MissingTool
from upshift.shell import Command, Shell
from upshift.terminal import agreed

Purpose = Literal["launcher", "native", "measure", "mysql", "gcc-only", "test"]
"""``launcher``: a Python environment. ``native``: a linker for the programs in crates/. ``test``: the tests' own small
server, and packaged servers. ``measure``: loading servers that exist. ``mysql``: building, loading and checking MySQL
with clang and BOLT. ``gcc-only``: the same without LLVM."""

Need = tuple[str, ...]
"""Names of which any one will do, the preferred one first: releases name some packages differently."""

_NOTHING = ""
"""As the last of a need's names: where apt knows none of the others, it goes without."""

_BUILD: tuple[Need, ...] = (
    ("g++",),
    ("make",),
    ("cmake",),
    ("ninja-build",),
    ("pkg-config", "pkgconf"),
    ("util-linux",),  # taskset
)
_MYSQL: tuple[Need, ...] = (
    ("dpkg-dev",),  # unpacks a source package, where there is no binary one with the source in it
    ("bison",),
    ("libncurses-dev",),
    ("libssl-dev",),
    ("libaio-dev",),
    ("libtirpc-dev",),
    ("rpcsvc-proto",),
    ("libnuma-dev",),
    ("libudev-dev",),
    ("libicu-dev",),
    ("libzstd-dev",),
    ("liblz4-dev",),
    ("zlib1g-dev",),
    ("libprotobuf-dev",),
    ("protobuf-compiler",),
    ("libprotoc-dev",),
    ("libcurl4-openssl-dev",),
    ("libedit-dev",),
    ("libfido2-dev",),
    ("libkrb5-dev",),
    ("libldap-dev", "libldap2-dev"),
    ("libmecab-dev",),
    ("libsasl2-dev",),
    ("perl",),  # runs MySQL's own test suite
    ("libjson-perl",),  # so does this
    ("sysbench",),
    ("linux-perf", "linux-tools-generic"),
)
_NATIVE: tuple[Need, ...] = (("gcc",), ("libc6-dev",))
_MEASURE: tuple[Need, ...] = (("util-linux",), ("sysbench",))
_TEST: tuple[Need, ...] = (
    ("mariadb-server-core", "mariadb-server"),
    ("mariadb-client-core", "mariadb-client"),
    ("postgresql",),
    ("fio",),
    ("strace",),
    ("tcpdump",),
    ("iproute2",),
    ("valgrind",),
    # On Debian 12 124 MB to download, 414 MB on the disk. Ubuntu has it as a snap alone, which no container can install.
    ("chromium", _NOTHING),
    ("openssl",),
    ("libaio-dev",),
    ("sysbench",),
)
_LLVM = ("clang-{n}", "lld-{n}", "llvm-{n}", "libclang-rt-{n}-dev", "bolt-{n}", "libbolt-{n}-dev")
_LLVM_VERSIONS = tuple(range(22, 17, -1))
"""Versions to choose from, best first: LLVM 18 is the first whose BOLT knows all that it is asked for (find.py)."""

_PROGRAMS: dict[Purpose, tuple[str, ...]] = {
    "launcher": (),
    "native": ("cc",),
    "measure": ("taskset", "sysbench"),
    "test": (
        "g++",
        "cmake",
        "ninja",
        "clang",
        "ld.lld",
        "llvm-profdata",
        "mariadbd",
        "psql",
        "fio",
        "strace",
        "tcpdump",
        "ip",
        "valgrind",
        "openssl",
    ),
    "gcc-only": ("g++", "cmake", "ninja", "bison", "protoc", "pkg-config", "perl", "sysbench"),
    "mysql": (
        "g++",
        "cmake",
        "ninja",
        "bison",
        "protoc",
        "pkg-config",
        "perl",
        "sysbench",
        "clang",
        "ld.lld",
    ),
}
"""What is looked for instead where there is no dpkg."""

_REMOVAL = "remove is disabled"
"""What apt says instead of removing packages."""
_APT_LOCK_WAIT_S = 600
_INSTALL_TIMEOUT_S = 3600.0


def missing_packages(purpose: Purpose, shell: Shell) -> tuple[str, ...]:
    """Names of the packages to install for ``purpose``; empty when nothing is missing.

    Raises MissingTool on a system without dpkg.
    """
    llvm = [tuple(name.format(n=number) for name in _LLVM) for number in _LLVM_VERSIONS]
    plain = _needs(purpose)
    wants_llvm = purpose in ("mysql", "test")
    names = {name for need in plain for name in need if name != _NOTHING}
    if wants_llvm:
        names.update(name for group in llvm for name in group)
    installed = _installed(names, shell)
    missing = [need for need in plain if not installed.intersection(need)]
    complete = any(installed.issuperset(group) for group in llvm)
    choose_llvm = wants_llvm and not complete
    if not missing and not choose_llvm:
        return ()
    known = _known(names, shell) | {_NOTHING}
    chosen = [next((name for name in need if name in known), need[0]) for need in missing]
    chosen = [name for name in chosen if name != _NOTHING]
    if choose_llvm:
        group = next((group for group in llvm if known.issuperset(group)), llvm[0])
        chosen += [name for name in group if name not in installed]
    return tuple(chosen)


def install_line(packages: Iterable[str]) -> str:
    """The line that an administrator pastes to install ``packages``. apt asks where it would remove others."""
    return f"sudo apt-get install --no-install-recommends {' '.join(packages)}"


def ensure_packages(purpose: Purpose, *, allow_install: bool, shell: Shell, say: Callable[[str], None]) -> tuple[str, ...]:
    """Install what ``purpose`` lacks and return its names; asks first on a terminal, else ``say`` gets a line about it.

    Needs root or a sudo that asks for no password, on Debian or Ubuntu. Raises MissingTool with the line to
    paste where it cannot or, without ``allow_install`` or after a no, may not install. It removes no package.
    """
    if shutil.which("dpkg-query") is None or shutil.which("apt-get") is None:
        _require_programs(purpose)
        return ()
    missing = missing_packages(purpose, shell)
    if not missing:
        return ()
    lacking = f"system packages are missing: {' '.join(missing)}"
    if not allow_install:
        raise MissingTool(lacking, f"run `{install_line(missing)}`, or leave out --no-install")
    prefix = _privilege(shell)
    if prefix is None:
        raise MissingTool(lacking, f"run `{install_line(missing)}`, then run this command again")
    packages = "1 system package" if len(missing) == 1 else f"{len(missing)} system packages"
    said = agreed(f"Install {packages} ({' '.join(missing)})? [Y/n] ")
    if said is False:
        raise MissingTool(lacking, f"run `{install_line(missing)}`, then run this command again")
    if said is None:
        say(f"no terminal to ask on: installing {packages} (--no-install refuses): {' '.join(missing)}")
    if not _known(missing, shell).issuperset(missing):
        _apt(prefix, ("update",), shell, say)  # a fresh image has no package lists yet
        missing = missing_packages(purpose, shell)
    # A package that the user has may stand in the way of one of these: apt would remove it without a question.
    install = ("install", "-y", "--no-remove", "--no-install-recommends", *missing)
    try:
        _apt(prefix, install, shell, say)
    except CommandFailed:
        _apt(prefix, ("update",), shell, say)  # old lists name versions that are no longer there
        try:
            _apt(prefix, install, shell, say)
        except CommandFailed as error:
            if _REMOVAL in error.log:
                raise MissingTool(
                    f"{lacking}, and apt would have to remove other packages to install them:\n{error.message}",
                    f"if you do not need those, run `{install_line(missing)}`: it asks before it removes them",
                ) from error
            raise MissingTool(
                f"{lacking}, and installing them failed:\n{error.message}",
                f"see what `{install_line(missing)}` says",
            ) from error
    return missing


def _needs(purpose: Purpose) -> tuple[Need, ...]:
    if purpose == "launcher":
        return ((f"python{sys.version_info.major}.{sys.version_info.minor}-venv", "python3-venv"),)
    return {"native": _NATIVE, "measure": _MEASURE, "test": _BUILD + _TEST}.get(purpose, _BUILD + _MYSQL)


def _installed(names: Iterable[str], shell: Shell) -> set[str]:
    """Those of ``names`` that dpkg has installed. Its output has other states and complaints too."""
    query = ("dpkg-query", "-W", "-f", "${db:Status-Abbrev}:${Package}\\n", *sorted(names))
    done = shell.run(Command(query), check=False)
    return set(re.findall(r"^.i\s*:(\S+)$", done.stdout, re.MULTILINE))


def _known(names: Iterable[str], shell: Shell) -> set[str]:
    """Those of ``names`` that apt could install."""
    command = Command(("apt-cache", "policy", *sorted(names)))
    stdout = shell.run(command, check=False).stdout
    return set(re.findall(r"^(\S+):\n\s+Installed: .*\n\s+Candidate: (?!\(none\))", stdout, re.MULTILINE))


def _privilege(shell: Shell) -> tuple[str, ...] | None:
    """What to put before apt-get: nothing as root, else a sudo without password, else None."""
    if os.geteuid() == 0:
        return ()
    try:
        allowed = shell.run(Command(("sudo", "-n", "true")), check=False).returncode == 0
    except MissingTool:
        return None
    return ("sudo", "-n") if allowed else None


def _apt(prefix: tuple[str, ...], arguments: tuple[str, ...], shell: Shell, say: Callable[[str], None]) -> None:
    # env, not the command's own environment: sudo drops that.
    quiet = ("env", "DEBIAN_FRONTEND=noninteractive")
    wait = ("-o", f"DPkg::Lock::Timeout={_APT_LOCK_WAIT_S}")
    argv = (*prefix, *quiet, "apt-get", *wait, *arguments)
    shell.run(Command(argv, when_orphaned=signal.SIGINT, uninterrupted=say), timeout_s=_INSTALL_TIMEOUT_S)


def _require_programs(purpose: Purpose) -> None:
    """Without dpkg: headers are left to CMake, which names each one that it does not find."""
    lacking = [name for name in _PROGRAMS[purpose] if shutil.which(name) is None]
    if lacking:
        raise MissingTool(
            f"programs are missing: {' '.join(lacking)}",
            "install them with your package manager (on Debian and Ubuntu, Upshift does so by itself)",
        )
