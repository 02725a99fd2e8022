"""MySQL's plan from both of its JSON versions: version 2 has ranges and figures, version 1 the tables that are read beforehand.

The iterator executor that version 2 shows has no step for a table of which at most one row fits constants: the optimizer has
read it already. It has no steps for UPDATE and DELETE either.
"""

from __future__ import annotations

from collections.abc import Mapping

from upshift.stack.plans.model import Join, Node, accesses, nodes
from upshift.stack.plans.mysql_words import COUNTS


def joined(steps: Node, version1: Node) -> Node:
    """The steps of version 2 or of FORMAT=TREE, with what only version 1 tells."""
    if steps.operation == "other" and not steps.children:
        return version1
    executed = any(each.loops is not None for each in nodes(steps))
    seen = {each.name for each in accesses(steps)}
    known = {each.name: each.table for each in accesses(steps)}
    steps = _with_counts(steps, {each.name: each for each in accesses(version1)})
    missing = [
        each.model_copy(update={"loops": 1.0 if executed else None, "table": known.get(each.name, each.table)})
        for each in accesses(version1)
        if each.access == "const" and each.name not in seen
    ]
    for const in reversed(missing):
        steps = _before(const, steps)
    return steps


def _with_counts(steps: Node, version1: Mapping[str, Node]) -> Node:
    """The index of a table whose rows are only counted, and the rows that are read for that: the steps have neither."""
    told = version1.get(steps.name) if steps.said.startswith(COUNTS) else None
    more = {name: getattr(told, name) for name in ("index", "covering", "estimated_read", "estimated_rows")} if told else {}
    return steps.model_copy(update={**more, "children": tuple(_with_counts(each, version1) for each in steps.children)})


def _before(const: Node, steps: Node) -> Node:
    """The const table read before the first access to a table, below whatever works on the rows of the join."""
    if steps.access == "none" and not steps.children:
        return const
    first = steps.children[0] if steps.children else None
    works_on_rows = steps.operation not in ("access", "join") or steps.access == "intermediate"
    if first is not None and works_on_rows:
        return steps.model_copy(update={"children": (_before(const, first), *steps.children[1:])})
    kept = ("estimated_rows", "actual_rows", "loops")
    return Node(
        operation="join",
        said="constant table",
        join=Join(kind="inner", method="nested_loop"),
        children=(const, steps),
        **{name: getattr(steps, name) for name in kept},
    )
