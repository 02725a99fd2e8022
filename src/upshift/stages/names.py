"""What the stages are called, in the terminal, the store, the results and the estimates."""

from __future__ import annotations

from enum import StrEnum

from upshift.build.recipe import Recipe


class Stage(StrEnum):
    """A stage's name, in the order of ``optimize``."""

    CHECK = "check"
    SOURCE = "source"
    PATCHED_SOURCE = "patched source"
    PLAIN_BUILD = "plain build"
    PATCHED_BUILD = "patched build"
    DATA = "data"
    HOT_SET = "hot set"
    INSTRUMENTED_BUILD = "instrumented build"
    TRAIN = "train"
    PROFILE_GATE = "profile gate"
    SECOND_INSTRUMENTED_BUILD = "second instrumented build"
    SECOND_TRAIN = "second train"
    SECOND_PROFILE_GATE = "second profile gate"
    OPTIMISED_BUILD = "optimised build"
    ALIKE = "alike"
    POST_LINK = "post-link"
    LAYOUT = "layout"
    VERIFY = "verify"
    CARD = "machine card"
    BASELINE_DATA = "baseline data"
    CHANGED_DATA = "changed data"
    TRY = "try"
    ANSWERS = "answers"
    MEASURE = "measure"
    INSTRUCTIONS = "instructions"
    EXPLAIN = "explain"
    CONFIRM = "confirm"
    PACKAGE = "package"
    REPORT = "report"


_PROFILE = (Stage.INSTRUMENTED_BUILD, Stage.TRAIN, Stage.PROFILE_GATE)
_SECOND_PROFILE = (Stage.SECOND_INSTRUMENTED_BUILD, Stage.SECOND_TRAIN, Stage.SECOND_PROFILE_GATE)


def training_stages(recipe: Recipe) -> tuple[Stage, ...]:
    """The stages that lead to a profile, in order."""
    again = _SECOND_PROFILE if recipe.profile == "csir" else ()
    return (*_plain_stages(recipe), Stage.DATA, Stage.HOT_SET, *_PROFILE, *again)


def building_stages(recipe: Recipe) -> tuple[Stage, ...]:
    """The stages that ``build`` goes through, in order."""
    plain = _plain_stages(recipe)
    if recipe.profile != "none":
        return (*training_stages(recipe), Stage.OPTIMISED_BUILD, Stage.POST_LINK)
    if recipe.scope == "hot":
        hot = (*plain, Stage.DATA, Stage.HOT_SET, Stage.OPTIMISED_BUILD)
        return (*hot, *((Stage.POST_LINK,) if recipe.post_link != "none" else ()))
    return (*plain, *((Stage.DATA, Stage.POST_LINK) if recipe.post_link != "none" else ()))


def all_stages(level: str, recipe: Recipe) -> tuple[Stage, ...]:
    """The stages that ``optimize`` goes through, in order."""
    quick = (*_plain_stages(recipe), Stage.DATA, Stage.POST_LINK)
    build = building_stages(recipe) if level == "full" else quick
    judged = (Stage.CARD, Stage.MEASURE, Stage.INSTRUCTIONS, Stage.EXPLAIN)
    return (*build, Stage.VERIFY, *judged, Stage.PACKAGE, Stage.REPORT)


def measuring_stages() -> tuple[Stage, ...]:
    """The stages that ``measure`` goes through, in order, where all servers start on the same data."""
    return (Stage.DATA, Stage.CARD, Stage.MEASURE, Stage.INSTRUCTIONS)


def _plain_stages(recipe: Recipe) -> tuple[Stage, ...]:
    if recipe.patches:
        return (Stage.SOURCE, Stage.PATCHED_SOURCE, Stage.PLAIN_BUILD, Stage.PATCHED_BUILD)
    return (Stage.SOURCE, Stage.PLAIN_BUILD)
