"""Measures one load on all arms of a trial: short slices in turn, on kept connections, counted from outside.

Server and driver of an arm are stopped as they are (SIGSTOP) while other arms have their turns: an arm meets its own
background work only, and no time goes into connecting. The work that a stopped server leaves is done in its next turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from upshift.errors import LoadFailed
from upshift.measure.bench import Bench, Clock, LoadHandle, RunningArm
from upshift.measure.kernel import Usage
from upshift.measure.model import Load, Plan, Slice
from upshift.measure.schedule import Turns
from upshift.workload.driver import LoadReport, whole_seconds

CONNECT_S = 0.2
"""The lead-in of an arm's first turn is longer by this: its driver starts and connects."""
_ASKING_S = 0.1
"""Reading a busy server's counters, three times a turn."""
_SPARE_S = (0.2, 3.0, 30.0)
"""What a driver runs on for, beyond what its turns should take, at the first attempt and at the next ones."""

Sample = Callable[[int], Usage]
"""Usage of a process and the machine now, by process id: ``kernel.usage``, or a fake."""


@dataclass(frozen=True)
class _Moment:
    queries: int
    usage: Usage
    at_s: float


@dataclass
class _Kept:
    """A load on one arm, kept from its first turn to its last."""

    server: RunningArm
    load: LoadHandle
    ends_s: float
    """When the driver's time is over."""
    active_s: float = 0.0
    """How long the driver was not paused."""
    taken: list[tuple[_Moment, _Moment, _Moment]] = field(default_factory=list)
    """Beginning, middle and end of each round's slice."""


class _TooShort(Exception):
    """A driver's time was over before its last turn: the machine is slower than was planned for."""


def load_s(plan: Plan, turns: int, arms: int) -> float:
    """Seconds for so many turns, in which so many arms have their first one."""
    return turns * (plan.lead_s + plan.slice_s + _ASKING_S) + arms * CONNECT_S


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
    the clock. A load whose driver ended too early is measured again, with more time. Raises LoadFailed when the load
    fails, ServerFailed when a server does.
    """
    for spare_s in _SPARE_S:
        try:
            kept = _take_turns(bench, running, turns, plan, spare_s, clock=clock, sample=sample)
            break
        except _TooShort:
            continue
    else:
        raise LoadFailed(
            f"the driver of workload '{turns.load.workload}' ended before its time, three times",
            "its command must load the server for {seconds} seconds",
        )
    slices: list[Slice] = []
    for arm, one in kept.items():
        report = _report(one)
        slices += [_slice(arm, one, number, report, turns.load, trial, origin_s, settled) for number in range(len(one.taken))]
    return sorted(slices, key=lambda each: each.started_s)


def _take_turns(
    bench: Bench,
    running: Mapping[str, RunningArm],
    turns: Turns,
    plan: Plan,
    spare_s: float,
    *,
    clock: Clock,
    sample: Sample,
) -> dict[str, _Kept]:
    """Each arm's load with its slices; at the end, all run again. Raises _TooShort when no driver runs any more."""
    kept: dict[str, _Kept] = {}
    order = [arm.name for arm in turns.arms]
    for server in running.values():
        server.pause()
    try:
        for number, name in enumerate(order):
            server = running[name]
            server.resume()
            began_s = clock.now_s()
            if name in kept:
                kept[name].load.resume()
                clock.sleep(plan.lead_s)
            else:
                seconds = load_s(plan, len(order) - number, len(running) - len(kept)) + spare_s
                load = bench.begin(server, turns.load, seconds, turns.load_seed)
                kept[name] = _Kept(server, load, ends_s=began_s + whole_seconds(seconds))
                clock.sleep(plan.lead_s + CONNECT_S)
            one = kept[name]
            first = _moment(one, clock, sample)
            clock.sleep(plan.slice_s / 2)
            middle = _moment(one, clock, sample)
            clock.sleep(plan.slice_s / 2)
            last = _moment(one, clock, sample)
            if one.load.ended():
                raise _TooShort
            one.load.pause()
            server.pause()
            one.active_s += clock.now_s() - began_s
            one.taken.append((first, middle, last))
    except _TooShort:
        _resume(running, kept)
        for one in kept.values():
            _report(one)
        raise
    finally:
        _resume(running, kept)
    for one in kept.values():
        one.active_s += max(0.0, one.ends_s - clock.now_s())
    return kept


def _resume(running: Mapping[str, RunningArm], kept: Mapping[str, _Kept]) -> None:
    for server in running.values():
        server.resume()
    for one in kept.values():
        one.load.resume()


def _report(one: _Kept) -> LoadReport:
    try:
        return one.load.finish()
    except LoadFailed:
        one.server.queries()  # A dead server is the better explanation of a load that failed.
        raise


def _slice(
    arm: str, one: _Kept, number: int, report: LoadReport, load: Load, trial: int, origin_s: float, settled: bool
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


def _moment(one: _Kept, clock: Clock, sample: Sample) -> _Moment:
    # Asking a busy server takes milliseconds: always in this order, so that they cancel out of a difference.
    return _Moment(queries=one.load.answered(), usage=sample(one.server.pid), at_s=clock.now_s())
