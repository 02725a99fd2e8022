"""Why the kernel takes more or less time: fewer calls and cheaper calls are claimed where counts and samples show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import pytest
from explained_example import block, in_call, on

from upshift.explain.calls import Round
from upshift.explain.kernel import groups
from upshift.explain.kernel_time import INTERRUPTS, kernel_time
from upshift.explain.model import Group, KernelGroup, KernelTime
from upshift.explain.rows import Sampled, sampled
from upshift.explain.script import KERNEL, Frame, Stack
from upshift.explain.symbols import Groups

QUERIES = 10_000


def server(**us: float) -> Sampled:
    """Eight blocks in which a query takes so many microseconds in each system call, and 100 of its own: 100 samples a us."""
    blocks = []
    for number in range(8):
        stacks = {in_call(name): round(100 * each) + number % 3 for name, each in us.items()} | {on("run"): 10_000 - number % 2}
        blocks.append(block(stacks, queries=QUERIES, cpu_s=sum(stacks.values()) * QUERIES / 100e6))
    return sampled(blocks, Groups())


def rounds(swing: float = 0.004, **calls: float) -> list[Round]:
    """Four rounds with so many calls a query, give or take a swing."""
    signs = (1, -1, -1, 1)
    return [
        Round({name: round(QUERIES * each * (1 + sign * swing)) for name, each in calls.items()}, QUERIES) for sign in signs
    ]


KINDS: Mapping[str, Group] = {"futex": "wake-ups", "sendto": "network", "fsync": "disk"}


def told(before: Sampled, after: Sampled, *counted: list[Round]) -> dict[str, KernelGroup]:
    found = kernel_time((before, after), (counted[0], counted[1]) if counted else ((), ()), KINDS)
    assert found
    return {each.name: each for each in found.groups}


def verdicts(each: KernelGroup) -> tuple[str, str]:
    assert each.calls and each.us_a_call
    return each.calls.verdict, each.us_a_call.verdict


@pytest.mark.parametrize(
    ("us", "calls", "said"),
    [
        (10.0, 1.0, ("less", "not told apart")),
        (20.0, 1.0, ("less", "more")),
        (10.0, 2.0, ("not told apart", "less")),
        (30.0, 2.0, ("not told apart", "more")),
        (30.0, 3.0, ("more", "not told apart")),
        (20.0, 2.0, ("not told apart", "not told apart")),
        (10.0, 3.0, ("more", "less")),
    ],
)
def test_the_time_of_calls_is_their_number_times_what_each_takes(us: float, calls: float, said: tuple[str, str]) -> None:
    found = told(server(futex=20.0), server(futex=us), rounds(futex=2.0), rounds(0.006, futex=calls))["wake-ups"]
    assert verdicts(found) == said
    assert found.calls and found.us_a_call
    assert found.calls.ratio == pytest.approx(calls / 2, rel=0.01)
    assert found.us_a_call.after == pytest.approx(us / calls, rel=0.02)


def test_both_directions_stand_side_by_side() -> None:
    """Cheaper wake-ups say nothing of the network, whose calls became dearer."""
    before, after = server(futex=20.0, sendto=10.0), server(futex=10.0, sendto=15.0)
    found = told(before, after, rounds(futex=2.0, sendto=1.0), rounds(0.006, futex=2.0, sendto=1.0))
    assert verdicts(found["wake-ups"]) == ("not told apart", "less")
    assert verdicts(found["network"]) == ("not told apart", "more")


def test_counts_that_swing_prove_nothing() -> None:
    found = told(server(futex=20.0), server(futex=17.0), rounds(0.3, futex=2.0), rounds(-0.3, futex=1.7))["wake-ups"]
    assert found.us.verdict == "less"
    assert verdicts(found) == ("not told apart", "not told apart")


def test_a_call_that_is_made_no_more_costs_nothing_to_compare() -> None:
    found = told(server(fsync=5.0), server(), rounds(fsync=0.1), rounds(fsync=0.0))["disk"]
    assert found.us.after == 0 and found.us.verdict == "less"
    assert found.calls is None and found.us_a_call is None


def test_a_call_that_is_hardly_made_any_more_is_judged_by_its_counts() -> None:
    hardly = [Round({"fsync": 1 if number == 2 else 0}, QUERIES) for number in range(4)]
    found = told(server(fsync=5.0), server(fsync=0.1), rounds(fsync=0.1), hardly)["disk"]
    assert found.calls and found.calls.verdict == "less"


def test_a_call_that_was_sampled_and_not_made_while_calls_were_counted_has_its_time() -> None:
    never = [Round({"fsync": 0}, QUERIES)] * 4
    found = told(server(fsync=0.05), server(fsync=0.05), never, never)["disk"]
    assert found.counted == () and found.calls is None and found.us_a_call is None
    assert found.us.before == pytest.approx(0.05, rel=0.3)


def test_the_time_of_such_a_call_is_no_reason_why_others_take_more_or_less() -> None:
    """A third of the group's time is of a call that was made once in the counts after, and never in those before."""
    once = [
        Round({**each.counts, "futex_wait": int(number == 2)}, QUERIES) for number, each in enumerate(rounds(0.006, futex=2.0))
    ]
    never = [Round({**each.counts, "futex_wait": 0}, QUERIES) for each in rounds(futex=2.0)]
    kinds: Mapping[str, Group] = {"futex": "wake-ups", "futex_wait": "wake-ups"}
    before, after = server(futex=20.0, futex_wait=10.0), server(futex=20.0, futex_wait=20.0)
    found = kernel_time((before, after), (never, once), kinds)
    assert found
    ((group),) = found.groups
    assert group.counted == ("futex",) and group.us.verdict == "more"
    assert verdicts(group) == ("not told apart", "not told apart")


def test_a_call_that_one_server_no_longer_makes_is_fewer_calls() -> None:
    kinds: Mapping[str, Group] = {"futex": "wake-ups", "sched_yield": "wake-ups"}
    before, after = server(futex=20.0, sched_yield=10.0), server(futex=20.0)
    counted = rounds(futex=2.0, sched_yield=1.0), rounds(0.006, futex=2.0, sched_yield=0.0)
    found = kernel_time((before, after), counted, kinds)
    assert found
    ((group),) = found.groups
    assert group.counted == ("futex", "sched_yield") and group.calls and group.calls.verdict == "less"


def test_without_counts_there_is_time_alone_and_groups_add_up() -> None:
    found = told(server(futex=20.0, sendto=10.0), server(futex=10.0, sendto=10.0))
    assert all(each.calls is None and each.counted == () for each in found.values())
    assert (found["wake-ups"].us.verdict, found["network"].us.verdict) == ("less", "not told apart")
    assert sum(each.us.before for each in found.values()) == pytest.approx(30.0, rel=0.01)


def test_a_difference_of_less_than_a_hundredth_is_none() -> None:
    found = told(server(futex=20.0), server(futex=20.0), rounds(0.0, futex=2.0), rounds(0.0, futex=1.99))["wake-ups"]
    assert found.calls and found.calls.ci_high and found.calls.ci_high < 1 and found.calls.verdict == "not told apart"


def test_without_time_in_the_kernel_there_is_nothing() -> None:
    assert kernel_time((server(), server()), ((), ()), {}) is None


def test_waking_others_is_part_of_the_time_and_interrupts_are_counted_beside_it() -> None:
    def sent(swing: float, each: float) -> list[Round]:
        return [Round({INTERRUPTS: calls.counts[INTERRUPTS]}, QUERIES) for calls in rounds(swing, **{INTERRUPTS: each})]

    servers = server(sendto=20.0), server(sendto=12.0)
    found = kernel_time(servers, ((), ()), KINDS, waking=(8_000, 4_000), interrupts=(sent(0.004, 0.9), sent(0.006, 0.6)))
    assert found and found.waking and found.interrupts
    assert (found.waking.verdict, found.interrupts.verdict) == ("less", "less")
    assert found.waking.before == pytest.approx(10.0, rel=0.01) and found.waking.ratio == pytest.approx(0.5, rel=0.01)
    assert found.interrupts.before == pytest.approx(0.9, rel=0.01) and found.interrupts.ratio == pytest.approx(2 / 3, rel=0.01)
    swinging = kernel_time(servers, ((), ()), KINDS, waking=(8_000, 8_010), interrupts=(sent(0.4, 0.9), sent(-0.4, 0.8)))
    assert swinging and swinging.waking and swinging.interrupts
    assert (swinging.waking.verdict, swinging.interrupts.verdict) == ("not told apart", "not told apart")


def test_without_samples_that_wake_and_without_counts_neither_is_there() -> None:
    found = kernel_time((server(sendto=20.0), server(sendto=12.0)), ((), ()), KINDS)
    assert found and found.waking is None and found.interrupts is None
    never = [Round({INTERRUPTS: 0}, QUERIES)] * 4
    found = kernel_time((server(sendto=20.0), server(sendto=12.0)), ((), ()), KINDS, interrupts=(never, never))
    assert found and found.interrupts is None


def in_kernel(*names: str) -> Stack:
    return (*(Frame(KERNEL, name, 0) for name in names), *on("run"))


@pytest.mark.parametrize(
    ("stack", "name", "group"),
    [
        (in_call("futex"), "futex", "wake-ups"),
        (in_call("ppoll"), "ppoll", "network"),
        (in_call("pwrite64"), "pwrite64", "disk"),
        (in_call("io_submit"), "io_submit", "disk"),
        (in_call("mmap"), "mmap", "other"),
        (in_kernel("unix_stream_sendmsg", "sock_write_iter", "__x64_sys_write"), "write", "network"),
        (in_kernel("ext4_file_write_iter", "__x64_sys_write"), "write", "disk"),
        (in_kernel("eventfd_write", "vfs_write", "__x64_sys_write"), "write", "wake-ups"),
        (in_kernel("vfs_write", "__x64_sys_write"), "write", "other"),
        (in_kernel("filemap_map_pages", "asm_exc_page_fault"), "page fault", "other"),
        (in_kernel("scheduler_ipi", "asm_sysvec_reschedule_ipi"), "wake-up from another CPU", "wake-ups"),
    ],
)
def test_what_the_kernel_was_entered_for(stack: Stack, name: str, group: Literal["wake-ups"]) -> None:
    assert groups([(stack, 3), (on("run"), 9)]) == {name: group}


def test_a_call_with_several_uses_is_for_what_most_of_its_samples_show() -> None:
    network, disk = in_kernel("sock_write_iter", "__x64_sys_write"), in_kernel("ext4_file_write_iter", "__x64_sys_write")
    assert groups([(network, 3), (disk, 4)]) == {"write": "disk"}
    assert groups([(network, 5), (disk, 4)]) == {"write": "network"}


def test_the_largest_group_comes_first_and_one_confidence_is_for_all() -> None:
    found = kernel_time((server(futex=5.0, sendto=9.0), server(futex=5.0, sendto=3.0)), ((), ()), KINDS)
    assert isinstance(found, KernelTime)
    assert [each.name for each in found.groups] == ["network", "wake-ups"]
    assert 0.95 <= found.confidence < 1
