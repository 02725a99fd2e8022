"""Figures at the usual speed of the servers' CPUs, by what the probe says of their speed in each slice (see ``probe``).

Within a trial, a server's figures follow the probe's time: the logarithm of its CPU time a query rises with that of the probe's
unit, and that of its throughput falls. How steeply, all slices of a load say together (analysis of covariance: Cochran,
"Analysis of Covariance: Its Nature and Uses", 1957). Each slice is then carried to one speed, the same for all servers. The
order of turns does not depend on a machine's bursts, so that on average each server has met the same, and the ratio stays; but
the chance that one met more of them no longer makes intervals wide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from upshift.measure.model import Load, Slice

SLOWER = 1.2
"""From this multiple of its usual time on, the probe's unit says that the CPUs were slowed down."""
_USUAL = 0.1
"""The quantile of all slices of a load that is the time of a unit on undisturbed CPUs."""
_STEEPEST = 2.0
"""A figure that follows the probe more steeply, or the other way round, does so by chance: there are too few slices."""


class _Follows(NamedTuple):
    """How a load's figures follow the logarithm of the probe's time."""

    usual_log: float
    cpu: float
    """The slope of the logarithm of CPU time a query, 0 or more."""
    qps: float
    """That of throughput, 0 or less."""


def at_usual_speed(slices: Iterable[Slice]) -> list[Slice]:
    """The slices as they would be on CPUs at their usual speed: with another CPU time, and another wall time for throughput.

    A load of a trial stays as it is where the probe has no time for one of its slices: ratios are of servers that are carried
    alike. What comes out has no probe's time, and stays as it is from then on.
    """
    given = list(slices)
    without = {(_load(each), each.trial) for each in given if each.probe_us <= 0}
    by_load: dict[Load, list[Slice]] = {}
    for each in given:
        if (_load(each), each.trial) not in without:
            by_load.setdefault(_load(each), []).append(each)
    follows = {load: _follow(members) for load, members in by_load.items()}

    def carried(each: Slice) -> Slice:
        if (_load(each), each.trial) in without:
            return each.model_copy(update={"probe_us": 0.0})
        return _carried(each, follows[_load(each)])

    return [carried(each) for each in given]


def slowed_share(*parts: Sequence[Slice]) -> float | None:
    """The share of slices in which the servers' CPUs were slowed down, of several experiments together; None without one."""
    slowed, probed = 0, 0
    for part in parts:
        by_load: dict[Load, list[float]] = {}
        for each in part:
            if each.probe_us > 0:
                by_load.setdefault(_load(each), []).append(each.probe_us)
        for units in by_load.values():
            slowed += sum(each >= SLOWER * _usual(units) for each in units)
            probed += len(units)
    return slowed / probed if probed else None


def _follow(slices: Sequence[Slice]) -> _Follows:
    usual_log = math.log(_usual([each.probe_us for each in slices]))
    cpu = _slope(slices, lambda each: each.total_cpu_s / each.queries if each.queries else 0.0)
    qps = _slope(slices, lambda each: each.queries / each.wall_s)
    return _Follows(usual_log, min(max(cpu, 0.0), _STEEPEST), max(min(qps, 0.0), -_STEEPEST))


def _slope(slices: Sequence[Slice], figure: Callable[[Slice], float]) -> float:
    """Of the figure's logarithm on the probe's, within servers and trials; 0 where no trial has two slices of a server."""
    starts: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for each in slices:
        if (value := figure(each)) > 0:
            starts.setdefault((each.arm, each.trial), []).append((math.log(each.probe_us), math.log(value)))
    both = squares = 0.0
    for points in starts.values():
        probe, own = (math.fsum(values) / len(points) for values in zip(*points, strict=True))
        both += math.fsum((x - probe) * (y - own) for x, y in points)
        squares += math.fsum((x - probe) ** 2 for x, _y in points)
    return both / squares if squares > 0 else 0.0


def _carried(one: Slice, follows: _Follows) -> Slice:
    beyond = math.log(one.probe_us) - follows.usual_log
    less_cpu, less_wall = math.exp(-follows.cpu * beyond), math.exp(follows.qps * beyond)
    return one.model_copy(
        update={
            "wall_s": one.wall_s * less_wall,
            "half_wall_s": one.half_wall_s * less_wall,
            "total_cpu_s": one.total_cpu_s * less_cpu,
            "user_cpu_s": one.user_cpu_s * less_cpu,
            "system_cpu_s": one.system_cpu_s * less_cpu,
            "probe_us": 0.0,
        }
    )


def _usual(units: Sequence[float]) -> float:
    return sorted(units)[int(_USUAL * len(units))]


def _load(one: Slice) -> Load:
    return Load(workload=one.workload, connections=one.connections, held_out=one.held_out)
