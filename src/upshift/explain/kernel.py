"""Where a server's time in the kernel goes: by system call, or by what else brought it there."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from upshift.explain.model import Group
from upshift.explain.script import KERNEL, UNKNOWN, Stack

_CALL = re.compile(r"^__(?:x64|ia32|arm64|se|do)_sys_(\w+)$")
# A kernel whose compiler makes a call before a return a jump has these on stacks in place of the above.
_CALLED: Mapping[str, str] = {
    "ksys_read": "read",
    "ksys_write": "write",
    "ksys_pread64": "pread64",
    "ksys_pwrite64": "pwrite64",
    "ksys_mmap_pgoff": "mmap",
    "do_readv": "readv",
    "do_writev": "writev",
    "do_preadv": "preadv",
    "do_pwritev": "pwritev",
}
_INTERRUPTS = {
    "asm_exc_page_fault": "page fault",
    "asm_sysvec_apic_timer_interrupt": "timer interrupt",
    "asm_sysvec_hyperv_stimer0": "timer interrupt",
    "asm_sysvec_reschedule_ipi": "wake-up from another CPU",
    "asm_sysvec_call_function_single": "call from another CPU",
    "asm_sysvec_call_function": "call from another CPU",
    "asm_common_interrupt": "device interrupt",
    "ret_from_fork_asm": "start of a thread",
}
# Samples fall where interrupts are enabled again: in what called the wake-up, where the compiler made that a jump.
_WAKES = re.compile(r"^(__wake_up|wake_up_|try_to_wake_up$|\w*wake_function$|sock_def_readable$|pollwake$|ep_poll_callback$)")
_WAKE_UPS = re.compile(r"^(futex\w*|sched_yield|(clock_)?nanosleep|wake-up from another CPU)$")
_NETWORK = re.compile(r"^(send(to|msg|mmsg)?|recv(from|msg|mmsg)?|p?poll|p?select6?|epoll_\w+|accept4?|connect|shutdown)$")
_DISK = re.compile(r"^(p(read|write)(64|v2?)|f(data)?sync|sync_file_range|io_\w+|fallocate|ftruncate|lseek|open(at)?)$")
# read, write and the like are for any of these: the kernel's functions below them say which.
_INNER: tuple[tuple[re.Pattern[str], Group], ...] = (
    (re.compile(r"^(eventfd|pipe)_"), "wake-ups"),
    (re.compile(r"^(sock|unix_stream|tcp|inet6?)_"), "network"),
    (re.compile(r"^(ext[234]|xfs|btrfs|f2fs|nfs|overlay|ovl|shmem|generic_file|filemap|iomap|blkdev|submit_bio)"), "disk"),
)


def in_kernel(stack: Stack) -> bool:
    return stack[0].home == KERNEL


def wakes(stack: Stack) -> bool:
    """Whether the kernel is waking a thread."""
    return any(_WAKES.match(_bare(frame.symbol)) for frame in stack if frame.home == KERNEL)


def system_call(stack: Stack) -> str | None:
    """The system call that a thread is in, by its name; None in interrupts and faults."""
    name = entry(stack)
    return name if any(_call(_bare(frame.symbol)) for frame in stack if frame.home == KERNEL) else None


def entry(stack: Stack) -> str:
    """What brought a thread into the kernel, by the outermost function of the kernel that tells it.

    A thread that waits was preempted in its call, so that what the scheduler took counts to the call as well.
    """
    names = [_bare(frame.symbol) for frame in stack if frame.home == KERNEL]
    for name in reversed(names):
        if call := _call(name):
            return call
        if name in _INTERRUPTS:
            return _INTERRUPTS[name]
    if "exit_to_user_mode_loop" in names or "irqentry_exit_to_user_mode" in names:
        return "return to user code"
    if any(name.startswith(("do_syscall_64", "entry_SYSCALL", "syscall_")) for name in names):
        return "system call, entry and exit"
    return "not told"


def groups(stacks: Iterable[tuple[Stack, int]]) -> Mapping[str, Group]:
    """What each way into the kernel is for, by its name; one with several uses is for what most of its samples show."""
    seen: defaultdict[str, Counter[Group]] = defaultdict(Counter)
    for stack, count in stacks:
        if in_kernel(stack):
            name = entry(stack)
            seen[name][_named(name) or _shown(stack)] += count
    return {name: max(sorted(found), key=lambda group: found[group]) for name, found in seen.items()}


def _named(name: str) -> Group | None:
    kinds: tuple[tuple[re.Pattern[str], Group], ...] = ((_WAKE_UPS, "wake-ups"), (_NETWORK, "network"), (_DISK, "disk"))
    return next((group for pattern, group in kinds if pattern.match(name)), None)


def _shown(stack: Stack) -> Group:
    names = [_bare(frame.symbol) for frame in stack if frame.home == KERNEL]
    if not any(_call(name) for name in names):
        return "other"
    return next((group for pattern, group in _INNER if any(pattern.match(name) for name in names)), "other")


def hidden(stacks: Iterable[Stack]) -> bool:
    """Whether the kernel keeps its functions' names to itself: it has frames, and none has a name."""
    return {frame.symbol for stack in stacks for frame in stack if frame.home == KERNEL} == {UNKNOWN}


def _call(name: str) -> str | None:
    """The system call that a function of the kernel is for."""
    found = _CALL.match(name)
    return found[1] if found else _CALLED.get(name)


def _bare(symbol: str) -> str:
    return symbol.split(".", 1)[0]
