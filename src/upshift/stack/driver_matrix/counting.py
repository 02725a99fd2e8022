"""Traffic from what the proxy's trace was exported to."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from upshift.errors import UpshiftError
from upshift.parquet import database
from upshift.stack.driver_matrix.model import Traffic

_TOTALS = """
SELECT coalesce(sum(round_trips), 0), coalesce(sum(packets_sent), 0), coalesce(sum(packets_received), 0),
       coalesce(sum(bytes_sent), 0), coalesce(sum(bytes_received), 0), coalesce(max(statements_in_text), 0)
FROM read_parquet(?)
"""
_EXCHANGES = "SELECT kind, coalesce(verb, ''), count(*) FROM read_parquet(?) GROUP BY ALL ORDER BY ALL"
_SESSIONS = "SELECT count(*), coalesce(bool_or(tls), false), coalesce(bool_or(compressed), false) FROM read_parquet(?)"


def count_traffic(folder: Path) -> Traffic:
    """All exchanges of an exported trace. Raises UpshiftError where the trace lacks some."""
    whole = json.loads((folder / "trace.json").read_text())
    if not whole["whole"] or any(whole["gaps"].values()) or _unread(whole):
        raise UpshiftError(f"the trace lacks a part of the traffic: {whole}", f"it is in {folder}")
    with database() as base:
        exchanges = str(folder / "exchanges.parquet")
        totals = base.execute(_TOTALS, [exchanges]).fetchone() or (0,) * 6
        kinds = base.execute(_EXCHANGES, [exchanges]).fetchall()
    names = ("round_trips", "packets_sent", "packets_received", "bytes_sent", "bytes_received", "statements_in_text")
    return Traffic(
        **dict(zip(names, map(int, totals), strict=True)),
        exchanges={" ".join(filter(None, (kind, verb))): int(count) for kind, verb, count in kinds},
        connections=read_sessions(folder).connections,
    )


@dataclass(frozen=True)
class Sessions:
    """What the logins of an exported trace agreed to."""

    connections: int
    tls: bool
    """One of them did."""
    compressed: bool


def read_sessions(folder: Path) -> Sessions:
    """Of an exported trace."""
    with database() as base:
        found = base.execute(_SESSIONS, [str(folder / "sessions.parquet")]).fetchone() or (0, False, False)
    return Sessions(int(found[0]), bool(found[1]), bool(found[2]))


def _unread(whole: dict[str, object]) -> bool:
    return bool(whole["unread"])
