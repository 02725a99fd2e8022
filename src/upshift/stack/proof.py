"""What proving a suspect came to: a word with its interval, or why there is none here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from upshift import __version__
from upshift.errors import UsageError
from upshift.measure.model import Comparison, Verdict
from upshift.measure.variant import Variant, read_sql
from upshift.report.result import Result
from upshift.stack.answers import Answers
from upshift.stack.suspects.model import SUSPECTS, Finding, Status
from upshift.values import Value

SCHEMA_VERSION = 1

Word = Literal["proven", "refuted", "not settled", "answers differ", "not provable here"]

_WORDS: Mapping[Verdict, Word] = {
    "faster": "proven",
    "slower": "refuted",
    "equivalent": "refuted",
    "inconclusive": "not settled",
}
_LEAST_LEFT = 0.01
"""Of the time, what a change leaves at least: a share may be all of it, as of texts that follow each other at once."""
_NEXT_TO_NOTHING = 0.1
"""Of the expected gain, in logarithms. An interval that holds 1 and ends below it refutes what the finding says of its time: an
index that no statement uses need not be told from 1 to a percent, where a whole table scan was expected to go."""
_STATUSES: Mapping[Word, Status] = {"proven": "proven", "refuted": "refuted", "not provable here": "not provable here"}


DIFFER_HINT = (
    "a change proves something only where all answers stay: change an index or a setting, not rows; "
    "a LIMIT whose order leaves a choice, and a read of what another plan may lock, can differ, too"
)


class NotProvableError(UsageError):
    """A finding that no experiment here can decide. The hint says what can."""


class Measured(Value):
    """What one number of connections came to: the throughput without the suspect, over that with it."""

    connections: int
    verdict: Word
    ratio: float
    ci_low: float
    ci_high: float
    confidence: float
    trials: int
    trials_needed: int | None
    """For what is not settled: trials that a new experiment would need; null where nobody can say."""


class Change(Value):
    """What the changed replay had in place of the suspect, beyond the one as sent."""

    client: tuple[str, ...] = ()
    """Options of `upshift load replay`."""
    settings: Mapping[str, str] = {}
    sql: Mapping[str, str] = {}
    """The statements, by their file's name."""


class Proof(Value):
    """As ``upshift stack prove --json`` prints it."""

    schema_version: int = SCHEMA_VERSION
    upshift_version: str = __version__
    suspect: str
    title: str
    verdict: Word
    """Of all numbers of connections; where they disagree, ``not settled``."""
    why: str | None = None
    """Why it is not provable here, or which answers differ; else null."""
    hint: str | None = None
    change: Change | None = None
    """None where nothing was sent."""
    answers: Answers | None = None
    """Of the trace sent once each way, before anything was measured; None where it was not sent."""
    measured: tuple[Measured, ...] = ()
    expected_ratio: float | None = None
    """What the finding's share comes to, were its time simply gone."""
    finding: Finding | None = None
    """With the verdict as its status, where that is settled."""
    result: Result | None = None
    """The experiment: result.json of the run."""


def not_provable(suspect: str, why: NotProvableError) -> Proof:
    """Of a suspect of which nothing can be measured here."""
    return Proof(
        suspect=suspect, title=SUSPECTS[suspect].title, verdict="not provable here", why=why.message, hint=why.hint or None
    )


def expected_ratio(finding: Finding) -> float:
    """What the finding's share of the time comes to as throughput, were that time simply gone."""
    return 1 / max(_LEAST_LEFT, 1 - finding.share)


def word_of(each: Comparison, finding: Finding) -> Word:
    """What one number of connections says of the finding. A gain far below what its share comes to refutes it, unless a part of
    the share stays.
    """
    expected = 1.0 if finding.keeps_a_part else expected_ratio(finding) ** _NEXT_TO_NOTHING
    nothing = each.verdict == "inconclusive" and each.ci_high <= expected
    return "refuted" if nothing else _WORDS[each.verdict]


def change_of(as_sent: Variant, changed: Variant) -> Change:
    """What the second has and the first has not. Raises UsageError for a file of SQL that cannot be read."""
    return Change(
        client=changed.client[len(as_sent.client) :],
        settings={name: value for name, value in changed.settings.items() if as_sent.settings.get(name) != value},
        sql={file.name: read_sql(file) for file in changed.sql},
    )


def proof_of(
    finding: Finding,
    comparisons: Sequence[Comparison],
    result: Result | None,
    change: Change,
    answers: Answers,
    spoilt: NotProvableError | None = None,
) -> Proof:
    """Of the comparisons of the changed replay with the one as sent, in queries per second; and of their answers, which come
    first: a server that answers otherwise may be as fast as it likes. ``spoilt`` says why the comparisons say nothing.
    """
    measured = tuple(
        Measured(
            connections=each.connections,
            verdict=(word := word_of(each, finding)),
            ratio=each.ratio,
            ci_low=each.ci_low,
            ci_high=each.ci_high,
            confidence=each.confidence,
            trials=each.trials,
            trials_needed=each.trials_needed if word == "not settled" else None,
        )
        for each in comparisons
    )
    words = {each.verdict for each in measured}
    verdict: Word = words.pop() if len(words) == 1 else "not settled"
    why, hint = (spoilt.message, spoilt.hint) if spoilt else (None, None)
    if spoilt:
        verdict, measured = "not provable here", ()
    if answers.differ:
        verdict, why, hint = "answers differ", answers.told(), DIFFER_HINT
    status = _STATUSES.get(verdict, finding.status)
    return Proof(
        suspect=finding.suspect,
        title=SUSPECTS[finding.suspect].title,
        verdict=verdict,
        why=why,
        hint=hint,
        change=change,
        answers=answers,
        measured=measured,
        expected_ratio=expected_ratio(finding),
        finding=finding.model_copy(update={"status": status}),
        result=result,
    )
