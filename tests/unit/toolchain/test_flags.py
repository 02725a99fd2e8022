from __future__ import annotations

from pathlib import Path

import pytest

from upshift.toolchain.flags import Flags, instrument, instrument_again, plain, thin_lto, use
from upshift.toolchain.model import Family

PROFILES = Path("/run/counters")


@pytest.mark.parametrize("family", ["clang", "gcc", "icx"])
def test_every_family_keeps_relocations_for_bolt_and_only_then(family: Family) -> None:
    assert "-Wl,--emit-relocs" in plain(family, bolt=True).link
    assert "-Wl,--emit-relocs" not in plain(family).link


def test_gcc_keeps_functions_whole_for_bolt_and_clang_need_not() -> None:
    assert plain("gcc", bolt=True).compile == ("-fno-reorder-blocks-and-partition",)
    assert plain("gcc").compile == ()
    assert plain("clang", bolt=True).compile == ()


def test_llvm_families_link_with_lld_and_gcc_with_the_systems_linker() -> None:
    assert plain("clang").link == plain("icx").link == ("-fuse-ld=lld",)
    assert plain("gcc").link == ()


def test_icx_computes_as_the_others_do() -> None:
    assert plain("icx").compile == ("-fp-model=precise",)


@pytest.mark.parametrize(("family", "update"), [("clang", "atomic"), ("icx", "atomic"), ("gcc", "prefer-atomic")])
def test_counters_are_atomic_and_the_runtime_is_linked(family: Family, update: str) -> None:
    flags = instrument(family, PROFILES)
    assert flags.compile == ("-fprofile-generate=/run/counters", f"-fprofile-update={update}")
    assert flags.link == ("-fprofile-generate=/run/counters",)


@pytest.mark.parametrize("family", ["clang", "icx"])
def test_second_stage_inlines_by_the_first_profile_at_compile_and_link(family: Family) -> None:
    flags = instrument_again(family, Path("/p/first.profdata"), PROFILES)
    for step in (flags.compile, flags.link):
        assert "-fprofile-use=/p/first.profdata" in step
        assert "-fcs-profile-generate=/run/counters" in step
        assert not any(flag.startswith("-fprofile-generate") for flag in step)


def test_gcc_has_no_second_stage() -> None:
    with pytest.raises(ValueError, match="GCC"):
        instrument_again("gcc", Path("/p/first"), PROFILES)


def test_clang_reads_the_profile_at_the_link_too() -> None:
    flags = use("clang", Path("/p/all.profdata"))
    assert flags.compile[0] == "-fprofile-use=/p/all.profdata"
    assert "-Wno-profile-instr-out-of-date" in flags.compile
    assert flags.link == ("-fprofile-use=/p/all.profdata",)


def test_gcc_tolerates_what_a_threaded_and_partial_training_leaves() -> None:
    assert use("gcc", PROFILES).compile == (
        "-fprofile-use=/run/counters",
        "-fprofile-correction",
        "-fprofile-partial-training",
        "-Wno-missing-profile",
        "-Wno-coverage-mismatch",
    )


def test_lto_of_each_family() -> None:
    assert thin_lto("clang", jobs=2) == Flags(compile=("-flto=thin",), link=("-flto=thin", "-Wl,--thinlto-jobs=2"))
    assert thin_lto("icx", jobs=2) == thin_lto("clang", jobs=2)
    assert thin_lto("gcc", jobs=3).link == ("-flto=3",)


def test_steps_add_up_in_order_without_repetition() -> None:
    both = use("gcc", PROFILES) + use("gcc", PROFILES) + thin_lto("gcc", jobs=2)
    assert both.link == ("-fprofile-use=/run/counters", "-flto=2")
    assert both.compile[-2:] == ("-flto=2", "-fno-fat-lto-objects")
