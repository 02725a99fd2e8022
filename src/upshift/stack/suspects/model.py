"""What a rule says: a finding, that its suspect is innocent, or that it could not see. Rules about plans say the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from upshift.values import Value

Layer = Literal["client", "driver", "network", "plan", "engine"]
Status = Literal["counted", "measured", "inferred", "proven", "refuted", "not provable here"]
"""How sure a finding is. ``counted``: exact, from what crossed the wire. ``measured``: times, which depend on the moment.
``inferred``: what the evidence points to and cannot show. A replay makes it ``proven`` or ``refuted``."""

Unit = Literal["", "share", "us", "bytes", "rows", "round_trips", "us_per_round_trip", "per_execution", "times"]


class Suspect(Value):
    """A cause that a rule looks for."""

    id: str
    title: str
    layer: Layer


def _suspects(layer: Layer, **titles: str) -> dict[str, Suspect]:
    return {name: Suspect(id=name, title=title, layer=layer) for name, title in titles.items()}


SUSPECTS: Mapping[str, Suspect] = {
    **_suspects(
        "driver",
        C1="prepares each time",
        C2="sends text again and again",
        C3="fetches rows in small parts",
    ),
    **_suspects("client", C4="reads rows that it does not need"),
    **_suspects("driver", C5="session chatter"),
    **_suspects("client", C6="row by row"),
    **_suspects("driver", C7="batch not rewritten"),
    **_suspects("client", C8="slow client"),
    **_suspects("network", C9="network", C10="split messages"),
    **_suspects("client", C11="reconnects"),
    **_suspects("driver", C12="metadata"),
    **_suspects("client", C13="literals in prepared text"),
    **_suspects(
        "plan",
        P1="examines too many rows",
        P2="no index",
        P3="sort or temporary table",
        P4="implicit conversion",
        P5="index does not cover",
        P6="another plan",
        P7="lost bound",
        P8="statistics are wrong",
        P9="planning",
    ),
    **_suspects("engine", E1="engine", E2="locks", E3="commit", E4="memory"),
}
"""Every suspect that has a rule, in the order in which a report lists those of the same share."""


class Figure(Value):
    """One figure of the evidence."""

    name: str
    """As in JSON, with its unit last where the name says it: ``prepares``, ``client_gap_us``."""
    value: float
    unit: Unit = ""
    threshold: str | None = None
    """The threshold that it was held against: a name in ``thresholds.THRESHOLDS``."""


class Accused(Value):
    """A statement that a finding is about."""

    statement: str
    """16 hexadecimal digits, as in the trace."""
    text: str
    """Normalised."""
    share: float
    """Its part of all transactions' time."""
    figures: tuple[Figure, ...] = ()


class Fix(Value):
    """What to change."""

    driver: str | None = None
    """The driver whose option it names, as ``drivers.Driver.name``; None: whatever the driver."""
    text: str


class Finding(Value):
    """A suspect with evidence against it."""

    suspect: str
    share: float
    """An upper bound of what the fix takes away, as a part of all transactions' time (``Budget.total_us``)."""
    keeps_a_part: bool = False
    """Whether a part of the share stays with any fix, as an execution does that is answered together with its prepare."""
    status: Status
    said: str
    """What was seen, in one sentence."""
    evidence: tuple[Figure, ...]
    statements: tuple[Accused, ...] = ()
    """The largest share first."""
    fixes: tuple[Fix, ...]
    limits: str
    """What the evidence does not say."""


class Innocent(Value):
    """A suspect that was looked for and not found, or whose share is too small to report."""

    suspect: str
    looked_at: str
    """What would have shown it, with the figure that was found: "12 prepares for 4,000 executions"."""


class Unseen(Value):
    """A suspect that the evidence at hand can neither accuse nor clear."""

    suspect: str
    why: str


Outcome = Finding | Innocent | Unseen
"""Of one rule: what it found, or that it found nothing, or why it could not look."""
