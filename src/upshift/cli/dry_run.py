"""`--dry-run`: what would be done, and what it would take."""

from __future__ import annotations

import json
from collections.abc import Sequence

from upshift import console
from upshift.estimate import Estimate, estimate
from upshift.options import Options

_ROW = "{:<28} {:>10} {:>9} {:>9}"


def show(options: Options, stages: tuple[str, ...], *, as_json: bool) -> None:
    show_estimates(estimate(options, stages), as_json=as_json)


def show_lines(lines: Sequence[str], what: str, *, as_json: bool) -> None:
    """Lines that say what would be done, or as JSON a list of them under ``what``."""
    if as_json:
        console.result_json(json.dumps({"schema_version": 1, "dry_run": True, what: list(lines)}, indent=2))
        return
    for line in lines:
        console.result(line)


def show_estimates(estimates: tuple[Estimate, ...], *, as_json: bool) -> None:
    if as_json:
        told = [each.model_dump(mode="json") for each in estimates]
        console.result_json(json.dumps({"schema_version": 1, "dry_run": True, "stages": told}, indent=2))
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
