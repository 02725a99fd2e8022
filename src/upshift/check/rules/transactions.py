"""Transactions: isolation, their age, and what purge has left to do."""

from __future__ import annotations

from collections.abc import Iterable

from upshift.check.model import Facts, Found, Transaction
from upshift.check.rule import Rule
from upshift.check.rules.words import listed

_LONG_S = 1800
_LONG_HISTORY = 1_000_000
_MOST_PURGE_THREADS = 32


def _isolation(facts: Facts) -> str:
    # MariaDB before 11.1 has the option under the one name and the variable under the other.
    return facts.variables.get("transaction_isolation", facts.variables.get("tx_isolation", "")).upper()


def _serializable(facts: Facts) -> Found | None:
    if _isolation(facts) != "SERIALIZABLE":
        return None
    return Found(
        evidence="The isolation level is SERIALIZABLE: each SELECT in a transaction locks what it reads.",
        settings={"transaction_isolation": "REPEATABLE-READ"},
        now={"transaction_isolation": _isolation(facts)},
    )


def _uncommitted(facts: Facts) -> Found | None:
    if _isolation(facts) != "READ-UNCOMMITTED":
        return None
    return Found(
        evidence="The isolation level is READ-UNCOMMITTED: statements see rows that may never be committed.",
        settings={"transaction_isolation": "READ-COMMITTED"},
        now={"transaction_isolation": _isolation(facts)},
    )


def _autocommit(facts: Facts) -> Found | None:
    if facts.on("autocommit"):
        return None
    return Found(
        evidence="autocommit is OFF for all: a client that only reads, and never commits, keeps a snapshot for hours.",
        settings={"autocommit": "ON"},
    )


def _long(facts: Facts) -> Found | None:
    long = sorted((each for each in facts.transactions if each.age_s >= _LONG_S), key=lambda one: -one.age_s)
    if not long:
        return None
    named = [f"{each.thread or '0 (no connection)'} for {each.age_s:,} s, {each.rows_modified:,} rows changed" for each in long]
    prepared = "" if all(each.thread for each in long) else " XA COMMIT or XA ROLLBACK ends one that XA RECOVER lists."
    return Found(evidence=f"Open in InnoDB: {listed(named, 'thread')}.{prepared}", statements=_ends(long))


def _ends(transactions: Iterable[Transaction]) -> tuple[str, ...]:
    """What ends a connection's, and what lists those without one, of which XA ROLLBACK or XA COMMIT ends each."""
    return tuple(dict.fromkeys(f"KILL {each.thread}" if each.thread else "XA RECOVER" for each in transactions))


def _history(facts: Facts) -> Found | None:
    length = facts.metrics.get("trx_rseg_history_len", 0)
    if length < _LONG_HISTORY:
        return None
    told = f"{length:,} old versions wait for purge."
    if threads := [each for each in facts.transactions if each.age_s >= _LONG_S]:
        return Found(evidence=f"{told} A long transaction holds it back.", statements=_ends(threads))
    now = facts.number("innodb_purge_threads")
    more = min(_MOST_PURGE_THREADS, max(4, 2 * now))
    return Found(
        evidence=f"{told} No long transaction holds it back; there are {now} purge threads.",
        settings={"innodb_purge_threads": str(more)} if more > now else {},
    )


_MANUAL = "MySQL manual: Transaction Isolation Levels"
RULES: tuple[Rule, ...] = (
    Rule(
        id="isolation-serializable",
        title="Every read in a transaction takes locks",
        cause="transactions",
        severity="warning",
        source=_MANUAL,
        condition=_serializable,
        effect="Reads wait for nobody, and nobody for them.",
        risk="An application may rely on it: it sets the level in its own session then.",
        provable=True,
    ),
    Rule(
        id="isolation-read-uncommitted",
        title="Statements read what may be rolled back",
        cause="transactions",
        severity="warning",
        source=_MANUAL,
        condition=_uncommitted,
        effect="Only committed rows are read; that costs next to nothing more.",
        risk="None that is known.",
        provable=True,
    ),
    Rule(
        id="autocommit-off",
        title="No statement commits by itself",
        cause="transactions",
        severity="warning",
        source="MySQL manual: autocommit, Commit, and Rollback",
        variables=("autocommit",),
        condition=_autocommit,
        effect="Clients that only read hold no snapshot, and purge goes on.",
        risk="An application may rely on it: it sets autocommit in its own session then.",
    ),
    Rule(
        id="long-transaction",
        title="A transaction has been open for long",
        cause="transactions",
        severity="warning",
        source="MySQL manual: InnoDB Multi-Versioning",
        needs=("transactions",),
        condition=_long,
        effect="Purge goes on, and its locks are free.",
        risk="It is rolled back, which may take as long as it worked. Ask its owner first.",
    ),
    Rule(
        id="history-long",
        title="Purge lags behind",
        cause="transactions",
        severity="warning",
        source="MySQL manual: Purge Configuration",
        variables=("innodb_purge_threads",),
        needs=("metrics", "transactions"),
        condition=_history,
        effect="Reads walk past fewer old versions, and undo logs shrink.",
        risk="Purge takes CPU time and I/O meanwhile.",
    ),
)
