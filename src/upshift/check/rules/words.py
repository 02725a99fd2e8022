"""How rules write amounts, names and shares."""

from __future__ import annotations

from upshift.check.model import Facts, Family, Table

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
_MOST_NAMED = 5
SMALL_MEMORY_BYTES = 2 * GIB
"""With less, performance_schema may take more than it is worth."""


def amount(size_bytes: float) -> str:
    """A size as my.cnf takes it, rounded up to whole MiB: ``512M``, ``8G``."""
    mebibytes = max(1, -(-int(size_bytes) // MIB))
    return f"{mebibytes // 1024}G" if mebibytes % 1024 == 0 else f"{mebibytes}M"


def size(size_bytes: float) -> str:
    """A size for a reader."""
    for unit, name in ((1 << 40, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size_bytes >= unit:
            return f"{size_bytes / unit:.1f} {name}".replace(".0 ", " ")
    return f"{int(size_bytes)} bytes"


def share(part: float, whole: float) -> str:
    return f"{part / whole:.1%}".replace(".0%", "%") if whole else "0%"


def name_of(*parts: str) -> str:
    """An identifier as SQL takes it: ```a`.`b```."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def text_of(value: str, facts: Facts) -> str:
    """A string as SQL takes it in the server's own sql_mode."""
    if "NO_BACKSLASH_ESCAPES" not in facts.variables.get("sql_mode", ""):
        value = value.replace("\\", "\\\\")
    return "'" + value.replace("'", "''") + "'"


def invisible_counter(family: Family) -> str:
    """The attributes of a hidden AUTO_INCREMENT column, in the order that the family's SHOW CREATE TABLE has."""
    return "AUTO_INCREMENT INVISIBLE" if family == "mysql" else "INVISIBLE AUTO_INCREMENT"


def tables_named(tables: list[Table]) -> str:
    """How many there are, and the first of them."""
    return listed([f"{each.schema_name}.{each.name}" for each in tables], "table")


def listed(names: list[str], what: str) -> str:
    """``3 tables: a, b, c``."""
    many = what + ("es" if what.endswith("x") else "s")
    named = ", ".join(names[:_MOST_NAMED])
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{len(names):,} {what if len(names) == 1 else many}: {named}{more}"
