"""The command-line flags that each compiler family needs for each step, as pure functions.

Every function returns what one step adds to a server's own flags; ``Flags`` add up::

    plain("clang", bolt=True) + use("clang", profile) + thin_lto("clang", jobs=2)

Sources: the Clang User's Manual ("Profile Guided Optimization"), GCC's manual ("Options That Control
Optimization", "Program Instrumentation Options"), LLVM's BOLT README, and MySQL's cmake/fprofile.cmake.
"""

from __future__ import annotations

from pathlib import Path

from upshift.toolchain.model import Family
from upshift.values import Value


class Flags(Value):
    """What one step adds to the compile commands and to the server's link command."""

    compile: tuple[str, ...] = ()
    link: tuple[str, ...] = ()

    def __add__(self, other: Flags) -> Flags:
        """Both, in order, each flag once."""
        return Flags(
            compile=tuple(dict.fromkeys(self.compile + other.compile)),
            link=tuple(dict.fromkeys(self.link + other.link)),
        )


def plain(family: Family, *, bolt: bool = False) -> Flags:
    """What every build gets, the baseline too.

    ``bolt`` keeps what a post-link optimiser needs.
    """
    compile_: list[str] = []
    link: list[str] = []
    if family != "gcc":
        link.append("-fuse-ld=lld")  # links LLVM bitcode and native objects together, in seconds
    if family == "icx":
        compile_.append("-fp-model=precise")  # icx defaults to fast maths, which changes a database's results
    if bolt:
        link.append("-Wl,--emit-relocs")  # BOLT moves functions only when it sees every relocation
        if family == "gcc":
            # GCC's .cold partitions split functions in a way that BOLT cannot put together again.
            compile_.append("-fno-reorder-blocks-and-partition")
    return Flags(compile=tuple(compile_), link=tuple(link))


def instrument(family: Family, profiles: Path) -> Flags:
    """An instrumented build that leaves its counters in the folder ``profiles`` when the server exits.

    GCC names each file of counters after the path of the object file, so that the objects of ``use`` must be
    written to the very paths of the instrumented ones; LLVM matches by function.
    """
    counters = f"-fprofile-generate={profiles}"  # counters in the control flow, written here at exit
    if family == "gcc":
        # A server's threads would lose each other's increments; not every target has wide atomics.
        return Flags(compile=(counters, "-fprofile-update=prefer-atomic"), link=(counters,))
    # The same: clang's counters are racy by default.
    return Flags(compile=(counters, "-fprofile-update=atomic"), link=(counters,))


def instrument_again(family: Family, first: Path, profiles: Path) -> Flags:
    """The second, context-sensitive instrumentation, on top of the merged profile ``first``.

    It counts after the inlining that ``first`` led to, so that a function's counts are those of its
    own callers. Raises ValueError for GCC, which has no such step.
    """
    if family == "gcc":
        raise ValueError("GCC has no context-sensitive instrumentation")
    counters = f"-fcs-profile-generate={profiles}"  # counters after the main inliner
    inlining = f"-fprofile-use={first}"  # the same inlining as the optimised build will have
    # At the link too: with ThinLTO the counters are inserted there.
    return Flags(
        compile=(inlining, counters, "-fprofile-update=atomic", *_LLVM_QUIET),
        link=(inlining, counters, "-fprofile-update=atomic"),
    )


def use(family: Family, profile: Path) -> Flags:
    """An optimised build from a merged ``.profdata`` file (clang, icx) or from a folder of counters (GCC)."""
    guided = f"-fprofile-use={profile}"
    if family == "gcc":
        return Flags(
            compile=(
                guided,
                "-fprofile-correction",  # smooths counters that threads left inconsistent
                "-fprofile-partial-training",  # code that training never reached keeps -O2/-O3, not -Os
                "-Wno-missing-profile",  # objects that never ran have no counters: expected
                "-Wno-coverage-mismatch",  # an error by default; the profile gate judges instead
            ),
            link=(guided,),  # link-time optimisation compiles at the link
        )
    # At the link too: ThinLTO's back ends read the context-sensitive part of the profile there.
    return Flags(compile=(guided, *_LLVM_QUIET), link=(guided,))


def thin_lto(family: Family, *, jobs: int) -> Flags:
    """Link-time optimisation: ThinLTO (clang, icx) or GCC's own, with ``jobs`` compilations side by side."""
    if family == "gcc":
        parallel = f"-flto={jobs}"  # so many partitions are compiled at once
        return Flags(compile=(parallel, "-fno-fat-lto-objects"), link=(parallel,))  # no second, unused machine code
    thin = "-flto=thin"  # bitcode with summaries: imports across files without one huge module
    return Flags(compile=(thin,), link=(thin, f"-Wl,--thinlto-jobs={jobs}"))


_LLVM_QUIET = (
    "-Wno-profile-instr-out-of-date",  # a line for each changed function; the profile gate counts them
    "-Wno-profile-instr-unprofiled",  # a line for each file that training never reached
    "-Wno-error=backend-plugin",  # a profile's hash mismatch must not fail a build that says -Werror
)
