"""Caches beside the buffer pool."""

from __future__ import annotations

from upshift.check.model import Facts, Found
from upshift.check.rule import Rule, too_little_traffic
from upshift.check.rules.words import MIB, amount, share, size

_OPENED_A_SECOND = 1.0
_FEW_HITS = 0.5
_SOME = 1000


def _opened_a_second(facts: Facts) -> float:
    return facts.a_second("opened_tables")


def _table_cache(facts: Facts) -> Found | None:
    cache, a_second = facts.number("table_open_cache"), _opened_a_second(facts)
    if a_second < _OPENED_A_SECOND or facts.counted("open_tables") < 0.95 * cache:
        return None
    told = f"The cache of {cache:,} tables is full, and {a_second:.1f} tables are opened a second."
    return Found(evidence=told, settings={"table_open_cache": str(2 * cache)})


def _table_cache_below(facts: Facts) -> Found | None:
    cache, most = facts.number("table_open_cache"), facts.number("max_connections")
    if cache >= most or not too_little_traffic(facts):  # else `table-cache-small` judges it by the load
        return None
    told = (
        f"table_open_cache is {cache:,}, max_connections {most:,}: each connection needs a table of its own for each it uses."
    )
    return Found(evidence=told, settings={"table_open_cache": str(max(4000, 4 * most))})


def _definitions(facts: Facts) -> Found | None:
    cache, tables = facts.number("table_definition_cache"), len(facts.tables)
    if cache >= tables:
        return None
    told = f"There are {tables:,} tables, and room for the definitions of {cache:,}."
    return Found(evidence=told, settings={"table_definition_cache": str(int(1.2 * tables) + 400)})


def _hash_index(facts: Facts) -> Found | None:
    hits = facts.metrics.get("adaptive_hash_searches", 0)
    all_ = hits + facts.metrics.get("adaptive_hash_searches_btree", 0)
    if not facts.on("innodb_adaptive_hash_index") or not all_ or hits >= _FEW_HITS * all_:
        return None
    told = f"The adaptive hash index answered {share(hits, all_)} of {all_:,} searches, and was kept up for all."
    return Found(evidence=told, settings={"innodb_adaptive_hash_index": "OFF"})


def _query_cache(facts: Facts) -> Found | None:
    if facts.text("query_cache_type").upper() in ("OFF", "0") or not facts.number("query_cache_size"):
        return None
    told = f"query_cache_type is {facts.text('query_cache_type')}, its size {size(facts.number('query_cache_size'))}."
    return Found(evidence=told, settings={"query_cache_type": "OFF", "query_cache_size": "0"})


def _binlog_cache(facts: Facts) -> Found | None:
    disk, all_ = facts.counted("binlog_cache_disk_use"), facts.counted("binlog_cache_use")
    now = facts.number("binlog_cache_size")
    if disk < _SOME or disk < 0.05 * all_ or now >= 4 * MIB:
        return None
    told = f"{disk:,} of {all_:,} transactions did not fit into {size(now)}."
    return Found(evidence=told, settings={"binlog_cache_size": amount(min(4 * max(now, MIB // 4), 4 * MIB))})


RULES: tuple[Rule, ...] = (
    Rule(
        id="table-cache-small",
        title="Tables are opened again and again",
        cause="caches",
        severity="warning",
        source="MySQL manual: How MySQL Opens and Closes Tables",
        variables=("table_open_cache",),
        needs=("traffic",),
        condition=_table_cache,
        effect="Statements find their tables open.",
        risk="Memory and open files for each.",
        provable=True,
    ),
    Rule(
        id="table-cache-below-connections",
        title="Fewer open tables than connections",
        cause="caches",
        severity="warning",
        source="MySQL manual: How MySQL Opens and Closes Tables",
        variables=("table_open_cache", "max_connections"),
        condition=_table_cache_below,
        effect="Statements find their tables open.",
        risk="Memory and open files for each.",
        provable=True,
    ),
    Rule(
        id="definition-cache-small",
        title="More tables than cached definitions",
        cause="caches",
        severity="note",
        source="MySQL manual: Server System Variables, table_definition_cache",
        variables=("table_definition_cache",),
        needs=("all tables",),
        condition=_definitions,
        effect="A table's definition is not read again from the dictionary.",
        risk="Some KiB of memory for each.",
    ),
    Rule(
        id="adaptive-hash-index",
        title="The adaptive hash index answers few searches",
        cause="caches",
        severity="note",
        source="MySQL manual: Adaptive Hash Index",
        variables=("innodb_adaptive_hash_index",),
        needs=("traffic", "metrics"),
        condition=_hash_index,
        effect="No time to keep it up, and no waiting for its latches.",
        risk="The searches that it answered walk the tree.",
        provable=True,
    ),
    Rule(
        id="query-cache",
        title="All connections share the query cache's lock",
        cause="caches",
        severity="warning",
        source="MariaDB documentation: Query Cache",
        variables=("query_cache_type", "query_cache_size"),
        condition=_query_cache,
        effect="Statements on several CPUs do not wait for one lock.",
        risk="The same SELECT on tables that never change is executed each time.",
        families=("mariadb",),
    ),
    Rule(
        id="binlog-cache-disk",
        title="Transactions reach the binary log through a temporary file",
        cause="caches",
        severity="note",
        source="MySQL manual: Binary Logging Options and Variables, binlog_cache_size",
        variables=("binlog_cache_size",),
        needs=("traffic",),
        condition=_binlog_cache,
        effect="Large transactions need no temporary file.",
        risk="That much memory for each connection that writes.",
        provable=True,
    ),
)
