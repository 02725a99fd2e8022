"""Measures one slice: a short load on one running arm, counted from outside between two moments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from upshift.errors import LoadFailed
from upshift.measure.bench import Bench, Clock, RunningArm
from upshift.measure.kernel import Usage
from upshift.measure.model import Plan, Slice
from upshift.measure.schedule import Turn
from upshift.workload.driver import whole_seconds

# Connecting and the first statements are not measured; neither is the end, when connections stop one by one.
LEAD_S = 0.4
TAIL_S = 0.2

Sample = Callable[[int], Usage]
"""Usage of a process and the machine now, by process id: ``kernel.usage``, or a fake."""


@dataclass(frozen=True)
class _Moment:
    queries: int
    usage: Usage
    at_s: float


def load_s(plan: Plan) -> int:
    """Seconds that a slice's load lasts."""
    return whole_seconds(LEAD_S + plan.slice_s + TAIL_S)


def measure_slice(
    bench: Bench,
    running: RunningArm,
    turn: Turn,
    plan: Plan,
    *,
    trial: int,
    origin_s: float,
    settled: bool,
    clock: Clock,
    sample: Sample,
) -> Slice:
    """Load ``running`` and count queries and CPU time over ``plan.slice_s``, after a lead-in of 0.4 s.

    The load itself lasts a little longer at both ends; latencies and errors are those of all of it, and the
    client's CPU time is scaled to the slice by the wall time. ``started_s`` counts from ``origin_s`` on the
    clock. Raises LoadFailed when the load fails, ServerFailed when the server does.
    """
    # The whole load's span is for what the client reports only as a whole; the inner one is the slice.
    outer = _moment(running, clock, sample)
    handle = bench.begin(running, turn.load, load_s(plan), turn.load_seed)
    clock.sleep(LEAD_S)
    first = _moment(running, clock, sample)
    clock.sleep(plan.slice_s)
    last = _moment(running, clock, sample)
    try:
        report = handle.finish()
    except LoadFailed:
        running.queries()  # A dead server is the better explanation of a load that failed.
        raise
    ended = _moment(running, clock, sample)
    inner, whole = last.usage - first.usage, ended.usage - outer.usage
    wall_s = last.at_s - first.at_s
    scale = wall_s / (ended.at_s - outer.at_s)
    other_s = whole.machine_busy_cpu_s - whole.total_cpu_s - report.client_cpu_s
    return Slice(
        trial=trial,
        round=turn.round,
        arm=turn.arm.name,
        workload=turn.load.workload,
        held_out=turn.load.held_out,
        connections=turn.load.connections,
        started_s=first.at_s - origin_s,
        wall_s=wall_s,
        queries=last.queries - first.queries,
        total_cpu_s=inner.total_cpu_s,
        user_cpu_s=inner.user_cpu_s,
        system_cpu_s=inner.system_cpu_s,
        client_cpu_s=report.client_cpu_s * scale,
        errors=report.errors,
        latency_ms_p50=report.latency_ms_p50,
        latency_ms_p95=report.latency_ms_p95,
        latency_ms_p99=report.latency_ms_p99,
        # The machine's and the processes' ticks are counted apart and differ by a little either way.
        other_cpu_s=max(0.0, other_s * scale),
        steal_s=max(0.0, inner.steal_s),
        swapped_bytes=whole.swapped_bytes,
        settled=settled,
    )


def _moment(running: RunningArm, clock: Clock, sample: Sample) -> _Moment:
    # Asking a busy server takes milliseconds: always in this order, so that they cancel out of a difference.
    return _Moment(queries=running.queries(), usage=sample(running.pid), at_s=clock.now_s())
