"""The last stage: the result as JSON and as a page."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from upshift import __version__
from upshift.build.model import Build
from upshift.check.model import Checked
from upshift.instructions.model import Instructions
from upshift.machine import describe_machine
from upshift.measure.model import PATCHED, Experiment
from upshift.profile.model import HotSet
from upshift.report.html import write_html
from upshift.report.result import BuildSummary, HotSetSummary, Result
from upshift.report.store import save_result
from upshift.source.model import Source
from upshift.stages.card import Carded
from upshift.stages.explain import Why
from upshift.stages.lab import Lab
from upshift.stages.package import Packaged
from upshift.stages.verify import Verified
from upshift.stages.work import Ground, Measuring, Trained, Work
from upshift.values import Value
from upshift.verify import hardening


class Judged(Value):
    """All that was found out about servers by running them."""

    carded: Carded
    experiment: Experiment
    counted: Instructions
    why: Why = Why(explanation=None)
    checked: Checked | None = None
    """None: no check belongs to it."""


def report(
    lab: Lab,
    ground: Ground,
    trained: Trained | None,
    verified: Verified,
    judged: Judged,
    packaged: Packaged | str,
    work: Work,
) -> Result:
    """The result as JSON and as a page; in place of a package, why there is none."""
    hot_set = trained.hot_set if trained else None
    profile = trained.gated.profile if trained else None
    summary = BuildSummary(
        name="optimised",
        compiler=_compiler(verified.build),
        flags=verified.build.recipe.flags,
        recipe=verified.build.recipe.name,
        scope=verified.build.recipe.scope if trained else "none",
        objects=verified.build.objects if trained else 0,
        profile=f"{profile.kind} {profile.sha256[:12]}" if profile else "",
        post_link=verified.post_link,
        binary_bytes=verified.build.server.stat().st_size,
        text_bytes=hardening.text_bytes(verified.build.server),
    )
    warnings = [*verified.warnings, *_lacking(judged), *((packaged,) if isinstance(packaged, str) else ())]
    before = {"plain": ground.stock.plain, **({PATCHED: ground.plain} if ground.source.patches else {})}
    for build in (*before.values(), *((verified.build,) if trained else ())):
        if build.fallbacks:
            warnings.append(
                f"files of {build.recipe.name} that were compiled without precompiled headers: {len(build.fallbacks)}"
            )
    if profile and profile.kind == "gcc" and work.recipe.training == "workload" and len(work.train_on) > 1:
        warnings.append("GCC's counters have no shares: a workload that executed more weighs more in the profile")
    result = Result(
        **_common(lab, judged, work),
        source=ground.source,
        builds=(*(_before_summary(name, build) for name, build in before.items()), summary),
        hot_set=_hot_set_summary(hot_set) if hot_set else None,
        profile_notes=trained.gated.notes if trained else (),
        verify=verified.summary,
        warnings=tuple(warnings),
        package="" if isinstance(packaged, str) else str(packaged.tarball),
    )
    return _publish(lab, result)


def report_measured(lab: Lab, judged: Judged, measuring: Measuring) -> Result:
    """The result of measuring servers that exist already."""
    kind = judged.experiment.arms[0].program.kind
    nowhere = Source(kind=kind, version="", origin="not built here", sha256="", verified="none", path=Path("/"))
    result = Result(
        **_common(lab, judged, measuring),
        source=nowhere,
        builds=(),
        hot_set=None,
        profile_notes=(),
        verify=None,
        warnings=_lacking(judged),
        package="",
    )
    return _publish(lab, result)


def _publish(lab: Lab, result: Result) -> Result:
    save_result(result, lab.run.path)
    write_html(result, lab.run.path / "report.html")
    return result


def _lacking(judged: Judged) -> tuple[str, ...]:
    unchecked = judged.checked.why_none if judged.checked and judged.checked.failed else ""
    return tuple(each for each in (unchecked, judged.carded.lacking, judged.why.lacking) if each)


def _common(lab: Lab, judged: Judged, measuring: Measuring) -> dict[str, Any]:
    return {
        "run": lab.run.name,
        "started_at": lab.run.manifest.started_at,
        "command": shlex.join(lab.run.manifest.command),
        "upshift_version": __version__,
        "level": measuring.options.level,
        "machine": describe_machine(),
        "check": judged.checked,
        "card": judged.carded.card,
        "stages": lab.stages.records(),
        "experiment": judged.experiment,
        "instructions": judged.counted,
        "explanation": judged.why.explanation,
    }


def _hot_set_summary(hot_set: HotSet) -> HotSetSummary:
    return HotSetSummary(
        method=hot_set.method,
        objects=len(hot_set.objects),
        all_objects=hot_set.all_objects,
        coverage=hot_set.coverage,
        top=tuple((each.path, each.share) for each in hot_set.objects[:15]),
    )


def _before_summary(name: str, plain: Build) -> BuildSummary:
    return BuildSummary(
        name=name,
        compiler=_compiler(plain),
        flags=plain.recipe.flags,
        recipe=plain.recipe.name,
        scope="all" if plain.patched is None else "touched",
        objects=plain.objects,
        profile="",
        post_link="",
        binary_bytes=plain.server.stat().st_size,
        text_bytes=hardening.text_bytes(plain.server),
    )


def _compiler(build: Build) -> str:
    return f"{build.toolchain.family} {build.toolchain.version}"
