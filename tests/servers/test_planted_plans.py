"""Faults in plans, planted on real servers: each is named, and no other; mended, none is."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import shop
from plan_servers import Url, postgres_under

from upshift.cli.app import _run
from upshift.stack.plans.address import read_address
from upshift.stack.plans.session import opened

pytest_plugins = ("shops",)
ON_EACH = pytest.mark.parametrize("family", ["mariadb", "postgres", "mysql"])


class Judge:
    """`upshift stack` on the shop's server, and what it finds."""

    def __init__(self, url: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.url, self.other = url, url.replace("/shop?", "/twin?")
        self._file, self._capsys = folder / "shop.sql", capsys

    def run(self, *statements: str, on: str = "") -> None:
        address = read_address(on or self.url)
        with opened(address, 20) as session:
            if session.family != "postgres":
                session.ask("SET autocommit = 1")
            for each in statements:
                session.ask(each)

    def named(self, statement: str) -> set[str]:
        """Of a statement's plan, with an execution."""
        return self._found(statement, "plans", "--server", self.url)

    def named_beside(self, statement: str, *, rounds: int = 1) -> set[str]:
        """Of a statement's plans in the shop and in its twin. One round says nothing of the engines."""
        return self._found(statement, "compare", "--a", self.url, "--b", self.other, "--rounds", str(rounds))

    def _found(self, statement: str, command: str, *to: str) -> set[str]:
        self._file.write_text(statement)
        # A busy machine plans a simple statement for a millisecond.
        threshold = ("--threshold", "P9.planning_us=5000")
        assert _run(["stack", command, str(self._file), *to, "--execute", *threshold, "--json"]) == 0
        report: dict[str, Any] = json.loads(self._capsys.readouterr().out)
        (told,) = report["statements"]
        assert command == "compare" or told["told"]["rows_examined"] is not None
        return {each["suspect"] for each in report["judgement"]["findings"]}


@pytest.fixture
def judge(url: Url, family: shop.Family, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Judge:
    return Judge(url(family), tmp_path, capsys)


RANGE = "SELECT total FROM orders WHERE shipped < 400 AND shipped >= {0} - 1640"
YEAR = {"mysql": "YEAR({0}())", "mariadb": "YEAR({0}())", "postgres": "extract(year from {0}())::int"}
CLOCK = {"mysql": "SYSDATE", "mariadb": "SYSDATE", "postgres": "clock_timestamp"}
"""It goes on while a statement is executed: no index finds rows by it, as by NOW()."""


@ON_EACH
def test_a_bound_that_is_lost_to_the_running_clock(judge: Judge, family: shop.Family) -> None:
    year = YEAR[family]
    assert judge.named(RANGE.format(year.format(CLOCK[family]))) == {"P7"}
    assert judge.named(RANGE.format(year.format("NOW"))) == set()


def joined(tables: int) -> str:
    """Visits of the same page, whose order is the server's to choose."""
    names = [f"v{number}" for number in range(tables)]
    pages = " AND ".join(f"{one}.page = {other}.page" for one, other in itertools.pairwise(names))
    return f"SELECT v0.note FROM {', '.join(f'visits {each}' for each in names)} WHERE v0.id BETWEEN 5 AND 6 AND {pages}"


@pytest.fixture
def every_order(judge: Judge, family: shop.Family) -> Iterator[Callable[[bool], None]]:
    """Whether the server looks at every order of the tables. The others look at many by themselves."""

    def look(at_all: bool) -> None:
        if family == "mariadb":
            judge.run(f"SET GLOBAL optimizer_prune_level = {0 if at_all else 'DEFAULT'}")

    yield look
    look(False)


@ON_EACH
def test_a_statement_whose_plan_takes_longer_than_itself(judge: Judge, every_order: Callable[[bool], None]) -> None:
    every_order(True)
    assert judge.named(joined(8)) == {"P9"}
    every_order(False)
    assert judge.named(joined(2)) == set()


TICKS = (
    "CREATE TABLE ticks (id INT PRIMARY KEY, page INT NOT NULL, note VARCHAR(9))",
    "CREATE INDEX ticks_page ON ticks (page)",
    "INSERT INTO ticks VALUES " + ", ".join(f"({number}, {number}, 'z')" for number in range(1, 10_001)),
)
FEWER_PAGES = "UPDATE ticks SET page = id % 100 + 1"
OF_TICKS = {
    # What an index finds for a constant these two count while they plan.
    "mysql": "SELECT count(t.note) FROM items i JOIN ticks t ON t.page = i.quantity WHERE i.order_id BETWEEN 470 AND 479",
    "postgres": f"SELECT count(note) FROM ticks WHERE page IN ({', '.join(map(str, range(1, 21)))})",
}


@ON_EACH
def test_statistics_from_before_values_came_together(judge: Judge, family: shop.Family) -> None:
    analyze = "ANALYZE ticks" if family == "postgres" else "ANALYZE TABLE ticks"
    statement = OF_TICKS["postgres" if family == "postgres" else "mysql"]
    judge.run(*TICKS, analyze, FEWER_PAGES)
    assert judge.named(statement) == {"P8"}
    judge.run(analyze)
    assert judge.named(statement) == set()


@pytest.fixture
def twin(judge: Judge, family: shop.Family) -> Iterator[Judge]:
    """With a second database that has the orders, too, but for one index: a column of it is missing."""
    server, index = judge.url.replace("/shop?", "/postgres?"), "CREATE INDEX orders_customer ON orders (customer_id)"
    if family == "postgres":
        judge.run("CREATE DATABASE twin TEMPLATE shop", on=server)
        judge.run("DROP INDEX orders_customer", index, "VACUUM ANALYZE orders", on=judge.other)
        yield judge
        judge.run("DROP DATABASE twin", on=server)
    else:
        judge.run(
            "CREATE DATABASE twin", "CREATE TABLE twin.orders LIKE orders", "INSERT INTO twin.orders SELECT * FROM orders"
        )
        judge.run("DROP INDEX orders_customer ON orders", index, "ANALYZE TABLE orders", on=judge.other)
        yield judge
        judge.run("DROP DATABASE twin")


COVERED = "SELECT created FROM orders WHERE customer_id BETWEEN 10 AND 40"
BOUNDED = "SELECT total FROM orders WHERE customer_id = 42 AND created BETWEEN 100 AND 800"


@ON_EACH
def test_an_index_that_is_there_on_one_server_alone(twin: Judge, family: shop.Family) -> None:
    assert twin.named_beside(COVERED) == {"P5"}
    drop = "DROP INDEX orders_customer" + ("" if family == "postgres" else " ON orders")
    twin.run(drop, on=twin.other)
    assert twin.named_beside(BOUNDED) == {"P6"}
    twin.run("CREATE INDEX orders_customer ON orders (customer_id, created)", on=twin.other)
    assert twin.named_beside(COVERED) == set() == twin.named_beside(BOUNDED)


NUMBERS = ("CREATE TABLE numbers AS SELECT n, n % 97 AS part FROM generate_series(1, 20000) n", "ANALYZE numbers")


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind")
def test_an_engine_that_takes_many_times_as_long(url: Url, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same program, each of whose instructions valgrind executes. Two servers without it are compared elsewhere."""
    judge = Judge(url("postgres"), tmp_path, capsys)
    with postgres_under("valgrind", "--tool=none", "--vgdb=no", "--quiet") as slow:
        judge.other = slow
        for each in (judge.url, judge.other):
            judge.run(*NUMBERS, on=each)
        assert judge.named_beside("SELECT count(*), sum(part) FROM numbers", rounds=4) == {"E1"}
