"""Whether a server answers a trace as another does: a change must leave the answers as they are."""

from __future__ import annotations

import json

from pydantic import BaseModel, ConfigDict

from upshift.errors import LoadFailed
from upshift.report.words import count
from upshift.values import Value

_SHOWN = 200
"""Characters of a statement that a sentence shows."""
_HINT = "its output is in the log of the stage"


class Answer(Value):
    """One of two answers to a request."""

    answer: str
    """``ok``, ``error:NUMBER:SQLSTATE``, ``lost`` or ``skipped``."""
    rows: int
    affected: int

    def said(self) -> str:
        if self.answer != "ok":
            return self.answer
        return f"{count(self.rows, 'row')}, {self.affected:,} changed" if self.affected else count(self.rows, "row")


class Differing(Value):
    """A request that the changed replay answered differently."""

    request: int
    """Its number in the trace, from 1."""
    sql: str
    as_sent: Answer
    changed: Answer


class Answers(Value):
    """What came of the trace sent once each way, one transaction after the other, from the same rows on."""

    requests: int
    differ: int
    unsteady: int
    """Answered differently by two replays as sent, too: they differ by themselves, as NOW() does, and are not in ``differ``."""
    otherwise: int
    """Requests of the replay as sent that counted other rows than the capture did: the dump may not be what it began with."""
    otherwise_overlapped: int
    """Those of them in transactions that overlapped others in the capture: it may be timing."""
    first: Differing | None

    def told(self) -> str:
        """A sentence."""
        if self.first is None:
            return f"answers are equal in {count(self.requests - self.unsteady, 'request')}{self._unsteady()}"
        sql = " ".join(self.first.sql.split())
        shown = sql if len(sql) <= _SHOWN else f"{sql[:_SHOWN]}..."
        return (
            f"answers differ in {self.differ:,} of {count(self.requests, 'request')}{self._unsteady()}, first: "
            f"request {self.first.request:,} ({shown}): {self.first.as_sent.said()}; "
            f"with the change {self.first.changed.said()}"
        )

    def remarks(self) -> tuple[str, ...]:
        """What to know of answers that are equal."""
        if self.differ:
            return ()
        found = [self.told()]
        if self.otherwise:
            ordered = self.otherwise - self.otherwise_overlapped
            found.append(
                f"{count(self.otherwise, 'request')} counted other rows than in the capture ({ordered:,} ordered, "
                f"{self.otherwise_overlapped:,} overlapped): the dump may not be what the capture began with"
            )
        return tuple(found)

    def _unsteady(self) -> str:
        return f" ({self.unsteady:,} more differ by themselves from one replay to the next)" if self.unsteady else ""


def read_answers(as_sent: str, changed: str) -> Answers:
    """From what ``upshift-load replay --json`` printed of the replay as sent, and of the changed one that was compared with it.

    Raises LoadFailed for anything else.
    """
    first, second = _replayed(as_sent), _replayed(changed)
    if second.differences is None or second.unsteady is None:
        raise LoadFailed("the replay compared no answers", _HINT)
    return Answers(
        requests=second.requests,
        differ=second.differences,
        unsteady=second.unsteady,
        otherwise=first.counted_otherwise,
        otherwise_overlapped=first.counted_otherwise_overlapped,
        first=next((each.as_differing() for each in second.differing), None),
    )


class _Told(BaseModel):
    """The keys that are wanted of ``upshift-load``'s; docs/reference/load.md has all."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class _Answer(_Told):
    answer: str
    rows: int
    affected: int

    def as_answer(self) -> Answer:
        return Answer(answer=self.answer, rows=self.rows, affected=self.affected)


class _Request(_Told):
    request: int
    sql: str
    earlier: _Answer
    now: _Answer

    def as_differing(self) -> Differing:
        return Differing(request=self.request, sql=self.sql, as_sent=self.earlier.as_answer(), changed=self.now.as_answer())


class _Replay(_Told):
    requests: int
    counted_otherwise: int
    counted_otherwise_overlapped: int
    differences: int | None
    unsteady: int | None
    differing: tuple[_Request, ...]


class _Result(_Told):
    replay: _Replay


def _replayed(output: str) -> _Replay:
    try:
        # Warnings may stand behind it.
        result, _end = json.JSONDecoder().raw_decode(output, output.index("{\n"))
        return _Result.model_validate(result).replay
    except ValueError as error:
        raise LoadFailed(f"the replay printed no result: {error}", _HINT) from error
