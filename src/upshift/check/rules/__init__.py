"""All rules, in the order of their causes."""

from __future__ import annotations

from upshift.check.rule import Rule
from upshift.check.rules import (
    buffers,
    caches,
    charsets,
    connections,
    disk,
    durability,
    indexes,
    memory,
    observation,
    schema,
    statistics,
    temporary,
    text,
    transactions,
)

RULES: tuple[Rule, ...] = tuple(
    rule
    for module in (
        *(memory, text, buffers, durability, disk, connections, temporary, caches),
        *(schema, indexes, statistics, charsets, transactions, observation),
    )
    for rule in module.RULES
)
