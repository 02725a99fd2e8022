"""What a study's recipes must build, with stages that they share counted once; times are those of ``upshift.estimate``."""

from __future__ import annotations

from collections.abc import Callable

from upshift.build.recipe import Recipe
from upshift.estimate import estimate
from upshift.resolve import plain_of
from upshift.stages.names import Stage, building_stages
from upshift.study.change import Change
from upshift.study.file import Study
from upshift.study.plan import Arm
from upshift.values import Value, content_hash


class Build(Value):
    """A stage that is run so many times, for so many different inputs."""

    stage: str
    count: int
    recipes: tuple[str, ...]
    """Names of the rows that it is first run for."""
    wall_s: float
    """Of all of them."""


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


def _workloads(stage: Stage, change: Change) -> tuple[tuple[str, ...], ...]:
    """Those that a stage's result hangs on: what finds the hot set, and what trains."""
    if stage in _UNTRAINED:
        return ()
    hot_set = change.hot_set_of or change.trained_on
    return (hot_set,) if stage in _OF_HOT_SET else (hot_set, change.trained_on)


def _build(stage: str, recipes: tuple[Recipe, ...], study: Study) -> Build:
    times = [_times(stage, recipe, study) for recipe in recipes]
    each_s = [estimate(study.options(), (stage,), recipe)[0].wall_s for recipe in recipes]
    return Build(
        stage=stage,
        count=sum(times),
        recipes=tuple(recipe.name for recipe in recipes) if stage not in (Stage.SOURCE, Stage.DATA) else (),
        wall_s=sum(number * wall_s for number, wall_s in zip(times, each_s, strict=True)),
    )


def _times(stage: str, recipe: Recipe, study: Study) -> int:
    """What hangs on a profile is done once for each training, what lays a server out once for each layout."""
    if stage == Stage.POST_LINK:
        return study.times_built
    return study.trainings if stage in _FOR_EACH_TRAINING and recipe.profile != "none" else 1
