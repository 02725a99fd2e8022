"""Trained on one workload, run on another: which rows tell what that costs, beside the row that was trained on the load itself.

Two rows of a trial share its start of all off, so that it cancels in their ratio.
"""

from __future__ import annotations

from collections.abc import Sequence

from upshift.build.recipe import Recipe
from upshift.measure.model import Load
from upshift.study.designs import Row
from upshift.study.file import Study
from upshift.study.plan import Arm
from upshift.values import Value


class Crossing(Value):
    """A row to compare with ``own``, which was trained on ``workload`` and on nothing else, under that workload."""

    row: Row
    own: Row
    workload: str


def crossings(study: Study, arms: Sequence[Arm], loads: Sequence[Load]) -> tuple[Crossing, ...]:
    """All pairs of trained rows that differ in what they were trained on alone, for each load that one of them was trained on.

    A factor says what is trained on as soon as one of its levels has ``trained_on``.
    """
    written = dict.fromkeys((*study.workloads, *study.held_out))
    names = dict(zip(written, dict.fromkeys(load.workload for load in loads), strict=True))
    training = [any(level.trained_on for level in levels.values()) for levels in study.factors.values()]

    def beside(arm: Arm) -> Row:
        return tuple(0 if trains else level for level, trains in zip(arm.row, training, strict=True))

    return tuple(
        Crossing(row=arm.row, own=own.row, workload=names[own.change.trained_on[0]])
        for own in arms
        if own.trained and len(own.change.trained_on) == 1 and own.change.trained_on[0] in names
        for arm in arms
        if arm.trained and arm.change.trained_on != own.change.trained_on and beside(arm) == beside(own)
        if _untrained(arm) == _untrained(own)
    )


def _untrained(arm: Arm) -> Recipe | None:
    """How a row is built, whatever it is trained on: a row without a profile tells nothing of a training."""
    return arm.recipe.untrained() if arm.recipe else None
