"""Hardening as it stands in real ELF files, made by the compiler that is there."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from upshift.errors import VerifyFailed
from upshift.verify.hardening import compare, examine, lacking, text_bytes

SOURCE = """
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv) {
  char copy[16];
  strcpy(copy, argv[argc - 1]);
  puts(copy);
  return 0;
}
"""
HARD = (
    "-O2 -fPIE -pie -fstack-protector-all -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fcf-protection=full "
    "-Wl,-z,relro,-z,now,-z,noexecstack"
)
SOFT = "-O2 -fno-PIE -no-pie -fno-stack-protector -U_FORTIFY_SOURCE -fcf-protection=none -Wl,-z,norelro,-z,lazy,-z,execstack"

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None or platform.machine() != "x86_64", reason="needs GCC, and CET is x86's"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hardening")


def build(folder: Path, name: str, flags: str) -> Path:
    (folder / f"{name}.c").write_text(SOURCE)
    subprocess.run(["gcc", *flags.split(), "-w", "-o", folder / name, folder / f"{name}.c"], check=True)
    return folder / name


@pytest.fixture(scope="module")
def hard(folder: Path) -> dict[str, str]:
    return examine(build(folder, "hard", HARD))


@pytest.fixture(scope="module")
def soft(folder: Path) -> dict[str, str]:
    return examine(build(folder, "soft", SOFT))


def test_all_protections_are_seen(hard: dict[str, str]) -> None:
    # Whether the C library's start files carry CET differs from one distribution to another.
    assert {name: state for name, state in hard.items() if not name.startswith("CET")} == {
        "PIE": "yes",
        "RELRO": "full",
        "NX stack": "yes",
        "no writable code": "yes",
        "stack protector": "yes",
        "FORTIFY": "yes",
    }


def test_missing_protections_are_seen(soft: dict[str, str]) -> None:
    assert soft == {**dict.fromkeys(soft, "no"), "no writable code": "yes"}


def test_relro_without_binding_at_the_start_is_partial(folder: Path) -> None:
    assert examine(build(folder, "partial", HARD.replace("-z,now", "-z,lazy")))["RELRO"] == "partial"


def test_code_that_can_be_written_is_seen(folder: Path) -> None:
    assert examine(build(folder, "writable", "-O2 -nostdlib -shared -fPIC -Wl,-N"))["no writable code"] == "no"


def test_cet_is_read_from_the_property_note(folder: Path) -> None:
    # Without start files nothing but this object decides.
    flags = "-O2 -nostdlib -shared -fPIC -fcf-protection="
    assert examine(build(folder, "cet", f"{flags}full"))["CET IBT"] == "yes"
    state = examine(build(folder, "half", f"{flags}return"))
    assert (state["CET IBT"], state["CET SHSTK"]) == ("no", "yes")


def test_a_loss_is_named(hard: dict[str, str], soft: dict[str, str]) -> None:
    with pytest.raises(VerifyFailed, match=r"PIE \(yes -> no\), RELRO \(full -> no\)"):
        compare(hard, soft)


def test_partial_relro_after_full_is_a_loss(hard: dict[str, str]) -> None:
    with pytest.raises(VerifyFailed, match=r"RELRO \(full -> partial\)"):
        compare(hard, {**hard, "RELRO": "partial"})


def test_the_same_and_more_are_no_loss(hard: dict[str, str], soft: dict[str, str]) -> None:
    compare(hard, hard)
    compare(soft, {**hard, "no writable code": "yes"})


def test_a_property_that_was_not_found_again_is_a_loss(hard: dict[str, str]) -> None:
    with pytest.raises(VerifyFailed, match="PIE"):
        compare(hard, {name: state for name, state in hard.items() if name != "PIE"})


def test_code_is_measured_without_data(folder: Path) -> None:
    binary = build(folder, "sized", HARD)
    assert 0 < text_bytes(binary) < binary.stat().st_size // 2


def test_a_file_that_is_no_program_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "script").write_text("#!/bin/sh\n")
    with pytest.raises(VerifyFailed, match="is not a program"):
        examine(tmp_path / "script")


def test_what_a_server_in_use_has_beyond_another_is_named() -> None:
    assert lacking({"PIE": "yes", "RELRO": "full", "FORTIFY": "no"}, {"PIE": "no", "RELRO": "partial", "FORTIFY": "yes"}) == (
        "PIE (yes -> no)",
        "RELRO (full -> partial)",
    )
    assert lacking({}, {"PIE": "no"}) == ()
