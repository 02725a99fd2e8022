"""Counts all servers of an experiment under all its workloads, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path

from upshift.errors import UpshiftError
from upshift.instructions.by_bolt import Instrumented
from upshift.instructions.count import count
from upshift.instructions.model import Count, Instructions, compared
from upshift.instructions.tools import Tool
from upshift.measure.variant import Variant
from upshift.profile.places import Places, Trainees
from upshift.server.kind import ServerKind
from upshift.workbench import Workbench
from upshift.workload.model import Workload


def nothing_counted(baseline: str, reason: str) -> Instructions:
    """What a report shows where nothing could be counted."""
    return Instructions(source="none", baseline=baseline, not_counted=(reason,))


def count_all(
    bench: Workbench,
    kind: ServerKind,
    arms: tuple[Variant, ...],
    workloads: tuple[Workload, ...],
    templates: Mapping[str, Path],
    tool: Tool,
    *,
    by_function: bool = False,
) -> Instructions:
    """Each of ``arms``, the first is the baseline, under each of ``workloads``, as many at once as CPUs and memory hold.

    Each workload has a fixed command.

    A server that cannot be counted costs a sentence in the result, never the others.
    """
    jobs = [(arm, workload) for workload in workloads for arm in arms]
    places = Places.for_workloads(kind, [workload for _arm, workload in jobs], a_cpu=1)
    started = Trainees(bench.shell)
    beside = replace(bench, shell=started)

    instrumented = None if tool.toolchain is None else Instrumented(beside.shell, tool.toolchain, bench.folder, bench.log)

    def one(number: int) -> Count:
        arm, workload = jobs[number]
        log = bench.log.with_name(f"{bench.log.stem}-{number}.log")
        with places.taken() as cpus:
            return count(
                *(beside.shell, kind, arm, workload, templates[arm.name], bench.folder / f"server-{number}"),
                tool=tool,
                cpus=cpus,
                log=log,
                by_function=by_function,
                instrumented=instrumented,
            )

    pool = ThreadPoolExecutor(max_workers=len(places))
    try:
        futures = [pool.submit(one, number) for number in range(len(jobs))]
        _await_all(futures, bench)
    finally:
        started.stop()
        pool.shutdown(cancel_futures=True)
        if instrumented:
            instrumented.remove()
    counts: list[Count] = []
    left_out: list[str] = []
    for (arm, workload), future in zip(jobs, futures, strict=True):
        try:
            counts.append(future.result())
        except UpshiftError as error:
            left_out.append(f"server '{arm.name}' under workload '{workload.name}': {error.message}")
    found, baseline = tuple(counts), arms[0].name
    return Instructions(
        source=tool.source,
        version=tool.version,
        baseline=baseline,
        counts=found,
        ratios=compared(found, baseline),
        not_counted=tuple(left_out),
    )


def _await_all(futures: list[Future[Count]], bench: Workbench) -> None:
    """Until all have ended, well or not."""
    waiting: set[Future[Count]] = set(futures)
    bench.progress.update(0, len(futures))
    while waiting:
        ended, waiting = wait(waiting, timeout=1.0, return_when=FIRST_COMPLETED)
        for future in ended:
            error = future.exception()
            if error is not None and not isinstance(error, UpshiftError):
                raise error
        bench.progress.update(len(futures) - len(waiting), len(futures))
