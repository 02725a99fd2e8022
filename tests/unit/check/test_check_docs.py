"""docs/reference/check.md has a row for each rule as it is, and every key of the report."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import get_args

from upshift.check.address import PASSWORD
from upshift.check.gather import _OLDEST
from upshift.check.model import SEVERITIES, Finding, NotJudged, Passed, Report, Section
from upshift.check.rule import ENOUGH_STATEMENTS, Rule
from upshift.check.rules import RULES
from upshift.check.session import LOCK_WAIT_S, STATEMENT_S
from upshift.door import OLDEST_MYSQL
from upshift.paths import CHECKOUT

PAGE = (CHECKOUT / "docs" / "reference" / "check.md").read_text()
NEEDS = {"traffic": "load", "day": "a day"}
NAMES = {"mysql": "MySQL", "mariadb": "MariaDB"}


def rows() -> Iterator[str]:
    yield "| cause | rule | what it finds | severity | needs | measured | source |"
    yield "|---|---|---|---|---|---|---|"
    cause = ""
    for rule in RULES:
        first = "" if rule.cause == cause else rule.cause
        cause = rule.cause
        measured = "yes" if rule.provable else ""
        cells = (first, f"`{rule.id}`", rule.title, rule.severity, _needs(rule), measured, rule.source)
        yield f"| {' | '.join(cells)} |"


def _needs(rule: Rule) -> str:
    family = [] if len(rule.families) > 1 else [NAMES[rule.families[0]]]
    return ", ".join([*family, *(NEEDS.get(each, each) for each in rule.needs)])


def test_the_table_of_rules_is_that_of_the_code() -> None:
    table = re.search(r"<!-- rules -->\n(.*)<!-- end -->", PAGE, re.S)
    assert table
    assert table[1].splitlines() == list(rows())


def test_every_key_is_named() -> None:
    words = set(re.findall(r"`([\w ]+)(?:\[\])?`", PAGE))
    for model in (Report, Finding, Passed, NotJudged):
        assert set(model.model_fields) <= words, model
    assert {*get_args(Section), *SEVERITIES, PASSWORD} <= words


def test_the_limits_are_those_of_the_code() -> None:
    for said in (f"{ENOUGH_STATEMENTS:,} statements", f"longer than {STATEMENT_S} s", f"longer than {LOCK_WAIT_S} s"):
        assert said in PAGE
    measured = ".".join(map(str, OLDEST_MYSQL))
    assert f"works for MySQL {measured} and newer" in PAGE and f"MySQL before {measured} |" in PAGE
    assert all(f"({version[0]}.{version[1]} or newer)" in PAGE for version in _OLDEST.values())
