"""A suspect as an experiment: the trace sent as the application sent it, and with one thing changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path

from upshift.errors import UsageError
from upshift.measure.allocation import ROUNDS
from upshift.measure.model import Comparison, Slice
from upshift.measure.variant import Variant
from upshift.options import Options
from upshift.report.words import count, measured
from upshift.server.kind import Unit
from upshift.stack.answers import Answers
from upshift.stack.change import CHANGED, Given, refuse_unprovable, refuse_unshown, variants_of
from upshift.stack.evidence import Chat, Evidence, Statement
from upshift.stack.laboratory import Laboratory, laboratory_of, program_of
from upshift.stack.proof import DIFFER_HINT, NotProvableError, expected_ratio, word_of
from upshift.stack.suspects.finding import DATA_VERBS
from upshift.stack.suspects.model import SUSPECTS, Finding, Innocent, Outcome, Unseen

_SHOWN: Mapping[str, Callable[[Statement], int]] = {
    # Prepared and executed in one flight, with rows fetched in parts: a replay prepares it once.
    "C1": lambda statement: 0 if _is_one_flight(statement) and statement.fetches else statement.prepares_again,
    "C2": lambda statement: statement.as_text,
    # A portal of PostgreSQL's is none until its rows are fetched in parts.
    "C3": lambda statement: statement.cursors or statement.fetches,
    "C13": lambda statement: statement.prepares,
}
"""Of the requests of a statement those that are the suspect."""
_LEAST_SHOWN = 0.05
"""Of all executions. With fewer both ways would be the same, nearly."""
_ONE_FLIGHT = 1.5
"""Round trips an execution, at most, of statements that are prepared and executed in one flight; in two they have 2."""
_COMMITTED = 0.5
"""With more of the transactions ended by a COMMIT, commits count them."""
_LOGINS, _LOGINS_SHARE = 20, 0.05
"""From so many logins on, and so many a transaction, a replay logs in for each recorded connection: as C11 is judged."""
_MOST_FAILED = 0.2
"""Failed requests for each query or transaction that was counted: with more, what is compared is failures."""
_ASKS: tuple[Chat, ...] = ("session variables", "test query")
"""Chatter that a server counts as a select."""
_OTHERWISE_COUNTED = ("C3", "C5", "C11")
"""Suspects whose two ways differ in what a server counts as a query: fetches, SETs, the end of a connection."""


def find_finding(outcomes: Sequence[Outcome], suspect: str) -> Finding:
    """What was found against ``suspect``. Raises UsageError when there is nothing to prove."""
    if suspect not in SUSPECTS:
        raise UsageError(f"there is no suspect '{suspect}'", f"there are {', '.join(SUSPECTS)}")
    found = next((each for each in outcomes if each.suspect == suspect), None)
    if not isinstance(found, Finding):
        looked = found.looked_at if isinstance(found, Innocent) else "nothing speaks against it"
        why = found.why if isinstance(found, Unseen) else looked
        raise UsageError(
            f"there is no finding {suspect} to prove: {why}",
            "`upshift stack examine` lists the findings; --findings takes one that needs a server or its plans",
        )
    return found


def experiment_of(
    evidence: Evidence, outcomes: Sequence[Outcome], suspect: str, given: Given, binary: Path | None
) -> tuple[Finding, tuple[Variant, Variant]]:
    """The finding, and the two replays that prove it.

    Raises UsageError when there is nothing to prove or no change is named, NotProvableError when there is no way here.
    """
    finding = find_finding(outcomes, suspect)
    laboratory = laboratory_of(evidence.trace)
    refuse_unprovable(suspect, given, laboratory)
    refuse_forged(finding, evidence)
    refuse_uncounted(finding, evidence, laboratory)
    at_once = finding.suspect == "C1" and prepared_at_once(evidence)
    program = program_of(laboratory, binary)
    return finding, variants_of(finding, sent_by(evidence), program, given, laboratory, at_once=at_once)


def sent_by(evidence: Evidence) -> tuple[str, ...]:
    """The options with which a replay sends as the application did. How each statement was sent is in the replay's trace."""
    logins = evidence.logins.again
    return ("--reconnect",) if logins >= _LOGINS and logins > _LOGINS_SHARE * evidence.budget.transactions else ()


def open_at_once(evidence: Evidence) -> int:
    """The most connections that the application had open at once, with all from before the capture."""
    return max(1, sum(each.connections for each in evidence.clients) - evidence.logins.again)


def workload_text(suspect: str, trace: Path, before: Path, evidence: Evidence, connections: int, *, loop: str) -> str:
    """A workload file that restores the dump ``before`` and replays ``trace``, to prove ``suspect``."""

    # JSON's strings are TOML's, too, but for its surrogates.
    toml = partial(json.dumps, ensure_ascii=False)

    def words(*each: str) -> str:
        return toml([part.replace("{", "{{").replace("}", "}}") for part in each])

    laboratory = laboratory_of(evidence.trace)
    fill = ["{tools}/" + laboratory.client, "{socket}", "{database}"]
    load = [
        "{programs}/upshift-load",
        "replay",
        "--server",
        "{url}",
        "--connections",
        "{connections}",
        "--seconds",
        "{seconds}",
    ]
    more = ["--on-difference", "count", "--json", "--histogram", f"--loop={loop}"]
    return "\n".join(
        (
            f"description = {toml(f'The trace {trace.name}, replayed.')}",
            f'server = "{laboratory.kind_name}"',
            f"connections = {connections}",
            f'unit = "{_unit(suspect, evidence)}"',
            "[fill]",
            f"command = {words('sh', '-c', laboratory.restore)[:-1]}, {toml(fill)[1:-1]}, {words(str(before))[1:]}",
            "[load]",
            f"command = {toml([*load, *more])[:-1]}, {words(str(trace))[1:]}",
            'latency = "upshift-load"',
            "",
        )
    )


def _unit(suspect: str, evidence: Evidence) -> Unit:
    """What both ways have the same number of for the same work."""
    if _commits(evidence):
        return "transaction"
    return "statement" if suspect in _OTHERWISE_COUNTED else "query"


def _commits(evidence: Evidence) -> bool:
    """Whether most transactions end with a COMMIT, so that commits count them. A select about the session alone is none."""
    asked = sum(each.requests for each in evidence.chatter if each.what in _ASKS)
    return evidence.commits > _COMMITTED * (evidence.budget.transactions - asked)


def measuring(evidence: Evidence, options: Options) -> Options:
    """How a replay of the trace is measured. One that writes has no warm-up: it would begin with the same transactions, so that
    their keys are there already when the measured replay comes to them. It has few turns, too: it ends with the trace.
    """
    writes = any(each.verb in DATA_VERBS and each.verb != "select" for each in evidence.statements)
    return options.model_copy(update={"warmup_s": 0.0, "rounds": ROUNDS}) if writes else options


def refuse_forged(finding: Finding, evidence: Evidence) -> None:
    """Raises NotProvableError for a finding of which the trace has next to nothing: both ways would be the same."""
    statements = [each for each in evidence.statements if each.verb in DATA_VERBS]
    if shown := _SHOWN.get(finding.suspect):
        number = sum(map(shown, statements))
        if not number or number < _LEAST_SHOWN * sum(each.executions for each in statements):
            refuse_unshown(finding)
    if finding.suspect == "C5" and not _round_trips(evidence):
        refuse_unshown(finding)
    if finding.suspect == "C11" and not sent_by(evidence):
        refuse_unshown(finding)


def _is_one_flight(statement: Statement) -> bool:
    """Whether most of its executions are prepared anew, and share a flight with that."""
    trips = statement.round_trips - statement.fetches
    return 2 * statement.prepares > statement.executes > 0 and trips < _ONE_FLIGHT * statement.executions


def prepared_at_once(evidence: Evidence) -> bool:
    """Whether most that is prepared each time is executed in the same flight. A replay sends that as text: one round trip, and
    one look at the statement.

    Raises NotProvableError where other statements came as text: the change would be theirs, too.
    """
    statements = [each for each in evidence.statements if each.verb in DATA_VERBS]
    again = sum(each.prepares_again for each in statements)
    if 2 * sum(each.prepares_again for each in statements if _is_one_flight(each)) <= again:
        return False
    if sum(each.as_text for each in statements) >= _LEAST_SHOWN * sum(each.executions for each in statements):
        raise NotProvableError(
            "C1 cannot be proven with this trace: a replay sends what is prepared and executed in one flight as text, "
            "and other statements came as text, too",
            "fix C2 first, or capture a part of the application that prepares all of its statements",
        )
    return True


def refuse_uncounted(finding: Finding, evidence: Evidence, laboratory: Laboratory) -> None:
    """Raises NotProvableError where counters cannot compare the two ways, or a replay does not send the suspect."""
    if finding.suspect != "C5":
        return
    if _round_trips(evidence, *laboratory.unsent) > _round_trips(evidence) / 2:
        raise NotProvableError(
            f"C5 cannot be proven with this trace: {laboratory.unsent_said}, and that is most of its chatter",
            "fix it in the application or its pool, and capture the application again",
        )
    if _round_trips(evidence, *_ASKS) and not _commits(evidence):
        raise NotProvableError(
            "C5 cannot be proven with this trace: its statements commit by themselves, "
            "and a SELECT that asks the session counts as one",
            "capture transactions that end with COMMIT",
        )


def _round_trips(evidence: Evidence, *what: Chat) -> int:
    """Of chatter of these sorts; of all sorts, if none is named."""
    return sum(each.round_trips for each in evidence.chatter if not what or each.what in what)


def of_suspect(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """The replay with the change, against the one as sent: queries per second for each number of connections."""
    return tuple(each for each in comparisons if each.metric == "qps" and each.arm == CHANGED)


def failed(suspect: str, slices: Iterable[Slice]) -> NotProvableError | None:
    """Why the experiment says nothing, where much of a replay failed; None: it does.

    A trace that writes meets its own rows when it begins again: its transactions then fail at once, in both ways alike.
    """
    for arm, members in groupby(sorted(slices, key=lambda each: each.arm), key=lambda each: each.arm):
        counted = list(members)
        errors, queries = sum(each.errors for each in counted), sum(each.queries for each in counted)
        if errors > _MOST_FAILED * queries:
            return NotProvableError(
                f"{suspect} cannot be proven with this trace: as it was replayed ({arm}), {errors:,} requests failed",
                "a trace that writes meets its own rows when it begins again: capture so long a part of the application that a "
                "replay at full speed does not come to its end in a trial, or one that only reads",
            )
    return None


def told(finding: Finding, comparisons: Sequence[Comparison], answers: Answers) -> tuple[str, ...]:
    """What the experiment says of the suspect, a sentence for each number of connections."""
    title = f"{finding.suspect} ({SUSPECTS[finding.suspect].title})"
    if answers.differ:
        return (f"{title}: answers differ, and nothing was measured: {answers.told()}", DIFFER_HINT)
    return tuple(
        f"{title}: {word_of(each, finding)}: with the change, the throughput is {each.ratio:.2f}x "
        f"at {count(each.connections, 'connection')}, {measured(each)}; "
        f"its share of the time alone comes to {expected_ratio(finding):.2f}x"
        for each in of_suspect(comparisons)
    )
