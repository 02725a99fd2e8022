"""What rules must know of older versions, and of what only some servers have."""

from __future__ import annotations

import pytest
from served import GIB, MARIADB, MIB, WELL, changed, index, use

from upshift.check.model import Facts, Finding, Transaction
from upshift.check.rule import judge
from upshift.check.rules import RULES


def findings(facts: Facts) -> dict[str, Finding]:
    return {each.id: each for each in judge(facts, RULES, server="db").findings}


def without(facts: Facts, *names: str) -> Facts:
    kept = {name: value for name, value in facts.variables.items() if name not in names}
    return facts.model_copy(update={"variables": kept})


@pytest.mark.parametrize(
    ("longer", "reads_of_short"),
    [(("a", "b"), 100_000), (("a",), 100_000)],
    ids=["an index that begins another", "two of the same columns"],
)
def test_an_index_that_replaces_another_is_not_unused(longer: tuple[str, ...], reads_of_short: int) -> None:
    """The optimizer reads by one of the two: who drops the one that it reads needs the other."""
    facts = changed(
        indexes=(*WELL.indexes, index("orders", "z", "a"), index("orders", "b", *longer)),
        index_use=(*WELL.index_use, use("orders", "z", reads_of_short), use("orders", "b", 0)),
    )
    found = findings(facts)
    assert found.keys() & {"redundant-index", "duplicate-index"} and "unused-index" not in found


def test_the_redo_log_of_files() -> None:
    """MySQL before 8.0.30."""
    old = without(changed(version=(8, 0, 29), status={"innodb_os_log_written": str(6000 * GIB)}), "innodb_redo_log_capacity")
    files = {"innodb_log_file_size": str(48 * MIB), "innodb_log_files_in_group": "2"}
    found = findings(changed(old, variables=files))["redo-small"]
    assert found.my_cnf == ("innodb_log_file_size = 18286M",) and "fill 96 MiB" in found.evidence
    assert "redo-small" not in findings(changed(old, variables={**files, "innodb_log_file_size": str(60 * GIB)}))


def test_binary_logs_of_a_mariadb_that_counts_days() -> None:
    """Before 10.6."""
    old = changed(without(MARIADB, "binlog_expire_logs_seconds"), version=(10, 5, 29))
    assert findings(changed(old, variables={"log_bin": "ON", "expire_logs_days": "0"}))["binlog-kept-forever"].my_cnf == (
        "expire_logs_days = 7",
    )
    assert "binlog-kept-forever" not in findings(changed(old, variables={"log_bin": "ON", "expire_logs_days": "7"}))


def test_the_thread_pool_of_an_older_mysql_is_given_no_setting_that_it_may_refuse() -> None:
    busy = changed(threads_running=(60, 2, 70, 64, 58))
    ours = findings(busy)["thread-pool"].my_cnf
    assert "thread_pool_max_transactions_limit = 0" in ours
    assert findings(changed(busy, version=(9, 6, 0)))["thread-pool"].my_cnf == ("plugin_load_add = thread_pool.so",)


@pytest.mark.parametrize(("version", "limited"), [((8, 0, 27), False), ((8, 0, 28), True)])
def test_temptable_before_it_had_a_limit_for_one_table(version: tuple[int, int, int], limited: bool) -> None:
    facts = changed(version=version, variables={"tmp_table_size": str(64 * GIB), "max_heap_table_size": str(64 * GIB)})
    assert ("tmp-table-large" in findings(facts)) == limited


@pytest.mark.parametrize(
    ("family", "limit", "cache", "named"),
    [
        ("mysql", 5000, 2419, True),
        ("mysql", 5000, 2400, False),
        ("mysql", 10_000, 4919, False),
        ("mariadb", 1024, 421, True),
        ("mariadb", 1024, 400, False),
    ],
)
def test_a_table_cache_that_the_server_cut_to_its_files(family: str, limit: int, cache: int, named: bool) -> None:
    variables = {"open_files_limit": str(limit), "table_open_cache": str(cache), "max_connections": "151"}
    facts = changed(MARIADB if family == "mariadb" else WELL, variables=variables)
    assert ("open-files-limit" in findings(facts)) == named


def test_a_memory_limit_alone_is_no_reason_against_huge_pages() -> None:
    limited = {"huge_pages": "always", "limited": True}
    small = {"innodb_buffer_pool_size": str(GIB)}
    assert "huge-pages-always" not in findings(changed(host=limited, variables=small))
    assert "huge-pages-always" in findings(changed(host=limited))


def test_a_transaction_without_a_connection_is_not_killed() -> None:
    """A prepared XA transaction whose client is gone; InnoDB gives it the thread 0."""
    prepared = Transaction(thread=0, age_s=7000, rows_modified=5)
    facts = changed(transactions=(prepared,), metrics={"trx_rseg_history_len": 9_000_000})
    long, history = (findings(facts)[each] for each in ("long-transaction", "history-long"))
    assert long.sql == history.sql == ("XA RECOVER",)
    assert "0 (no connection)" in long.evidence and "A long transaction holds it back" in history.evidence
