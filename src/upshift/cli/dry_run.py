"""`--dry-run`: what would be done, and what it would take."""

from __future__ import annotations

import json

from rich.table import Table

from upshift import console
from upshift.estimate import estimate
from upshift.options import Options


def show(options: Options, stages: tuple[str, ...], *, as_json: bool) -> None:
    estimates = estimate(options, stages)
    if as_json:
        told = [each.model_dump(mode="json") for each in estimates]
        console.result_json(json.dumps({"schema_version": 1, "dry_run": True, "stages": told}, indent=2))
        return
    table = Table("stage", "time", "disk", "memory", "commands", title="what would be done (MySQL 9.7, estimates)")
    for each in estimates:
        table.add_row(
            each.stage,
            f"{each.wall_s / 60:.1f} min",
            f"{each.disk_bytes / 1e9:.1f} GB",
            f"{each.memory_bytes / 1e9:.1f} GB",
            "\n".join(each.commands),
        )
    table.add_section()
    table.add_row(
        "all",
        f"{sum(each.wall_s for each in estimates) / 60:.0f} min",
        f"{sum(each.disk_bytes for each in estimates) / 1e9:.0f} GB",
        f"{max(each.memory_bytes for each in estimates) / 1e9:.0f} GB at the peak",
        "",
    )
    console.table(table)
