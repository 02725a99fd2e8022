"""Counts one server under one workload.

The server runs a short load and one three times as long, both of a fixed number of transactions, on one connection, from
one seed. What they execute beside the statements (logging in, preparing, the questions of the count itself) is the same, so
that the slope between the two is what a query executes.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from upshift.errors import CountFailed
from upshift.instructions.by_bolt import Instrumented, count_twice
from upshift.instructions.executed import Cost, Executed, Misses
from upshift.instructions.loads import LONGER, load_fixed
from upshift.instructions.model import Count, FunctionCount, MissCount
from upshift.instructions.tools import Counting, Tool
from upshift.measure.variant import Variant
from upshift.server.data import copy
from upshift.server.instance import RunningServer, running, start_limit_s
from upshift.server.kind import ServerKind, Unit
from upshift.server.tier import refuse_without_tier
from upshift.shell import Shell
from upshift.workload.model import Workload

_SLOWER = 4
"""How many times a start's time limit a server gets: under valgrind it takes that."""
_LOOK_S = 0.02
_LOOKS = 10
_IDLE_TIMEOUT_S = 30.0


def count(
    shell: Shell,
    kind: ServerKind,
    arm: Variant,
    workload: Workload,
    template: Path,
    folder: Path,
    *,
    tool: Tool,
    cpus: tuple[int, ...],
    log: Path,
    by_function: bool = False,
    instrumented: Instrumented | None = None,
) -> Count:
    """What ``arm`` executes for a query of ``workload``, on a copy of ``template`` in ``folder``; ``by_function`` as well.

    ``instrumented`` makes the copies that count themselves, when that is the ``tool``.

    Raises CountFailed, ServerFailed, LoadFailed, CommandFailed or MissingTool.
    """
    assert workload.fixed is not None
    transactions = workload.fixed.transactions
    if instrumented:
        twice = count_twice(*(shell, kind, arm, workload, template, folder), instrumented=instrumented, cpus=cpus, log=log)
        return slope(arm.name, workload.name, *twice)
    steady = kind.repeatable()

    def load(server: RunningServer, many: int) -> None:
        load_fixed(shell, kind, arm, workload, server, many, cpus=cpus, log=log)

    try:
        data = copy(shell, template, folder / "data")
        with running(
            *(shell, kind, arm.program, data),
            log=log,
            settings={**steady.settings, **workload.settings, **arm.settings},
            # Without what moves its text: the same instructions are executed, and valgrind would lose their names.
            environment={**steady.environment, **arm.environment},
            under=(*arm.before_server(folder), *tool.before_server(folder)),
            cpus=cpus,
            start_timeout_s=_SLOWER * start_limit_s(),
            cleanly=False,
        ) as server:
            if arm.tier:
                refuse_without_tier(shell, server)
            kind.leave_undisturbed(server.socket)
            # The statements that are counted, once: what they read is in memory then, and pages that they fill were split.
            load(server, LONGER * transactions)
            counting = tool.on(shell, server.pid, folder, log)
            counting.begin()
            if "misses" in tool.details:
                # Simulated caches are empty at first: what fills them is in no query's figure.
                load(server, transactions)
            short, long = (
                _executed(server, workload.unit, counting, lambda many=many: load(server, many))  # type: ignore[misc]
                for many in (transactions, LONGER * transactions)
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return slope(arm.name, workload.name, short, long, by_function=by_function)


def slope(
    arm: str, workload: str, short: tuple[Executed, int], long: tuple[Executed, int], *, by_function: bool = False
) -> Count:
    """What a query executes, from a short and a long run, each what was executed and how many queries the server counted.

    Raises CountFailed when the long run was not longer.
    """
    (few, few_queries), (many, many_queries) = short, long
    queries = many_queries - few_queries
    if queries <= 0 or many.instructions <= few.instructions:
        raise CountFailed(
            f"a run of {LONGER} times the transactions did not make the server execute more",
            "fixed.command must send as many transactions as {transactions} says",
        )
    return Count(
        arm=arm,
        workload=workload,
        instructions_per_query=(many.instructions - few.instructions) / queries,
        calls_per_query=_per_query(few.calls, many.calls, queries),
        taken_branches_per_query=_per_query(few.taken_branches, many.taken_branches, queries),
        misses=_misses(few.misses, many.misses, queries),
        queries=queries,
        functions=_functions(few, many, queries) if by_function else (),
    )


def _per_query(few: int | None, many: int | None, queries: int) -> float | None:
    return None if many is None or few is None else (many - few) / queries


def _misses(few: Misses | None, many: Misses | None, queries: int) -> MissCount | None:
    if few is None or many is None:
        return None
    return MissCount(
        caches=many.caches,
        code=(many.code - few.code) / queries,
        data=(many.data - few.data) / queries,
        last_level=(many.last_level - few.last_level) / queries,
        branches=(many.branches - few.branches) / queries,
    )


def _functions(few: Executed, many: Executed, queries: int) -> tuple[FunctionCount, ...]:
    """The slope of each function: below zero where chance has a thread run more of it in the short run."""
    nothing = Cost(0, 0)
    found = []
    for each in sorted({**few.functions, **many.functions}):
        one, other = few.functions.get(each, nothing), many.functions.get(each, nothing)
        instructions, calls = other.instructions - one.instructions, other.calls - one.calls
        if instructions or calls:
            program, symbol = each
            figures = FunctionCount(program=program, symbol=symbol, instructions=instructions / queries, calls=calls / queries)
            found.append(figures)
    return tuple(found)


def _executed(server: RunningServer, unit: Unit, counting: Counting, load: Callable[[], None]) -> tuple[Executed, int]:
    """What the connection's thread executed under ``load``, and the server's queries, or other units, meanwhile."""
    before = server.counted(unit)
    _await_idle(server.pid)

    def whole() -> None:
        load()
        _await_idle(server.pid)

    threads = counting.during(whole)
    # The one client's thread is the busiest: others work for the whole server, by the clock, and are kept still.
    return max(threads, key=lambda thread: thread.instructions), server.counted(unit) - before


def _await_idle(pid: int) -> None:
    """Wait until all threads of a process sleep: a connection that was closed ends when the server gets to it.

    Without end where a thread never sleeps: after half a minute the count goes on.
    """
    deadline = time.monotonic() + _IDLE_TIMEOUT_S
    asleep = 0
    while asleep < _LOOKS and time.monotonic() < deadline:
        asleep = asleep + 1 if all(state == "S" for state in _states(pid)) else 0
        time.sleep(_LOOK_S)


def _states(pid: int) -> list[str]:
    """The state of each thread, as proc(5) has it in /proc/PID/task/TID/stat."""
    found = []
    for file in Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            found.append(file.read_text().rpartition(")")[2].split()[0])
        except OSError:
            continue  # it has ended
    return found
