"""What all rules need to put a finding together."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from upshift.stack.drivers import fixes
from upshift.stack.evidence import Evidence, Statement
from upshift.stack.suspects.model import Accused, Figure, Finding, Innocent, Outcome, Status, Unit, Unseen
from upshift.stack.suspects.thresholds import Thresholds

DATA_VERBS = ("select", "insert", "update", "delete", "replace", "call")
"""Statements that touch rows."""

MOST_STATEMENTS = 10
"""A finding names no more: those with the largest shares."""


def figure(name: str, value: float, unit: Unit = "", threshold: str | None = None) -> Figure:
    return Figure(name=name, value=value, unit=unit, threshold=threshold)


def accused(
    evidence: Evidence,
    statements: Iterable[Statement],
    time_us: Callable[[Statement], float],
    figures: Callable[[Statement], tuple[Figure, ...]],
) -> tuple[Accused, ...]:
    """The statements with their shares, the largest first."""
    shares = [(evidence.budget.share(time_us(each)), each) for each in statements]
    shares.sort(key=lambda pair: (-pair[0], pair[1].statement))
    return tuple(
        Accused(statement=each.statement, text=each.text, share=share, figures=figures(each))
        for share, each in shares[:MOST_STATEMENTS]
    )


def found(
    evidence: Evidence,
    suspect: str,
    *,
    share: float,
    status: Status,
    said: str,
    figures: tuple[Figure, ...],
    statements: tuple[Accused, ...] = (),
    limits: str,
    keeps_a_part: bool = False,
) -> Finding:
    """A finding with the fixes for the drivers of the trace."""
    drivers = tuple(each.driver for each in evidence.clients if each.driver)
    return Finding(
        suspect=suspect,
        share=share,
        keeps_a_part=keeps_a_part,
        status=status,
        said=said,
        evidence=figures,
        statements=statements,
        fixes=fixes(suspect, drivers),
        limits=limits,
    )


def innocent(suspect: str, looked_at: str) -> Innocent:
    return Innocent(suspect=suspect, looked_at=looked_at)


def unseen(suspect: str, why: str) -> Unseen:
    return Unseen(suspect=suspect, why=why)


def reported(outcome: Outcome, thresholds: Thresholds, whole: str = "time") -> Outcome:
    """A finding below ``report.share`` counts as innocent: its fix could not save more than that share of the ``whole``."""
    if not isinstance(outcome, Finding) or outcome.share >= thresholds["report.share"]:
        return outcome
    return innocent(outcome.suspect, f"{outcome.said}: at most {outcome.share:.1%} of the {whole}")


def ratio(part: float, whole: float) -> float:
    """0 where there is no whole."""
    return part / whole if whole else 0.0


def count(number: float, what: str, plural: str = "") -> str:
    """``1 prepare``, ``1,200 prepares``."""
    return f"{number:,.0f} {what if round(number) == 1 else plural or what + 's'}"
