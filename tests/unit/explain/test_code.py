"""What a disassembly says of functions: whom they call, and with which instructions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from fakes import FakeShell, Output

from upshift.explain import names
from upshift.explain.code import Code, disassemble
from upshift.explain.symbols import Part, SymbolTable

TABLE = SymbolTable(
    [
        Part(0x100, 0x140, ("_Z5callrv",)),
        Part(0x140, 0x180, ("_Z4calleev.llvm.77",)),
        Part(0x180, 0x190, ("_Z4leafv", "_Z4samev")),
        Part(0x200, 0x240, ("_Z5callrv.cold.0",)),
    ],
    [],
)
LISTING = """
server:	file format elf64-x86-64

Disassembly of section .text:

0000000000000100 <_Z5callrv>:
     100:      	pushq	%rbp
     101:      	movq	%rsp, %rbp
     104:      	callq	0x140 <_Z4calleev.llvm.77>
     109:      	callq	0x140 <_Z4calleev.llvm.77>
     10e:      	callq	*0x18(%rax)
     112:      	leaq	0x68(%rip), %rcx        # 0x180 <_Z4leafv>
     119:      	leaq	0x68(%rip), %rcx        # 0x3000 <.L.str.24>
     11e:      	jne	0x130 <_Z5callrv+0x30>
     120:      	jmp	0x200 <_Z5callrv.cold.0>
     125:      	nopw	%cs:(%rax,%rax)
     130:      	jmp	0x400 <malloc@plt>

0000000000000200 <_Z5callrv.cold.0>:
     200:      	callq	0x180 <_Z4leafv>
     205:      	retq
"""


def read(listing: str) -> Mapping[str, Code]:
    shell = FakeShell({"objdump": Output(listing)})
    return disassemble(shell, Path("objdump"), Path("mysqld"), TABLE, ["_Z5callrv", "_Z4samev"])


def test_calls_and_jumps_into_other_functions_are_counted_by_source_name() -> None:
    code = read(LISTING)["_Z5callrv"]
    assert code.calls == {"_Z4calleev": 2, "malloc@plt": 1}
    assert code.cold_calls == {"_Z4leafv": 1}
    assert code.tail_calls == {"malloc@plt"}


def test_instructions_are_counted_without_padding_and_apart_when_cold() -> None:
    code = read(LISTING)["_Z5callrv"]
    assert (code.instructions, code.cold_instructions, code.all_instructions) == (10, 2, 12)
    assert code.mnemonics == {"pushq": 1, "movq": 1, "callq": 4, "leaq": 2, "retq": 1}


def test_taken_addresses_of_functions_and_frame_pointers_are_seen() -> None:
    code = read(LISTING)["_Z5callrv"]
    assert code.named == {"_Z4leafv", "_Z4samev"} and code.frame_pointer
    moved = LISTING.replace("movq	%rsp, %rbp", "movq	%rdi, %rbp")
    assert not read(moved)["_Z5callrv"].frame_pointer


def test_functions_of_one_code_have_it_in_common() -> None:
    listing = "0000000000000180 <_Z4samev>:\n     180:      	retq\n"
    found = read(listing)
    assert found["_Z4leafv"] is found["_Z4samev"]


def test_a_part_is_asked_for_by_all_its_names_and_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM 14 knows a part by one of its names; LLVM 22 prints it under all, and again for a second command."""
    body = "     180:      	callq	0x100 <_Z5callrv>\n     185:      	retq\n"
    listing = f"0000000000000180 <_Z4leafv>:\n0000000000000180 <_Z4samev>:\n{body}"
    for room_bytes, asked in ((400, ["_Z4leafv,_Z4samev"]), (1, ["_Z4leafv", "_Z4samev"])):
        monkeypatch.setattr(names, "_ARGUMENT_BYTES", room_bytes)
        shell = FakeShell({"objdump": Output(listing)})
        found = disassemble(shell, Path("objdump"), Path("mysqld"), TABLE, ["_Z4samev"])
        assert [line.partition("--disassemble-symbols=")[2] for line in shell.lines] == [f"{each} mysqld" for each in asked]
        assert found["_Z4samev"].instructions == 2 and found["_Z4samev"].calls == {"_Z5callrv": 1}
