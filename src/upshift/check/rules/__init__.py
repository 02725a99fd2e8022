"""All rules, in the order of their causes."""

from __future__ import annotations

from upshift.check.rule import Rule
from upshift.check.rules import durability, memory

RULES: tuple[Rule, ...] = (
    *memory.RULES,
    *durability.RULES,
)
