"""From the samples of a study's parts to its effects."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from upshift.errors import LoadFailed
from upshift.instructions.model import Instructions
from upshift.measure.model import Load, Metric, Slice
from upshift.measure.speed import at_usual_speed
from upshift.measure.statistics import HIGHER_IS_BETTER, LEAST_LOG_SD, trial_values
from upshift.measure.variance import SOURCES, Component, components
from upshift.study.attribution import Attribution, Step, attribute, attribute_each, steps
from upshift.study.cells import beside_off, beside_own
from upshift.study.crossing import Crossing
from upshift.study.designs import Design, Row
from upshift.study.intervals import servers_of
from upshift.study.result import Cell, Crossed, LoadEffects
from upshift.values import Value

COUNT_LOG_SD = 0.0015
"""Of a count: five counts of a server lay at most 0.222 % apart (docs/measurements/2026-11-22-instructions), as five that
spread by 0.1 % do; half as much again for other workloads."""


class Part(Value):
    """Arms that were measured side by side, with the first of the study among them."""

    training: int
    layout: int = 1
    slices: tuple[Slice, ...]


class Analysis(NamedTuple):
    """What the samples say."""

    cells: tuple[Cell, ...]
    cells_confidence: float
    crossed: tuple[Crossed, ...]
    crossed_confidence: float
    effects: Attribution
    by_load: tuple[LoadEffects, ...]
    steps: tuple[Step, ...]
    variance: tuple[Component, ...]


Logs = dict[str, dict[Load, dict[tuple[int, int, int], float]]]
"""By row and load: the logarithm of its ratio to all off, by training, layout and trial."""


def analyse(
    design: Design,
    standing_for: Mapping[Row, str],
    parts: Sequence[Part],
    loads: Sequence[Load],
    metric: Metric,
    crossings: Sequence[Crossing] = (),
) -> Analysis:
    """``standing_for`` names the arm that was measured for each row that has figures; the first row's is all off.

    Raises LoadFailed when there are no figures.
    """
    rows = tuple(row for row in design.rows if row in standing_for)
    base = standing_for[design.rows[0]]
    logs, levels = _ratios(parts, base, metric)
    higher = HIGHER_IS_BETTER[metric]
    names = [standing_for[row] for row in rows]
    by_load = {load: table for load in loads if (table := _table(logs, names, [load])) is not None}
    judged = [load for load in loads if not load.held_out]
    pooled = _table(logs, names, judged)
    if pooled is None:
        raise LoadFailed(
            f"no trial gave a figure for {metric} of every row", "choose another metric: not every driver reports each"
        )
    servers = servers_of(names, base, _groups(parts))
    # Of one server's figure; the steps of several loads even out.
    least_sd = LEAST_LOG_SD.get(metric, 0.0) / math.sqrt(2)
    least_pooled_sd = least_sd / math.sqrt(len(judged))
    cells, cells_confidence = beside_off(design, rows, by_load, servers, levels, higher, least_sd)
    crossed, crossed_confidence = beside_own(design, rows, by_load, servers, crossings, higher, least_sd)
    return Analysis(
        cells=cells,
        cells_confidence=cells_confidence,
        crossed=crossed,
        crossed_confidence=crossed_confidence,
        effects=attribute(design, rows, pooled, higher_is_better=higher, servers=servers, least_sd=least_pooled_sd),
        by_load=tuple(
            LoadEffects(load=load, effects=effects)
            for load, effects in zip(
                by_load,
                attribute_each(
                    design, rows, tuple(by_load.values()), higher_is_better=higher, servers=servers, least_sd=least_sd
                ),
                strict=True,
            )
        ),
        steps=steps(design, rows, pooled, servers=servers, least_sd=least_pooled_sd) if design.kind == "grid" else (),
        variance=_variance(parts, base, names, metric),
    )


def without_figures(names: Iterable[str], base: str, parts: Sequence[Part], loads: Sequence[Load], metric: Metric) -> list[str]:
    """Those of the arms ``names`` for which no trial has a figure under all loads that are not held out."""
    logs, _levels = _ratios(parts, base, metric)
    judged = [load for load in loads if not load.held_out]
    return [name for name in names if name != base and _table(logs, [name], judged) is None]


def by_instructions(
    design: Design, standing_for: Mapping[Row, str], counted: Instructions, workloads: Sequence[str]
) -> Attribution | None:
    """What the factors do to the instructions of a query, geometric means over ``workloads``; None unless all off and another
    row were counted.

    Counts repeat so well that one is enough. Rows that were not counted are left out; those with one server share its count.
    """
    without = uncounted(tuple(standing_for.values()), counted, workloads)
    rows = tuple(row for row in design.rows if row in standing_for and standing_for[row] not in without)
    if not workloads or design.rows[0] not in rows or len(rows) < 2:
        return None
    counts = {(each.arm, each.workload): each.instructions_per_query for each in counted.counts}
    logs = np.array([np.mean([math.log(counts[standing_for[row], each]) for each in workloads]) for row in rows])
    names = [standing_for[row] for row in rows]
    servers = np.array([[float(name == arm) for arm in dict.fromkeys(names)] for name in names])
    return attribute(design, rows, logs[None, :], higher_is_better=False, known_sd=COUNT_LOG_SD, servers=servers)


def uncounted(arms: Sequence[str], counted: Instructions, workloads: Sequence[str]) -> tuple[str, ...]:
    """Those of ``arms`` that lack a count of one of ``workloads``."""
    counts = {(each.arm, each.workload) for each in counted.counts}
    return tuple(arm for arm in dict.fromkeys(arms) if not all((arm, each) in counts for each in workloads))


def _ratios(parts: Sequence[Part], base: str, metric: Metric) -> tuple[Logs, dict[Load, float]]:
    """Each arm's ratio to the first within its part and trial; and the first's own level for each load."""
    logs: Logs = {}
    own: dict[Load, list[float]] = {}
    for part in parts:
        values = trial_values(part.slices)
        for (arm, load), metrics in values.items():
            first = values.get((base, load), {}).get(metric, {})
            if arm == base:
                own.setdefault(load, []).extend(map(math.log, first.values()))
            for trial, value in metrics.get(metric, {}).items():
                if trial in first:
                    logs.setdefault(arm, {}).setdefault(load, {})[part.training, part.layout, trial] = math.log(
                        value / first[trial]
                    )
    return logs, {load: float(np.mean(each)) for load, each in own.items() if each}


def _table(logs: Logs, names: Sequence[str], loads: Sequence[Load]) -> np.ndarray | None:
    """Replicates by rows, means over ``loads``; of the trials that all rows have. None when there are none.

    The unit of replication is what a user who does it once more draws anew: a training where there are several, else a
    layout, else a trial. Trials of one training, or of one layout, share its luck.
    """
    if not loads or any(load not in logs.get(name, {}) for name in names for load in loads):
        return None
    trials = sorted(set.intersection(*(set(logs[name][load]) for name in names for load in loads)))
    if not trials:
        return None
    table = np.array([[np.mean([logs[name][load][trial] for load in loads]) for name in names] for trial in trials])
    for depth in (1, 2):  # trainings, then layouts
        units = [trial[:depth] for trial in trials]
        if len(set(units)) > 1:
            members = [[number for number, each in enumerate(units) if each == one] for one in sorted(set(units))]
            return np.array([table[of].mean(axis=0) for of in members])
    return table


def _groups(parts: Sequence[Part]) -> dict[str, int]:
    """Each arm's group: the first part that it is in. Another training has the same groups."""
    return {each.arm: number for number, part in reversed(list(enumerate(parts))) for each in part.slices}


def _variance(parts: Sequence[Part], base: str, names: Sequence[str], metric: Metric) -> tuple[Component, ...]:
    """Of each arm's ratio to the first, by training, layout, start and block; means over the arms ``names`` and over loads.

    Every arm and load has the same numbers of each. An arm that died has fewer, and is none of them. Of the typical CPU time,
    which takes several turns, a block has the CPU time.
    """
    of_block: Metric = "total_cpu_us_per_query" if metric == "typical_cpu_us_per_query" else metric
    series: dict[tuple[str, Load], dict[tuple[int, int, int], dict[int, float]]] = {}
    for part in parts:
        single: dict[tuple[str, Load, int, int], list[Slice]] = {}
        for each in at_usual_speed(part.slices):
            load = Load(workload=each.workload, connections=each.connections, held_out=each.held_out)
            single.setdefault((each.arm, load, each.trial, each.round), []).append(each)
        values = {
            key: value
            for key, members in single.items()
            for metrics in trial_values(members).values()
            for value in metrics.get(of_block, {}).values()
        }
        for (arm, load, trial, number), value in values.items():
            first = values.get((base, load, trial, number))
            if arm != base and arm in names and first is not None:
                starts = series.setdefault((arm, load), {}).setdefault((part.training, part.layout, trial), {})
                starts[number] = math.log(value / first)
    tables = [table for each in series.values() if (table := _balanced(each)) is not None]
    if not tables:
        return ()
    sums: dict[str, list[Component]] = {}
    for table in tables:
        for one in components(table, SOURCES):
            sums.setdefault(one.source, []).append(one)
    squares = {source: float(np.mean([one.log_sd**2 for one in found])) for source, found in sums.items()}
    whole = sum(squares.values()) or 1.0
    return tuple(
        Component(source=source, log_sd=math.sqrt(square), count=sums[source][0].count, share=square / whole)
        for source, square in squares.items()
    )


def _balanced(series: Mapping[tuple[int, int, int], Mapping[int, float]]) -> np.ndarray | None:
    """Trainings x layouts x starts x blocks, cut to the fewest of each; None when nothing varies."""
    made: dict[int, dict[int, list[int]]] = {}
    for training, layout, trial in sorted(series):
        made.setdefault(training, {}).setdefault(layout, []).append(trial)
    layouts = min(map(len, made.values()))
    starts = min(len(trials) for of in made.values() for trials in of.values())
    rounds = min(map(len, series.values()))
    if len(made) * layouts * starts * rounds < 2:
        return None
    return np.array(
        [
            [
                [
                    [series[training, layout, trial][number] for number in sorted(series[training, layout, trial])[:rounds]]
                    for trial in trials[:starts]
                ]
                for layout, trials in sorted(of.items())[:layouts]
            ]
            for training, of in made.items()
        ]
    )
