"""`--dry-run`: what would be done, and what it would take."""

from __future__ import annotations

import json
from collections.abc import Sequence

from upshift import console
from upshift.estimate import Estimate, estimate, expected
from upshift.measure.noise import CALM, Expected, Noise
from upshift.measure.variant import Variant
from upshift.options import Options
from upshift.report.noise import last_noise
from upshift.stages.names import Stage
from upshift.workload.library import find_workload

_ROW = "{:<28} {:>10} {:>9} {:>9}"


def show(options: Options, stages: tuple[str, ...], *, as_json: bool, variants: tuple[Variant, ...] = ()) -> None:
    """The stages of a run that measures ``variants`` or, without them, what the options' recipe makes."""
    names = {find_workload(each).name for each in (*options.workloads, *options.held_out)}
    noise = last_noise(names, duet=options.duet, speed_probe=options.speed_probe) if Stage.MEASURE in stages else CALM
    estimates = estimate(options, stages, variants=variants, noise=noise)
    measured = expected(options, noise, variants) if Stage.MEASURE in stages else None
    show_estimates(estimates, as_json=as_json, measured=measured)


def show_lines(lines: Sequence[str], what: str, *, as_json: bool) -> None:
    """Lines that say what would be done, or as JSON a list of them under ``what``."""
    if as_json:
        console.result_json(json.dumps({"schema_version": 1, "dry_run": True, what: list(lines)}, indent=2))
        return
    for line in lines:
        console.result(line)


def show_estimates(estimates: tuple[Estimate, ...], *, as_json: bool, measured: Expected | None = None) -> None:
    """``measured`` is the interval that measuring will give."""
    if as_json:
        told = {
            "schema_version": 1,
            "dry_run": True,
            "stages": [each.model_dump(mode="json") for each in estimates],
            **({"expected": measured.model_dump(mode="json")} if measured else {}),
        }
        console.result_json(json.dumps(told, indent=2))
        return
    console.result("Stages, with estimates for MySQL 9.7.\nStages kept from earlier runs take no time.\n")
    console.result(_ROW.format("stage", "time", "disk", "memory"))
    for each in estimates:
        memory = f"{each.memory_bytes / 1e9:.1f} GB"
        row = _ROW.format(each.name, f"{each.wall_s / 60:.1f} min", f"{each.disk_bytes / 1e9:.1f} GB", memory)
        console.entry(row, *each.commands)
    time = f"{sum(each.wall_s for each in estimates) / 60:.0f} min"
    disk = f"{sum(each.disk_bytes for each in estimates) / 1e9:.0f} GB"
    memory = f"{max(each.memory_bytes for each in estimates) / 1e9:.0f} GB at the peak"
    console.result(_ROW.format("all, at most", time, disk, memory))
    if measured and measured.half_width_percent is not None:
        console.entry(
            f"expected half-width of QPS: {measured.half_width_percent:.1f} % "
            f"({measured.trials} trials, {measured.wall_s / 60:.0f} min)",
            source_of(measured.noise),
        )


def source_of(noise: Noise) -> str:
    """Where the noise was seen that an expected half-width follows from."""
    if noise.run:
        return f"From the spread of servers and slices in the last run like it on this machine, {noise.run}."
    return "From the spread of servers and slices on one quiet machine with two CPUs; a busy machine has more."
