"""A plan as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from upshift.stack.plans.model import Node


def lines(tree: Node, depth: int = 0) -> Iterator[str]:
    """A line for each step, its children indented below it."""
    yield "  " * depth + _step(tree)
    for child in tree.children:
        yield from lines(child, depth + 1)


def _step(node: Node) -> str:
    said = [_what(node)]
    if node.bounds:
        said.append(f"[{', '.join(node.bounds)}]")
    if node.index_filter:
        said.append(f"index filter {node.index_filter}")
    if node.filter:
        said.append(f"filter {node.filter}")
    if figures := _rows(node):
        said.append(figures)
    return "; ".join(said)


def _what(node: Node) -> str:
    if node.operation == "access":
        name = node.name if node.table in (None, node.name) else f"{node.table} {node.name}"
        using = f" using {node.index}" if node.index else ""
        return f"{node.access} {name}{using}{' (covering)' if node.covering else ''}"
    if node.join:
        return f"{node.join.method} {node.join.kind} join"
    if node.sort:
        disk = {None: "", True: ", on disk", False: ", in memory"}[node.sort.on_disk]
        return f"sort by {', '.join(node.sort.keys) or '?'}{disk}"
    if node.limit is not None:
        return f"limit {node.limit}"
    if node.access == "none":
        return f"no table{f': {node.said}' if node.said else ''}"
    kept = " in a temporary table" if node.temporary else ""
    disk = ", on disk" if node.temporary_on_disk else ""
    named = f" {node.table}" if node.table else ""
    return f"{node.operation}{named}{kept}{disk}"


def _rows(node: Node) -> str:
    if node.loops == 0:
        # MariaDB has read it while it planned.
        return "const" if node.access == "const" and node.actual_rows is None else "never executed"
    if node.loops is not None and node.actual_rows is not None:
        of = f" of {_figure(node.actual_read)}" if node.actual_read not in (None, node.actual_rows) else ""
        times = f" x {_figure(node.loops)}" if node.loops != 1 else ""
        estimated = f" (estimated {_figure(node.estimated_rows)})" if node.estimated_rows is not None else ""
        return f"{_figure(node.actual_rows)}{of} rows{times}{estimated}"
    if node.estimated_rows is None:
        return ""
    of = f" of {_figure(node.estimated_read)}" if node.estimated_read not in (None, node.estimated_rows) else ""
    return f"estimated {_figure(node.estimated_rows)}{of} rows"


def _figure(value: float | None) -> str:
    if value is None:
        return "?"
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"
