"""A suspect as an experiment: the trace sent as the application sent it, and with one thing changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from upshift.errors import UsageError
from upshift.measure.model import Comparison
from upshift.measure.variant import Variant
from upshift.report.words import count, measured
from upshift.server.kind import Unit
from upshift.server.kinds import default_kind
from upshift.stack.answers import Answers
from upshift.stack.change import CHANGED, Given, refuse_unprovable, refuse_unshown, variants_of
from upshift.stack.evidence import Chat, Evidence, Statement, TraceFacts
from upshift.stack.proof import DIFFER_HINT, WORDS, NotProvableError
from upshift.stack.suspects.finding import DATA_VERBS
from upshift.stack.suspects.model import SUSPECTS, Finding, Innocent, Outcome, Unseen

_SHOWN: Mapping[str, Callable[[Statement], int]] = {
    "C1": lambda statement: statement.prepares_again,
    "C2": lambda statement: statement.as_text,
    "C3": lambda statement: statement.cursors,
    "C13": lambda statement: statement.prepares,
}
"""Of the requests of a statement those that are the suspect."""
_LEAST_SHOWN = 0.05
"""Of all executions. With fewer both ways would be the same, nearly."""
_COMMITTED = 0.5
"""With more of the transactions ended by a COMMIT, commits count them."""
_RESTORE = 'exec "$0" --no-defaults --socket="$1" --user=root "$2" < "$3"'
_LOGINS, _LOGINS_SHARE = 20, 0.05
"""From so many logins on, and so many a transaction, a replay logs in for each recorded connection: as C11 is judged."""
_UNSENT: tuple[Chat, ...] = ("USE", "statistics")
"""Chatter that a replay does not send."""
_ASKS: tuple[Chat, ...] = ("session variables", "test query")
"""Chatter that a server counts as a select."""
_OTHERWISE_COUNTED = ("C3", "C5", "C11")
"""Suspects whose two ways differ in what MySQL counts as a query: fetches, SETs, the end of a connection."""


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
            "`upshift stack examine` lists the findings; --findings takes one that a server or its plans gave away",
        )
    return found


def experiment_of(
    evidence: Evidence, outcomes: Sequence[Outcome], suspect: str, given: Given, binary: Path
) -> tuple[Finding, tuple[Variant, Variant]]:
    """The finding, and the two replays that prove it.

    Raises UsageError when there is nothing to prove or no change is named, NotProvableError when there is no way here.
    """
    finding = find_finding(outcomes, suspect)
    refuse_unprovable(suspect, given)
    refuse_family(evidence.trace)
    refuse_forged(finding, evidence)
    refuse_uncounted(finding, evidence)
    return finding, variants_of(finding, sent_by(evidence), binary, given)


def sent_by(evidence: Evidence) -> tuple[str, ...]:
    """The options with which a replay sends as the application did. How each statement was sent is in the replay's trace."""
    logins = evidence.logins.logins
    return ("--reconnect",) if logins >= _LOGINS and logins > _LOGINS_SHARE * evidence.budget.transactions else ()


def workload_text(suspect: str, trace: Path, before: Path, evidence: Evidence, connections: int, *, loop: str) -> str:
    """A workload file that restores the dump ``before`` and replays ``trace``, to prove ``suspect``."""

    # JSON's strings are TOML's, too.
    def words(*each: str) -> str:
        return json.dumps([part.replace("{", "{{").replace("}", "}}") for part in each])

    fill = ["sh", "-c", _RESTORE, "{tools}/mysql", "{socket}", "{database}"]
    server = "mysql://root@localhost/{database}?socket={socket}"
    load = ["{programs}/upshift-load", "replay", "--server", server, "--connections", "{connections}", "--seconds", "{seconds}"]
    more = ["--on-difference", "count", "--json", "--histogram", f"--loop={loop}"]
    return "\n".join(
        (
            f"description = {json.dumps(f'The trace {trace.name}, replayed.')}",
            f'server = "{default_kind().name}"',
            f"connections = {connections}",
            f'unit = "{_unit(suspect, evidence)}"',
            "[fill]",
            f"command = {json.dumps(fill)[:-1]}, {words(str(before))[1:-1]}]",
            "[load]",
            f"command = {json.dumps([*load, *more])[:-1]}, {words(str(trace))[1:-1]}]",
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


def refuse_family(trace: TraceFacts) -> None:
    """Raises NotProvableError for a trace of a server that the laboratory does not start."""
    family = "MySQL"
    if trace.family == "postgres":
        family = "PostgreSQL"
    elif "MariaDB" in (trace.server_version or ""):
        family = "MariaDB"
    if family.lower() != default_kind().name:
        raise NotProvableError(
            f"the laboratory starts MySQL, and this trace is of a {family}", "examine it; try the fix in the application"
        )


def refuse_forged(finding: Finding, evidence: Evidence) -> None:
    """Raises NotProvableError for a finding of which the trace has next to nothing: both ways would be the same."""
    statements = [each for each in evidence.statements if each.verb in DATA_VERBS]
    shown = _SHOWN.get(finding.suspect)
    if shown and sum(map(shown, statements)) < _LEAST_SHOWN * sum(each.executions for each in statements):
        refuse_unshown(finding)
    if finding.suspect == "C5" and not _round_trips(evidence):
        refuse_unshown(finding)
    if finding.suspect == "C11" and not sent_by(evidence):
        refuse_unshown(finding)


def refuse_uncounted(finding: Finding, evidence: Evidence) -> None:
    """Raises NotProvableError where counters cannot compare the two ways, or a replay does not send the suspect."""
    if finding.suspect != "C5":
        return
    if _round_trips(evidence, *_UNSENT) > _round_trips(evidence) / 2:
        raise NotProvableError(
            "C5 cannot be proven with this trace: a replay sends no USE, and that is most of its chatter",
            "name the database in the connection's address, and capture the application again",
        )
    if _round_trips(evidence, *_ASKS) and not _commits(evidence):
        raise NotProvableError(
            "C5 cannot be proven with this trace: its statements commit by themselves, and SELECT @@... counts as one",
            "capture transactions that end with COMMIT",
        )


def _round_trips(evidence: Evidence, *what: Chat) -> int:
    """Of chatter of these sorts; of all sorts, if none is named."""
    return sum(each.round_trips for each in evidence.chatter if not what or each.what in what)


def of_suspect(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """The replay with the change, against the one as sent: queries per second for each number of connections."""
    return tuple(each for each in comparisons if each.metric == "qps" and each.arm == CHANGED)


def told(finding: Finding, comparisons: Sequence[Comparison], answers: Answers) -> tuple[str, ...]:
    """What the experiment says of the suspect, a sentence for each number of connections; or that the answers differ."""
    title = f"{finding.suspect} ({SUSPECTS[finding.suspect].title})"
    if answers.differ:
        return (f"{title}: answers differ, and nothing was measured: {answers.told()}", DIFFER_HINT)
    return tuple(
        f"{title}: {WORDS[each.verdict]}: with the change, the throughput is {each.ratio:.2f}x "
        f"at {count(each.connections, 'connection')}, {measured(each)}; "
        f"its share of the time alone comes to {1 / max(1e-9, 1 - finding.share):.2f}x"
        for each in of_suspect(comparisons)
    )
