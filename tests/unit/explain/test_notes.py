"""What an explanation says that it could not tell."""

from __future__ import annotations

from pathlib import Path

import pytest
from explained_example import block, in_call, on, variant

from upshift.explain import explaining
from upshift.explain.inlining import Examined
from upshift.explain.recording import Recorded
from upshift.explain.script import KERNEL, UNKNOWN, Frame, Stack
from upshift.explain.symbols import SymbolTable
from upshift.explain.tools import Tools

UNREAD = Examined({}, (), {}, {}, 1.0)
TABLE = SymbolTable([], [])
HIDDEN: Stack = (Frame(KERNEL, UNKNOWN, 0), *on("run"))


def notes(*stacks: Stack) -> str:
    recorded = Recorded(([block(dict.fromkeys(stacks, 10))], [block({on("run"): 10})]))
    pair, tools = (variant("a"), variant("b")), Tools(objdump=Path("/objdump"), symbolizer=None, demangler=None)
    return "\n".join(explaining._notes(pair, (TABLE, TABLE), (UNREAD, UNREAD), (1.0, 1.0), tools, "cpu-clock", recorded))


@pytest.mark.parametrize(
    ("stacks", "said"),
    [
        ((on("run"),), "no sample fell into the kernel"),
        ((on("run"), HIDDEN), "the kernel hides its functions' names"),
        ((HIDDEN, in_call("futex")), "system calls were not counted"),
    ],
)
def test_a_note_on_the_kernel_says_what_is_the_matter(stacks: tuple[Stack, ...], said: str) -> None:
    told = notes(*stacks)
    assert said in told
    others = {"no sample fell into the kernel", "the kernel hides its functions' names", "system calls were not counted"}
    assert not any(each in told for each in others - {said})
