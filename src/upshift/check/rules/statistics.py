"""InnoDB's statistics: what the optimizer believes of tables and indexes."""

from __future__ import annotations

from upshift.check.model import Facts, Found, StoredStatistics, Table
from upshift.check.rule import Rule
from upshift.check.rules.words import listed, name_of, tables_named

_OFF_BY = 2.0
_SOME_ROWS = 1000
_FEW_PAGES = 20
_SETTLED_S = 60


def _never(facts: Facts) -> Found | None:
    if facts.on("innodb_stats_auto_recalc") or not facts.on("innodb_stats_persistent"):
        return None
    return Found(
        evidence="innodb_stats_auto_recalc is OFF: statistics stay as the last ANALYZE TABLE left them.",
        settings={"innodb_stats_auto_recalc": "ON"},
    )


def _has_stored(facts: Facts, table: Table) -> bool:
    """Whether the optimizer takes a table's statistics from where ANALYZE TABLE stores them."""
    options = table.options.lower()
    return "stats_persistent=1" in options or (facts.on("innodb_stats_persistent") and "stats_persistent=0" not in options)


def _frozen(facts: Facts) -> Found | None:
    frozen = [each for each in facts.tables if "stats_auto_recalc=0" in each.options.lower() and _has_stored(facts, each)]
    if not frozen:
        return None
    return Found(
        evidence=f"STATS_AUTO_RECALC=0 for {tables_named(frozen)}.",
        statements=tuple(f"ALTER TABLE {name_of(each.schema_name, each.name)} STATS_AUTO_RECALC=DEFAULT" for each in frozen),
    )


def _not_kept(facts: Facts) -> Found | None:
    if facts.on("innodb_stats_persistent"):
        return None
    return Found(
        evidence="innodb_stats_persistent is OFF: statistics are taken anew after a restart, from a few pages.",
        settings={"innodb_stats_persistent": "ON"},
    )


def _few_pages(facts: Facts) -> Found | None:
    now = facts.number("innodb_stats_persistent_sample_pages")
    if now >= _FEW_PAGES:
        return None
    return Found(
        evidence=f"Statistics are taken from {now} pages of an index.",
        settings={"innodb_stats_persistent_sample_pages": str(_FEW_PAGES)},
    )


def _on_metadata(facts: Facts) -> Found | None:
    if not facts.on("innodb_stats_on_metadata") or facts.on("innodb_stats_persistent"):
        return None
    return Found(
        evidence="innodb_stats_on_metadata is ON: a look at information_schema takes the statistics of each table anew.",
        settings={"innodb_stats_on_metadata": "OFF"},
    )


def _stale(facts: Facts) -> Found | None:
    # Rows of other tables are left from when they were stored, and nothing renews them.
    rows = {(each.schema_name, each.name): each.rows for each in facts.tables if _has_stored(facts, each)}
    stale = [each for each in facts.statistics if _is_stale(each, rows.get((each.schema_name, each.table)))]
    if not stale:
        return None
    named = [
        f"{each.schema_name}.{each.table} ({each.rows:,} stored, about {rows[each.schema_name, each.table]:,})"
        for each in stale
    ]
    return Found(
        evidence=f"The stored number of rows is wrong for {listed(named, 'table')}.",
        statements=tuple(f"ANALYZE TABLE {name_of(each.schema_name, each.table)}" for each in stale),
    )


def _is_stale(stored: StoredStatistics, now: int | None) -> bool:
    """Whether a table's size is another by a factor, and InnoDB's own update has had its time."""
    if now is None or max(now, stored.rows) < _SOME_ROWS or stored.age_s < _SETTLED_S:
        return False
    return max(now, 1) / max(stored.rows, 1) >= _OFF_BY or max(stored.rows, 1) / max(now, 1) >= _OFF_BY


_MANUAL = "MySQL manual: Configuring Persistent Optimizer Statistics Parameters"
RULES: tuple[Rule, ...] = (
    Rule(
        id="statistics-stale",
        title="Statistics are of another time",
        cause="statistics",
        severity="warning",
        source=_MANUAL,
        variables=("innodb_stats_persistent",),
        needs=("tables", "statistics"),
        condition=_stale,
        effect="The optimizer chooses plans for the table as it is.",
        risk="Plans change, nearly always for the better.",
    ),
    Rule(
        id="statistics-never-updated",
        title="Statistics never update by themselves",
        cause="statistics",
        severity="warning",
        source=_MANUAL,
        variables=("innodb_stats_auto_recalc", "innodb_stats_persistent"),
        condition=_never,
        effect="Statistics follow a table when a tenth of its rows has changed.",
        risk="Plans change by themselves.",
    ),
    Rule(
        id="statistics-frozen",
        title="Tables whose statistics never update by themselves",
        cause="statistics",
        severity="warning",
        source=_MANUAL,
        variables=("innodb_stats_persistent",),
        needs=("tables",),
        condition=_frozen,
        effect="Statistics follow a table when a tenth of its rows has changed.",
        risk="Plans change by themselves; for some tables that was the intention.",
    ),
    Rule(
        id="statistics-not-kept",
        title="Statistics are lost at each restart",
        cause="statistics",
        severity="warning",
        source="MySQL manual: Configuring Non-Persistent Optimizer Statistics Parameters",
        variables=("innodb_stats_persistent",),
        condition=_not_kept,
        effect="Plans stay the same after a restart.",
        risk="Statistics follow large changes some seconds later.",
    ),
    Rule(
        id="statistics-few-pages",
        title="Statistics are taken from few pages",
        cause="statistics",
        severity="note",
        source=_MANUAL,
        variables=("innodb_stats_persistent_sample_pages",),
        condition=_few_pages,
        effect="Estimates of an index's values come nearer to the truth.",
        risk="ANALYZE TABLE reads more pages.",
    ),
    Rule(
        id="statistics-on-metadata",
        title="Reading metadata recalculates statistics",
        cause="statistics",
        severity="warning",
        source="MySQL manual: Configuring Non-Persistent Optimizer Statistics Parameters",
        variables=("innodb_stats_on_metadata", "innodb_stats_persistent"),
        condition=_on_metadata,
        effect="Queries of information_schema are quick, and plans do not change by them.",
        risk="None that is known.",
    ),
)
