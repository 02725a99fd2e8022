"""Gives the arms of a trial their turns under one load, on kept connections, and reads their counters at moments of each.

Server and driver of an arm are stopped as they are (SIGSTOP) while other arms have their turns: an arm meets its own
background work only, and no time goes into connecting. The work that a stopped server leaves is done in its next turn.
A turn is one arm's, or in a duet both arms', each on CPUs of its own, which they swap. After the last turn all stay stopped
until the drivers' time is over: a driver's latencies and CPU time are those of its turns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from upshift.errors import LoadFailed
from upshift.measure.bench import Bench, Clock, LoadHandle, RunningArm, finished
from upshift.measure.kernel import Usage
from upshift.measure.model import Load
from upshift.measure.schedule import Turns
from upshift.workload.driver import whole_seconds
from upshift.workload.reports import LoadReport

_START_S, _CONNECTION_S = 0.2, 0.008
"""How long a driver starts, and makes one of its connections. sysbench had 512 of them 0.7 s after its start on an idle server;
the server is busy until all have sent their first request."""
_FIRST_S = 3.0
"""How much longer a driver's first turn may last because it has not begun: one that reads much before its first request."""
_ASKING_S = 0.033
"""Reading a busy server's counters once, where no turn has shown how long that takes, and where a driver begins: to start its
process takes time, too."""
_SPARE_S = (0.2, 3.0, 30.0)
"""What a driver runs on for, beyond what its turns should take, at the first attempt and at the next ones."""

Asked = dict[Load, float]
"""How many seconds a reading of counters took at most, when each load was last measured."""
Sample = Callable[[int], Usage]
"""Usage of a process and the machine now, by process id: ``kernel.usage``, or a fake."""


@dataclass(frozen=True)
class Moment:
    """An arm's counters at one moment of its turn."""

    queries: int
    usage: Usage
    at_s: float


@dataclass
class Kept:
    """A load on one arm, kept from its first turn to its last."""

    server: RunningArm
    load: LoadHandle
    ends_s: float
    """When the driver's time is over."""
    active_s: float = 0.0
    """How long the driver was not paused."""
    taken: list[tuple[Moment, ...]] = field(default_factory=list)
    """The moments of each turn."""
    report: LoadReport = field(init=False)
    """What the driver said at its end."""


class _TooShort(Exception):
    """A driver's time was over before its last turn: the machine is slower than was planned for."""

    def __init__(self, late_s: float, awaited_s: float) -> None:
        super().__init__(late_s, awaited_s)
        self.late_s = late_s
        """What the longest turn took beyond its plan: reading counters takes seconds where hundreds of threads want the CPU."""
        self.awaited_s = awaited_s
        """How long a driver was waited for that had not begun, in its first turn."""


def connect_s(connections: int) -> float:
    """Seconds by which an arm's first turn is longer: its driver starts and connects."""
    return _START_S + connections * _CONNECTION_S


def load_s(
    waits: Sequence[float],
    turns: int,
    first: int,
    connections: int = 0,
    *,
    at_once: int = 1,
    asking_s: float = _ASKING_S,
) -> float:
    """Seconds for so many turns of these ``waits``, of so many arms ``at_once``; in so many ``first`` ones drivers connect."""
    asking_in_all_s = (turns - first) * asking_s + first * max(asking_s, _ASKING_S)
    return turns * math.fsum(waits) + len(waits) * at_once * asking_in_all_s + first * connect_s(connections)


def take_turns(
    bench: Bench,
    running: Mapping[str, RunningArm],
    turns: Turns,
    waits: Sequence[float],
    *,
    asked: Asked,
    clock: Clock,
    sample: Sample,
) -> dict[str, Kept]:
    """Each arm's load with the moments of its turns: one after each of ``waits``, in seconds, which follow each other.

    At the end all drivers have ended, and all servers run again. A load whose driver ended too early is measured again, with
    more time. ``asked`` says how long drivers must run, and learns from these turns: a driver runs to the end of its time, and
    what was planned too long is waited for. Raises LoadFailed when the load fails, ServerFailed when a server does.
    """
    late_s = awaited_s = 0.0
    for spare_s in _SPARE_S:
        try:
            return _turns(bench, running, turns, waits, late_s, awaited_s, spare_s, asked=asked, clock=clock, sample=sample)
        except _TooShort as error:
            late_s, awaited_s = max(late_s, error.late_s), max(awaited_s, error.awaited_s)
    raise LoadFailed(
        f"the driver of workload '{turns.load.workload}' ended before its time, three times",
        "its command must load the server for {seconds} seconds",
    )


def _turns(
    bench: Bench,
    running: Mapping[str, RunningArm],
    turns: Turns,
    waits: Sequence[float],
    late_s: float,
    awaited_s: float,
    spare_s: float,
    *,
    asked: Asked,
    clock: Clock,
    sample: Sample,
) -> dict[str, Kept]:
    """Raises _TooShort when no driver runs any more."""
    kept: dict[str, Kept] = {}
    connections, latest_s, longest_s = turns.load.connections, 0.0, 0.0
    asking_s = asked.get(turns.load, _ASKING_S)
    readings_s = [0.0]
    try:
        for server in running.values():
            server.pause()
        for number, working in enumerate(turns.turns):
            for arm in working:
                bench.place(running[arm.name], kept[arm.name].load if arm.name in kept else None, arm)
            for arm in working:
                running[arm.name].resume()
            began_s = clock.now_s()
            left, new = len(turns.turns) - number, (len(running) - len(kept)) // len(working)
            planned_s = load_s(waits, left, new, connections, at_once=len(working), asking_s=asking_s)
            seconds = planned_s + left * late_s + new * awaited_s + spare_s
            connecting_s = connect_s(connections) if new else 0.0
            members = [_at_work(bench, running, arm.name, kept, turns, seconds, began_s) for arm in working]
            turn_s = connecting_s + load_s(waits, 1, 0, at_once=len(working), asking_s=asking_s)
            before = [one.load.answered() for one in members] if new else []
            seen = _watch(members, (connecting_s + waits[0], *waits[1:]), clock, sample)
            watched_s = clock.now_s()
            begun = not new or _rising(members, before, _queries(seen, 0), _queries(seen, 1))
            while not begun and (
                (begun := _rising(members, _queries(seen, 0), _queries(seen, -1)))
                or clock.now_s() < began_s + turn_s + _FIRST_S
            ):
                seen = _watch(members, waits, clock, sample)
            readings_s.append(0.0 if new else (watched_s - began_s - math.fsum(waits)) / (len(waits) * len(working)))
            latest_s, longest_s = max(latest_s, watched_s - began_s - turn_s), max(longest_s, clock.now_s() - watched_s)
            if any(one.load.ended() for one in members):
                raise _TooShort(latest_s, longest_s)
            for one in members:
                one.load.pause()
            for one, moments in zip(members, seen, strict=True):
                one.server.pause()
                one.active_s += clock.now_s() - began_s
                one.taken.append(moments)
        asked[turns.load] = max(readings_s) or asking_s
        _end(kept, turns, clock)
    except _TooShort:
        _resume(running, kept)
        for one in kept.values():
            finished(one.load, one.server)
        raise
    finally:
        _resume(running, kept)
    return kept


def _at_work(
    bench: Bench,
    running: Mapping[str, RunningArm],
    name: str,
    kept: dict[str, Kept],
    turns: Turns,
    seconds: float,
    began_s: float,
) -> Kept:
    """An arm's load, which goes on, or begins where this is its first turn: to run for ``seconds``."""
    if name in kept:
        kept[name].load.resume()
    else:
        load = bench.begin(running[name], turns.load, seconds, turns.load_seed)
        kept[name] = Kept(running[name], load, ends_s=began_s + whole_seconds(seconds))
    return kept[name]


def _end(kept: Mapping[str, Kept], turns: Turns, clock: Clock) -> None:
    """Let the drivers end: each when its time is over, with those that it had its turns with and beside nobody else.

    All of their times are over at about the same moment, so that only the first has to be waited for.
    """
    together = dict.fromkeys(tuple(sorted(arm.name for arm in working)) for working in turns.turns)
    groups = [[kept[name] for name in names] for names in together]
    for members in sorted(groups, key=_over_s):
        clock.sleep(_over_s(members) - clock.now_s())
        began_s = clock.now_s()
        for one in members:
            one.server.resume()
            one.load.resume()
        for one in members:
            one.report = finished(one.load, one.server)
            one.active_s += clock.now_s() - began_s
        for one in members:
            one.server.pause()


def _over_s(members: Sequence[Kept]) -> float:
    return max(one.ends_s for one in members)


def _resume(running: Mapping[str, RunningArm], kept: Mapping[str, Kept]) -> None:
    for server in running.values():
        server.resume()
    for one in kept.values():
        one.load.resume()


def _watch(members: Sequence[Kept], waits: Sequence[float], clock: Clock, sample: Sample) -> list[tuple[Moment, ...]]:
    """The moments of each that works, one after each of ``waits``."""
    seen = []
    for wait_s in waits:
        clock.sleep(wait_s)
        seen.append([_moment(one, clock, sample) for one in members])
    return list(zip(*seen, strict=True))


def _queries(seen: Sequence[Sequence[Moment]], at: int) -> list[int]:
    return [moments[at].queries for moments in seen]


def _rising(members: Sequence[Kept], *counts: Sequence[int]) -> bool:
    """Whether each driver had answers between one count and the next, and so had begun, or will have none."""
    had = all(earlier < later for each in zip(*counts, strict=True) for earlier, later in pairwise(each))
    return had or any(one.load.ended() for one in members)


def _moment(one: Kept, clock: Clock, sample: Sample) -> Moment:
    # Asking a busy server takes milliseconds: always in this order, so that they cancel out of a difference. Usage comes last:
    # of a server with hundreds of threads it takes longest, and by then the time is taken.
    return Moment(queries=one.load.answered(), at_s=clock.now_s(), usage=sample(one.server.pid))
