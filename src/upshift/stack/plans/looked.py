"""What comes out of looking at statements: values that the terminal and JSON draw from."""

from __future__ import annotations

from upshift import __version__
from upshift.stack.plans.answers import Answer
from upshift.stack.plans.asked import Timing
from upshift.stack.plans.compare import Difference
from upshift.stack.plans.model import Plan
from upshift.stack.plans.settings import SettingDifference
from upshift.stack.suspects.model import Finding, Innocent, Unseen
from upshift.values import Value

SCHEMA_VERSION = 1


class Told(Value):
    """What one server says of a statement."""

    sql: str = ""
    """As it was asked, with its parameters in it."""
    plan: Plan | None = None
    rows_examined: float | None = None
    """None: not executed, or not counted by the server."""
    answer: Answer | None = None
    why_none: str | None = None
    """Why there is no plan, no answer, or no execution of what should have been executed."""
    hint: str = ""


class Server(Value):
    name: str
    """Its address, without the login."""
    family: str
    version: str


class Planned(Value):
    """A statement and its plan."""

    statement: str
    text: str
    share: float
    executions: int
    told: Told


class Judgement(Value):
    findings: tuple[Finding, ...]
    innocent: tuple[Innocent, ...]
    unseen: tuple[Unseen, ...]


class PlansReport(Value):
    """The plans of all statements on one server."""

    schema_version: int = SCHEMA_VERSION
    upshift_version: str = __version__
    server: Server
    executed: bool
    timed: bool
    """Whether shares are of the trace's time; else of the number of statements."""
    statements: tuple[Planned, ...]
    """Most time first."""
    judgement: Judgement


class Compared(Value):
    """A statement on two servers."""

    statement: str
    text: str
    share: float
    executions: int
    a: Told
    b: Told
    same_answer: bool | None
    """False also where one server answers and the other fails; None: neither answers, or ``why_uncompared`` says why."""
    why_uncompared: str | None = None
    """Why nobody knows whether two answers are the same: the statement's differ by themselves. None in all other cases."""
    differences: tuple[Difference, ...]
    """Of the plans."""
    timing: Timing | None = None
    """Of executions in turns; None: it was not executed so."""
    why_untimed: str | None = None
    """Why not: times would say nothing of the engines. None where nothing was executed at all."""


class Comparison(Value):
    """All statements on two servers."""

    schema_version: int = SCHEMA_VERSION
    upshift_version: str = __version__
    a: Server
    b: Server
    executed: bool
    timed: bool
    settings: tuple[SettingDifference, ...] = ()
    """Settings of the two servers that differ in durability, isolation, TLS or compression."""
    statements: tuple[Compared, ...]
    """Those that only one server explains first, then other answers, then other plans; within each, most time first."""
    judgement: Judgement

    @property
    def answers_differ(self) -> bool:
        return any(each.same_answer is False for each in self.statements)
