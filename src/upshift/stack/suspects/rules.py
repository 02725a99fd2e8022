"""All rules, and the one place where their outcomes meet: those from the trace, from the server, and about plans."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from upshift.stack.evidence import Evidence
from upshift.stack.suspects.model import SUSPECTS, Finding, Innocent, Outcome
from upshift.stack.suspects.thresholds import Thresholds

Rule = Callable[[Evidence, Thresholds], Outcome]
"""Evidence in, outcome out; it asks nothing else."""

RULES: Mapping[str, Rule] = {}
"""By the suspect that each looks for."""


def judge(evidence: Evidence, thresholds: Thresholds, about_plans: Iterable[Outcome] = ()) -> tuple[Outcome, ...]:
    """The outcomes of all rules and those about plans: findings first, the largest share first.

    A finding below ``report.share`` counts as innocent: its fix could not save more than that share.
    """
    outcomes = [
        _reported(each, thresholds) for each in (*(rule(evidence, thresholds) for rule in RULES.values()), *about_plans)
    ]
    order = list(SUSPECTS)
    return tuple(
        sorted(
            outcomes,
            key=lambda each: (
                (0, -each.share, order.index(each.suspect))
                if isinstance(each, Finding)
                else (1, 0.0, order.index(each.suspect))
            ),
        )
    )


def _reported(outcome: Outcome, thresholds: Thresholds) -> Outcome:
    if not isinstance(outcome, Finding) or outcome.share >= thresholds["report.share"]:
        return outcome
    return Innocent(suspect=outcome.suspect, looked_at=f"{outcome.said}: at most {outcome.share:.1%} of the time")
