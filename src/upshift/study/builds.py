"""What a study's recipes must build, with stages that they share counted once; times are those of ``upshift.estimate``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from upshift.build.recipe import Recipe
from upshift.build.whole import headers_bytes
from upshift.estimate import estimate
from upshift.resolve import plain_of
from upshift.stages.names import Stage, building_stages
from upshift.study.change import Change
from upshift.study.designs import Design
from upshift.study.file import Study
from upshift.study.plan import Arm, StudyPlan
from upshift.values import Value, content_hash


class Build(Value):
    """A stage that is run so many times, for so many different inputs."""

    stage: str
    count: int
    recipes: tuple[str, ...]
    """Names of the rows that it is first run for."""
    wall_s: float
    """Of all of them, and so is ``disk_bytes``."""
    disk_bytes: int


class Cost(NamedTuple):
    """Of several stages."""

    wall_s: float
    disk_bytes: int


def _unpatched(recipe: Recipe) -> Recipe:
    return recipe.before_post_link().before_patches()


def _patched_plain(recipe: Recipe) -> Recipe:
    return plain_of(recipe).model_copy(update={"patches": recipe.patches})


def _trained(recipe: Recipe) -> Recipe:
    trains = {"training": recipe.training, "training_tests": recipe.training_tests}
    return recipe.before_profile().model_copy(update=trains)


# What of a recipe decides a stage's result: recipes that are equal in it share the stage.
_DECIDES: dict[str, Callable[[Recipe], Recipe]] = {
    Stage.SOURCE: lambda _recipe: Recipe(),
    Stage.DATA: lambda _recipe: Recipe(),
    Stage.PATCHED_SOURCE: lambda recipe: Recipe(patches=recipe.patches),
    Stage.HOT_SET: _patched_plain,
    Stage.INSTRUMENTED_BUILD: Recipe.before_profile,
    Stage.TRAIN: _trained,
    Stage.PROFILE_GATE: _trained,
    Stage.POST_LINK: Recipe.anonymous,
}


_UNTRAINED = (Stage.SOURCE, Stage.PATCHED_SOURCE, Stage.PLAIN_BUILD, Stage.PATCHED_BUILD, Stage.DATA)
_OF_HOT_SET = (Stage.HOT_SET, Stage.INSTRUMENTED_BUILD)
_FOR_EACH_TRAINING = (
    Stage.TRAIN,
    Stage.PROFILE_GATE,
    Stage.SECOND_INSTRUMENTED_BUILD,
    Stage.SECOND_TRAIN,
    Stage.SECOND_PROFILE_GATE,
    Stage.OPTIMISED_BUILD,
)


def builds_of(arms: tuple[Arm, ...], study: Study) -> tuple[Build, ...]:
    """The stages that lead to the servers of ``arms``; those without a recipe need none."""
    found: dict[str, dict[str, Recipe]] = {}
    for arm in arms:
        if (recipe := arm.recipe) is None:
            continue
        for stage in building_stages(recipe):
            if stage == Stage.POST_LINK and recipe.post_link == "none":
                continue
            decides = _DECIDES.get(stage, Recipe.before_post_link)
            relinked = recipe.profile != "none" or recipe.scope == "hot"
            if stage == Stage.PLAIN_BUILD:
                decides = plain_of if relinked else _unpatched
            if stage == Stage.PATCHED_BUILD and relinked:
                decides = _patched_plain
            key = content_hash({"recipe": decides(recipe).anonymous(), "workloads": _workloads(stage, arm.change)})
            found.setdefault(stage, {}).setdefault(key, recipe)
    return tuple(_build(stage, tuple(firsts.values()), study) for stage, firsts in found.items())


def confirming(plan: StudyPlan, study: Study) -> Cost:
    """What building what confirms takes at the most: all off and the dearest set, each of a training of its own."""
    if not plan.confirm_trials:
        return Cost(0.0, 0)
    base, *others = plan.arms
    new = _leaves_rows_out(plan.design) and sum(map(_changes_builds, study.factors.values())) > 1
    own = _cost(base.recipe, study, new=False)
    best = max((_cost(arm.recipe, study, new=new) for arm in others if arm.build != base.build), default=Cost(0.0, 0))
    return Cost(own.wall_s + best.wall_s, own.disk_bytes + best.disk_bytes)


def disk_bytes(plan: StudyPlan, study: Study) -> int:
    """What the builds leave in the cache, and the data: filled once, and copied for each server that runs."""
    data = estimate(study.options(), (Stage.DATA,))[0].disk_bytes
    built = sum(each.disk_bytes for each in builds_of(plan.built, study) if each.stage != Stage.DATA)
    headers = max((headers_bytes(arm.recipe) for arm in plan.built if arm.recipe), default=0)
    return built + confirming(plan, study).disk_bytes + headers + data * (1 + plan.arms_at_once)


def _leaves_rows_out(design: Design) -> bool:
    """Whether a set may be recommended that no row has measured."""
    return design.kind != "steps" and len(design.rows) < math.prod(len(each.levels) for each in design.factors)


def _changes_builds(levels: Mapping[str, Change]) -> bool:
    return any(each.recipe or each.needs_a_recipe for each in levels.values())


def _cost(recipe: Recipe | None, study: Study, *, new: bool) -> Cost:
    """Of the stages that what confirms does not share with the rows; ``new``: its recipe may be none of theirs."""
    if recipe is None:
        return Cost(0.0, 0)
    shared = {Stage.SOURCE, Stage.PATCHED_SOURCE, Stage.DATA, Stage.POST_LINK}
    if recipe.profile != "none" or recipe.scope == "hot":
        shared.add(Stage.PLAIN_BUILD)
    stages = tuple(
        stage
        for stage in building_stages(recipe)
        if (stage in _FOR_EACH_TRAINING and recipe.profile != "none")
        or (stage == Stage.POST_LINK and recipe.post_link != "none")
        or (new and stage not in shared)
    )
    found = estimate(study.options(), stages, recipe)
    return Cost(sum(each.wall_s for each in found), sum(each.disk_bytes for each in found))


def _workloads(stage: Stage, change: Change) -> tuple[tuple[str, ...], ...]:
    """Those that a stage's result hangs on: what finds the hot set, and what trains."""
    if stage in _UNTRAINED:
        return ()
    hot_set = change.hot_set_of or change.trained_on
    return (hot_set,) if stage in _OF_HOT_SET else (hot_set, change.trained_on)


def _build(stage: str, recipes: tuple[Recipe, ...], study: Study) -> Build:
    times = [_times(stage, recipe, study) for recipe in recipes]
    each = [estimate(study.options(), (stage,), recipe)[0] for recipe in recipes]
    return Build(
        stage=stage,
        count=sum(times),
        recipes=tuple(recipe.name for recipe in recipes) if stage not in (Stage.SOURCE, Stage.DATA) else (),
        wall_s=sum(number * one.wall_s for number, one in zip(times, each, strict=True)),
        disk_bytes=sum(number * one.disk_bytes for number, one in zip(times, each, strict=True)),
    )


def _times(stage: str, recipe: Recipe, study: Study) -> int:
    """What hangs on a profile is done once for each training, what lays a server out once for each layout."""
    if stage == Stage.POST_LINK:
        return study.times_built
    return study.trainings if stage in _FOR_EACH_TRAINING and recipe.profile != "none" else 1
