"""The statements that rules advise for tables: nothing of a definition is lost, and the server takes them."""

from __future__ import annotations

import pytest
from served import MARIADB, WELL, changed, column, table

from upshift.check.model import Facts, Finding
from upshift.check.rule import judge
from upshift.check.rules import RULES

BY_ID = {each.id: each for each in RULES}


def finding(facts: Facts, id: str) -> Finding:
    (only,) = judge(facts, [BY_ID[id]], server="db").findings
    return only


def counting(kind: str, extra: str = "auto_increment", comment: str = "", base: Facts = WELL, mode: str = "") -> Finding:
    """Of a table whose counter is near its end."""
    counter = column("id", "orders", kind=kind, counts=True).model_copy(update={"extra": extra, "comment": comment})
    facts = changed(
        base, tables=(table("orders", auto_increment=4_200_000_000),), columns=(counter,), variables={"sql_mode": mode}
    )
    return finding(facts, "auto-increment-near-end")


@pytest.mark.parametrize(
    ("kind", "extra", "comment", "base", "kept"),
    [
        ("int", "auto_increment", "", WELL, "BIGINT NOT NULL AUTO_INCREMENT"),
        ("int(11)", "auto_increment", "", MARIADB, "BIGINT NOT NULL AUTO_INCREMENT"),
        ("int unsigned", "auto_increment INVISIBLE", "", WELL, "BIGINT UNSIGNED NOT NULL AUTO_INCREMENT INVISIBLE"),
        ("int(11)", "auto_increment, INVISIBLE", "", MARIADB, "BIGINT NOT NULL INVISIBLE AUTO_INCREMENT"),
        ("int(5) unsigned zerofill", "auto_increment", "", WELL, "BIGINT(5) UNSIGNED ZEROFILL NOT NULL AUTO_INCREMENT"),
        ("mediumint(8)", "auto_increment", "the key", MARIADB, "INT NOT NULL AUTO_INCREMENT COMMENT 'the key'"),
    ],
)
def test_a_counter_keeps_its_definition(kind: str, extra: str, comment: str, base: Facts, kept: str) -> None:
    assert counting(kind, extra, comment, base).sql == (f"ALTER TABLE `shop`.`orders` MODIFY `id` {kept}",)


@pytest.mark.parametrize(("mode", "backslash"), [("STRICT_TRANS_TABLES", r"\\"), ("ANSI_QUOTES,NO_BACKSLASH_ESCAPES", "\\")])
def test_a_comment_is_quoted_as_the_server_takes_it(mode: str, backslash: str) -> None:
    (statement,) = counting("int", comment='it\'s "C:\\new"', mode=mode).sql
    assert statement.partition(" COMMENT ")[2] == f"""'it''s "C:{backslash}new"'"""


@pytest.mark.parametrize(
    ("extra", "comment"),
    [
        ("auto_increment NOT SECONDARY", ""),
        ("auto_increment, WITHOUT SYSTEM VERSIONING", ""),
        ("auto_increment ENGINE_ATTRIBUTE", ""),
        ("auto_increment", "two\nlines"),
    ],
)
def test_a_definition_that_cannot_be_kept_is_left_to_the_reader(extra: str, comment: str) -> None:
    found = counting("int", extra, comment)
    assert not found.sql
    assert found.evidence.endswith(" MODIFY takes the whole definition: take that of shop.orders.id from SHOW CREATE TABLE.")


def test_a_partitioned_table_gets_no_key_of_other_columns() -> None:
    """The server refuses one with error 1503."""
    plain, parted = table("plain"), table("parted", options="row_format=DYNAMIC partitioned")
    found = finding(changed(tables=(plain, parted), indexes=()), "no-primary-key")
    assert [each.split(" ADD ")[0] for each in found.sql] == ["ALTER TABLE `shop`.`plain`"]
    assert "2 tables: shop.plain, shop.parted." in found.evidence
    assert found.evidence.endswith(" so choose it by hand, in 1 partitioned table: shop.parted.")
    named = table("quiet", options="comment=partitioned_by_hand")
    assert "partitioning" not in finding(changed(tables=(named,), indexes=()), "no-primary-key").evidence


def test_numbers_that_are_there_twice_are_a_risk_of_a_key() -> None:
    counter = column("id", "orders", kind="int", counts=True)
    found = finding(changed(tables=(table("orders"),), indexes=(), columns=(counter,)), "no-primary-key")
    assert found.sql == ("ALTER TABLE `shop`.`orders` ADD PRIMARY KEY (`id`)",) and "error 1062" in found.risk


def test_a_counter_of_the_largest_type_has_no_larger_one() -> None:
    counter = column("id", "orders", kind="bigint", counts=True).model_copy(update={"extra": "auto_increment NOT SECONDARY"})
    facts = changed(tables=(table("orders", auto_increment=2**63 - 9),), columns=(counter,))
    found = finding(facts, "auto-increment-near-end")
    assert not found.sql and "SHOW CREATE" not in found.evidence
