"""What protects a binary, read from its ELF structures; an optimised server must not lose any of it."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from elftools.common.exceptions import ELFError
from elftools.elf.constants import P_FLAGS, SH_FLAGS
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection, SymbolTableSection

from upshift.errors import VerifyFailed

_DF_BIND_NOW = 0x8
_DF_1_NOW = 0x1
_CET_IBT = 0x1
_CET_SHSTK = 0x2
_RANK = {"no": 0, "partial": 1, "yes": 2, "full": 2}


def examine(binary: Path) -> dict[str, str]:
    """Each protection and its state: ``yes``, ``no``, for RELRO ``full`` (with all symbols bound at the start) or ``partial``.

    Stack protector and FORTIFY are seen from the functions that protected code calls: __stack_chk_fail and those that
    end in _chk. The CET pair (indirect branch tracking, shadow stack) is what the linker found in all objects.
    Raises VerifyFailed when ``binary`` is no ELF file.
    """
    with binary.open("rb") as file:
        elf = _opened(file, binary)
        segments = {segment["p_type"]: segment for segment in elf.iter_segments()}
        imported = _imported(elf)
        now = _binds_now(elf)
        stack = segments.get("PT_GNU_STACK")
        fortified = any(name.endswith("_chk") for name in imported)
        cet = _cet(elf)
        loaded = [segment["p_flags"] for segment in elf.iter_segments() if segment["p_type"] == "PT_LOAD"]
        return {
            "PIE": _yes(elf["e_type"] == "ET_DYN"),
            "RELRO": "no" if "PT_GNU_RELRO" not in segments else "full" if now else "partial",
            "NX stack": _yes(stack is not None and not stack["p_flags"] & P_FLAGS.PF_X),
            "no writable code": _yes(not any(flags & P_FLAGS.PF_X and flags & P_FLAGS.PF_W for flags in loaded)),
            "stack protector": _yes("__stack_chk_fail" in imported),
            "FORTIFY": _yes(fortified),
            "CET IBT": _yes(bool(cet & _CET_IBT)),
            "CET SHSTK": _yes(bool(cet & _CET_SHSTK)),
        }


def compare(plain: dict[str, str], optimised: dict[str, str]) -> None:
    """Raises VerifyFailed when the optimised binary lacks a protection that the plain one has."""
    if lost := lacking(plain, optimised):
        raise VerifyFailed(f"the optimised server lost hardening: {', '.join(lost)}", "see the recipe's flags and link_flags")


def lacking(one: dict[str, str], other: dict[str, str]) -> tuple[str, ...]:
    """The protections that ``one`` has and ``other`` has not, or has in part: ``RELRO (full -> partial)``."""
    return tuple(
        f"{name} ({before} -> {after})" for name, before in one.items() if weaker(before, after := other.get(name, "no"))
    )


def weaker(before: str, after: str) -> bool:
    """Whether a protection's state ``after`` protects less; one that is not known is as none."""
    return _RANK.get(after, 0) < _RANK.get(before, 0)


def text_bytes(binary: Path) -> int:
    """Size of the executable sections."""
    with binary.open("rb") as file:
        sections = _opened(file, binary).iter_sections()
        return sum(section["sh_size"] for section in sections if section["sh_flags"] & SH_FLAGS.SHF_EXECINSTR)


def _opened(file: BinaryIO, binary: Path) -> ELFFile:
    try:
        return ELFFile(file)
    except ELFError as error:
        raise VerifyFailed(f"{binary} is not a program: {error}", "build it again") from error


def _cet(elf: ELFFile) -> int:
    section = elf.get_section_by_name(".note.gnu.property")
    if not isinstance(section, NoteSection):
        return 0
    for note in section.iter_notes():
        if note["n_type"] == "NT_GNU_PROPERTY_TYPE_0":
            for item in note["n_desc"]:
                if item["pr_type"] == "GNU_PROPERTY_X86_FEATURE_1_AND":
                    return int(item["pr_data"])
    return 0


def _imported(elf: ELFFile) -> set[str]:
    table = elf.get_section_by_name(".dynsym")
    if not isinstance(table, SymbolTableSection):
        return set()
    return {symbol.name for symbol in table.iter_symbols() if symbol["st_shndx"] == "SHN_UNDEF"}


def _binds_now(elf: ELFFile) -> bool:
    dynamic = elf.get_section_by_name(".dynamic")
    if not isinstance(dynamic, DynamicSection):
        return False
    for tag in dynamic.iter_tags():
        if tag.entry.d_tag == "DT_BIND_NOW":
            return True
        if tag.entry.d_tag == "DT_FLAGS" and tag.entry.d_val & _DF_BIND_NOW:
            return True
        if tag.entry.d_tag == "DT_FLAGS_1" and tag.entry.d_val & _DF_1_NOW:
            return True
    return False


def _yes(state: bool) -> str:
    return "yes" if state else "no"
