"""`upshift study`: factors spanned over variants, measured and attributed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from upshift.cli.parameters import Jobs, JsonResult, NoInstall

if TYPE_CHECKING:
    from collections.abc import Callable

    from upshift.measure.variant import Surroundings, Variant
    from upshift.run.directory import RunDirectory
    from upshift.stages.work import Measuring, Work
    from upshift.study.file import Study
    from upshift.study.plan import Arm, StudyPlan
    from upshift.study.result import StudyResult


def study(
    name: Annotated[str, typer.Argument(metavar="STUDY", help="A shipped study's name (in studies/), or a .toml file.")],
    resume: Annotated[
        str | None, typer.Option(metavar="RUN", help="Continue a study that was stopped; `last` is the newest.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(metavar="TIME", help="Measure about this long, whatever the file says: 90s, 40m, 2h.")
    ] = None,
    jobs: Jobs = 0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the design, builds, time and the precision to expect, and exit.")
    ] = False,
    json: JsonResult = False,
    no_install: NoInstall = False,
) -> None:
    """Measure what each of several factors does, alone and together with the others, and confirm the best set."""
    from upshift import pipeline
    from upshift.cli.resume import held_by
    from upshift.cli.session import locked, session
    from upshift.study.file import find_study

    asked = _within(find_study(name), budget, resume)
    _refuse_missing(asked)
    plan = _resumed(asked, resume, budget) if resume else _planned(asked)
    if dry_run:
        from upshift.cli.study_plan import show_plan
        from upshift.plan import refuse_measuring

        refuse_measuring(asked.options(jobs), _named(plan), _built(plan))
        show_plan(asked, plan, as_json=json)
        return
    kept = {"budget": budget, "study": asked.model_dump(mode="json"), "plan": plan.model_dump(mode="json")}
    with locked():
        held = held_by(resume, "study") if resume else ()
        measuring, work_of = _prepared(asked, plan, jobs, held, allow_install=not no_install)
        with session("study", kept, stages=_stages(asked, plan), jobs=jobs, resume=resume) as at_work:
            result = pipeline.run_study(at_work.lab, asked, plan, measuring, work_of)
    show_study(result, at_work.run, as_json=json)


def show_study(result: StudyResult, run: RunDirectory, *, as_json: bool) -> None:
    from upshift.cli.outcome import show_end
    from upshift.study.terminal import show

    show_end(result, show, run, as_json=as_json)


def _within(asked: Study, budget: str | None, resume: str | None) -> Study:
    """The study with the budget of the option. A run that is resumed keeps the one that it began with."""
    from upshift.cli.amounts import parse_time
    from upshift.run.directory import RunDirectory

    if budget is None and resume:
        budget = RunDirectory.open(resume, ("study",)).manifest.options.get("budget")
    return asked.model_copy(update={"budget": parse_time(budget)}) if budget else asked


def _refuse_missing(asked: Study) -> None:
    """Raises UsageError for a source or a workload that is named and not there, whatever row would need it."""
    from upshift.door import refuse_source
    from upshift.server.kinds import default_kind
    from upshift.workload.library import find_workload

    refuse_source(default_kind(), asked.source, "correct `source` in the study, or leave it out")
    for change in (asked.base, *(level for levels in asked.factors.values() for level in levels.values())):
        for name in (*change.trained_on, *change.hot_set_of):
            find_workload(name)


def _planned(asked: Study) -> StudyPlan:
    from upshift.resolve import measuring_plan
    from upshift.server.data import settings_of
    from upshift.server.kinds import default_kind
    from upshift.study.plan import make_plan, refuse_missing_latency
    from upshift.study.store import last_noise
    from upshift.workload.library import find_workload

    workloads = tuple(find_workload(name) for name in (*asked.workloads, *asked.held_out))
    refuse_missing_latency(asked, workloads[: len(asked.workloads)])
    noise = last_noise(asked.metric, {each.name for each in workloads}, duet=asked.duet, speed_probe=asked.speed_probe)
    return make_plan(asked, default_kind(), measuring_plan(asked.options()), settings_of(workloads), noise)


def _resumed(asked: Study, resume: str, budget: str | None = None) -> StudyPlan:
    """The plan that the run began with; ``budget`` is the option's. Raises UsageError when the file, or one that it names, now
    says something else.
    """
    from upshift.errors import UsageError
    from upshift.run.directory import RunDirectory
    from upshift.server.kinds import default_kind
    from upshift.study.file import Study as StudyFile
    from upshift.study.plan import StudyPlan as Plan
    from upshift.study.plan import arms_of, refuse_impossible_rows
    from upshift.values import checked

    manifest = RunDirectory.open(resume, ("study",)).manifest
    if manifest.verb != "study":
        raise UsageError(f"run '{resume}' is not one of `upshift study`", "`upshift runs` lists them; name one that is")
    began, plan = checked(StudyFile, manifest.options["study"]), checked(Plan, manifest.options["plan"])
    changed = [name for name in StudyFile.model_fields if getattr(began, name) != getattr(asked, name)]
    # Rows name factors and levels by their number.
    if not changed and asked.listed_factors() != plan.design.factors:
        changed = ["the order of factors or levels"]
    if not changed:
        rows = zip(arms_of(asked, plan.design), plan.arms, strict=True)
        changed = [f"what row '{before.name}' is" for now, before in rows if now != before][:1]
    if changed:
        anew = "or start a new run without --resume: it reuses the builds that are the same"
        restore = "leave --budget out" if budget and changed == ["budget"] else "restore the file and its recipes"
        raise UsageError(f"the study has changed since the run began: {', '.join(changed)}", f"{restore}, {anew}")
    # An executable that a row names may be gone.
    refuse_impossible_rows(plan.arms, default_kind())
    return plan


def _prepared(
    asked: Study, plan: StudyPlan, jobs: int, held: tuple[Path, ...], *, allow_install: bool
) -> tuple[Measuring, Callable[[Arm], Work]]:
    """What is measured, and what a server is built with. What the rows need is there then.

    ``held`` are folders that the study has filled already.
    """
    from upshift import console, needs
    from upshift.plan import prepare, prepare_measuring, refuse_unstartable
    from upshift.study.builds import disk_bytes
    from upshift.study.plan import refuse_missing_libraries, refuse_without_layouts

    refuse_missing_libraries(plan)
    needs.require_disk(disk_bytes(plan, asked), held)
    options = asked.options(jobs)
    variants = _named(plan)
    if variants:
        refuse_unstartable(variants)
    of_rows = (each for arm in plan.arms for each in (*arm.change.trained_on, *arm.change.hot_set_of))
    named_by_all = tuple(dict.fromkeys((*options.workloads, *options.held_out, *of_rows)))
    works: dict[str, Work] = {}

    def work_of(arm: Arm) -> Work:
        if arm.build in works:
            return works[arm.build]
        assert arm.recipe
        whole = arm.recipe.profile == "none" and arm.recipe.scope == "all"
        trained_on = arm.change.trained_on or options.workloads
        held_out = () if arm.change.trained_on else options.held_out
        if arm.change.hot_set_of:
            # All tables are filled, whether the server is trained on them or not: on other data the hot set would be another.
            held_out = tuple(each for each in named_by_all if each not in trained_on)
        fitting = {"level": "quick" if whole else "full", "workloads": trained_on, "held_out": held_out}
        work = prepare(
            options.model_copy(update=fitting),
            allow_install=allow_install,
            say=console.say,
            recipe=arm.recipe,
            disk_bytes=0,  # required above, for all at once
            kept=held,
        )
        if asked.layouts > 1:
            refuse_without_layouts(arm, work.toolchain)
        works[arm.build] = work = _with_hot_set(work, arm.change.hot_set_of)
        return work

    for arm in plan.built:
        work_of(arm)
    measuring = prepare_measuring(
        options, variants, allow_install=allow_install, say=console.say, others=_built(plan), kept=held
    )
    return measuring, work_of


def _named(plan: StudyPlan) -> tuple[Variant, ...]:
    """The rows whose servers are there already."""
    from upshift.server.kinds import find_program
    from upshift.study.plan import variant_of

    named = [arm for arm in plan.arms if arm.recipe is None]
    return tuple(variant_of(arm, find_program(arm.change.binary, arm.change.server)) for arm in named)


def _built(plan: StudyPlan) -> tuple[Surroundings, ...]:
    """What surrounds the servers of the others: rows that share a build differ in it."""
    return tuple(arm.change for arm in plan.arms if arm.recipe)


def _with_hot_set(work: Work, names: tuple[str, ...]) -> Work:
    """``work`` with the workloads that find its hot set, in the order in which they are named."""
    from upshift.workload.library import find_workload

    given = {each.name: each for each in (*work.train_on, *work.hold_out)}
    return work.model_copy(update={"hot_set_of": tuple(given[find_workload(name).name] for name in names)})


def _stages(asked: Study, plan: StudyPlan) -> int:
    """How many stages run at the most."""
    from upshift.stages.names import building_stages
    from upshift.study.dealing import group_count

    groups = group_count(len(plan.arms), plan.arms_at_once)
    # Each row asks for its build, though rows that share one find it there; and each build for its source once more. One more
    # where another layout is linked.
    each = [len(building_stages(arm.recipe)) + 1 + (asked.layouts > 1) for arm in plan.arms if arm.recipe]
    # What confirms asks for the servers of all off and of the recommended set.
    confirming = 1 + 2 * max(each, default=0) if plan.confirm_trials else 0
    changing = sum(bool(arm.change.sql) for arm in plan.arms) * (3 + groups * asked.times_built)
    return (sum(each) + groups) * asked.times_built + 4 + confirming + changing
