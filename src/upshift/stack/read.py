"""Reads the evidence out of an exported trace, by SQL."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import duckdb

from upshift.stack.budget import read_budget
from upshift.stack.drivers import recognised
from upshift.stack.evidence import (
    Chatter,
    Client,
    Definitions,
    Evidence,
    Followed,
    Kind,
    LockErrors,
    Logins,
    Loop,
    ServerStatement,
    SmallRequests,
    Statement,
    TraceFacts,
)
from upshift.stack.queries import (
    CHATTER,
    CLIENTS,
    COUNTED,
    DEFINITIONS,
    FOLLOWED,
    KINDS,
    LOCK_ERRORS,
    LOGINS,
    LOOPS,
    SMALL,
    STATEMENTS,
    WHOLE,
)
from upshift.stack.timeline import open_timeline, read_facts
from upshift.values import Value

V = TypeVar("V", bound=Value)

_ORDERED = re.compile(r"\bORDER\s+BY\b", re.IGNORECASE)
_LIMITED = re.compile(r"\b(LIMIT|FETCH\s+FIRST|TOP)\b", re.IGNORECASE)


def read_evidence(folder: Path) -> Evidence:
    """All that rules look at, from the folder that ``upshift-stack export`` wrote; nothing of the server's side."""
    facts = TraceFacts.model_validate(read_facts(folder))
    with open_timeline(folder) as timeline:
        statements = _values(Statement, timeline, STATEMENTS)
        candidates = [each.statement for each in statements if ordered_without_limit(each.text, each.verb)]
        (whole,) = _rows(timeline, WHOLE)
        budget = read_budget(timeline)
        if facts.lacking("round_trips"):
            budget = budget.without_network()
        if whole["lock_us"] is not None:
            budget = budget.with_locks(whole["lock_us"])
        return Evidence(
            trace=facts,
            budget=budget,
            clients=_clients(_rows(timeline, CLIENTS), facts.family),
            statements=statements,
            loops=_values(Loop, timeline, LOOPS),
            kinds=_values(Kind, timeline, KINDS),
            followed=_values(Followed, timeline, FOLLOWED, [candidates]) if candidates else (),
            chatter=_values(Chatter, timeline, CHATTER),
            small=_values(SmallRequests, timeline, SMALL)[0],
            logins=_values(Logins, timeline, LOGINS)[0],
            definitions=_values(Definitions, timeline, DEFINITIONS)[0],
            lock_errors=_values(LockErrors, timeline, LOCK_ERRORS)[0],
            widest_transaction=whole["widest_transaction"],
            commits=whole["commits"],
            commit_us_median=whole["commit_us_median"],
            logged=_values(ServerStatement, timeline, COUNTED),
        )


def ordered_without_limit(text: str, verb: str) -> bool:
    """Whether a statement asks for all rows in an order."""
    return verb == "select" and bool(_ORDERED.search(text)) and not _LIMITED.search(text)


def _clients(rows: Iterable[Mapping[str, Any]], family: str) -> tuple[Client, ...]:
    return tuple(
        Client.model_validate(
            {key: value for key, value in row.items() if key != "attributes"}
            | {"driver": recognised(family, row["name"], row["attributes"])}
        )
        for row in rows
    )


def _values(
    model: type[V], timeline: duckdb.DuckDBPyConnection, query: str, given: list[object] | None = None
) -> tuple[V, ...]:
    return tuple(model.model_validate(row) for row in _rows(timeline, query, given))


def _rows(timeline: duckdb.DuckDBPyConnection, query: str, given: list[object] | None = None) -> list[dict[str, Any]]:
    done = timeline.execute(query, given or [])
    names = [column[0] for column in done.description]
    return [dict(zip(names, row, strict=True)) for row in done.fetchall()]
