"""All rules, and the one place where their outcomes meet: those from the trace, from the server, and about plans."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from upshift.stack.evidence import Evidence
from upshift.stack.lacks import LACKS, Lack
from upshift.stack.suspects import counted, loops, memory, prepared, rows, sessions, times
from upshift.stack.suspects.finding import reported, unseen
from upshift.stack.suspects.model import SUSPECTS, Finding, Innocent, Outcome, Unseen
from upshift.stack.suspects.thresholds import Thresholds

Rule = Callable[[Evidence, Thresholds], Outcome]
"""Evidence in, outcome out; it asks nothing else."""

RULES: Mapping[str, Rule] = {
    "C1": prepared.prepares_each_time,
    "C2": prepared.sends_text_again,
    "C3": rows.small_fetches,
    "C4": rows.rows_not_needed,
    "C5": sessions.session_chatter,
    "C6": loops.row_by_row,
    "C7": loops.batch_not_rewritten,
    "C8": times.slow_client,
    "C9": times.network,
    "C10": times.split_messages,
    "C11": sessions.reconnects,
    "C12": rows.metadata,
    "C13": prepared.literals_in_prepared_text,
    "P1": counted.examines_too_much,
    "P2": counted.no_index,
    "P3": counted.sorts,
    "E2": times.locks,
    "E3": times.commits,
    "E4": memory.pool_misses,
}
"""By the suspect that each looks for."""

NEEDS: Mapping[str, tuple[Lack, ...]] = {
    "C1": ("prepares", "short_statements"),
    "C2": ("protocol",),
    "C3": ("fetches", "rows"),
    "C4": ("fetches", "rows"),
    "C5": ("round_trips",),
    # Without them a pipeline looks like a loop.
    "C6": ("round_trips", "affected"),
    "C7": ("round_trips", "affected"),
    "C8": ("gaps",),
    "C9": ("round_trips",),
    "C10": ("packets",),
    "C11": ("logins", "short_statements"),
    "C12": ("answers", "bytes"),
    "C13": ("prepares", "short_statements"),
    "E3": ("short_statements",),
}
"""What a trace that was made of a log has to have for a rule. The others take what there is."""


def judge(evidence: Evidence, thresholds: Thresholds, about_plans: Iterable[Outcome] = ()) -> tuple[Outcome, ...]:
    """The outcomes of all rules and those about plans: findings first, the largest share first.

    Where both say something of one suspect, the trace and the server's counters win over the plan, unless they saw nothing. A
    plan's P3 is of other statements than the counters': it stands where these find nothing.
    """
    of_rules = (_of(name, evidence, thresholds) for name in RULES)
    of_plans = {each.suspect: each for each in about_plans}
    told = [_beside(each, of_plans.get(each.suspect)) for each in of_rules]
    told += [each for each in of_plans.values() if each.suspect not in RULES]
    outcomes = [reported(each, thresholds) for each in told]
    order = list(SUSPECTS)
    return tuple(
        sorted(
            outcomes,
            key=lambda each: (
                (0, -each.share, order.index(each.suspect))
                if isinstance(each, Finding)
                else (1, 0.0, order.index(each.suspect))
            ),
        )
    )


def _beside(outcome: Outcome, of_plan: Outcome | None) -> Outcome:
    """A rule's outcome, or that of the plans."""
    accused = outcome.suspect == "P3" and isinstance(outcome, Innocent) and isinstance(of_plan, Finding)
    return of_plan if of_plan and (isinstance(outcome, Unseen) or accused) else outcome


def _of(name: str, evidence: Evidence, thresholds: Thresholds) -> Outcome:
    lacking = evidence.trace.lacking(*NEEDS.get(name, ()))
    if lacking:
        return unseen(name, f"needs what the trace lacks: {', '.join(LACKS[each] for each in lacking)}")
    return RULES[name](evidence, thresholds)
