"""What is counted, each on one connection, as PEP 249 has it: all four drivers follow it."""

from __future__ import annotations

from typing import Any

from connecting import Target

POINT = "SELECT id, k, c, pad FROM upshift_drivers WHERE id = %s"
TEN = "SELECT id, k, c, pad FROM upshift_drivers WHERE id BETWEEN %s AND %s"
ALL = "SELECT id, k, c, pad FROM upshift_drivers WHERE id <= %s"
UPDATE = "UPDATE upshift_drivers SET k = k + %s WHERE id = %s"
INSERT = "INSERT INTO upshift_drivers_added (k, c) VALUES (%s, %s)"
BATCH = range(100)


def run(api: Any, target: Target, operation: str, count: int) -> int:
    """Rows that were read."""
    connection = api.connect(target)
    cursor = api.cursor(connection, target.use)
    rows = sum(_once(api, connection, cursor, target, operation, number) for number in range(count))
    cursor.close()
    if operation != "connect" and not _autocommits(target):
        connection.commit()
    connection.close()
    return rows


def _once(api: Any, connection: Any, cursor: Any, target: Target, operation: str, number: int) -> int:
    match operation:
        case "connect":
            return 0
        case "point_select":
            return _select(cursor, POINT, number % 1000 + 1)
        case "ten_rows":
            return _select(cursor, TEN, number + 1, number + 10)
        case "fetch":
            return _fetch(api, connection, cursor, target)
        case "batch_insert":
            _many(cursor, target, INSERT, [(row, f"row {row}") for row in BATCH])
        case "batch_update":
            _many(cursor, target, UPDATE, [(1, row + 1) for row in BATCH])
        case "transaction":
            return _transaction(connection, cursor, target, number)
        case _:
            raise ValueError(f"no operation is called {operation}")
    if not _autocommits(target):
        connection.commit()
    return 0


def _select(cursor: Any, sql: str, *values: object) -> int:
    cursor.execute(sql, values)
    return len(cursor.fetchall())


def _fetch(api: Any, connection: Any, cursor: Any, target: Target) -> int:
    if target.use.get("cursor") != "server":
        return _select(cursor, ALL, 1000)
    with api.server_cursor(connection, target.use) as streaming:
        streaming.execute(ALL, (1000,))
        return sum(1 for _row in streaming)


def _many(cursor: Any, target: Target, sql: str, rows: list[tuple[object, ...]]) -> None:
    if target.use.get("batch") == "loop":
        for row in rows:
            cursor.execute(sql, row)
    else:
        cursor.executemany(sql, rows)


def _transaction(connection: Any, cursor: Any, target: Target, number: int) -> int:
    """Without autocommit the first statement begins it."""
    if _autocommits(target):
        cursor.execute("BEGIN")
    rows = _select(cursor, POINT, number % 1000 + 1)
    cursor.execute(UPDATE, (1, number % 1000 + 1))
    cursor.execute(INSERT, (number, f"row {number}"))
    if _autocommits(target):
        cursor.execute("COMMIT")
    else:
        connection.commit()
    return rows


def _autocommits(target: Target) -> bool:
    return bool(target.options.get("autocommit", False))
