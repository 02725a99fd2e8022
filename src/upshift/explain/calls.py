"""How often a server enters the kernel for a query, by system call: perf counts the kernel's tracepoints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from upshift.explain import kernel
from upshift.explain.model import SystemCall
from upshift.explain.script import Stack
from upshift.shell import Command, Shell

_MOST = 8
_EVENT = "syscalls:sys_enter_"


class Round(NamedTuple):
    """What one server did while its system calls were counted."""

    counts: Mapping[str, int]
    queries: float


Rounds = Sequence[Round]


def rate(rounds: Rounds, call: str) -> float:
    """How often a query makes a call."""
    queries = sum(each.queries for each in rounds)
    return sum(each.counts.get(call, 0) for each in rounds) / queries if queries else 0.0


def countable(shell: Shell) -> bool:
    """Whether perf may count system calls here: tracepoints need more rights than samples do."""
    probe = Command(("perf", "stat", "-e", f"{_EVENT}read", "--", "true"))
    return shell.run(probe, check=False, timeout_s=20).returncode == 0


def worth_counting(stacks: Iterable[tuple[Stack, int]]) -> tuple[str, ...]:
    """The system calls that hold most samples."""
    seen: Counter[str] = Counter()
    for stack, count in stacks:
        if kernel.in_kernel(stack) and (call := kernel.system_call(stack)):
            seen[call] += count
    return tuple(name for name, _count in seen.most_common(_MOST))


def events(calls: Sequence[str]) -> tuple[str, ...]:
    """How perf is asked to count these calls."""
    return tuple(word for call in calls for word in ("-e", f"{_EVENT}{call}"))


def read_counts(text: str) -> Mapping[str, int]:
    """What ``perf stat -x ,`` wrote: count, unit, event, ..."""
    found = {}
    for line in text.splitlines():
        count, _, rest = line.partition(",")
        name = next((part.removeprefix(_EVENT) for part in rest.split(",") if part.startswith(_EVENT)), None)
        if name and count.isdigit():
            found[name] = int(count)
    return found


def compared(rounds: tuple[Rounds, Rounds], us: tuple[Mapping[str, float], Mapping[str, float]]) -> tuple[SystemCall, ...]:
    """Calls a query of both servers beside their CPU time in the kernel, those with the most time first."""
    before, after = ({name for each in own for name in each.counts} for own in rounds)
    return tuple(
        SystemCall(
            name=name,
            calls_before=rate(rounds[0], name),
            calls_after=rate(rounds[1], name),
            us_before=us[0].get(name, 0.0),
            us_after=us[1].get(name, 0.0),
        )
        for name in sorted(before & after, key=lambda each: (-us[0].get(each, 0.0), each))
    )
