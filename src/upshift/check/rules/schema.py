"""Tables and indexes."""

from __future__ import annotations

import re
from collections import Counter

from upshift.check.model import Column, Facts, Found, Table
from upshift.check.rule import Rule
from upshift.check.rules.words import GIB, invisible_counter, listed, name_of, share, size, tables_named, text_of

_NEAR_END = 0.75
_LARGEST = {"tinyint": 2**7 - 1, "smallint": 2**15 - 1, "mediumint": 2**23 - 1, "int": 2**31 - 1, "bigint": 2**63 - 1}
_NEXT = {"tinyint": "INT", "smallint": "INT", "mediumint": "INT", "int": "BIGINT"}


def largest(kind: str) -> int | None:
    """The largest value of an integer column's type; None for another type."""
    found = re.match(r"(\w+)", kind)
    most = _LARGEST.get(found[1].lower()) if found else None
    return most and (2 * most + 1 if "unsigned" in kind.lower() else most)


def _myisam(facts: Facts) -> Found | None:
    return _rebuild(
        [each for each in facts.tables if each.engine == "MyISAM"], "ENGINE=InnoDB", "a crash may damage what MyISAM writes"
    )


def _old_format(facts: Facts) -> Found | None:
    old = [each for each in facts.tables if each.engine == "InnoDB" and each.row_format in ("REDUNDANT", "COMPACT")]
    return _rebuild(old, "ROW_FORMAT=DYNAMIC", "rows of an old format")


def _compressed(facts: Facts) -> Found | None:
    old = [each for each in facts.tables if each.engine == "InnoDB" and each.row_format == "COMPRESSED"]
    return _rebuild(old, "ROW_FORMAT=DYNAMIC KEY_BLOCK_SIZE=0", "compressed page by page")


def _rebuild(tables: list[Table], change: str, what: str) -> Found | None:
    if not tables:
        return None
    return Found(
        evidence=f"{tables_named(tables)}: {what}.",
        statements=tuple(f"ALTER TABLE {name_of(each.schema_name, each.name)} {change}" for each in tables),
    )


def _auto_increment(facts: Facts) -> Found | None:
    counting = {(each.schema_name, each.table): each for each in facts.columns if each.counts}
    named, statements, unkept = [], [], []
    for table in facts.tables:
        column = counting.get((table.schema_name, table.name))
        most = largest(column.type) if column else None
        if not column or not most or not table.auto_increment or table.auto_increment < _NEAR_END * most:
            continue
        named.append(f"{table.schema_name}.{table.name}.{column.name} ({column.type}) at {share(table.auto_increment, most)}")
        if not (wider := _wider(column.type)):
            continue
        if (rest := _rest(column, facts)) is None:
            unkept.append(f"{table.schema_name}.{table.name}.{column.name}")
            continue
        statements.append(
            f"ALTER TABLE {name_of(table.schema_name, table.name)} MODIFY {name_of(column.name)} {wider} NOT NULL {rest}"
        )
    if not named:
        return None
    told = f"{listed(named, 'counter')}."
    if unkept:
        told += f" MODIFY takes the whole definition: take that of {', '.join(unkept)} from SHOW CREATE TABLE."
    return Found(evidence=told, statements=tuple(statements))


def _wider(kind: str) -> str:
    """The next larger type for a column of this one; empty for the largest."""
    found = re.match(r"(\w+)(\(\d+\))?(.*)", kind.lower())
    wider = _NEXT.get(found[1]) if found else None
    if found is None or wider is None:
        return ""
    # Zeros are added up to the display width, which nothing else shows.
    width = found[2] or "" if "zerofill" in found[3] else ""
    return f"{wider}{width}{found[3].upper()}"


def _rest(column: Column, facts: Facts) -> str | None:
    """What a counter's definition has behind its type, which MODIFY removes unless it is said again; None where it has more
    than is known here."""
    words = set(re.findall(r"\w+", column.extra.upper()))
    if words - {"AUTO_INCREMENT", "INVISIBLE"} or not column.comment.isprintable():
        return None
    counts = invisible_counter(facts.family) if "INVISIBLE" in words else "AUTO_INCREMENT"
    return f"{counts} COMMENT {text_of(column.comment, facts)}" if column.comment else counts


def _file_per_table(facts: Facts) -> Found | None:
    if facts.on("innodb_file_per_table"):
        return None
    return Found(
        evidence="innodb_file_per_table is OFF: what tables free stays in the system tablespace for good.",
        settings={"innodb_file_per_table": "ON"},
    )


def _hollow(facts: Facts) -> Found | None:
    # Tables of a shared tablespace all show its free space, which rebuilding them does not give back.
    showing = Counter(each.free_bytes for each in facts.tables)
    hollow = [
        each
        for each in facts.tables
        if each.engine == "InnoDB"
        and each.free_bytes > max(GIB, each.data_bytes + each.index_bytes)
        and showing[each.free_bytes] == 1
    ]
    if not hollow:
        return None
    free = sum(each.free_bytes for each in hollow)
    return Found(
        evidence=f"{size(free)} are empty in {tables_named(hollow)}.",
        statements=tuple(f"OPTIMIZE TABLE {name_of(each.schema_name, each.name)}" for each in hollow),
    )


RULES: tuple[Rule, ...] = (
    Rule(
        id="auto-increment-near-end",
        title="Counters of rows are near their type's end",
        cause="schema",
        severity="error",
        source="MySQL manual: Using AUTO_INCREMENT",
        needs=("tables", "columns"),
        condition=_auto_increment,
        effect="INSERTs do not end with error 1062 or 1467.",
        risk="The table is rebuilt. Columns that refer to it, and the application's own types, need the same.",
    ),
    Rule(
        id="myisam-tables",
        title="Tables without transactions",
        cause="schema",
        severity="warning",
        source="MySQL manual: Converting Tables from MyISAM to InnoDB",
        needs=("tables",),
        condition=_myisam,
        effect="Row locks in place of table locks, transactions, recovery after a crash.",
        risk="The table is locked and rebuilt, and takes more room; COUNT(*) without WHERE reads it.",
    ),
    Rule(
        id="row-format-old",
        title="Rows of an old format",
        cause="schema",
        severity="note",
        source="MySQL manual: InnoDB Row Formats",
        needs=("tables",),
        condition=_old_format,
        effect="Long columns lie outside of the row whole; index prefixes may have 3,072 bytes.",
        risk="The table is rebuilt.",
    ),
    Rule(
        id="row-format-compressed",
        title="Tables that are compressed page by page",
        cause="schema",
        severity="note",
        source="MySQL manual: InnoDB Table Compression",
        needs=("tables",),
        condition=_compressed,
        effect="A page lies in the buffer pool once, and no thread packs and unpacks it.",
        risk="The table takes more room on the disk, and is rebuilt.",
    ),
    Rule(
        id="file-per-table-off",
        title="Tables share one file that never shrinks",
        cause="schema",
        severity="warning",
        source="MySQL manual: File-Per-Table Tablespaces",
        variables=("innodb_file_per_table",),
        condition=_file_per_table,
        effect="A table that is dropped or rebuilt gives its room back.",
        risk="It holds for new tables: rebuild the others.",
    ),
    Rule(
        id="table-mostly-free",
        title="Tables that are mostly empty space",
        cause="schema",
        severity="note",
        source="MySQL manual: OPTIMIZE TABLE Statement",
        needs=("tables",),
        condition=_hollow,
        effect="The file shrinks, and scans read fewer pages.",
        risk="The table is rebuilt, and needs its size on the disk again meanwhile.",
    ),
)
