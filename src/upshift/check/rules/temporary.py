"""Temporary tables, sorts and joins."""

from __future__ import annotations

from upshift.check.model import Facts, Found
from upshift.check.rule import Rule
from upshift.check.rules.words import GIB, MIB, amount, share, size

_ON_DISK = 0.25
_MERGES = 0.1
_SOME = 1000
_MOST_OF_MEMORY = 8
"""One temporary table may take an eighth, or what is little anyway."""
_LITTLE_BYTES = 64 * MIB
_FULL_JOINS = 0.01
_ENGINE = "internal_tmp_mem_storage_engine"


def _in_memory_engine(facts: Facts) -> str:
    return facts.variables.get(_ENGINE, "MEMORY").upper()


def _pair(facts: Facts) -> Found | None:
    wanted, most = facts.number("tmp_table_size"), facts.number("max_heap_table_size")
    if facts.host:  # more would be `tmp-table-large`
        wanted = min(wanted, max(_LITTLE_BYTES, facts.host.memory_bytes // _MOST_OF_MEMORY))
    if wanted <= most or _in_memory_engine(facts) == "TEMPTABLE":
        return None
    now = facts.number("tmp_table_size")
    told = f"tmp_table_size is {size(now)}, max_heap_table_size {size(most)}: the smaller one holds."
    return Found(evidence=told, settings={"max_heap_table_size": amount(wanted)}, beside=("tmp_table_size", _ENGINE))


def _engine(facts: Facts) -> Found | None:
    if _in_memory_engine(facts) != "MEMORY":
        return None
    return Found(
        evidence="internal_tmp_mem_storage_engine is MEMORY: a VARCHAR takes its full length in each row.",
        settings={"internal_tmp_mem_storage_engine": "TempTable"},
    )


def _is_unlimited(facts: Facts) -> bool:
    """MySQL's TempTable engine knows tmp_table_size from 8.0.28 on; before, temptable_max_ram alone limits its tables."""
    return _in_memory_engine(facts) == "TEMPTABLE" and facts.version < (8, 0, 28)


def _large(facts: Facts) -> Found | None:
    assert facts.host
    if _is_unlimited(facts):
        return None
    now, memory = facts.number("tmp_table_size"), facts.host.memory_bytes
    if _in_memory_engine(facts) != "TEMPTABLE":
        now = min(now, facts.number("max_heap_table_size"))
    if now <= memory / _MOST_OF_MEMORY or now <= _LITTLE_BYTES:
        return None
    told = f"One temporary table may take {size(now)} of {size(memory)}."
    return Found(evidence=told, settings={"tmp_table_size": amount(min(_LITTLE_BYTES, memory / 64))})


def _ram(facts: Facts) -> Found | None:
    assert facts.host
    now, memory = facts.number("temptable_max_ram"), facts.host.memory_bytes
    if now <= memory / 2:
        return None
    told = f"Temporary tables together may take {size(now)} of {size(memory)}."
    return Found(evidence=told, settings={"temptable_max_ram": amount(memory / 16)})


def _on_disk(facts: Facts) -> Found | None:
    disk, all_ = facts.counted("created_tmp_disk_tables"), facts.counted("created_tmp_tables")
    # MariaDB counts all, MySQL those in memory: both are at least the ones on disk.
    if disk < _SOME or disk < _ON_DISK * max(all_, disk):
        return None
    now = facts.number("tmp_table_size")
    most = min(GIB, max(_LITTLE_BYTES, facts.host.memory_bytes / _MOST_OF_MEMORY)) if facts.host else GIB
    if 2 * now > most or _pair(facts) or _is_unlimited(facts):
        return None
    told = f"{disk:,} of {max(all_, disk):,} temporary tables went to the disk ({share(disk, max(all_, disk))})."
    double = {"tmp_table_size": amount(2 * now)}
    if facts.number("max_heap_table_size") >= 2 * now:
        return Found(evidence=told, settings=double, beside=("max_heap_table_size", _ENGINE))
    return Found(evidence=told, settings={**double, "max_heap_table_size": amount(2 * now)}, beside=(_ENGINE,))


def _merges(facts: Facts) -> Found | None:
    merges = facts.counted("sort_merge_passes")
    sorts = facts.counted("sort_scan") + facts.counted("sort_range")
    now = facts.number("sort_buffer_size")
    if merges < _SOME or merges < _MERGES * sorts or now >= 4 * MIB:
        return None
    told = f"{sorts:,} sorts needed {merges:,} merge passes with a buffer of {size(now)}."
    return Found(evidence=told, settings={"sort_buffer_size": amount(min(4 * now, 4 * MIB))})


def _joins(facts: Facts) -> Found | None:
    joins, all_ = facts.counted("select_full_join"), facts.counted("questions")
    if joins < _FULL_JOINS * all_:
        return None
    return Found(
        evidence=f"{joins:,} joins had no index to find a table's rows by, {share(joins, all_)} of the statements.",
        statements=(
            "SELECT schema_name, digest_text, count_star, sum_rows_examined FROM "
            "performance_schema.events_statements_summary_by_digest WHERE sum_select_full_join > 0 "
            "ORDER BY sum_timer_wait DESC LIMIT 10",
        ),
    )


RULES: tuple[Rule, ...] = (
    Rule(
        id="tmp-table-pair",
        title="The larger limit of temporary tables has no effect",
        cause="temporary tables",
        severity="warning",
        source="MySQL manual: Internal Temporary Table Use in MySQL",
        variables=("tmp_table_size", "max_heap_table_size"),
        condition=_pair,
        effect="Temporary tables stay in memory up to the size that was meant.",
        risk="That much memory for each, and for the user's own MEMORY tables.",
        provable=True,
    ),
    Rule(
        id="tmp-engine-memory",
        title="Temporary tables have rows of fixed length",
        cause="temporary tables",
        severity="note",
        source="MySQL manual: Internal Temporary Table Use in MySQL",
        variables=("internal_tmp_mem_storage_engine",),
        condition=_engine,
        effect="They need less memory, and stay in it longer.",
        risk="Some statements get slower: measure your own.",
        families=("mysql",),
        provable=True,
    ),
    Rule(
        id="tmp-table-large",
        title="One temporary table may take much of the memory",
        cause="temporary tables",
        severity="warning",
        source="MySQL manual: Server System Variables, tmp_table_size",
        variables=("tmp_table_size", "max_heap_table_size"),
        needs=("machine",),
        condition=_large,
        effect="A bad statement does not take the memory of all.",
        risk="Large temporary tables go to the disk; statements that need more set it for their session.",
        provable=True,
    ),
    Rule(
        id="temptable-ram",
        title="Temporary tables together may take most of the memory",
        cause="temporary tables",
        severity="warning",
        source="MySQL 9.7 source: sql/sys_vars.cc, temptable_max_ram",
        variables=("temptable_max_ram",),
        needs=("machine",),
        condition=_ram,
        effect="A burst of large statements does not bring the server down.",
        risk="Temporary tables beyond it go to the disk.",
    ),
    Rule(
        id="tmp-tables-on-disk",
        title="Many temporary tables go to the disk",
        cause="temporary tables",
        severity="warning",
        source="MySQL manual: Internal Temporary Table Use in MySQL",
        variables=("tmp_table_size", "max_heap_table_size"),
        needs=("traffic",),
        condition=_on_disk,
        effect="More of them stay in memory.",
        risk="That much memory for each.",
        provable=True,
    ),
    Rule(
        id="sort-merge-passes",
        title="Sorts do not fit into their buffer",
        cause="temporary tables",
        severity="note",
        source="MySQL manual: ORDER BY Optimization",
        variables=("sort_buffer_size",),
        needs=("traffic",),
        condition=_merges,
        effect="Sorts write fewer temporary files.",
        risk="That much memory for each sort at work.",
        provable=True,
    ),
    Rule(
        id="joins-without-index",
        title="Joins without an index",
        cause="temporary tables",
        severity="warning",
        source="MySQL manual: Server Status Variables, Select_full_join",
        needs=("traffic",),
        condition=_joins,
        effect="The statement lists them; an index on the joined column ends each.",
        risk="None: it only reads.",
    ),
)
