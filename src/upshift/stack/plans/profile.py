"""How long MySQL and MariaDB planned a statement: the stages of SHOW PROFILE, which a session has of its own statements.

And how long MariaDB executed it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from upshift.stack.plans.members import loaded, number, objects
from upshift.stack.plans.session import Refused, Session

PLANNING = ("optimizing", "statistics")
"""The stages in which the plan is chosen, in small letters: MariaDB writes them with large ones."""


_EXPLAINING = ("EXPLAIN ", "ANALYZE ")
"""How the statements begin that choose a plan here."""


@contextlib.contextmanager
def profiled(session: Session) -> Iterator[dict[str, Any]]:
    """Times of the last EXPLAIN within, as fields of a plan; they are in the dictionary afterwards.

    Each EXPLAIN within plans the statement anew, and the least counts: what else runs on the machine makes one longer. It stays
    empty where the server does not profile.
    """
    found: dict[str, Any] = {}
    try:
        session.ask("SET SESSION profiling = 1")
        # The session keeps the last ones, those of statements before this one among them.
        earlier = _explanations(session)
    except Refused:
        yield found
        return
    try:
        yield found
        with contextlib.suppress(Refused):
            told = [times(_stages(session, each)) for each in _explanations(session) if each not in earlier]
            if told and all(told):
                found |= {**told[-1], "planning_ms": min(each["planning_ms"] for each in told)}
    finally:
        with contextlib.suppress(Refused):
            session.ask("SET SESSION profiling = 0")


def _explanations(session: Session) -> list[int]:
    """The numbers of those that the session has profiles of."""
    return [int(each[0]) for each in session.ask("SHOW PROFILES") if str(each[2]).startswith(_EXPLAINING)]


def _stages(session: Session, query: int) -> list[tuple[str, float]]:
    return [(str(each[0]), float(each[1])) for each in session.ask(f"SHOW PROFILE FOR QUERY {query}")]


def times(stages: list[tuple[str, float]]) -> dict[str, float]:
    """Of stages in seconds, the fields of a plan in milliseconds."""
    planning = sum(seconds for name, seconds in stages if name.lower() in PLANNING)
    return {"planning_ms": planning * 1000, "whole_ms": sum(seconds for _name, seconds in stages) * 1000} if stages else {}


def mariadb_execution_ms(answer: str) -> float | None:
    """Of the answer of ANALYZE FORMAT=JSON; None: of a union there are times of its parts alone."""
    whole = objects(loaded(answer))
    blocks = objects(whole[0].get("query_block")) if whole else []
    return number(blocks[0].get("r_total_time_ms")) if blocks else None
