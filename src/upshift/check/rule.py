"""What a rule is: data, and one pure condition. ``judge`` is the one place where rules meet facts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from upshift.check.model import (
    BY_COMMAND_LINE,
    BY_PERSIST,
    SEVERITIES,
    Cause,
    Facts,
    Family,
    Finding,
    Found,
    NothingKnown,
    NotJudged,
    Passed,
    Report,
    Section,
    Severity,
)
from upshift.door import OLDEST_MYSQL

Need = Section | Literal["traffic", "day"]
BOTH: tuple[Family, ...] = ("mysql", "mariadb")

ENOUGH_S = 3600
DAY_S = 86_400
ENOUGH_STATEMENTS = 10_000
"""Status counters of less than an hour or ten thousand statements speak of the start, not of the load."""
_OF_TABLES = {"tables", "indexes", "columns"}
"""Needs of which a login sees its own part: to find nothing there says nothing of the others."""
_BITS = {"K": 10, "M": 20, "G": 30, "T": 40}


@dataclass(frozen=True)
class Rule:
    """One thing that may be wrong."""

    id: str
    title: str
    cause: Cause
    severity: Severity
    source: str
    """A chapter of a manual, or a file of MySQL 9.7's source, that says so."""
    condition: Callable[[Facts], Found | None]
    """Called only where ``variables`` exist and ``needs`` were seen. May raise NothingKnown."""
    effect: str
    risk: str
    variables: tuple[str, ...] = ()
    needs: tuple[Need, ...] = ()
    families: tuple[Family, ...] = BOTH
    since: tuple[int, int, int] = (0, 0, 0)
    """The first version, of each family that it holds for."""
    provable: bool = field(default=False)
    """Whether ``--prove`` can measure its fix on a server that Upshift starts: settings that change what a load costs."""

    def holds_for(self, facts: Facts) -> bool:
        known = all(name in facts.variables for name in self.variables)
        return known and facts.family in self.families and facts.version >= self.since


def judge(facts: Facts, rules: Iterable[Rule], *, server: str, ignored: tuple[str, ...] = ()) -> Report:
    """The rules, applied. A rule for another server says nothing at all."""
    findings: list[Finding] = []
    well: list[Passed] = []
    not_judged: list[NotJudged] = []
    for rule in rules:
        if not rule.holds_for(facts):
            continue
        if why := _unknown(rule, facts):
            not_judged.append(NotJudged(id=rule.id, title=rule.title, why=why))
            continue
        try:
            found = rule.condition(facts)
        except ValueError as error:  # one odd variable, of a fork perhaps, takes no other rule with it
            why = f"a variable is not the number that it is in MySQL and MariaDB: {error}"
            not_judged.append(NotJudged(id=rule.id, title=rule.title, why=why))
            continue
        except NothingKnown as unknown:
            not_judged.append(NotJudged(id=rule.id, title=rule.title, why=str(unknown)))
            continue
        if found:
            findings.append(_finding(rule, found, facts))
        elif "all tables" in facts.unseen and _OF_TABLES.intersection(rule.needs):
            not_judged.append(NotJudged(id=rule.id, title=rule.title, why=facts.unseen["all tables"]))
        else:
            well.append(Passed(id=rule.id, title=rule.title))
    return Report(
        server=server,
        family=facts.family,
        version=facts.version_text,
        uptime_s=facts.counted("uptime"),
        on_this_machine=facts.host is not None,
        findings=tuple(sorted(findings, key=lambda one: SEVERITIES.index(one.severity))),
        well=tuple(well),
        not_judged=tuple(not_judged),
        unseen=facts.unseen,
        ignored=ignored,
    )


def can_measure(facts: Facts) -> bool:
    """Whether Upshift starts such a server."""
    return facts.family == "mysql" and facts.version >= OLDEST_MYSQL


def _unknown(rule: Rule, facts: Facts) -> str:
    """Why the rule cannot be judged; empty when it can."""
    for need in rule.needs:
        if need == "traffic":
            if why := too_little_traffic(facts):
                return why
        elif need == "day":
            if facts.counted("uptime") < DAY_S:
                return f"the server is up for {facts.counted('uptime'):,} s; a day is the least that shows what is read"
        elif need in facts.unseen:
            return facts.unseen[need]
    return ""


def too_little_traffic(facts: Facts) -> str:
    up, statements = facts.counted_s, facts.counted("questions")
    if up < ENOUGH_S:
        return f"the counters cover {up:,} s; an hour is the least that says something of the load"
    if statements < ENOUGH_STATEMENTS:
        return f"the counters cover {statements:,} statements; {ENOUGH_STATEMENTS:,} are the least"
    return ""


def _finding(rule: Rule, found: Found, facts: Facts) -> Finding:
    now = {**{name: facts.variables[name] for name in found.settings if name in facts.variables}, **found.now}
    where = "".join(_origin(name, facts.origins[name]) for name in found.settings if facts.origins.get(name))
    persisted = {name: value for name, value in found.settings.items() if facts.origins.get(name) == BY_PERSIST}
    return Finding(
        id=rule.id,
        title=rule.title,
        cause=rule.cause,
        severity=rule.severity,
        evidence=found.evidence + where,
        my_cnf=tuple(f"{name} = {value}" for name, value in found.settings.items() if name not in persisted),
        sql=(*found.statements, *(f"SET PERSIST_ONLY {name} = {_literal(value)}" for name, value in persisted.items())),
        shell=found.commands,
        effect=rule.effect,
        risk=rule.risk,
        source=rule.source,
        provable=rule.provable and bool(found.settings) and can_measure(facts),
        settings_now=now,
        settings_then=dict(found.settings),
        settings_beside={name: facts.variables[name] for name in found.beside if name in facts.variables},
    )


def _origin(name: str, origin: str) -> str:
    """Where a setting comes from, as a sentence, and what must change where my.cnf would not do."""
    if origin == BY_PERSIST:
        return f" {name} is persisted: mysqld-auto.cnf overrides my.cnf."
    if origin == BY_COMMAND_LINE:
        return f" {name} comes from {origin}, which overrides my.cnf: change the options of the service that starts the server."
    return f" {name} comes from {origin}."


def _literal(value: str) -> str:
    """A value of my.cnf as SET takes it: sizes in bytes, words in quotes."""
    if sized := re.fullmatch(r"(\d+)([KMGT])", value):
        return str(int(sized[1]) << _BITS[sized[2]])
    return value if re.fullmatch(r"-?\d+(\.\d+)?", value) else f"'{value}'"
