"""Settings that differ between two servers, of one family or two."""

from __future__ import annotations

from typing import Any, cast

import pytest

from upshift.stack.plans.model import Family
from upshift.stack.plans.session import Refused, Session
from upshift.stack.plans.settings import QUESTIONS, settings_that_differ

MYSQL = {
    "innodb_flush_log_at_trx_commit": "1",
    "log_bin": "OFF",
    "sync_binlog": "1",
    "innodb_doublewrite": "ON",
    "transaction_isolation": "READ-COMMITTED",
    "require_secure_transport": "OFF",
    "protocol_compression_algorithms": "zlib,zstd,uncompressed",
    "binlog_transaction_compression": "OFF",
    "Ssl_version": "",
}
MARIADB = {
    "innodb_flush_log_at_trx_commit": "1",
    "log_bin": "OFF",
    "sync_binlog": "0",
    "innodb_doublewrite": "ON",
    "tx_isolation": "READ-COMMITTED",
    "require_secure_transport": "OFF",
    "log_bin_compress": "OFF",
    "innodb_compression_default": "OFF",
    "Ssl_version": "",
}
POSTGRES = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "default_transaction_isolation": "read committed",
    "wal_compression": "off",
    "ssl_version": "",
}
BASE: dict[Family, dict[str, str]] = {"mysql": MYSQL, "mariadb": MARIADB, "postgres": POSTGRES}


class Set:
    """A server with these settings; ``refuses`` is in what it does not tell."""

    def __init__(self, family: Family, refuses: str = "-", **changed: str) -> None:
        self.family, self._refuses, self._values = family, refuses, {**BASE[family], **changed}

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        if self._refuses in sql:
            raise Refused("42501", "permission denied")
        encrypted = "ssl_version" in sql.lower()
        listed = {name: value for name, value in self._values.items() if (name.lower() == "ssl_version") is encrypted}
        return [(name, value) for name, value in listed.items() if encrypted or f"'{name}'" in sql]


def differences(a: Set, b: Set) -> list[str]:
    return [str(each) for each in settings_that_differ(cast(Session, a), cast(Session, b))]


@pytest.mark.parametrize("a", BASE)
@pytest.mark.parametrize("b", BASE)
def test_settings_that_mean_the_same_do_not_differ(a: Family, b: Family) -> None:
    assert differences(Set(a), Set(b)) == []


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        (
            Set("mysql"),
            Set("mysql", innodb_flush_log_at_trx_commit="2"),
            "durability, the log at a commit: innodb_flush_log_at_trx_commit=1 | innodb_flush_log_at_trx_commit=2",
        ),
        (
            Set("mysql"),
            Set("postgres", synchronous_commit="off"),
            "durability, the log at a commit: innodb_flush_log_at_trx_commit=1 | synchronous_commit=off",
        ),
        (
            Set("postgres", fsync="off"),
            Set("postgres", synchronous_commit="off"),
            "durability, the log at a commit: fsync=off | synchronous_commit=off",
        ),
        (
            Set("postgres"),
            Set("mysql", log_bin="ON"),
            "durability, the binary log at a commit: no binary log | sync_binlog=1",
        ),
        (
            Set("mariadb", log_bin="ON"),
            Set("mysql", log_bin="ON"),
            "durability, the binary log at a commit: sync_binlog=0 | sync_binlog=1",
        ),
        (
            Set("mysql", innodb_doublewrite="OFF"),
            Set("mysql", innodb_doublewrite="DETECT_AND_RECOVER"),
            "durability, pages that a crash tears: innodb_doublewrite=OFF | innodb_doublewrite=DETECT_AND_RECOVER",
        ),
        (
            Set("mariadb"),
            Set("postgres", full_page_writes="off"),
            "durability, pages that a crash tears: innodb_doublewrite=ON | full_page_writes=off",
        ),
        (
            Set("mariadb", tx_isolation="REPEATABLE-READ"),
            Set("mysql"),
            "isolation, of a transaction: tx_isolation=REPEATABLE-READ | transaction_isolation=READ-COMMITTED",
        ),
        (
            Set("postgres", default_transaction_isolation="serializable"),
            Set("mysql"),
            "isolation, of a transaction: default_transaction_isolation=serializable | transaction_isolation=READ-COMMITTED",
        ),
        (Set("mysql"), Set("postgres", ssl_version="TLSv1.3"), "tls, of this session: none | TLSv1.3"),
        (
            Set("mysql", require_secure_transport="ON"),
            Set("mariadb"),
            "tls, asked of clients: require_secure_transport=ON | require_secure_transport=OFF",
        ),
        (
            Set("mysql"),
            Set("mysql", protocol_compression_algorithms="zstd"),
            "compression, of connections: protocol_compression_algorithms=zlib,zstd,uncompressed"
            " | protocol_compression_algorithms=zstd",
        ),
        (
            Set("mysql"),
            Set("postgres", wal_compression="lz4"),
            "compression, of the log: binlog_transaction_compression=OFF | wal_compression=lz4",
        ),
        (
            Set("mariadb"),
            Set("mariadb", innodb_compression_default="ON"),
            "compression, of pages: innodb_compression_default=OFF | innodb_compression_default=ON",
        ),
    ],
)
def test_a_setting_that_differs_stands_as_each_server_has_it(a: Set, b: Set, said: str) -> None:
    assert differences(a, b) == [said]
    left, right = said.split(": ")[1].split(" | ")
    assert differences(b, a) == [f"{said.split(': ', maxsplit=1)[0]}: {right} | {left}"]


def test_the_order_of_a_list_is_no_difference() -> None:
    assert differences(Set("mysql"), Set("mysql", protocol_compression_algorithms="uncompressed,zstd,zlib")) == []


def test_what_a_server_does_not_tell_is_no_difference() -> None:
    poor = Set("postgres", refuses="pg_settings", synchronous_commit="off", ssl_version="TLSv1.3")
    assert differences(Set("mysql"), poor) == ["tls, of this session: none | TLSv1.3"]
    assert differences(Set("mysql", refuses="SHOW"), Set("postgres", fsync="off")) == []


def test_every_topic_is_asked_for() -> None:
    assert {each.topic for each in QUESTIONS} == {"durability", "isolation", "tls", "compression"}
