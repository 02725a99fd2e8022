"""What the budget of time accuses: the client (C8), the network (C9, C10), locks (E2), commits (E3)."""

from __future__ import annotations

from upshift.stack.evidence import Evidence, ServerFacts
from upshift.stack.suspects.finding import count, figure, found, innocent, ratio, unseen
from upshift.stack.suspects.model import Outcome
from upshift.stack.suspects.thresholds import Thresholds


def slow_client(evidence: Evidence, thresholds: Thresholds) -> Outcome:
    """C8: transactions stand open while the client does something else."""
    budget = evidence.budget
    slow = [each for each in evidence.kinds if each.gap_us_typical >= thresholds["C8.gap_us"]]
    share = budget.share(sum(each.gap_us for each in slow))
    said = f"the server waits long for the client's next request, for {share:.0%} of the transactions' time"
    if evidence.widest_transaction < 2:
        return unseen("C8", "no transaction of several requests: between transactions a client may just have nothing to do")
    if share <= thresholds["C8.share"]:
        return innocent("C8", said)
    return found(
        evidence,
        "C8",
        share=share,
        status="measured",
        said=said,
        figures=(
            figure("client_gap_us", sum(each.gap_us for each in slow), "us"),
            figure("client_gap_share", share, "share", "C8.share"),
            figure("gap_us_typical", max(each.gap_us_typical for each in slow), "us", "C8.gap_us"),
            figure("transactions", sum(each.transactions for each in slow)),
        ),
        limits="The network between the client and the capture is in the gap: capture beside the client to leave it out.",
    )


def network(evidence: Evidence, thresholds: Thresholds) -> Outcome:
    """C9: round trips over a distance."""
    budget = evidence.budget
    network_us, trips = budget.network_us or 0, budget.round_trips or 0
    share = budget.share(network_us)
    trip_us = ratio(network_us, trips)
    said = f"{count(trips, 'round trip')} of at least {trip_us:.0f} µs are {share:.0%} of the time"
    if share <= thresholds["C9.share"] or trip_us < thresholds["C9.round_trip_us"]:
        return innocent("C9", said)
    return found(
        evidence,
        "C9",
        share=share,
        status="measured",
        said=said,
        figures=(
            figure("round_trips", trips, "round_trips"),
            figure("round_trips_per_transaction", ratio(trips, budget.transactions)),
            figure("round_trip_us_mean", trip_us, "us", "C9.round_trip_us"),
            figure("network_share", share, "share", "C9.share"),
        ),
        limits="The smallest round trip includes the server's least work for a request. "
        "What the network took beyond it counts as the server's.",
    )


def split_messages(evidence: Evidence, thresholds: Thresholds) -> Outcome:
    """C10: small messages that come in parts, or wait for a delayed acknowledgement."""
    seen = evidence.small
    said = (
        f"{count(seen.split, 'small request')} of {seen.requests:,} came in parts, {count(seen.stalls, 'stall')} of 35 to 45 ms"
    )
    if ratio(seen.split, seen.requests) <= thresholds["C10.share"] and seen.stalls < thresholds["C10.stalls"]:
        return innocent("C10", said)
    return found(
        evidence,
        "C10",
        share=evidence.budget.share(max(seen.split_us, seen.stall_us)),
        status="counted" if evidence.trace.capture == "pcap" else "inferred",
        said=said,
        figures=(
            figure("small_requests", seen.requests),
            figure("split_share", ratio(seen.split, seen.requests), "share", "C10.share"),
            figure("stalls", seen.stalls, "", "C10.stalls"),
            figure("split_us", seen.split_us, "us"),
            figure("stall_us", seen.stall_us, "us"),
        ),
        limits="A proxy sees parts only where they came apart; a packet capture sees each.",
    )


def locks(evidence: Evidence, thresholds: Thresholds) -> Outcome:
    """E2: waits for locks, as far as errors or the server tell."""
    budget, errors = evidence.budget, evidence.lock_errors
    ended = errors.deadlocks + errors.timeouts + errors.serialization
    seen_us = max(errors.time_us, budget.lock_us or 0)
    share = budget.share(seen_us)
    said = f"{count(ended, 'statement')} ended by a lock"
    if evidence.trace.lacking("errors"):
        said = "the trace has no errors"
    if budget.lock_us is not None:
        said += f"; the server's own count of lock waits comes to {budget.share(budget.lock_us):.1%} of the time"
    if share < thresholds["E2.share"] or not seen_us:
        if budget.lock_us is None:
            why = "only the server knows how long the others waited: --server"
            if evidence.server:
                why = evidence.server.why_none or _why_no_waits(evidence.server)
            return unseen("E2", f"{said}; {why}")
        return innocent("E2", said)
    return found(
        evidence,
        "E2",
        share=share,
        status="measured" if budget.lock_us is not None else "inferred",
        said=said,
        figures=(
            figure("deadlocks", errors.deadlocks),
            figure("lock_timeouts", errors.timeouts),
            figure("serialization_failures", errors.serialization),
            figure("lock_share", share, "share", "E2.share"),
            *((figure("lock_us", budget.lock_us, "us"),) if budget.lock_us is not None else ()),
        ),
        limits=f"The whole time of a transaction that ended by a lock counts. {_of_waits(evidence)}".rstrip(),
    )


def _why_no_waits(server: ServerFacts) -> str:
    if server.statements and all(each.lock_us is None for each in server.statements):
        return "this server does not count how long statements wait for locks; MySQL does from 8.0.28 on"
    return "the server counted too few of the trace's statements to tell how long others waited"


def _of_waits(evidence: Evidence) -> str:
    """What the lock time of the budget is."""
    if any(each.lock_us is not None for each in evidence.logged):
        return "The lock time is what the server's log says of each execution."
    if evidence.server:
        return "The server's lock time is its mean of the statement since its counters began."
    return ""


def commits(evidence: Evidence, thresholds: Thresholds) -> Outcome:
    """E3: the server takes long to make a transaction durable."""
    budget = evidence.budget
    share = budget.share(budget.commit_us)
    said = (
        f"{count(evidence.commits, 'COMMIT')} of {evidence.commit_us_median:.0f} µs in the median are {share:.0%} of the time"
    )
    if not evidence.commits:
        return unseen("E3", "no COMMIT was sent: statements that commit by themselves hold its time")
    if share <= thresholds["E3.share"] or evidence.commit_us_median < thresholds["E3.commit_us"]:
        return innocent("E3", said)
    return found(
        evidence,
        "E3",
        share=share,
        status="measured",
        said=said,
        figures=(
            figure("commits", evidence.commits),
            figure("commit_us_median", evidence.commit_us_median, "us", "E3.commit_us"),
            figure("commit_share", share, "share", "E3.share"),
        ),
        limits="The trace does not show whether the log, a replica or the server's own work takes the time.",
    )
