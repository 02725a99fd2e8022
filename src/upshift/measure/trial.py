"""A trial's servers: started together, warmed up, and left to finish what they do in the background."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from upshift.errors import LoadFailed
from upshift.measure.bench import Bench, Clock, RunningArm, finished
from upshift.measure.model import Load, Plan
from upshift.measure.schedule import start_order, warmup_loads
from upshift.measure.variant import Variant

SETTLE_S = 20.0
"""The longest wait before a load for the background work of all servers of the trial."""
_LOOK_AGAIN_S = 0.2
_LEAST_QUERIES = 10


@contextmanager
def started(
    trial: int, plan: Plan, arms: Sequence[Variant], loads: Sequence[Load], bench: Bench
) -> Iterator[Mapping[str, RunningArm]]:
    """The servers of a trial, warmed up."""
    with ExitStack() as stack:
        running: dict[str, RunningArm] = {}
        for arm in start_order(plan, trial, arms):
            running[arm.name] = stack.enter_context(bench.arm(arm, trial))
        _warm_up(running, bench, loads, seconds=plan.warmup_s, seed=trial + 1)
        yield running


def settle(servers: Sequence[RunningArm], clock: Clock) -> bool:
    """Wait until no server works in the background: what one load left to flush and purge belongs to no other load.

    False when one still does after ``SETTLE_S``.
    """
    deadline_s = clock.now_s() + SETTLE_S
    while not all(server.quiet() for server in servers):
        if clock.now_s() >= deadline_s:
            return False
        clock.sleep(_LOOK_AGAIN_S)
    return True


def _warm_up(running: Mapping[str, RunningArm], bench: Bench, loads: Sequence[Load], *, seconds: float, seed: int) -> None:
    """Each workload for its share of the time, on all servers at once; a load that does nothing is found here, not after an
    hour.
    """
    chosen = warmup_loads(loads) if seconds > 0 else ()
    for load in chosen:
        before = {name: server.queries() for name, server in running.items()}
        loaded = [(bench.begin(server, load, seconds / len(chosen), seed), server) for server in running.values()]
        for handle, server in loaded:
            finished(handle, server)
        for name, server in running.items():
            if server.queries() - before[name] < _LEAST_QUERIES:
                raise LoadFailed(
                    f"workload '{load.workload}' left the server idle (arm '{name}')",
                    "the load command must use {socket} or {url}; try it by hand against a server that you started",
                )
