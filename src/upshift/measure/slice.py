"""Measures one load on all arms of a trial: short slices in turn, counted from outside."""

from __future__ import annotations

from collections.abc import Mapping

from upshift.measure import turn
from upshift.measure.bench import Bench, Clock, RunningArm
from upshift.measure.model import Load, Plan, Slice
from upshift.measure.schedule import Turns
from upshift.measure.turn import Kept, Sample
from upshift.workload.driver import LoadReport


def load_s(plan: Plan, turns: int, arms: int) -> float:
    """Seconds for so many turns, in which so many arms have their first one."""
    return turn.load_s(_waits(plan), turns, arms)


def measure_load(
    bench: Bench,
    running: Mapping[str, RunningArm],
    turns: Turns,
    plan: Plan,
    *,
    trial: int,
    origin_s: float,
    settled: bool,
    clock: Clock,
    sample: Sample,
) -> list[Slice]:
    """Give each arm its turns, and count queries and CPU time over ``plan.slice_s`` of each, after ``plan.lead_s``.

    Latencies are those of an arm's whole load, without what waited while it was paused; so are errors, which its first
    slice has. The client's CPU time is scaled to a slice by the wall time. ``started_s`` counts from ``origin_s`` on
    the clock. Raises LoadFailed when the load fails, ServerFailed when a server does.
    """
    slices: list[Slice] = []
    for arm, one in turn.take_turns(bench, running, turns, _waits(plan), clock=clock, sample=sample).items():
        report = turn.report(one)
        slices += [_slice(arm, one, number, report, turns.load, trial, origin_s, settled) for number in range(len(one.taken))]
    return sorted(slices, key=lambda each: each.started_s)


def _waits(plan: Plan) -> tuple[float, float, float]:
    """The lead-in and the slice's halves."""
    return plan.lead_s, plan.slice_s / 2, plan.slice_s / 2


def _slice(
    arm: str, one: Kept, number: int, report: LoadReport, load: Load, trial: int, origin_s: float, settled: bool
) -> Slice:
    first, middle, last = one.taken[number]
    used, wall_s = last.usage - first.usage, last.at_s - first.at_s
    client_cpu_s = report.client_cpu_s * wall_s / one.active_s
    return Slice(
        **load.model_dump(),
        trial=trial,
        round=number,
        arm=arm,
        started_s=first.at_s - origin_s,
        wall_s=wall_s,
        queries=last.queries - first.queries,
        total_cpu_s=used.total_cpu_s,
        user_cpu_s=used.user_cpu_s,
        system_cpu_s=used.system_cpu_s,
        run_delay_s=max(0.0, used.run_delay_s),
        client_cpu_s=client_cpu_s,
        errors=report.errors if number == 0 else 0,
        latency_ms_p50=report.latency_ms_p50,
        latency_ms_p95=report.latency_ms_p95,
        latency_ms_p99=report.latency_ms_p99,
        # The machine's and the processes' ticks are counted apart and differ by a little either way.
        other_cpu_s=max(0.0, used.machine_busy_cpu_s - used.total_cpu_s - client_cpu_s),
        steal_s=max(0.0, used.steal_s),
        swapped_bytes=used.swapped_bytes,
        settled=settled,
        attempt=0,
        half_queries=middle.queries - first.queries,
        half_wall_s=middle.at_s - first.at_s,
    )
