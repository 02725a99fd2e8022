"""Where each rule begins to speak: one table of named values, which ``--threshold NAME=VALUE`` overrides."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping

from upshift.errors import UsageError
from upshift.values import Value


class Threshold(Value):
    """One value of the table."""

    value: float
    meaning: str
    """What it is compared with."""
    why: str
    """Why it has this value."""


def _at(value: float, meaning: str, why: str) -> Threshold:
    return Threshold(value=value, meaning=meaning, why=why)


THRESHOLDS: Mapping[str, Threshold] = {
    "report.share": _at(
        0.03,
        "the least share of the time that a finding has",
        "less is within what a server's speed differs from one start to the next",
    ),
    "C1.share": _at(
        0.2,
        "prepares of a text that its connection had prepared before, per execution of the statement",
        "a pool that prepares anew now and then stays below; a client that prepares for each request has 1",
    ),
    "C2.executions": _at(
        100,
        "executions of one statement as text",
        "a hundred executions pay for a prepare many times over, whatever the statement",
    ),
    "C3.share": _at(0.5, "fetches per execution with a cursor", "below, most results come with their first answer"),
    "C3.rows_per_fetch_size": _at(
        2, "rows of a result in the median, per fetch size", "a result of more parts may be too large to come at once"
    ),
    "C3.fetch_size": _at(20, "rows a fetch that are few for any result", "a round trip costs more than sending twenty rows"),
    "C4.rows": _at(10, "rows of an ordered result in the median", "fewer cost next to nothing more than one"),
    "C5.share": _at(0.1, "round trips that set or ask the session, of all", "one SET in ten requests is the limit"),
    "C6.statements": _at(
        5, "executions of one statement in a loop", "TPC-C's orders have 5 to 15 lines; fewer executions save little as one"
    ),
    "C6.body": _at(
        4,
        "statements of a loop's body",
        "TPC-C's loop over an order's lines has 4; those of longer bodies mostly need each other's answers",
    ),
    "C7.gap_per_exchange": _at(
        3,
        "the client's gap in the median, per median exchange of the run",
        "a loop that does nothing else stays below, also through the proxy on a busy machine",
    ),
    "C8.share": _at(0.5, "the client's long gaps, of the transactions' time", "below this share, look elsewhere first"),
    "C8.gap_us": _at(
        300,
        "the mean gap of a transaction in microseconds, in the median of those with the same statements",
        "a client that only passes values on stays below, also through the proxy on a busy machine",
    ),
    "C9.share": _at(0.3, "round trips times the smallest one, of the time", "above this share, fewer round trips save most"),
    "C9.round_trip_us": _at(
        100, "the smallest round trip in microseconds", "below it is the server's own work for a request, not a distance"
    ),
    "C10.share": _at(0.1, "small requests that came in parts, of all", "a busy machine splits a few by chance"),
    "C10.stalls": _at(5, "stalls of 35 to 45 ms", "a few come from the machine; delayed acknowledgements come again and again"),
    "C11.share": _at(
        0.05,
        "logins beyond the connections that were open at once, per transaction",
        "a pool that renews its connections stays far below",
    ),
    "C11.logins": _at(
        20,
        "the same logins in all",
        "fewer are the start of a pool, in whose first moments all captures have few transactions",
    ),
    "C12.share": _at(0.3, "descriptions of columns, of the bytes received", "below this share, most bytes are rows"),
    "C13.texts": _at(10, "different literals in the prepared texts of one statement", "an enumeration in the code has fewer"),
    "P1.examined_per_sent": _at(10, "rows examined per row sent or changed", "a join reads a few rows for each that it sends"),
    "P1.rows": _at(1000, "rows examined by an execution", "fewer are read within a round trip"),
    "P2.rows": _at(1000, "rows examined by an execution without an index", "a smaller table needs no index"),
    "P2.removed": _at(
        0.9, "rows examined and neither sent nor changed, of all", "an index saves nothing where most rows are wanted"
    ),
    "P2.server_us": _at(
        500,
        "microseconds in the server of an execution that it flags, in the median, without --server",
        "a table of some hundred rows is read within",
    ),
    "P2.times": _at(
        5,
        "the same, of the median of statements that use an index",
        "a busy machine slows all statements; a read of a large table stays far above the others",
    ),
    "P3.rows": _at(1000, "rows sorted by an execution", "fewer are sorted within a round trip"),
    "P3.disk_tables": _at(0.1, "temporary tables on disk per execution", "one in ten is frequent"),
    "P5.rows": _at(100, "rows that an index finds and the server looks up", "fewer lie on pages that are read anyway"),
    "P6.times": _at(3, "rows examined, of the other server's", "servers count a join's rows in ways that differ by less"),
    "P6.rows": _at(1000, "rows examined by the plan that examines more", "fewer are read within a round trip"),
    "P7.rows": _at(100, "rows that the lost bound would have left out", "fewer cost no more than the bound"),
    "P8.times": _at(
        10,
        "rows estimated, of those read, or the other way round",
        "in a join, two such errors multiply to a factor of a hundred",
    ),
    "P8.rows": _at(1000, "rows read or estimated, the larger of both", "a wrong estimate of few rows changes no plan"),
    "P9.share": _at(0.2, "planning, of the statement's time", "most plans are a few percent of what they plan"),
    "P9.planning_us": _at(
        500,
        "microseconds of planning",
        "less is what any statement takes, on MySQL with the rows of unique keys that it reads then",
    ),
    "E1.times": _at(
        1.3, "the time of the same plan over the same rows, of the other server's", "a build of the same engine differs by less"
    ),
    "E1.rows_times": _at(
        1.1, "rows examined by the server that examines more, of the other's", "servers round the rows of a loop"
    ),
    "E1.execution_us": _at(
        100,
        "microseconds of an execution on the slower server, in the median",
        "less is mostly the clock, and what a server reads while it plans",
    ),
    "E2.share": _at(0.2, "waits for locks, of the time", "rows that many transactions change always cause some waits"),
    "E3.share": _at(
        0.3,
        "exchanges of COMMIT without their network, of the time",
        "a transaction of a few changes on a fast log stays below",
    ),
    "E3.commit_us": _at(200, "microseconds of a COMMIT in the median", "one that waits for no disk and no replica takes less"),
    "E4.misses": _at(
        0.01, "reads of pages that went to the disk, of all", "with less the working set is in the buffer pool, nearly"
    ),
    "E4.filled": _at(
        2, "pages read from the disk, per page of the buffer pool", "fewer may all be first reads, which any pool has once"
    ),
}


class Thresholds(Value):
    """The table with what a user changed."""

    changed: Mapping[str, float] = {}

    def __getitem__(self, name: str) -> float:
        return self.changed[name] if name in self.changed else THRESHOLDS[name].value

    def untimed(self) -> Thresholds:
        """For statements without times: their number says nothing of time, so that there is no floor but one that was given."""
        return Thresholds(changed={"report.share": 0.0, **self.changed})


def read_thresholds(given: Iterable[str]) -> Thresholds:
    """From ``NAME=VALUE`` each. Raises UsageError for a name that the table lacks, and for what is no number of 0 or more."""
    changed = {}
    for each in given:
        name, _, text = each.partition("=")
        if name not in THRESHOLDS:
            near = difflib.get_close_matches(name, THRESHOLDS, n=3) or sorted(THRESHOLDS)
            raise UsageError(
                f"there is no threshold {name!r}", f"there are {', '.join(near)}; docs/reference/stack.md lists all"
            )
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and value >= 0):
            raise UsageError(
                f"--threshold {each}: {text!r} is not a number of 0 or more", f"for example {name}={THRESHOLDS[name].value:g}"
            )
        changed[name] = value
    return Thresholds(changed=changed)
