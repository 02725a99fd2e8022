"""`upshift study --dry-run`: the design, what must be built, how long it takes, and the precision to expect."""

from __future__ import annotations

import json
import math

from upshift import console
from upshift.cli.dry_run import source_of
from upshift.report.words import count, duet_sentence
from upshift.study.builds import builds_of, confirming, disk_bytes
from upshift.study.file import Study
from upshift.study.plan import StudyPlan


def show_plan(study: Study, plan: StudyPlan, *, as_json: bool) -> None:
    builds, confirmed, needed_bytes = builds_of(plan.built, study), confirming(plan, study), disk_bytes(plan, study)
    percent = 100 * math.expm1(plan.half_width) if math.isfinite(plan.half_width) else None
    if as_json:
        told = {
            "schema_version": 1,
            "dry_run": True,
            "design": plan.design.model_dump(mode="json"),
            "rows": [plan.design.name(row) for row in plan.design.rows],
            "builds": [each.model_dump(mode="json") for each in builds],
            "confirm_build_s": confirmed.wall_s,
            "disk_bytes": needed_bytes,
            "trials": plan.trials,
            "confirm_trials": plan.confirm_trials,
            "arms_at_once": plan.arms_at_once,
            "duet": [each.model_dump(mode="json") for each in plan.duet],
            "wall_s": plan.wall_s,
            "half_width_percent": percent,
            "noise": plan.noise.model_dump(mode="json"),
        }
        console.result_json(json.dumps(told, indent=2))
        return
    names = ", ".join(f"{each.name} ({'/'.join(each.levels[1:])})" for each in plan.design.factors)
    rows = ", ".join(plan.design.name(row) for row in plan.design.rows)
    console.entry(f"design: {plan.design.kind}, {count(len(plan.design.rows), 'row')}", f"factors: {names}", f"rows: {rows}")
    for alias in plan.design.aliases:
        console.entry("  not told apart", alias)
    for each in builds:
        console.entry(f"{each.count} x {each.stage}: {each.wall_s / 60:.0f} min", *each.recipes)
    if builds:
        all_s = sum(each.wall_s for each in builds) + confirmed.wall_s
        again = f"Up to {confirmed.wall_s / 60:.0f} min of it are for the servers that confirm, of a training of their own."
        kept = "Builds kept from earlier runs take no time."
        console.entry(f"builds: at most {all_s / 60:.0f} min", *((again,) if confirmed.wall_s else ()), kept)
    console.entry(f"disk: about {needed_bytes / 1e9:.0f} GB")
    at_once = f"{plan.arms_at_once} servers at once" if plan.arms_at_once < len(plan.arms) else "all servers at once"
    then = f"; then {count(plan.confirm_trials, 'trial')} of two servers confirm the recommended set"
    console.entry(
        f"measuring: {count(plan.trials, 'trial')} of {count(plan.loads, 'load')}, {plan.wall_s / 60:.0f} min",
        *((duet_sentence(plan.duet),) if plan.duet else ()),
        at_once + (then if plan.confirm_trials else ""),
    )
    if percent is None:
        console.result("One trial gives no interval.")
        return
    console.entry(
        f"expected half-width of a factor's interval: {percent:.1f} %",
        source_of(plan.noise),
    )
