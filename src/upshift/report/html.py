"""The result as one HTML file that opens from disk: style, script and data are all in it, nothing is fetched."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup
from plotly.offline import get_plotlyjs

from upshift.card import rows
from upshift.card.sentences import sentences
from upshift.measure.model import OPTIMISED, PATCHED, Comparison, Load, Metric
from upshift.measure.variant import Variant
from upshift.package import service
from upshift.report import charts, explained, explained_focus, explained_kernel, instructions, templates, words
from upshift.report.findings import METRIC_ORDER, Findings, load_of
from upshift.report.result import BuildSummary, Result
from upshift.run.directory import write_text
from upshift.run.record import StageRecord
from upshift.stages.names import Stage
from upshift.verify.hardening import weaker

_REBUILDING = (
    *(Stage.PATCHED_BUILD, Stage.HOT_SET, Stage.INSTRUMENTED_BUILD, Stage.TRAIN, Stage.PROFILE_GATE),
    *(Stage.SECOND_INSTRUMENTED_BUILD, Stage.SECOND_TRAIN, Stage.SECOND_PROFILE_GATE),
    *(Stage.OPTIMISED_BUILD, Stage.POST_LINK),
)
"""The stages that an optimised server costs on top of the plain build."""
_CPU_TITLES: Mapping[Metric, str] = {
    "total_cpu_us_per_query": "Server CPU",
    "typical_cpu_us_per_query": "Typical server CPU",
    "user_cpu_us_per_query": "User CPU",
    "system_cpu_us_per_query": "System CPU",
}
_FACTS: tuple[tuple[str, Metric], ...] = (
    ("", "qps"),
    ("p99 latency ", "latency_ms_p99"),
    ("server CPU per query ", "total_cpu_us_per_query"),
)


def write_html(result: Result, path: Path) -> None:
    """Write the page for people; a reader never meets half of it."""
    write_text(path, render(result))


def render(result: Result) -> str:
    """The page as text."""
    findings = Findings(result.experiment, rebuilt=bool(result.builds))
    builds = {build.name: build for build in result.builds}
    return templates.page("template.html").render(
        result=result,
        found=findings,
        words=words,
        told=explained,
        in_kernel=explained_kernel,
        in_focus=explained_focus,
        card_rows=rows,
        card_sentences=sentences(result.card) if result.card else (),
        style=Markup((templates.FOLDER / "style.css").read_text(encoding="utf-8")),
        script=Markup((templates.FOLDER / "charts.js").read_text(encoding="utf-8")),
        plotly=Markup(get_plotlyjs()),
        figures=_figures(findings),
        several=len(findings.subjects) > 1,
        looks={arm: _look(findings, arm) for arm in findings.arms},
        facts=lambda each: _facts(findings, each),
        metrics=METRIC_ORDER,
        cpu_metrics=tuple(_CPU_TITLES),
        cpu_titles=_CPU_TITLES,
        load_of=load_of,
        confidence=words.percent(result.experiment.confidence),
        with_metric=lambda metric: [load for load in findings.loads if _any_level(findings, load, metric)],
        arm_rows=[(arm, builds.get(arm.name)) for arm in result.experiment.arms],
        other_builds=[build for build in result.builds if build.name not in findings.arms],
        build_properties=_BUILD_PROPERTIES,
        role=lambda arm: _role(findings, arm),
        losses=findings.losses(),
        instructions=instructions,
        totals=_totals(result.stages),
        longest_s=max((stage.wall_s for stage in result.stages), default=1.0) or 1.0,
        package=Path(result.package) if result.package else None,
        service=service,
        lost_hardening=_lost_hardening(result),
    )


def _look(findings: Findings, arm: str) -> tuple[str, str]:
    """An arm's colour, by its name in the style sheet, and its mark."""
    named = findings.arms, findings.baseline, arm
    return charts.colour(*named).removeprefix("@"), charts.MARKS[charts.mark(*named)]


def _figures(findings: Findings) -> Mapping[str, Any]:
    """All charts by the name under which the template places them."""
    rows = {held_out: _compared(findings, "qps", held_out=held_out) for held_out in (False, True)}
    made: dict[str, Any] = {}
    if compared := [*rows[False], *rows[True]]:
        axis = charts.Axis.over(compared, name_arm=len(findings.contenders) > 1)
        names = {False: "forest-trained", True: "forest-held-out"}
        made |= {names[held_out]: charts.forest(chosen, axis) for held_out, chosen in rows.items() if chosen}
    metrics: tuple[Metric, ...] = ("qps", "latency_ms_p99")
    for metric in metrics:
        for workload in dict.fromkeys(load.workload for load in findings.loads):
            if any(_any_level(findings, load, metric) for load in findings.loads_of(workload)):
                made[f"{metric}-{workload}"] = charts.against_connections(findings, workload, metric)
    busiest = _busiest(findings)
    if any(_any_level(findings, load, "user_cpu_us_per_query") for load in busiest):
        made["cpu"] = charts.cpu_per_query(findings, busiest)
    return made


def _compared(findings: Findings, metric: Metric, *, held_out: bool) -> list[Comparison]:
    loads = [load for load in findings.loads if load.held_out == held_out]
    found = (findings.comparison(arm, load, metric) for load in loads for arm in findings.contenders)
    return [each for each in found if each is not None]


def _busiest(findings: Findings) -> list[Load]:
    """Each workload at its most connections: a chart of all loads would be too long; the table has them all."""
    names = dict.fromkeys(load.workload for load in findings.loads)
    return [findings.loads_of(name)[-1] for name in names]


def _any_level(findings: Findings, load: Load, metric: Metric) -> bool:
    return any(findings.level(arm, load, metric) for arm in findings.arms)


def _facts(findings: Findings, each: Comparison) -> list[str]:
    """A headline's load in figures: from the baseline's to the arm's."""
    load = load_of(each)
    facts = []
    transactions = findings.counts_transactions(load.workload)
    for name, metric in _FACTS:
        before, after = findings.level(each.baseline, load, metric), findings.level(each.arm, load, metric)
        if before and after:
            said = name.replace("query", "transaction") if transactions else name
            unit = words.unit(metric, transactions=transactions)
            facts.append(f"{said}{words.figure(before.value)} → {words.figure(after.value)} {unit}")
    return facts


def _role(findings: Findings, arm: Variant) -> str:
    if arm.name == findings.baseline:
        return "what the others are compared with"
    if findings.rebuilt and arm.name == OPTIMISED:
        return "rebuilt around the workload"
    if findings.rebuilt and arm.name == PATCHED:
        return "with patches alone"
    return "measured beside"


def _totals(stages: tuple[StageRecord, ...]) -> Mapping[str, Any]:
    """What the builds cost: the plain one, the rebuilding, and all stages. Cached stages count as when they ran."""
    built = [stage for stage in stages if stage.name == Stage.PLAIN_BUILD]
    # A second plain build is that of a patched source, where patches need a whole one.
    plain, again = built[:1], built[1:]
    rebuilding = [*again, *(stage for stage in stages if stage.name in _REBUILDING)]

    def total(chosen: list[StageRecord]) -> dict[str, float]:
        return {"wall_s": sum(stage.wall_s for stage in chosen), "cpu_s": sum(stage.cpu_s for stage in chosen)}

    return {
        "plain": total(plain) if plain else None,
        "rebuilding": total(rebuilding) if rebuilding else None,
        "all": total(list(stages)),
        "here": total([stage for stage in stages if not stage.cached]),
        "peak_memory_bytes": max((stage.peak_memory_bytes for stage in stages), default=0),
    }


def _lost_hardening(result: Result) -> bool:
    pairs = result.verify.hardening if result.verify else ()
    return any(weaker(before, after) for _name, before, after in pairs)


def _scope(build: BuildSummary) -> str:
    return {"all": "whole tree", "hot": "hot set only", "touched": "what the patches touch", "none": "nothing compiled again"}[
        build.scope
    ]


_BUILD_PROPERTIES = (
    ("compiler", lambda build: build.compiler),
    ("recipe", lambda build: build.recipe),
    ("flags", lambda build: " ".join(build.flags) or "the build type's own"),
    ("compiled", lambda build: f"{_scope(build)}, {words.count(build.objects, 'object')}"),
    ("profile", lambda build: build.profile or "none"),
    ("post-link", lambda build: build.post_link or "none"),
    ("binary", lambda build: words.size(build.binary_bytes)),
    ("machine code", lambda build: words.size(build.text_bytes)),
)
