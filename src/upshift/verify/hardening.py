"""What protects a binary, read from its ELF structures; an optimised server must not lose any of it."""

from __future__ import annotations

from pathlib import Path

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from upshift.errors import VerifyFailed

_DF_BIND_NOW = 0x8
_DF_1_NOW = 0x1


def examine(binary: Path) -> dict[str, str]:
    """Each protection and its state: ``PIE``, ``RELRO``, ``NX stack``, ``stack protector``, ``FORTIFY``.

    The last two are seen from the functions that protected code calls: __stack_chk_fail and those that end in _chk.
    """
    with binary.open("rb") as file:
        elf = ELFFile(file)
        segments = {segment["p_type"]: segment for segment in elf.iter_segments()}
        imported = _imported(elf)
        now = _binds_now(elf)
        stack = segments.get("PT_GNU_STACK")
        fortified = sum(1 for name in imported if name.endswith("_chk") and name != "__stack_chk_fail")
        return {
            "PIE": _yes(elf["e_type"] == "ET_DYN"),
            "RELRO": "no" if "PT_GNU_RELRO" not in segments else "full" if now else "partial",
            "NX stack": _yes(stack is not None and not stack["p_flags"] & 1),
            "stack protector": _yes("__stack_chk_fail" in imported),
            "FORTIFY": _yes(fortified > 0),
        }


def compare(plain: dict[str, str], optimised: dict[str, str]) -> None:
    """Raises VerifyFailed when the optimised binary lacks a protection that the plain one has."""
    rank = {"no": 0, "partial": 1, "yes": 2, "full": 2}
    lost = [f"{name} ({plain[name]} -> {optimised[name]})" for name in plain if rank[optimised[name]] < rank[plain[name]]]
    if lost:
        raise VerifyFailed(f"the optimised server lost hardening: {', '.join(lost)}", "see the recipe's flags and link_flags")


def text_bytes(binary: Path) -> int:
    """Size of the executable sections."""
    with binary.open("rb") as file:
        executable = 0x4
        return sum(section["sh_size"] for section in ELFFile(file).iter_sections() if section["sh_flags"] & executable)


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
