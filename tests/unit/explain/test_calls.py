"""System calls a query, and how their time divides."""

from __future__ import annotations

from pathlib import Path

import pytest
from explained_example import in_call, on
from fakes import FakeShell, Output

from upshift.explain.calls import Round, compared, countable, events, read_counts, worth_counting
from upshift.explain.counting import command
from upshift.explain.script import KERNEL, Frame

PRINTED = """# started on Sun Nov 22 14:00:00 2026

1200,,syscalls:sys_enter_futex,2000000000,100.00,,
<not counted>,,syscalls:sys_enter_ppoll,0,100.00,,
88000,,syscalls:sys_enter_sendto,2000000000,100.00,,
"""


def test_perfs_counts_are_read_by_call_and_what_was_not_counted_is_left_out() -> None:
    assert read_counts(PRINTED) == {"futex": 1200, "sendto": 88000}


def test_the_calls_with_most_samples_are_counted_and_no_interrupts() -> None:
    timer = (Frame(KERNEL, "tick", 0), Frame(KERNEL, "asm_sysvec_apic_timer_interrupt", 0), *on("run"))
    stacks = [(in_call("futex"), 3), (in_call("sendto"), 9), (timer, 20), (on("run"), 50)]
    assert worth_counting(stacks) == ("sendto", "futex")
    many = [(in_call(f"call{number}"), number) for number in range(1, 20)]
    assert worth_counting(many)[0] == "call19" and len(worth_counting(many)) == 8


def test_a_perf_that_may_not_count_them_is_told() -> None:
    assert countable(FakeShell())
    assert not countable(FakeShell({"sys_enter_read": Output(returncode=129)}))


def test_the_command_names_the_server_and_each_call() -> None:
    line = command(77, events(("futex", "sendto")), Path("/run/calls.csv")).pasteable()
    assert "-e syscalls:sys_enter_futex -e syscalls:sys_enter_sendto -p 77" in line and "-o /run/calls.csv" in line


def test_calls_stand_beside_their_time_those_with_most_of_it_first() -> None:
    rounds = (
        [Round({"futex": 50, "sendto": 100, "read": 200}, 100), Round({"futex": 70, "sendto": 100}, 100)],
        [Round({"futex": 20, "sendto": 100}, 100)],
    )
    found = compared(rounds, ({"sendto": 9.0}, {"sendto": 8.0}))
    assert [(each.name, each.calls_before, each.calls_after) for each in found] == [("sendto", 1.0, 1.0), ("futex", 0.6, 0.2)]
    assert (found[0].us_before, found[0].us_after) == pytest.approx((9.0, 8.0))
