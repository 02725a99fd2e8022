"""MySQL's EXPLAIN FORMAT=TREE and EXPLAIN ANALYZE."""

from __future__ import annotations

import re
from typing import NamedTuple

from upshift.stack.plans import mysql_words
from upshift.stack.plans.members import DEEPEST, PlanUnreadable, number, too_deep
from upshift.stack.plans.model import Node

_LINE = re.compile(r"( *)-> (.*)", re.S)
_FIGURE = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_COST = re.compile(rf"\s+\(cost=({_FIGURE})(?:\.\.({_FIGURE}))? rows=({_FIGURE})\)(?=\s|$)")
_ACTUAL = re.compile(rf"\s+\(actual time=({_FIGURE})\.\.({_FIGURE}) rows=({_FIGURE}) loops=(\d+)\)$")
_NEVER = re.compile(r"\s+\(never executed\)$")


class _Line(NamedTuple):
    depth: int
    said: str
    known: dict[str, float | None]


def parse_mysql_tree(answer: str) -> Node:
    """The canonical tree. Raises PlanUnreadable where the text is none of MySQL's."""
    lines: list[_Line] = []
    for each in answer.splitlines():
        if found := _LINE.fullmatch(each):
            lines.append(_line(len(found[1]), found[2]))
        elif lines and each.strip():
            # A literal with a line feed goes on in the next line.
            lines[-1] = _line(lines[-1].depth, f"{lines[-1].said}\n{each}")
    if not lines:
        raise PlanUnreadable("no step in the server's answer begins with '->'", "the answer of EXPLAIN FORMAT=TREE is needed")
    if len({line.depth for line in lines}) > DEEPEST:
        raise too_deep()
    made = _children(lines)
    if not made:
        raise PlanUnreadable("the server's answer has headings alone", "the answer of EXPLAIN FORMAT=TREE is needed")
    return made[0] if len(made) == 1 else made[0].model_copy(update={"children": (*made[0].children, *made[1:])})


def _line(depth: int, said: str) -> _Line:
    known: dict[str, float | None] = {}
    if actual := _ACTUAL.search(said):
        known = {"total_ms": number(actual[2]), "actual_rows": number(actual[3]), "loops": number(actual[4])}
        said = said[: actual.start()]
    elif never := _NEVER.search(said):
        known, said = {"loops": 0.0}, said[: never.start()]
    costs = list(_COST.finditer(said))
    if costs:
        known |= {"estimated_cost": number(costs[-1][2] or costs[-1][1]), "estimated_rows": number(costs[-1][3])}
        said = said[: costs[-1].start()]
    return _Line(depth, said.rstrip(), known)


def _children(lines: list[_Line]) -> list[Node]:
    """The steps at the first line's depth, each with what is indented below it."""
    made: list[Node] = []
    at = 0
    while at < len(lines):
        end = at + 1
        while end < len(lines) and lines[end].depth > lines[at].depth:
            end += 1
        below = tuple(_children(lines[at + 1 : end]))
        said = lines[at].said
        if not mysql_words.is_heading(said):
            made.append(mysql_words.node(said, below, **lines[at].known))
        elif said.startswith("Select #"):
            made.append(mysql_words.subquery(said, below))
        else:
            made.extend(below)
        at = end
    return made
