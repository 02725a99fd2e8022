"""Indexes, and tables that lack one."""

from __future__ import annotations

from collections.abc import Iterator

from upshift.check.model import Column, Facts, Found, Index, Table
from upshift.check.rule import DAY_S, Rule
from upshift.check.rules.words import invisible_counter, listed, name_of, tables_named


def of_table(facts: Facts) -> dict[tuple[str, str], list[Index]]:
    found: dict[tuple[str, str], list[Index]] = {}
    for each in facts.indexes:
        found.setdefault((each.schema_name, each.table), []).append(each)
    return found


def _no_key(facts: Facts) -> Found | None:
    indexes, counting = of_table(facts), {(each.schema_name, each.table): each for each in facts.columns if each.counts}
    bare = [
        table
        for table in facts.tables
        if table.engine == "InnoDB"
        and not any(
            index.unique and all(part.name and not part.nullable and part.prefix is None for part in index.columns)
            for index in indexes.get((table.schema_name, table.name), [])
        )
    ]
    if not bare:
        return None
    whole, partitioned = ([each for each in bare if each.partitioned is parted] for parted in (False, True))
    told = f"InnoDB keeps a hidden key for {tables_named(bare)}."
    if partitioned:
        names = [f"{each.schema_name}.{each.name}" for each in partitioned]
        told += f" A key must have all partitioning columns, so choose it by hand, in {listed(names, 'partitioned table')}."
    return Found(
        evidence=told,
        statements=tuple(_key_for(facts, table, counting.get((table.schema_name, table.name))) for table in whole),
    )


def _key_for(facts: Facts, table: Table, counting: Column | None) -> str:
    named = name_of(table.schema_name, table.name)
    if counting:
        return f"ALTER TABLE {named} ADD PRIMARY KEY ({name_of(counting.name)})"
    invisible = facts.family == "mariadb" or facts.version >= (8, 0, 23)
    counts = invisible_counter(facts.family) if invisible else "AUTO_INCREMENT"
    return f"ALTER TABLE {named} ADD COLUMN my_row_id BIGINT UNSIGNED NOT NULL {counts} PRIMARY KEY"


def _comparable(index: Index) -> bool:
    return index.kind == "BTREE" and index.visible and all(part.name for part in index.columns)


def _parts(index: Index) -> tuple[tuple[str, int | None, bool], ...]:
    return tuple((part.name.lower(), part.prefix, part.descending) for part in index.columns)


def duplicates(facts: Facts) -> Iterator[tuple[Index, Index]]:
    """Indexes that may go, each with one of the same columns that stays."""
    for indexes in of_table(facts).values():
        kept: dict[tuple[tuple[str, int | None, bool], ...], Index] = {}
        # A primary key stays, then a unique index: it is a rule for the data, too.
        for index in sorted(filter(_comparable, indexes), key=lambda one: (not one.primary, not one.unique, one.name)):
            if (first := kept.setdefault(_parts(index), index)) is not index:
                yield index, first


def _duplicate(facts: Facts) -> Found | None:
    found = list(duplicates(facts))
    if not found:
        return None
    named = [f"{gone.schema_name}.{gone.table}: {gone.name} has the columns of {kept.name}" for gone, kept in found]
    return Found(evidence=f"{listed(named, 'index')}.", statements=tuple(_drop(gone) for gone, _kept in found))


def redundant(facts: Facts) -> Iterator[tuple[Index, Index]]:
    """Indexes that may go beside duplicates, each with one that begins with its columns and stays."""
    gone = {_identity(each) for each, _kept in duplicates(facts)}
    for indexes in of_table(facts).values():
        able = [each for each in indexes if _comparable(each) and _identity(each) not in gone]
        for index in able:
            mine = _parts(index)
            longer = [each for each in able if len(each.columns) > len(mine) and _parts(each)[: len(mine)] == mine]
            if longer and not index.unique:
                yield index, max(longer, key=lambda each: len(each.columns))


def _identity(index: Index) -> tuple[str, str, str]:
    return index.schema_name, index.table, index.name


def _redundant(facts: Facts) -> Found | None:
    found = list(redundant(facts))
    if not found:
        return None
    named = [f"{short.schema_name}.{short.table}: {short.name} begins {long.name}" for short, long in found]
    return Found(evidence=f"{listed(named, 'index')}.", statements=tuple(_drop(short) for short, _long in found))


def _drop(index: Index) -> str:
    return f"ALTER TABLE {name_of(index.schema_name, index.table)} DROP INDEX {name_of(index.name)}"


def _unused(facts: Facts) -> Found | None:
    reads = {(each.schema_name, each.table, each.index): each.reads for each in facts.index_use}
    busy = {(schema, table) for (schema, table, _index), count in reads.items() if count}
    held = set(facts.references)
    # Who reads by the index that goes will read by the one that stays, which may have no reads of its own yet.
    spoken_for = {_identity(each) for pair in (*duplicates(facts), *redundant(facts)) for each in pair}
    idle = [
        index
        for index in facts.indexes
        if reads.get(_identity(index)) == 0
        and (index.schema_name, index.table) in busy
        and not index.unique
        and index.visible
        and index.kind != "FULLTEXT"  # its reads are not counted (handler::ha_ft_read)
        and (index.schema_name, index.table, index.columns[0].name) not in held
        and _identity(index) not in spoken_for
    ]
    if not idle:
        return None
    days = facts.counted("uptime") / DAY_S
    named = [f"{each.schema_name}.{each.table}.{each.name}" for each in idle]
    told = f"Nobody read {listed(named, 'index')}, in {days:.0f} days, though their tables were read."
    if facts.family == "mariadb" and facts.version < (10, 6, 0):
        return Found(evidence=f"{told} MariaDB hides no index before 10.6: only DROP INDEX shows who needs one.")
    return Found(evidence=told, statements=tuple(_hide(facts, each) for each in idle))


def _hide(facts: Facts, index: Index) -> str:
    hidden = "INVISIBLE" if facts.family == "mysql" else "IGNORED"
    return f"ALTER TABLE {name_of(index.schema_name, index.table)} ALTER INDEX {name_of(index.name)} {hidden}"


RULES: tuple[Rule, ...] = (
    Rule(
        id="no-primary-key",
        title="InnoDB tables without a primary key",
        cause="schema",
        severity="warning",
        source="MySQL manual: Clustered and Secondary Indexes",
        needs=("tables", "indexes", "columns"),
        condition=_no_key,
        effect="Replicas find a row without reading the table; inserts share no lock for a hidden key.",
        risk=(
            "The table is rebuilt. An AUTO_INCREMENT column without a unique key may hold a number twice: the statement then "
            "fails with error 1062, and changes nothing. A key of the application's own is better than a hidden column. Before "
            "MySQL 8.0.23 the column is not hidden, and INSERTs without a list of columns fail."
        ),
    ),
    Rule(
        id="duplicate-index",
        title="Indexes on the same columns",
        cause="schema",
        severity="warning",
        source="MySQL manual: Optimization and Indexes",
        needs=("indexes",),
        condition=_duplicate,
        effect="Each write changes one index less, and the buffer pool has room for other pages.",
        risk="Statements that name the index in a hint fail.",
    ),
    Rule(
        id="redundant-index",
        title="Indexes that are a prefix of another",
        cause="schema",
        severity="note",
        source="MySQL manual: Multiple-Column Indexes",
        needs=("indexes",),
        condition=_redundant,
        effect="Each write changes one index less, and the buffer pool has room for other pages.",
        risk="The longer index is larger to scan, and does not sort by the primary key behind those columns.",
    ),
    Rule(
        id="unused-index",
        title="Indexes that nobody reads",
        cause="schema",
        severity="note",
        source="MySQL manual: The schema_unused_indexes View",
        needs=("traffic", "day", "indexes", "index use"),
        condition=_unused,
        effect="Each write changes one index less. Hidden first, it can be back at once; then drop it.",
        risk="A report that runs once a month may need it.",
    ),
)
