"""Measures one load on all arms of a trial: short slices, in turn or at the same time, counted from outside."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from upshift.measure import turn
from upshift.measure.bench import Bench, Clock, RunningArm
from upshift.measure.kernel import Usage
from upshift.measure.model import Plan, Slice
from upshift.measure.schedule import Turns
from upshift.measure.turn import Asked, Kept, Sample


def load_s(plan: Plan, arms: int, connections: int) -> float:
    """Seconds for all turns of so many arms under a load with so many connections to each."""
    at_once = len(plan.duet) or 1
    a_round = arms // at_once
    return turn.load_s(_waits(plan), plan.rounds * a_round, a_round, connections, at_once=at_once)


def measure_load(
    bench: Bench,
    running: Mapping[str, RunningArm],
    turns: Turns,
    plan: Plan,
    *,
    trial: int,
    origin_s: float,
    settled: bool,
    asked: Asked,
    clock: Clock,
    sample: Sample,
) -> list[Slice]:
    """Give each arm its turns, and count queries and CPU time over ``plan.slice_s`` of each, after ``plan.lead_s``.

    Latencies are those of an arm's whole load, without what waited while it was paused; so are errors, which its first
    slice has. The client's CPU time is scaled to a slice by the wall time. ``started_s`` counts from ``origin_s`` on
    the clock. Raises LoadFailed when the load fails, ServerFailed when a server does.
    """
    kept = turn.take_turns(bench, running, turns, _waits(plan), asked=asked, clock=clock, sample=sample)
    slices: list[Slice] = []
    for at, working in enumerate(turns.turns):
        number = at * len(working) // len(kept)
        used = [_used(kept[arm.name], number) for arm in working]
        cpu_s = math.fsum(server.total_cpu_s + client_cpu_s for server, client_cpu_s in used)
        for seat, arm in enumerate(working):
            where = {
                "trial": trial,
                "round": number,
                "arm": arm.name,
                "seat": seat,
                "settled": settled,
                **turns.load.model_dump(),
            }
            slices.append(_slice(kept[arm.name], number, cpu_s, origin_s, where))
    return slices


def _waits(plan: Plan) -> tuple[float, float, float]:
    """The lead-in and the slice's halves."""
    return plan.lead_s, plan.slice_s / 2, plan.slice_s / 2


def _used(one: Kept, number: int) -> tuple[Usage, float]:
    """What a server and the machine used in a turn's slice, and the CPU time of its driver."""
    first, _middle, last = one.taken[number]
    return last.usage - first.usage, one.report.client_cpu_s * (last.at_s - first.at_s) / one.active_s


def _slice(one: Kept, number: int, cpu_s: float, origin_s: float, where: Mapping[str, Any]) -> Slice:
    """``cpu_s`` is the time of all servers and drivers that worked in the turn."""
    first, middle, last = one.taken[number]
    report = one.report
    used, client_cpu_s = _used(one, number)
    return Slice(
        **where,
        started_s=first.at_s - origin_s,
        wall_s=last.at_s - first.at_s,
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
        other_cpu_s=max(0.0, used.machine_busy_cpu_s - cpu_s),
        steal_s=max(0.0, used.steal_s),
        swapped_bytes=used.swapped_bytes,
        attempt=0,
        half_queries=middle.queries - first.queries,
        half_wall_s=middle.at_s - first.at_s,
        probe_us=used.probe_cpu_s * 1e6 / used.probe_units if used.probe_units else 0.0,
    )
