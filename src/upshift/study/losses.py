"""What a study found to be worse, the greatest loss first: reports begin with it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from upshift.report import words
from upshift.study import wording
from upshift.study.recommend import unconfirmed
from upshift.study.result import Cell, Crossed, StudyResult

Judged = TypeVar("Judged", Cell, Crossed)

MOST = 10
"""Of the rows: each has its figures in the table of all rows, too."""


class Loss(NamedTuple):
    """One sentence without a full stop."""

    held_out: bool
    sentence: str


def losses(result: StudyResult) -> list[Loss]:
    """What training on another workload costs; then what the recommended set makes worse in trials of its own or,
    where these found no loss and no gain either, the worst rows."""
    found = [Loss(each.load.held_out, wording.crossed(result, each)) for each in worse(result.crossed)]
    rows = [Loss(each.load.held_out, wording.cell(result, each)) for each in worse(result.cells)[:MOST]]
    if result.confirmed is None:
        return found + rows
    slower = [each for each in result.confirmed.comparisons if each.verdict == "slower"]
    baseline = result.confirmed.baseline
    counted = result.confirmed.transactions
    found += [
        Loss(each.held_out, words.loss_sentence(each, baseline, name_arm=False, transactions=counted))
        for each in sorted(slower, key=lambda each: -abs(math.log(each.ratio)))
    ]
    return found if slower or not unconfirmed(result.confirmed, result.metric) else found + rows


def worse(found: Iterable[Judged]) -> list[Judged]:
    """Those that are worse, the greatest loss first."""
    called = [each for each in found if each.verdict == "slower"]
    return sorted(called, key=lambda each: -abs(math.log(each.effect.ratio)))
