"""The plans of a trace's statements, for an examination: EXPLAIN alone, nothing is executed."""

from __future__ import annotations

from pathlib import Path

from upshift.check.address import Address as CheckAddress
from upshift.check.address import find_address
from upshift.errors import UpshiftError
from upshift.stack.evidence import Evidence
from upshift.stack.plans.address import Address, read_address
from upshift.stack.plans.ask import Asker
from upshift.stack.plans.asked import Asked
from upshift.stack.plans.looking import Progress, planned
from upshift.stack.plans.rules import RULES, judged
from upshift.stack.plans.source import read_export
from upshift.stack.server import refuse_another
from upshift.stack.suspects.counted import sorts_known
from upshift.stack.suspects.model import Outcome, Unseen
from upshift.stack.suspects.thresholds import Thresholds
from upshift.values import Value

MOST_STATEMENTS = 100
"""Those with the most time are explained."""
WAIT_S = 30.0
"""A server that is longer at an EXPLAIN gives it up."""


class Explained(Value):
    """What the plans gave away."""

    version: str
    """Of the server that was asked."""
    statements: int
    """Statements that it has a plan for."""
    outcomes: tuple[Outcome, ...]
    """Of each rule about plans, in shares of the budget; P3 of statements that no counter tells of."""


def server_address(server: str | None, defaults_file: Path | None, login_path: str | None) -> Address | None:
    """Whom to ask; None: nobody was named. Raises UsageError for what is no address."""
    if server:
        return read_address(server, "--server", defaults_file, login_path)
    if not (defaults_file or login_path):
        return None
    return Address(postgres=False, **find_address(None, defaults_file, login_path).model_dump())


def counters_address(address: Address) -> CheckAddress:
    """The same for the session that reads a MySQL's or MariaDB's counters."""
    return CheckAddress(**address.model_dump(include=set(CheckAddress.model_fields)))


def explained(folder: Path, asker: Asker, evidence: Evidence, thresholds: Thresholds, progress: Progress) -> Explained:
    """Ask for the plans of an exported trace's statements, and judge them.

    Raises UsageError for a server of another family or version than the trace's, ServerFailed when it goes away.
    """
    version = asker.session.version
    if evidence.trace.server_version:
        refuse_another(evidence.trace.server_version, version, evidence.trace.family)
    try:
        source = read_export(folder)
    except UpshiftError as why:
        return Explained(version=version, statements=0, outcomes=_unseen(why))
    first = source.model_copy(update={"statements": source.statements[:MOST_STATEMENTS]})
    told = planned(first, asker, "", thresholds, execute=False, progress=progress).statements
    shares = {each.statement: evidence.budget.share(each.server_us) for each in evidence.statements}
    asked = tuple(
        Asked(statement=each.statement, text=each.text, share=min(1.0, shares.get(each.statement, 0.0)), plan=each.told.plan)
        for each in told
        if each.told.plan
    )
    if not asked:
        refused = next((each.told for each in told if each.told.why_none), None)
        none = UpshiftError(refused.why_none or "", refused.hint) if refused else UpshiftError("no statement has a plan")
        return Explained(version=version, statements=0, outcomes=_unseen(none))
    outcomes = judged(asked, thresholds, {"P3": sorts_known(evidence)})
    return Explained(version=version, statements=len(asked), outcomes=outcomes)


def _unseen(why: UpshiftError) -> tuple[Outcome, ...]:
    said = why.message + (f": {why.hint}" if why.hint else "")
    return tuple(Unseen(suspect=name, why=said) for name in RULES)
