"""What spoils a measurement: found in the raw samples, said in a sentence, with what to do about it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import TypeVar

import numpy as np
import psutil

from upshift.measure.model import Flag, Load, Plan, Slice
from upshift.measure.statistics import SIGNIFICANCE, geometric_mean

CLIENT_SATURATED = 0.90
"""Share of its CPUs beyond which the client, not the server, limits throughput."""
OTHER_LOAD = 0.05
"""Share of the CPUs of server and client together that others may use."""
SERVER_BUSY = 0.50
"""Share of the CPUs that it could use below which a server mostly waits."""
STEADY = 0.02
"""A trend between a trial's halves smaller than this is no warm-up worth a word."""
SWAPPED_BYTES = 1 << 20
"""Over the whole experiment; less than this is housekeeping."""

_SHOWN = 3

_T = TypeVar("_T")

Groups = Mapping[tuple[str, Load], Sequence[Slice]]


def find_flags(
    slices: Iterable[Slice], plan: Plan, *, pool_bytes: int | None = None, data_bytes: int | None = None
) -> tuple[Flag, ...]:
    """All flags for an experiment's samples, at most one of each name.

    ``pool_bytes`` is the smallest buffer pool of the arms, ``data_bytes`` the size of tables and indexes;
    without both, whether the data fits is not judged.
    """
    groups: dict[tuple[str, Load], list[Slice]] = {}
    for each in slices:
        load = Load(workload=each.workload, threads=each.threads, held_out=each.held_out)
        groups.setdefault((each.arm, load), []).append(each)
    found = (
        _client_saturated(groups, plan),
        _errors(groups),
        _swap(groups),
        _pool_too_small(pool_bytes, data_bytes),
        _not_steady(groups, plan),
        _other_load(groups, plan),
        _server_idle(groups, plan),
    )
    return tuple(flag for flag in found if flag)


def _client_saturated(groups: Groups, plan: Plan) -> Flag | None:
    cpus = _width(plan.client_cpus)
    shares = _shares(groups, lambda each: each.client_cpu_s, lambda _load: cpus)
    over = {key: share for key, share in shares.items() if share > CLIENT_SATURATED}
    if not over:
        return None
    return Flag(
        name="client-saturated",
        message=f"the client used up its {_counted(cpus, 'CPU')}: {_worst(over)}",
        hint="a faster server cannot show there: more CPUs for the client, or fewer threads",
    )


def _errors(groups: Groups) -> Flag | None:
    counts = {key: sum(each.errors for each in members) for key, members in groups.items()}
    failed = {key: count for key, count in counts.items() if count}
    if not failed:
        return None
    return Flag(
        name="errors",
        message=f"the load met errors, {sum(failed.values())} in all: {_named(failed, str)}",
        hint="a query that fails costs other work than one that succeeds: look at the log of the load",
    )


def _swap(groups: Groups) -> Flag | None:
    swapped = sum(each.swapped_bytes for each in chain.from_iterable(groups.values()))
    if swapped <= SWAPPED_BYTES:
        return None
    return Flag(
        name="swap",
        message=f"the machine swapped {swapped / 1e6:,.0f} MB while measuring",
        hint="all servers of a trial run at once: make the buffer pool smaller or stop other programs",
    )


def _pool_too_small(pool_bytes: int | None, data_bytes: int | None) -> Flag | None:
    if pool_bytes is None or data_bytes is None or pool_bytes >= data_bytes:
        return None
    return Flag(
        name="buffer-pool-smaller-than-data",
        message=f"a buffer pool of {pool_bytes / 1e6:,.0f} MB cannot hold data of {data_bytes / 1e6:,.0f} MB",
        hint="the disk is measured as well; make innodb_buffer_pool_size larger unless that is what you want",
    )


def _not_steady(groups: Groups, plan: Plan) -> Flag | None:
    """The second half of a trial's rounds against the first: a trend in throughput beyond noise."""
    trends: dict[tuple[str, Load], float] = {}
    for key, members in groups.items():
        logs = _half_ratios(members, plan.rounds)
        if len(logs) < 2:
            continue
        trend = geometric_mean(logs, 1 - SIGNIFICANCE)
        if not trend.low <= 1 <= trend.high and abs(trend.value - 1) > STEADY:
            trends[key] = trend.value - 1
    if not trends:
        return None
    return Flag(
        name="warm-up-not-steady",
        message=f"throughput changed between the halves of a trial: {_worst(trends, '+.0%')}",
        hint=f"warm up longer than {plan.warmup_s:g} s; turns keep the comparison fair, not the levels",
    )


def _other_load(groups: Groups, plan: Plan) -> Flag | None:
    pinned = bool(plan.server_cpus and plan.client_cpus)
    cpus = len({*plan.server_cpus, *plan.client_cpus}) if pinned else _width(())
    slices = list(chain.from_iterable(groups.values()))
    wall_s = math.fsum(each.wall_s for each in slices)
    other_cpus = math.fsum(each.other_cpu_s for each in slices) / wall_s if wall_s else 0.0
    if other_cpus <= OTHER_LOAD * cpus:
        return None
    return Flag(
        name="other-load",
        message=f"other programs or virtual machines used {other_cpus:.2f} CPUs beside the measured {cpus}",
        hint="stop them, or measure longer: the arms met the same, but intervals get wider",
    )


def _server_idle(groups: Groups, plan: Plan) -> Flag | None:
    def usable(load: Load) -> int:
        return min(_width(plan.server_cpus), load.threads)

    shares = _shares(groups, lambda each: each.user_cpu_s + each.system_cpu_s, usable)
    # A slice without a single query counts as idle whatever the server did with its CPU time.
    without = {key for key, members in groups.items() if any(each.queries <= 0 for each in members)}
    idle = {key: 0.0 if key in without else share for key, share in shares.items()}
    idle = {key: share for key, share in idle.items() if share < SERVER_BUSY}
    if not idle:
        return None
    return Flag(
        name="server-idle",
        message=f"the server mostly waited: of its CPUs it used {_worst(idle, smallest=True)}",
        hint="use more threads, or see what it waits for (disk, locks, client); CPU per query still counts",
    )


def _half_ratios(members: Sequence[Slice], rounds: int) -> list[float]:
    half = rounds // 2
    trials: dict[int, tuple[list[float], list[float]]] = {}
    for each in members:
        if each.queries > 0 and not half <= each.round < rounds - half:
            late = each.round >= rounds - half
            trials.setdefault(each.trial, ([], []))[late].append(math.log(each.queries / each.wall_s))
    return [float(np.mean(late) - np.mean(early)) for early, late in trials.values() if early and late]


def _shares(groups: Groups, cpu_s: Callable[[Slice], float], cpus: Callable[[Load], int]) -> dict[tuple[str, Load], float]:
    return {
        key: math.fsum(map(cpu_s, members)) / (math.fsum(each.wall_s for each in members) * cpus(key[1]))
        for key, members in groups.items()
    }


def _width(cpus: tuple[int, ...]) -> int:
    return len(cpus) or psutil.cpu_count() or 1


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _worst(shares: Mapping[tuple[str, Load], float], form: str = ".0%", *, smallest: bool = False) -> str:
    ordered = dict(sorted(shares.items(), key=lambda item: abs(item[1]), reverse=not smallest))
    return _named(ordered, lambda share: format(share, form))


def _named(values: Mapping[tuple[str, Load], _T], show: Callable[[_T], str]) -> str:
    parts = [
        f"{show(value)} ({arm}, {load.workload} at {_counted(load.threads, 'thread')})" for (arm, load), value in values.items()
    ]
    more = f" and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
    return ", ".join(parts[:_SHOWN]) + more
