"""How rows come: in small parts (C3), more than are used (C4), with long descriptions (C12)."""

from __future__ import annotations

import re

from upshift.stack.evidence import Evidence, Statement
from upshift.stack.suspects.finding import accused, count, figure, found, innocent, ratio
from upshift.stack.suspects.model import Outcome
from upshift.stack.suspects.thresholds import Thresholds

_ORDER = re.compile(r"\bORDER\s+BY\s+(?:[`\"\w]+\.)?[`\"]?(\w+)[`\"]?\s*(?:ASC|DESC)?\s*(?:FOR\b|$|;)", re.IGNORECASE)
_SELECTED = re.compile(r"^\s*SELECT\s+(?:[`\"\w]+\.)?[`\"]?(\w+)[`\"]?\s+FROM\b", re.IGNORECASE)


def small_fetches(evidence: Evidence, thresholds: Thresholds) -> Outcome:
    """C3: a round trip for every few rows, where one would do."""

    def guilty_of(each: Statement) -> bool:
        size = each.fetch_size or 1
        few = each.rows_median <= thresholds["C3.rows_per_fetch_size"] * size or size <= thresholds["C3.fetch_size"]
        return each.fetches > 0 and ratio(each.fetches, each.cursors or each.executes) >= thresholds["C3.share"] and few

    guilty = [each for each in evidence.statements if guilty_of(each)]
    fetches = sum(each.fetches for each in evidence.statements)
    if not guilty:
        return innocent("C3", f"{count(fetches, 'fetch', 'fetches')} through cursors or portals")
    time_us = sum(each.fetch_us for each in guilty)
    trips = sum(each.fetches for each in guilty)
    return found(
        evidence,
        "C3",
        share=evidence.budget.share(time_us),
        status="counted",
        said=f"{count(trips, 'fetch', 'fetches')} for {count(sum(each.cursors for each in guilty), 'execution')} with a cursor",
        figures=(
            figure("fetches", trips),
            figure("cursors", sum(each.cursors for each in guilty)),
            figure("fetches_of_round_trips", ratio(trips, evidence.budget.round_trips or 0), "share"),
            figure("fetch_us", time_us, "us"),
        ),
        statements=accused(
            evidence,
            guilty,
            lambda each: each.fetch_us,
            lambda each: (
                figure(
                    "fetches_per_execution", ratio(each.fetches, each.cursors or each.executes), "per_execution", "C3.share"
                ),
                figure("fetch_size", each.fetch_size or 0, "rows", "C3.fetch_size"),
                figure("rows_median", each.rows_median, "rows", "C3.rows_per_fetch_size"),
            ),
        ),
        limits="The share is the time of the fetches, with the client's gaps before them. "
        "All rows at once need memory in the client.",
    )


def rows_not_needed(evidence: Evidence, thresholds: Thresholds) -> Outcome:
    """C4: results that are closed early, or read for their first row."""
    early = [each for each in evidence.statements if each.early_closes]
    first = {each.statement: each for each in evidence.statements if _first_only(evidence, each, thresholds)}
    if not early and not first:
        return innocent("C4", "no cursor was closed early, no long ordered result was read for one row")

    def time_us(each: Statement) -> float:
        unneeded = 1 - ratio(1, each.rows_median)
        of_first = unneeded * each.server_us if each.statement in first else 0.0
        return max(of_first, each.cursor_us * ratio(each.early_closes, each.cursors or each.executions))

    guilty = [*early, *(each for each in first.values() if not each.early_closes)]
    return found(
        evidence,
        "C4",
        share=evidence.budget.share(sum(map(time_us, guilty))),
        status="counted" if early else "inferred",
        said=" and ".join(
            [f"{count(sum(each.early_closes for each in early), 'cursor')} closed before the last row"] * bool(early)
            + [f"{count(len(first), 'ordered result')} of many rows, after which one row is used"] * bool(first)
        ),
        figures=(
            figure("early_closes", sum(each.early_closes for each in early)),
            figure("ordered_without_limit", len(first)),
            figure("rows", sum(each.rows for each in guilty), "rows"),
        ),
        statements=accused(
            evidence,
            guilty,
            time_us,
            lambda each: (
                figure("early_closes", each.early_closes),
                figure("rows_median", each.rows_median, "rows", "C4.rows"),
            ),
        ),
        limits="The trace has no rows. The statement after an ordered result takes one value of the ordered column: "
        "from that it is inferred that the application uses one row.",
    )


def _first_only(evidence: Evidence, each: Statement, thresholds: Thresholds) -> bool:
    """Whether a result is one ordered column, and a statement that takes one value of this column follows each."""
    ordered, selected = _ORDER.search(each.text), _SELECTED.search(each.text)
    followers = [(one.then, one.times) for one in evidence.followed if one.statement == each.statement]
    if not followers or ordered is None or selected is None or each.rows_median <= thresholds["C4.rows"]:
        return False
    column = ordered[1].lower()
    if selected[1].lower() != column:
        return False
    takes = re.compile(rf"\bWHERE\b.*\b{re.escape(column)}\b[`\"]?\s*=\s*(?:\?|\$\d+)", re.IGNORECASE | re.DOTALL)
    used = [times for then, times in followers if takes.search(evidence.text_of(then))]
    # Each of them as often as the select at most: more would be a loop over its rows.
    return bool(used) and max(used) <= 1.5 * each.executions


def metadata(evidence: Evidence, thresholds: Thresholds) -> Outcome:
    """C12: descriptions of columns that fill TCP segments of their own."""
    seen = evidence.definitions
    share = ratio(seen.definition_bytes, seen.bytes_received)
    said = (
        f"{share:.0%} of the bytes received describe columns, in {count(seen.large_answers, 'answer')} more than a TCP segment"
    )
    if share <= thresholds["C12.share"] or not seen.large_answers:
        return innocent("C12", said)
    return found(
        evidence,
        "C12",
        share=evidence.budget.share(seen.large_us),
        status="inferred",
        said=said,
        figures=(
            figure("definition_bytes", seen.definition_bytes, "bytes"),
            figure("bytes_received", seen.bytes_received, "bytes"),
            figure("definitions_of_bytes", share, "share", "C12.share"),
            figure("large_answers", seen.large_answers),
        ),
        limits="The share divides the time as the bytes are divided. It leaves out descriptions that fit into the answer's "
        "first segment: they cost next to nothing.",
    )
