"""A shop's application, tuned but for the faults that are planted in it."""

from __future__ import annotations

from collections.abc import Collection

from story import LEAST_US, Connection, Story

from upshift.stack.evidence import BufferPool, Evidence, ServerFacts, ServerStatement

CUSTOMER = "SELECT name, discount FROM customer WHERE id = ?"
ITEMS = "SELECT id, price FROM item WHERE id IN (?, ?, ?, ?, ?, ?, ?, ?)"
ITEM = "SELECT price FROM item WHERE id = ?"
LEFT = "SELECT quantity FROM stock WHERE id = ?"
LINES = "INSERT INTO line VALUES " + ", ".join(["(?, ?, ?)"] * 8)
LINE = "INSERT INTO line VALUES (?, ?, ?)"
RECENT = "SELECT id, total FROM orders WHERE customer = ? ORDER BY id DESC LIMIT 30"
OLDEST = "SELECT MIN(id) FROM queue WHERE shop = ?"
OLDEST_OF_ALL = "SELECT id FROM queue WHERE shop = ? ORDER BY id"
TAKE = "DELETE FROM queue WHERE shop = ? AND id = ?"
STOCK = "UPDATE stock SET quantity = quantity - 1 WHERE id = ?"
REPORT = "SELECT day, SUM(total) FROM orders GROUP BY day"
ALL = (CUSTOMER, ITEMS, LINES, RECENT, OLDEST, TAKE, STOCK, REPORT)

TRANSACTIONS = 1200


def shop(faults: Collection[str] = (), every: int = 1, *, client: str | None = None, family: str = "mysql") -> Story:
    """Orders on four connections; those with a number divisible by ``every`` have the faults, on connections of their own."""
    story = Story(family)
    tuned = [_opened(story, client) for _ in range(4)]
    faulty = [_opened(story, client, far="C9" in faults) for _ in range(4)] if faults else []
    for number in range(TRANSACTIONS // (4 if every == 1 else 1)):
        if faults and number % every == 0:
            if "C11" in faults:
                faulty[number % 4].ends()
                faulty[number % 4] = _opened(story, client, far="C9" in faults, login_us=3000)
            _order(faulty[number % 4], number, faults)
        else:
            _order(tuned[number % 4], number, ())
    return story


def _opened(story: Story, client: str | None, *, far: bool = False, login_us: int = 400) -> Connection:
    connection = story.connection(client, login_us=login_us)
    connection.far_us = 600 if far else 0
    for sql in (*ALL, ITEM, LEFT, LINE, OLDEST_OF_ALL) if login_us == 400 else ():
        connection.prepares(sql)
    for _ in range(20):
        connection.pings() if login_us == 400 else None
    return connection


def _order(app: Connection, number: int, faults: Collection[str]) -> None:
    app.idles(500)
    app.gap_us = 3000 if "C8" in faults else 10
    if "C5" in faults:
        app.asks("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", wait_us=LEAST_US)
        app.asks("SELECT @@session.transaction_read_only", wait_us=90, rows=1)
        app.pings()
    with app.transaction(commit_us=4000 if "E3" in faults else 60):
        _customer(app, number, faults)
        _lines(app, number, faults)
        app.executes(RECENT, number, rows=0 if "C3" in faults else 30, cursor="C3" in faults, wait_us=180)
        for _ in range(15 if "C3" in faults else 0):
            app.fetches(RECENT, rows=2, size=2)
        if "C4" in faults:
            app.executes(OLDEST_OF_ALL, 1, rows=900, wait_us=600)
        else:
            app.executes(OLDEST, 1, rows=1, wait_us=60)
        app.executes(TAKE, 1, number, affected=1, wait_us=100, sending_us=40_000 if "C10" in faults else 0)
        locked = {"wait_us": 6000, "error_code": 1205, "sqlstate": "HY000"} if "E2" in faults else {}
        app.executes(STOCK, number, affected=1, **locked)
        if {"P1", "P2", "P3"} & set(faults):
            app.executes(REPORT, rows=30, wait_us=1200, no_index_used="P2" in faults)


def _customer(app: Connection, number: int, faults: Collection[str]) -> None:
    literal = f"SELECT name, discount FROM customer WHERE id = {number}"
    if "C2" in faults:
        app.asks(literal, wait_us=260, rows=1)
    elif "C13" in faults:
        app.prepares(literal)
        app.executes(literal, rows=1)
        app.closes(literal)
    else:
        if "C1" in faults:
            app.prepares(CUSTOMER)
        wide = {"definition_bytes": 6000, "bytes_received": 8000, "wait_us": 400} if "C12" in faults else {}
        app.executes(CUSTOMER, number, rows=1, **wide)


def _lines(app: Connection, number: int, faults: Collection[str]) -> None:
    if "C6" in faults:
        for item in range(8):
            app.executes(ITEM, item, rows=1, wait_us=80)
            app.executes(LEFT, item, rows=1, wait_us=80)
    else:
        app.executes(ITEMS, *range(8), rows=8, wait_us=250)
    if "C7" in faults:
        for line in range(8):
            app.executes(LINE, number, line, 5, affected=1, gap_us=4, wait_us=90)
    else:
        app.executes(LINES, *range(24), affected=8, wait_us=300)


def counted(evidence: Evidence, faults: Collection[str], every: int = 1) -> Evidence:
    """The same with the server's side, as it would count these statements."""
    plain = dict.fromkeys(
        ("lock_us", "sort_rows", "temporary_tables", "temporary_disk_tables", "no_index", "rows_affected"), 0.0
    )
    report = {"P1": {}, "P2": {"no_index": 1.0}, "P3": {"rows_examined": 30.0, "sort_rows": 40_000.0}}
    statements = []
    for each in evidence.statements:
        told = plain | {"rows_examined": 2.0, "rows_sent": 1.0}
        if each.text == REPORT:
            told |= {"rows_examined": 50_000.0, "rows_sent": 30.0}
            for fault in faults:
                told |= report.get(fault, {})
        statements.append(ServerStatement(statement=each.statement, executions=each.executions, wait_us=200.0, **told))
    # Half of the statements' time is reading, or none of it.
    read_us = 500_000.0 / every if "E4" in faults else 100.0
    misses = 400_000 if "E4" in faults else 5000
    pool = BufferPool(
        pages=8000,
        page_bytes=16384,
        requests=1_000_000,
        misses=misses,
        pages_read=misses + 100,
        read_us=read_us,
        statements_us=1_000_000.0,
    )
    return evidence.model_copy(update={"server": ServerFacts(version="9.7.4", statements=tuple(statements), pool=pool)})
