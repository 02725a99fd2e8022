"""Environment variables that change what a build makes, without a word in its commands.

Sources: the GCC manual ("Environment Variables Affecting GCC"), the Clang User's Manual, the manual of GNU ld,
cmake-env-variables(7), pkg-config(1), the Bison manual.

CFLAGS, CXXFLAGS and LDFLAGS are not here: builds give CMake theirs, also the empty ones. Neither are SOURCE_DATE_EPOCH,
without which the date in a server is that of its build, and LD_LIBRARY_PATH: the contents of the libraries that compilers
load through it are known, and GNU ld only checks with it what libraries need of each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

NAMES = frozenset(
    (
        # Where compilers look for headers, libraries and their own parts.
        "CPATH",
        "C_INCLUDE_PATH",
        "CPLUS_INCLUDE_PATH",
        "OBJC_INCLUDE_PATH",
        "OBJCPLUS_INCLUDE_PATH",
        "LIBRARY_PATH",
        "COMPILER_PATH",
        "GCC_EXEC_PREFIX",
        # Flags that no command shows.
        "CCC_OVERRIDE_OPTIONS",
        "CLANG_NO_DEFAULT_CONFIG",
        "ICXCFG",
        "ICPXCFG",
        "__INTEL_PRE_CFLAGS",
        "__INTEL_POST_CFLAGS",
        "CPPFLAGS",
        "ASMFLAGS",
        # What GNU ld writes into a server, and which formats it takes.
        "LD_RUN_PATH",
        "LDEMULATION",
        "GNUTARGET",
        # What generates sources.
        "BISON_PKGDATADIR",
        "M4",
    )
)
_BEGINNINGS = ("CMAKE_", "PKG_CONFIG")
# They say how a build runs or looks, or the command line has a value of its own.
HARMLESS = frozenset(
    (
        "CMAKE_BUILD_PARALLEL_LEVEL",
        "CMAKE_BUILD_TYPE",
        "CMAKE_COLOR_DIAGNOSTICS",
        "CMAKE_EXPORT_COMPILE_COMMANDS",
        "CMAKE_GENERATOR",
        "CMAKE_NO_VERBOSE",
    )
)


def changing_builds(environment: Mapping[str, str], server_s: Iterable[str]) -> tuple[str, ...]:
    """Those variables of ``environment`` that reach a build, with those that only this server's CMake files read, sorted.

    Empty ones too: to GCC an empty path is the folder that it runs in.
    """
    known = NAMES.union(server_s)
    return tuple(
        sorted(name for name in environment if name in known or (name.startswith(_BEGINNINGS) and name not in HARMLESS))
    )
