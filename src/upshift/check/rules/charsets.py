"""Character sets."""

from __future__ import annotations

from upshift.check.model import Column, Facts, Found
from upshift.check.rule import Rule
from upshift.check.rules.words import listed, name_of

_OLD = ("utf8mb3", "utf8", "latin1", "ucs2")


def _server(facts: Facts) -> Found | None:
    now = facts.text("character_set_server")
    if now not in _OLD:
        return None
    collation = "utf8mb4_0900_ai_ci" if facts.family == "mysql" else "utf8mb4_unicode_ci"
    return Found(
        evidence=f"character_set_server is {now}: new tables have it unless they say otherwise.",
        settings={"character_set_server": "utf8mb4", "collation_server": collation},
    )


def _utf8mb3(facts: Facts) -> Found | None:
    tables = sorted({(each.schema_name, each.table) for each in facts.columns if each.charset in ("utf8mb3", "utf8")})
    if not tables:
        return None
    return Found(
        evidence=f"utf8mb3 is in {listed(['.'.join(each) for each in tables], 'table')}.",
        statements=tuple(f"ALTER TABLE {name_of(*each)} CONVERT TO CHARACTER SET utf8mb4" for each in tables),
    )


def _mixed(facts: Facts) -> Found | None:
    """Columns of one name that have an index, in tables of one schema: the way in which joins are written."""
    indexed = {(each.schema_name, each.table, part.name) for each in facts.indexes for part in each.columns[:1]}
    named: dict[tuple[str, str], list[Column]] = {}
    for column in facts.columns:
        if column.charset and (column.schema_name, column.table, column.name) in indexed:
            named.setdefault((column.schema_name, column.name), []).append(column)
    mixed = {key: columns for key, columns in named.items() if len({each.charset for each in columns}) > 1}
    if not mixed:
        return None
    told = [
        f"{schema}.{name} is {', '.join(sorted(f'{each.charset} in {each.table}' for each in columns))}"
        for (schema, name), columns in sorted(mixed.items())
    ]
    tables = sorted(
        {(each.schema_name, each.table) for columns in mixed.values() for each in columns if each.charset != "utf8mb4"}
    )
    return Found(
        evidence=f"{listed(told, 'column')}.",
        statements=tuple(f"ALTER TABLE {name_of(*each)} CONVERT TO CHARACTER SET utf8mb4" for each in tables),
    )


_RISK = (
    "The table is rebuilt. Columns may become another type to hold the same number of characters, and key prefixes too long. "
    "All text columns get the default collation: add COLLATE where comparisons, unique keys or foreign keys need another."
)
RULES: tuple[Rule, ...] = (
    Rule(
        id="charset-mixed",
        title="Indexed columns of one name have different character sets",
        cause="character sets",
        severity="warning",
        source="MySQL manual: How MySQL Uses Indexes",
        needs=("columns", "indexes"),
        condition=_mixed,
        effect="A join on them uses the index: it compares without converting one side.",
        risk=_RISK,
    ),
    Rule(
        id="charset-server-old",
        title="New tables get an old character set",
        cause="character sets",
        severity="warning",
        source="MySQL manual: Server Character Set and Collation",
        variables=("character_set_server",),
        condition=_server,
        effect="New tables hold every character, and join with others by their indexes.",
        risk="It holds for new databases: ALTER DATABASE changes those that are there.",
    ),
    Rule(
        id="charset-utf8mb3",
        title="Columns in utf8mb3",
        cause="character sets",
        severity="note",
        source="MySQL manual: Converting Between 3-Byte and 4-Byte Unicode Character Sets",
        needs=("columns",),
        condition=_utf8mb3,
        effect="Every character has room. utf8mb3 is deprecated.",
        risk=_RISK,
    ),
)
