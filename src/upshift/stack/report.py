"""What an examination says; the terminal and JSON draw from this alone."""

from __future__ import annotations

from collections.abc import Mapping

from upshift import __version__
from upshift.stack.budget import Budget
from upshift.stack.evidence import Client, Evidence, TraceFacts
from upshift.stack.explaining import Explained
from upshift.stack.lacks import Log
from upshift.stack.suspects.finding import count
from upshift.stack.suspects.model import SUSPECTS, Finding, Innocent, Unseen
from upshift.stack.suspects.rules import judge
from upshift.stack.suspects.thresholds import THRESHOLDS, Thresholds
from upshift.values import Value

SCHEMA_VERSION = 1

_SHORT_US = 1000
"""A log without a statement below this may have been written with a threshold."""


class TopStatement(Value):
    """One of the statements with the most time."""

    statement: str
    text: str
    share: float
    executions: int
    time_us: int
    server_us: int
    round_trips: int | None
    rows: int | None
    """None, as round_trips: the trace does not have them."""
    suspects: tuple[str, ...]
    """Findings that name it."""


class Report(Value):
    schema_version: int = SCHEMA_VERSION
    upshift_version: str = __version__
    trace: TraceFacts
    budget: Budget
    total_us: int
    """What the budget's parts add up to."""
    clients: tuple[Client, ...]
    findings: tuple[Finding, ...]
    """The largest share first."""
    innocent: tuple[Innocent, ...]
    unseen: tuple[Unseen, ...]
    statements: tuple[TopStatement, ...]
    notes: tuple[str, ...]
    """What the capture missed."""
    thresholds: Mapping[str, float]
    server_version: str | None
    """Of the server that was asked; None: none was."""
    matched_statements: int | None
    """Statements of the trace that the server had counted."""
    explained_statements: int | None
    """Statements that the server has a plan for."""


def report_on(evidence: Evidence, thresholds: Thresholds, plans: Explained | None = None, *, top: int = 10) -> Report:
    """Judge the evidence, and the plans beside it; ``top`` statements are listed."""
    outcomes = judge(evidence, thresholds, plans.outcomes if plans else ())
    findings = tuple(each for each in outcomes if isinstance(each, Finding))
    server = evidence.server
    return Report(
        trace=evidence.trace,
        budget=evidence.budget,
        total_us=evidence.budget.total_us,
        clients=evidence.clients,
        findings=findings,
        innocent=tuple(each for each in outcomes if isinstance(each, Innocent)),
        unseen=tuple(each for each in outcomes if isinstance(each, Unseen)),
        statements=_top(evidence, findings, top),
        notes=notes(evidence),
        thresholds={name: thresholds[name] for name in THRESHOLDS},
        server_version=server.version if server else plans.version if plans else None,
        matched_statements=len(server.statements) if server else None,
        explained_statements=plans.statements if plans else None,
    )


def _top(evidence: Evidence, findings: tuple[Finding, ...], top: int) -> tuple[TopStatement, ...]:
    accused = {finding.suspect: {each.statement for each in finding.statements} for finding in findings}
    return tuple(
        TopStatement(
            statement=each.statement,
            text=each.text,
            share=evidence.budget.share(each.time_us),
            executions=each.executions,
            time_us=each.time_us,
            server_us=each.server_us,
            round_trips=None if evidence.trace.lacking("round_trips") else each.round_trips,
            rows=None if evidence.trace.lacking("rows") else each.rows,
            suspects=tuple(name for name in SUSPECTS if each.statement in accused.get(name, ())),
        )
        for each in evidence.statements[:top]
    )


def notes(evidence: Evidence) -> tuple[str, ...]:
    """What the capture missed, in sentences."""
    trace = evidence.trace
    joined_late = sum(each.joined_late for each in evidence.clients)
    encrypted = sum(each.encrypted for each in evidence.clients)
    compressed = sum(each.compressed for each in evidence.clients)
    found = []
    if trace.log:
        found += _of_log(trace.log)
    if trace.stopped:
        found.append(f"the capture ended by itself: {trace.stopped}")
    if trace.lost:
        found.append(f"the capture could not write {count(trace.lost, 'exchange')} in time: all counts are too low")
    if not (trace.whole or trace.stopped or trace.lost):
        found.append("the trace was cut short: what is whole of it was read")
    if trace.gaps.connections:
        lost = f"{trace.gaps.bytes:,} bytes of {count(trace.gaps.connections, 'connection')}"
        found.append(f"the capture lost {lost}: their counts are too low")
    if trace.incomplete:
        found.append(f"{count(trace.incomplete, 'answer was', 'answers were')} not seen to the end")
    for reason, number in sorted(trace.unread.items()):
        found.append(f"{count(number, 'connection')} could not be read: {reason.replace('_', ' ')}")
    if encrypted and not trace.unread.get("encrypted"):
        found.append(f"{count(encrypted, 'connection')} asked for TLS")
    if compressed:
        found.append(f"{count(compressed, 'connection')} compressed the protocol: bytes are those before that")
    if joined_late and not trace.lacking("logins"):
        found.append(f"{count(joined_late, 'connection')} began before the capture: statements prepared before have no text")
    if trace.masked:
        found.append("the trace is masked: rules that compare values see only their types and lengths")
    if trace.added_us_p50 is not None and trace.added_us_p99 is not None:
        found.append(
            f"the proxy added {trace.added_us_p50:.0f} µs to a message in the median, {trace.added_us_p99:.0f} µs at p99; "
            "they are in the client's gap and the network"
        )
    return tuple(found)


def _of_log(log: Log) -> list[str]:
    """What a log does not tell."""
    found = [f"the trace was made of a {log.format} log: times are the server's, and the client's gap holds the network"]
    if "short_statements" in log.lacks:
        least_us = log.shortest_us or 0
        missing = (
            f"the log has no statement below {least_us / 1000:.1f} ms: shorter ones may be missing"
            if least_us >= _SHORT_US
            else "short statements may be missing from the log"
        )
        found.append(f"{missing}, and shares are of those that are there")
    if log.clock:
        found.append(f"the log's clock is {log.clock}: its times are taken as they stand")
    return found
