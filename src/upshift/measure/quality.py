"""What spoils a measurement: found in the raw samples, said in a sentence, with what to do about it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import TypeVar

import numpy as np
import psutil

from upshift.measure.model import Flag, Flagged, Load, Plan, Slice
from upshift.measure.placement import Seat
from upshift.measure.statistics import geometric_mean
from upshift.measure.variant import Variant

CLIENT_SATURATED = 0.90
"""Share of its CPUs beyond which the client, not the server, limits throughput."""
OTHER_LOAD = 0.05
"""Share of the CPUs of server and client together that others may use."""
STEAL = 0.02
"""Share of the CPUs of server and client together that the hypervisor may give to other machines."""
SERVER_BUSY = 0.50
"""Share of the CPUs that it could use below which a server mostly waits."""
STEADY = 0.02
"""A trend between a trial's halves smaller than this is no warm-up worth a word."""
STEADY_CONFIDENCE = 0.99
"""A trend is one when the interval of this confidence says so."""
SWAPPED_BYTES = 1 << 20
"""Over the whole experiment; less than this is housekeeping."""

_SHOWN = 3

_T = TypeVar("_T")

Groups = Mapping[tuple[str, Load], Sequence[Slice]]
Seats = Mapping[str, Seat]
"""By arm."""


def find_flags(
    slices: Iterable[Slice],
    plan: Plan,
    arms: Iterable[Variant] = (),
    /,
    *,
    pool_bytes: int | None = None,
    data_bytes: int | None = None,
) -> tuple[Flag, ...]:
    """All flags for an experiment's samples, at most one of each name.

    ``arms`` may have CPUs of their own, in place of the plan's. ``pool_bytes`` is the buffer pool of the arm that holds the
    least of its data, ``data_bytes`` the size of that arm's tables and indexes; without both, whether the data fits is not
    judged.
    """
    groups: dict[tuple[str, Load], list[Slice]] = {}
    for each in slices:
        load = Load(workload=each.workload, connections=each.connections, held_out=each.held_out)
        groups.setdefault((each.arm, load), []).append(each)
    seats = {arm.name: plan.seat_of(arm) for arm in arms}
    found = (
        _client_saturated(groups, plan, seats),
        _errors(groups),
        _swap(groups),
        _cpu_quota(plan),
        _pool_too_small(pool_bytes, data_bytes),
        _not_steady(groups, plan),
        _carry_over(groups),
        _other_load(groups, plan),
        _steal(groups, plan),
        _not_settled(groups),
        _server_idle(groups, plan, seats),
        _trials_left_out(groups),
        *((_probe_missing(groups), _probe_differs(groups)) if plan.speed_probe else ()),
    )
    return tuple(flag for flag in found if flag)


def of_parts(flags: Iterable[Flag]) -> tuple[Flag, ...]:
    """One of each name of the flags of several experiments: it says what the first ones say, and has the loads of all."""
    named: dict[str, list[Flag]] = {}
    for flag in flags:
        named.setdefault(flag.name, []).append(flag)
    return tuple(_joined(each) for each in named.values())


def _joined(flags: Sequence[Flag]) -> Flag:
    messages = list(dict.fromkeys(flag.message for flag in flags))
    more = f"; and {len(messages) - _SHOWN} times more" if len(messages) > _SHOWN else ""
    loads = tuple(dict.fromkeys(load for flag in flags for load in flag.loads))
    return flags[0].model_copy(update={"message": "; ".join(messages[:_SHOWN]) + more, "loads": loads})


def _client_saturated(groups: Groups, plan: Plan, seats: Seats) -> Flag | None:
    def usable(arm: str, _load: Load) -> int:
        return _width(seats.get(arm, plan.seat).client_cpus)

    shares = _shares(groups, lambda each: each.client_cpu_s, usable)
    over = {key: share for key, share in shares.items() if share > CLIENT_SATURATED}
    if not over:
        return None
    widths = [usable(*key) for key in over]
    cpus = _counted(widths[0], "CPU") if len(set(widths)) == 1 else "CPUs"
    return Flag(
        name="client-saturated",
        message=f"the client used up its {cpus}: {_worst(over)}",
        hint="a faster server cannot show there: more CPUs for the client, or fewer connections",
        loads=_flagged(over),
    )


def _errors(groups: Groups) -> Flag | None:
    counts = {key: sum(each.errors for each in members) for key, members in groups.items()}
    failed = {key: count for key, count in counts.items() if count}
    if not failed:
        return None
    return Flag(
        name="errors",
        message=f"the load met errors, {sum(failed.values())} in all: {_named(failed, str)}",
        hint="failed queries do different work; see the load's log",
        loads=_flagged(failed),
    )


def _swap(groups: Groups) -> Flag | None:
    # A duet's slices of the same time each have what the whole machine swapped.
    swapped = sum(each.swapped_bytes for each in chain.from_iterable(groups.values()) if each.seat == 0)
    if swapped <= SWAPPED_BYTES:
        return None
    return Flag(
        name="swap",
        message=f"the machine swapped {swapped / 1e6:,.0f} MB while measuring",
        hint="all servers of a trial run at once: make the buffer pool smaller or stop other programs",
    )


def _cpu_quota(plan: Plan) -> Flag | None:
    cpus = _width(plan.cpus)
    if plan.quota_cpus is None or plan.quota_cpus >= cpus:
        return None
    return Flag(
        name="cpu-quota",
        message=f"{_counted(cpus, 'CPU')} were measured under a quota of {plan.quota_cpus:g}: servers and loads that use more "
        "are stopped for up to a tenth of a second at a time",
        hint="give the container CPUs in place of a quota (docker run --cpuset-cpus=0-3), or start Upshift under `taskset` "
        "with no more CPUs than the quota",
    )


def _pool_too_small(pool_bytes: int | None, data_bytes: int | None) -> Flag | None:
    if pool_bytes is None or data_bytes is None or pool_bytes >= data_bytes:
        return None
    return Flag(
        name="buffer-pool-smaller-than-data",
        message=f"a buffer pool of {pool_bytes / 1e6:,.0f} MB cannot hold data of {data_bytes / 1e6:,.0f} MB",
        hint="what is beyond it is measured as well; make it larger (innodb_buffer_pool_size, PostgreSQL's shared_buffers) "
        "unless that is what you want",
    )


def _not_steady(groups: Groups, plan: Plan) -> Flag | None:
    """An arm's slices of a trial's second half against those of its first: a trend in throughput beyond noise."""
    logs = {
        arm: _half_ratios({key: members for key, members in groups.items() if key[0] == arm})
        for arm in dict.fromkeys(arm for arm, _load in groups)
    }
    trends = _beyond_noise(logs)
    if not trends:
        return None
    return Flag(
        name="warm-up-not-steady",
        message=f"throughput changed from the first half of a trial to the second: {_by_arm(trends)}",
        hint=f"warm up longer than {plan.warmup_s:g} s (--warmup-seconds); turns keep the comparison fair, not the levels",
    )


def _carry_over(groups: Groups) -> Flag | None:
    """An arm's second halves of slices against its first ones, more or less so than those of all arms, beyond noise.

    Right after another arm's turn the caches hold its data; the faster arm loses most by that.
    """
    trends = _beyond_noise(_apart(groups, _halves))
    if not trends:
        return None
    return Flag(
        name="carry-over",
        message=f"within a turn, throughput rose or fell more than that of all servers: {_by_arm(trends)}",
        hint="the previous turn still affects the caches: raise --lead-seconds",
    )


def _halves(members: Sequence[Slice]) -> dict[int, float]:
    """By trial: ln of the throughput in the second halves of an arm's slices over that in the first ones."""
    logs: dict[int, list[float]] = {}
    for each in members:
        late = each.queries - each.half_queries
        if each.half_queries > 0 and late > 0:
            rates = late / (each.wall_s - each.half_wall_s), each.half_queries / each.half_wall_s
            logs.setdefault(each.trial, []).append(math.log(rates[0] / rates[1]))
    return {trial: float(np.mean(values)) for trial, values in logs.items()}


def _other_load(groups: Groups, plan: Plan) -> Flag | None:
    slices = list(chain.from_iterable(groups.values()))
    cpus = _width(plan.cpus)
    share = _share_of_all(slices, plan, lambda each: each.other_cpu_s)
    if share <= OTHER_LOAD:
        return None
    return Flag(
        name="other-load",
        message=f"other programs used {share * cpus:.2f} CPUs while {_counted(cpus, 'CPU')} were measured",
        hint="stop them, or measure longer: all servers were affected alike, but intervals get wider",
    )


def steal_share(slices: Sequence[Slice], plan: Plan) -> float:
    """The share of the CPUs' time that the hypervisor gave to other machines."""
    return _share_of_all(slices, plan, lambda each: each.steal_s)


def _steal(groups: Groups, plan: Plan) -> Flag | None:
    share = steal_share(list(chain.from_iterable(groups.values())), plan)
    if share <= STEAL:
        return None
    return Flag(
        name="steal",
        message=f"the hypervisor gave {share:.1%} of the CPUs' time to other machines",
        hint="measure at a quieter time or with more trials: all servers were affected alike, but intervals get wider",
    )


def _not_settled(groups: Groups) -> Flag | None:
    counts = {key: sum(not each.settled for each in members) for key, members in groups.items()}
    early = {key: count for key, count in counts.items() if count}
    if not early:
        return None
    return Flag(
        name="not-settled",
        message=f"servers still flushed or purged when a load began: {sum(early.values())} slices, {_named(early, str)}",
        hint="the disk is slow for what was written: a workload with fewer writes, or a faster disk",
        loads=_flagged(early),
    )


def _server_idle(groups: Groups, plan: Plan, seats: Seats) -> Flag | None:
    def usable(arm: str, load: Load) -> int:
        return min(_width(seats.get(arm, plan.seat).server_cpus), load.connections)

    shares = _shares(groups, lambda each: each.total_cpu_s, usable)
    # A slice without a single query counts as idle whatever the server did with its CPU time.
    without = {key for key, members in groups.items() if any(each.queries <= 0 for each in members)}
    idle = {key: 0.0 if key in without else share for key, share in shares.items()}
    idle = {key: share for key, share in idle.items() if share < SERVER_BUSY}
    if not idle:
        return None
    return Flag(
        name="server-idle",
        message=f"the server mostly waited: of its CPUs it used {_worst(idle, smallest=True)}",
        hint="use more connections, or see what it waits for (disk, locks, client); CPU per query still counts",
        loads=_flagged(idle),
    )


def _trials_left_out(groups: Groups) -> Flag | None:
    measured = {key: {each.trial for each in members} for key, members in groups.items()}
    ended = {key: {each.trial for each in members if each.queries > 0} for key, members in groups.items()}
    lacking = {key: f"{len(trials - ended[key])} of {len(trials)}" for key, trials in measured.items() if trials - ended[key]}
    if not lacking:
        return None
    return Flag(
        name="trials-left-out",
        message=f"trials in which a server ended no query, which ratios leave out: {_named(lacking, str)}",
        hint="the ratios are of the other trials alone, which may be its better ones: raise --slice-seconds",
        loads=_flagged(lacking),
    )


def _probe_missing(groups: Groups) -> Flag | None:
    counts = {key: sum(each.probe_us <= 0 for each in members) for key, members in groups.items()}
    missing = {key: count for key, count in counts.items() if count}
    if not missing:
        return None
    return Flag(
        name="probe-missing",
        message=f"the speed probe did nothing in {sum(missing.values())} slices: {_named(missing, str)}; these trials are "
        "compared as measured",
        hint="the server ran on other CPUs than those of the plan, or before the probe: see `under` (taskset, chrt)",
        loads=_flagged(missing),
    )


def _probe_differs(groups: Groups) -> Flag | None:
    """An arm's times of the speed probe's unit against those of all arms, beyond what bursts do by chance."""
    trends = _beyond_noise(_apart(groups, _probe_logs))
    if not trends:
        return None
    return Flag(
        name="probe-differs",
        message=f"the speed probe's work took longer or shorter beside one server than beside all: {_by_arm(trends)}",
        hint="the probe cannot tell that from a slower CPU, so that ratios may be wrong by as much: measure without "
        "--speed-probe",
    )


def _probe_logs(members: Sequence[Slice]) -> dict[int, float]:
    """By trial: the mean of ln of the probe's time in an arm's slices; without trials that lack one."""
    logs: dict[int, list[float]] = {}
    for each in members:
        logs.setdefault(each.trial, []).append(math.log(each.probe_us) if each.probe_us > 0 else math.nan)
    means = {trial: math.fsum(values) / len(values) for trial, values in logs.items()}
    return {trial: mean for trial, mean in means.items() if not math.isnan(mean)}


def _apart(groups: Groups, logs_of: Callable[[Sequence[Slice]], Mapping[int, float]]) -> dict[str, list[float]]:
    """By arm: how far its logarithm lies from the mean of all arms in each trial, a mean over loads. ``logs_of`` has an arm's
    logarithms under a load by trial.
    """
    trials: dict[str, dict[int, list[float]]] = {}
    arms = sorted({arm for arm, _load in groups})
    for load in {load for _arm, load in groups} if len(arms) > 1 else ():
        logs = {arm: logs_of(groups.get((arm, load), ())) for arm in arms}
        for trial in set.intersection(*(set(by_trial) for by_trial in logs.values())):
            mean = math.fsum(by_trial[trial] for by_trial in logs.values()) / len(arms)
            for arm, by_trial in logs.items():
                trials.setdefault(arm, {}).setdefault(trial, []).append(by_trial[trial] - mean)
    return {arm: [float(np.mean(each)) for each in by_trial.values()] for arm, by_trial in trials.items()}


def _beyond_noise(logs: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """By arm: the mean of its trials' logarithms as a trend, where it is one."""
    means = {arm: geometric_mean(each, STEADY_CONFIDENCE) for arm, each in logs.items() if len(each) > 1}
    return {
        arm: mean.value - 1 for arm, mean in means.items() if not mean.low <= 1 <= mean.high and abs(mean.value - 1) > STEADY
    }


def _by_arm(trends: Mapping[str, float]) -> str:
    return ", ".join(f"{trend:+.0%} ({arm})" for arm, trend in trends.items())


def _half_ratios(groups: Groups) -> list[float]:
    """For each trial, how much more one arm's later slices have than its earlier ones, each against its load's mean.

    Loads come in another order in each trial, so that one slice of each load is enough.
    """
    trials: dict[int, list[tuple[float, float]]] = {}
    for members in groups.values():
        logs = {each: math.log(each.queries / each.wall_s) for each in members if each.queries > 0}
        mean = math.fsum(logs.values()) / len(logs) if logs else 0.0
        for each, log in logs.items():
            trials.setdefault(each.trial, []).append((each.started_s, log - mean))
    ratios = []
    for slices in trials.values():
        ordered = [log for _started_s, log in sorted(slices)]
        half = len(ordered) // 2
        if half:
            ratios.append(float(np.mean(ordered[-half:]) - np.mean(ordered[:half])))
    return ratios


def _shares(groups: Groups, cpu_s: Callable[[Slice], float], cpus: Callable[[str, Load], int]) -> dict[tuple[str, Load], float]:
    return {
        key: math.fsum(map(cpu_s, members)) / (math.fsum(each.wall_s for each in members) * cpus(*key))
        for key, members in groups.items()
    }


def _share_of_all(slices: Sequence[Slice], plan: Plan, cpu_s: Callable[[Slice], float]) -> float:
    wall_s = math.fsum(each.wall_s for each in slices)
    return math.fsum(map(cpu_s, slices)) / (wall_s * _width(plan.cpus)) if wall_s else 0.0


def _width(cpus: tuple[int, ...]) -> int:
    return len(cpus) or psutil.cpu_count() or 1


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _flagged(values: Iterable[tuple[str, Load]]) -> tuple[Flagged, ...]:
    return tuple(Flagged(arm=arm, **load.model_dump()) for arm, load in values)


def _worst(shares: Mapping[tuple[str, Load], float], *, smallest: bool = False) -> str:
    ordered = dict(sorted(shares.items(), key=lambda item: abs(item[1]), reverse=not smallest))
    return _named(ordered, lambda share: f"{share:.0%}")


def _named(values: Mapping[tuple[str, Load], _T], show: Callable[[_T], str]) -> str:
    parts = [
        f"{show(value)} ({arm}, {load.workload} at {_counted(load.connections, 'connection')})"
        for (arm, load), value in values.items()
    ]
    more = f" and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
    return ", ".join(parts[:_SHOWN]) + more
