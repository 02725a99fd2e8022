"""Interrupts from CPU to CPU are counted where the load runs, by the names that each architecture gives them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from upshift.explain import interrupts
from upshift.explain.interrupts import beside, between_cpus

X86 = """\
           CPU0       CPU1       CPU3
 24:         10         20         30   PCI-MSIX-0000:00:01.0   0-edge      virtio0-config
LOC:    3581798    3190254       1000   Local timer interrupts
RES:        100       2000      30000   Rescheduling interrupts
CAL:          1         20        300   Function call interrupts
TLB:     208468     187369          5   TLB shootdowns
ERR:          0
"""
ARM = """\
           CPU0       CPU1
 11:       1000       1000     GICv3  27 Level     arch_timer
IPI0:         5         70       Rescheduling interrupts
IPI1:         1          2       Function call interrupts
IPI2:         9          9       CPU stop interrupts
"""


@pytest.mark.parametrize(
    ("text", "own", "count"),
    [
        (X86, {0}, 32_320),
        # A CPU that is offline has no column.
        (X86, {0, 1, 2}, 30_300),
        # The server may use all CPUs: those of the load are among them.
        (X86, {0, 1, 3}, 32_421),
        (ARM, {0}, 72),
    ],
)
def test_they_are_counted_on_the_cpus_that_the_server_leaves(text: str, own: set[int], count: int) -> None:
    assert between_cpus(text.splitlines(), without=own) == count


def test_a_kernel_that_does_not_list_them_tells_nothing() -> None:
    assert between_cpus(X86.splitlines()[:3], without={0}) is None
    assert between_cpus([], without={0}) is None


def test_what_cannot_be_read_is_not_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(interrupts, "_INTERRUPTS", tmp_path / "interrupts")
    assert beside(os.getpid()) is None
    (tmp_path / "interrupts").write_text(X86)
    assert beside(os.getpid()) is not None
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1})
    assert beside(os.getpid()) == 30_300
