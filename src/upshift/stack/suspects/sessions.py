"""What connections do beside their statements: chatter (C5), logins (C11)."""

from __future__ import annotations

from upshift.stack.evidence import Evidence
from upshift.stack.suspects.finding import count, figure, found, innocent, ratio
from upshift.stack.suspects.model import Accused, Outcome
from upshift.stack.suspects.thresholds import Thresholds


def session_chatter(evidence: Evidence, thresholds: Thresholds) -> Outcome:
    """C5: round trips that set or ask the session."""
    trips = sum(each.round_trips for each in evidence.chatter)
    share = ratio(trips, evidence.budget.round_trips or 0)
    kinds = ", ".join(f"{count(each.requests, each.what, each.what)}" for each in evidence.chatter)
    said = f"{share:.0%} of the round trips set or ask the session" + (f": {kinds}" if kinds else "")
    if share <= thresholds["C5.share"]:
        return innocent("C5", said)
    time_us = sum(each.time_us for each in evidence.chatter)
    return found(
        evidence,
        "C5",
        share=evidence.budget.share(time_us),
        status="counted",
        said=said,
        figures=(
            figure("chatter_round_trips", trips, "round_trips"),
            figure("chatter_of_round_trips", share, "share", "C5.share"),
            figure("chatter_us", time_us, "us"),
        ),
        statements=tuple(
            Accused(
                statement="",
                text=each.example or each.what,
                share=evidence.budget.share(each.time_us),
                figures=(figure("round_trips", each.round_trips, "round_trips"),),
            )
            for each in evidence.chatter
        ),
        limits="Some of it may be needed: a variable may really change from one transaction to the next.",
    )


def reconnects(evidence: Evidence, thresholds: Thresholds) -> Outcome:
    """C11: a login for every few transactions."""
    seen, transactions = evidence.logins, evidence.budget.transactions
    said = f"{count(seen.logins, 'login')} for {count(transactions, 'transaction')}"
    if seen.again < seen.logins:
        said += f", {seen.again:,} of them beyond the connections that were open at once"
    few = seen.again < thresholds["C11.logins"]
    if few or ratio(seen.again, transactions or seen.again) <= thresholds["C11.share"]:
        return innocent("C11", said)
    login_us = seen.again * seen.login_us_median
    return found(
        evidence,
        "C11",
        share=ratio(login_us, login_us + evidence.budget.total_us),
        status="measured",
        said=said,
        figures=(
            figure("logins", seen.logins),
            figure("logins_again", seen.again, "", "C11.logins"),
            figure("logins_again_per_transaction", ratio(seen.again, transactions), "per_execution", "C11.share"),
            figure("login_us_median", seen.login_us_median, "us"),
            figure("login_round_trips", seen.round_trips, "round_trips"),
        ),
        limits="A login lasts to the connection's first request. It is no part of the budget: the share is of both together.",
    )
