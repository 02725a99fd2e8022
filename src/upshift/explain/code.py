"""What the machine code of functions says without running it: whom they call, and which instructions they hold."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from upshift.explain.names import for_commands, is_cold, source_name
from upshift.explain.symbols import SymbolTable
from upshift.shell import Command, Shell

_HEADER = re.compile(r"^([0-9a-f]+) <(.*)>:$")
_INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s+(\S+)\s*(.*)$")
_TARGET = re.compile(r"^(?:0x)?([0-9a-f]+) <([^>]+?)(?:\+0x[0-9a-f]+)?>")
_TAKEN = re.compile(r"# (?:0x)?([0-9a-f]+) <[^>]+>")
# Between hot and cold code and from function to function these change although the function does the same.
_PADDING = re.compile(r"^(nop|int3|xchg|data16|ud2)|^cs$|^rep$")


@dataclass
class Code:
    """A source function's machine code: all parts and copies of it together."""

    calls: Counter[str] = field(default_factory=Counter)
    """Direct calls by the source name of what they call, in parts that are not cold."""
    cold_calls: Counter[str] = field(default_factory=Counter)
    tail_calls: set[str] = field(default_factory=set)
    """Functions that it jumps to: they have its caller for theirs on a stack."""
    frame_pointer: bool = False
    named: set[str] = field(default_factory=set)
    """Functions whose address is taken: to compare a pointer with it before a promoted call, or to hand it on."""
    instructions: int = 0
    cold_instructions: int = 0
    mnemonics: Counter[str] = field(default_factory=Counter)
    """Without jumps, which a layout inverts, adds and removes, and without padding."""

    @property
    def all_instructions(self) -> int:
        return self.instructions + self.cold_instructions


def disassemble(shell: Shell, objdump: Path, server: Path, table: SymbolTable, functions: Iterable[str]) -> Mapping[str, Code]:
    """The code of the functions with these source names, by source name; those that the server does not have are left out."""
    wanted = set(functions)
    # All of a part's: LLVM 14 knows it by one of them alone.
    symbols = sorted(
        {symbol for part in table.parts if wanted & {source_name(each) for each in part.symbols} for symbol in part.symbols}
    )
    reader = _Reader(table)
    for part in for_commands(symbols):
        chosen = ",".join(part)
        options = ("-d", "--no-show-raw-insn", f"--disassemble-symbols={chosen}")
        shell.run(Command((str(objdump), *options, str(server))), on_line=reader.line)
    return reader.found


class _Reader:
    """Takes the lines of ``llvm-objdump -d --no-show-raw-insn``."""

    def __init__(self, table: SymbolTable) -> None:
        self.found: dict[str, Code] = {}
        self._table = table
        self._at = 0
        self._read: set[int] = set()
        """Where code begins that was read: every command that has one of its names prints it."""
        self._names: tuple[str, ...] = ()
        self._cold = False
        self._code = Code()

    def line(self, line: str) -> None:
        if header := _HEADER.match(line):
            self._begin(int(header[1], 16), header[2])
        elif self._names and (found := _INSTRUCTION.match(line)):
            self._read.add(self._at)
            self._instruction(found[2], found[3])

    def _begin(self, at: int, symbol: str) -> None:
        self._at, self._names = at, ()
        if at in self._read:
            return
        part = self._table.part(at)
        symbols = part.symbols if part else (symbol,)
        self._names = tuple(sorted({source_name(symbol) for symbol in symbols}))
        self._cold = all(is_cold(symbol) for symbol in symbols)
        self._code = self.found.setdefault(self._names[0], Code())
        for name in self._names[1:]:
            self.found[name] = self._code

    def _instruction(self, mnemonic: str, operands: str) -> None:
        if _PADDING.match(mnemonic):
            return
        jump = mnemonic.startswith("j")
        if not jump:
            self._code.mnemonics[mnemonic] += 1
            self._code.frame_pointer |= mnemonic.startswith("mov") and operands.startswith("%rsp, %rbp")
        if self._cold:
            self._code.cold_instructions += 1
        else:
            self._code.instructions += 1
        if jump or mnemonic.startswith("call"):
            callee = self._callee(operands)
            if callee and callee not in self._names:
                if jump:
                    self._code.tail_calls.add(callee)
                (self._code.cold_calls if self._cold else self._code.calls)[callee] += 1

        elif mnemonic.startswith("lea") and (taken := _TAKEN.search(operands)):
            part = self._table.part(int(taken[1], 16))
            if part and part.start == int(taken[1], 16):
                self._code.named |= {source_name(symbol) for symbol in part.symbols} - set(self._names)

    def _callee(self, operands: str) -> str | None:
        """What a direct call or jump leads to, by source name; None inside the function and through a register."""
        target = _TARGET.match(operands)
        if not target:
            return None
        part = self._table.part(int(target[1], 16))
        if part is None:
            # The linkage table's stubs have no symbols of their own.
            return target[2]
        names = sorted({source_name(symbol) for symbol in part.symbols})
        return self._names[0] if set(names) & set(self._names) else names[0]
