"""Statements of a variant's `sql` on a real server: executed and committed, or refused with its words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from real_server import RealServer, initialised, started

from upshift.errors import ServerFailed
from upshift.server.mysql_change import change


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    data = initialised("mariadbd", tmp_path_factory.mktemp("mariadb") / "data")
    with started("mariadbd", data, ()) as running:
        running.run("CREATE DATABASE shop", "CREATE TABLE shop.item (id INT PRIMARY KEY, name VARCHAR(40))")
        yield running


def test_all_statements_are_executed_and_committed(server: RealServer) -> None:
    sql = """-- The fix.
        CREATE INDEX by_name ON item (name);
        INSERT INTO item VALUES (1, 'Käse; "x"');
        ANALYZE TABLE item;
        -- Nothing more.
        """
    assert change(server.socket, "shop", sql) is None
    assert server.run("SELECT name FROM shop.item") == [('Käse; "x"',)]
    assert len(server.run("SHOW INDEX FROM shop.item")) == 2


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("DROP INDEX absent ON item", r"DROP INDEX `absent`; check that it exists \(1091\)"),
        ("DO 1; CREATE INDEX by_what ON item (what); DO 2", r"Key column 'what' doesn't exist in table \(1072\)"),
        ("ANALYZE TABLE absent", r"shop\.absent: Table 'shop\.absent' doesn't exist"),
        ("DO 1; SELEC 2", r"error in your SQL syntax.*\(1064\)"),
    ],
)
def test_what_the_server_refuses_is_told_in_its_words(server: RealServer, sql: str, said: str) -> None:
    told = change(server.socket, "shop", sql)
    assert told is not None and re.search(said, told), told


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ServerFailed, match="no longer answers"):
        change(tmp_path / "absent", "shop", "DO 1")
