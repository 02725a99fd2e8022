"""What a trace that was made of a server's log has not, because the log has not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from upshift.values import Value

Lack = Literal[
    "answer_times",
    "short_statements",
    "gaps",
    "round_trips",
    "packets",
    "bytes",
    "answers",
    "rows",
    "affected",
    "fetches",
    "prepares",
    "protocol",
    "logins",
    "errors",
]
"""What a trace of a log may not have."""

LACKS: Mapping[Lack, str] = {
    "answer_times": "when answers came",
    "short_statements": "statements that the server was not asked to log",
    "gaps": "how long the client took between statements",
    "round_trips": "round trips",
    "packets": "packets",
    "bytes": "bytes",
    "answers": "column definitions and flags of answers",
    "rows": "rows of answers",
    "affected": "changed rows",
    "fetches": "cursors and fetch sizes",
    "prepares": "what was prepared",
    "protocol": "whether statements came as text",
    "logins": "logins",
    "errors": "errors",
}


class Log(Value):
    """The server's log that a trace was made of."""

    format: str
    clock: str | None
    """The name of its clock where that may be another than UTC."""
    shortest_us: int | None
    """The least time of a statement."""
    lacks: tuple[Lack, ...]
