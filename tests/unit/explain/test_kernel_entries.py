"""What brings a server into the kernel."""

from __future__ import annotations

import pytest

from upshift.explain.calls import worth_counting
from upshift.explain.kernel import entry, groups, hidden, wakes
from upshift.explain.script import KERNEL, UNKNOWN, Frame, Stack


def stack(*kernel: str) -> Stack:
    return (*(Frame(KERNEL, name, 0) for name in kernel), Frame("libc.so.6", "__send", 0))


@pytest.mark.parametrize(
    ("frames", "named"),
    [
        (("_raw_spin_unlock", "unix_stream_sendmsg", "__x64_sys_sendto", "do_syscall_64"), "sendto"),
        (("finish_task_switch.isra.0", "schedule", "__x64_sys_futex", "do_syscall_64"), "futex"),
        # A timer in the midst of a call: what was going on is the call.
        (("tick", "asm_sysvec_apic_timer_interrupt", "__x64_sys_ppoll", "do_syscall_64"), "ppoll"),
        (("handle_mm_fault", "exc_page_fault", "asm_exc_page_fault"), "page fault"),
        (("update_process_times", "asm_sysvec_apic_timer_interrupt"), "timer interrupt"),
        (("syscall_exit_work", "do_syscall_64", "entry_SYSCALL_64_after_hwframe"), "system call, entry and exit"),
        (("schedule", "irqentry_exit_to_user_mode"), "return to user code"),
        (("something",), "not told"),
    ],
)
def test_the_outermost_function_that_tells_it_is_taken(frames: tuple[str, ...], named: str) -> None:
    assert entry(stack(*frames)) == named


@pytest.mark.parametrize(
    ("frames", "name", "group"),
    [
        (("ext4_file_write_iter", "vfs_write", "ksys_write", "do_syscall_64"), "write", "disk"),
        (("sock_read_iter", "vfs_read", "ksys_read", "do_syscall_64"), "read", "network"),
        (("sock_write_iter", "do_iter_write", "vfs_writev", "do_writev", "do_syscall_64"), "writev", "network"),
        (("do_mmap", "vm_mmap_pgoff", "ksys_mmap_pgoff", "do_syscall_64"), "mmap", "other"),
        (("copy_page_to_iter", "filemap_read", "ksys_pread64", "__x64_sys_pread64", "do_syscall_64"), "pread64", "disk"),
    ],
)
def test_a_kernel_that_jumps_into_a_calls_function_names_it_by_that(frames: tuple[str, ...], name: str, group: str) -> None:
    on_stack = stack(*frames)
    assert entry(on_stack) == name
    assert groups([(on_stack, 1)]) == {name: group}
    assert worth_counting([(on_stack, 1)]) == (name,)


def test_a_kernel_that_hides_its_names_is_told() -> None:
    assert hidden([stack(UNKNOWN, UNKNOWN)])
    assert not hidden([stack(UNKNOWN, "__x64_sys_sendto")])


def test_a_kernel_that_was_not_sampled_hides_nothing() -> None:
    assert not hidden([])
    assert not hidden([(Frame("", "run", 1), Frame("libc.so.6", UNKNOWN, 0))])


@pytest.mark.parametrize(
    ("frames", "waking"),
    [
        # Where it calls the wake-up by a jump, a function of the socket is the innermost that tells it.
        (("_raw_spin_unlock_irqrestore", "sock_def_readable", "unix_stream_sendmsg", "__x64_sys_sendto"), True),
        (("_raw_spin_unlock_irqrestore", "try_to_wake_up", "wake_up_q", "futex_wake", "__x64_sys_futex"), True),
        (("_raw_spin_lock", "__wake_up_sync_key", "unix_write_space", "sock_wfree"), True),
        (("ep_autoremove_wake_function", "__wake_up_common", "ep_poll_callback"), True),
        (("_raw_spin_unlock_irqrestore", "unix_stream_sendmsg", "__x64_sys_sendto"), False),
        # It waits to be woken.
        (("schedule", "schedule_hrtimeout_range_clock", "do_sys_poll", "__x64_sys_ppoll"), False),
    ],
)
def test_waking_a_thread_is_told_from_the_rest_of_a_call(frames: tuple[str, ...], waking: bool) -> None:
    assert wakes(stack(*frames)) == waking
