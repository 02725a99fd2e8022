"""A small shop: the schema, rows and statements whose plans the tests read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

Family = Literal["mysql", "mariadb", "postgres"]

SCHEMA = (
    "CREATE TABLE customers (id INT PRIMARY KEY, email VARCHAR(60) NOT NULL, phone VARCHAR(20), city VARCHAR(30),"
    " note VARCHAR(200))",
    "CREATE UNIQUE INDEX customers_email ON customers (email)",
    "CREATE INDEX customers_phone ON customers (phone)",
    "CREATE TABLE orders (id INT PRIMARY KEY, customer_id INT NOT NULL, created INT NOT NULL, shipped INT, status VARCHAR(10),"
    " total INT NOT NULL, note VARCHAR(200))",
    "CREATE INDEX orders_customer ON orders (customer_id, created)",
    "CREATE INDEX orders_created ON orders (created)",
    "CREATE INDEX orders_shipped ON orders (shipped)",
    "CREATE TABLE items (order_id INT, line INT, product INT NOT NULL, quantity INT NOT NULL, PRIMARY KEY (order_id, line))",
    "CREATE INDEX items_product ON items (product)",
    "CREATE TABLE visits (id INT PRIMARY KEY, page INT NOT NULL, note VARCHAR(20))",
    "CREATE INDEX visits_page ON visits (page)",
)
CUSTOMERS, ORDERS = 2000, 20000

STATEMENTS: dict[str, str] = {
    "point": "SELECT total FROM orders WHERE id = 77",
    "no_row": "SELECT total FROM orders WHERE id = -5",
    "email": "SELECT id FROM customers WHERE email = 'c12@shop.example'",
    "ref": "SELECT id, total FROM orders WHERE customer_id = 42",
    "ref_covering": "SELECT created FROM orders WHERE customer_id = 42",
    "ref_prefix": "SELECT quantity FROM items WHERE order_id = 9",
    "range": "SELECT total FROM orders WHERE created >= 100 AND created < 140",
    "ref_range": "SELECT total FROM orders WHERE customer_id = 42 AND created >= 1000 AND created < 9000",
    "full": "SELECT id FROM orders WHERE total = 3",
    "in_list": "SELECT total FROM orders WHERE id IN (1, 5, 9)",
    "join_const": "SELECT c.email, o.total FROM customers c JOIN orders o ON o.customer_id = c.id WHERE c.id = 5",
    "join_unique": "SELECT c.email, o.total FROM orders o JOIN customers c ON c.id = o.customer_id"
    " WHERE o.created >= 100 AND o.created < 103",
    "join_three": "SELECT c.email, i.quantity FROM customers c JOIN orders o ON o.customer_id = c.id"
    " JOIN items i ON i.order_id = o.id WHERE c.email = 'c7@shop.example'",
    "join_hash": "SELECT o.id FROM orders o JOIN items i ON i.quantity = o.total WHERE o.created < 40 AND i.product < 3",
    "join_left": "SELECT c.id, o.id FROM customers c LEFT JOIN orders o ON o.customer_id = c.id AND o.total > 900"
    " WHERE c.id < 20",
    "sort_limit": "SELECT id, total FROM orders ORDER BY total LIMIT 10",
    "sort_all": "SELECT id, note FROM orders ORDER BY note, total",
    "group": "SELECT status, count(*) FROM orders GROUP BY status",
    "index_scan": "SELECT created FROM orders ORDER BY created LIMIT 10",
    "exists": "SELECT id FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id AND o.total > 990)",
    "derived": "SELECT d.status, d.n FROM (SELECT status, count(*) AS n FROM orders GROUP BY status) d WHERE d.n > 10",
    "scalar": "SELECT c.id, (SELECT max(o.total) FROM orders o WHERE o.customer_id = c.id) FROM customers c WHERE c.id < 5",
    "union": "SELECT id FROM orders WHERE created = 7 UNION SELECT id FROM customers WHERE id < 3",
    "either": "SELECT id FROM customers WHERE email = 'c12@shop.example' OR phone = '0100012'",
    "window": "SELECT id, row_number() OVER (PARTITION BY customer_id ORDER BY created) FROM orders WHERE customer_id < 5",
    "distinct": "SELECT DISTINCT product FROM items WHERE quantity = 2",
    "min": "SELECT min(created) FROM orders",
    "conversion": "SELECT id FROM customers WHERE phone = 100012",
    "impossible": "SELECT id FROM orders WHERE id = 1 AND id = 2",
    "lost_bound": "SELECT o.id FROM customers c JOIN orders o ON o.shipped >= c.id - 20 AND o.shipped < c.id WHERE c.id = 100",
    "lost_join": "SELECT o.id FROM customers c, orders o WHERE c.city = 'city3' AND o.shipped >= c.id - 20"
    " AND o.shipped < c.id",
    "not_in": "SELECT id FROM customers WHERE id NOT IN (SELECT customer_id FROM orders WHERE created < 50)",
    "like": "SELECT id FROM customers WHERE email LIKE 'c12%'",
    "is_null": "SELECT id FROM orders WHERE shipped IS NULL",
    "of_subquery": "SELECT id FROM orders WHERE created = (SELECT max(created) FROM orders)",
    "either_range": "SELECT id FROM orders WHERE (created >= 10 AND created < 20) OR (created >= 500 AND created < 510)",
    "recursive": "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50)"
    " SELECT o.id FROM n JOIN orders o ON o.id = n.i",
    "loose": "SELECT customer_id, max(created) FROM orders GROUP BY customer_id",
    "delete_join": "DELETE FROM items WHERE order_id IN (SELECT id FROM orders WHERE total = 5)",
    "insert_select": "INSERT INTO visits SELECT id + 100000, 1, 'x' FROM orders WHERE total = 5",
    "update": "UPDATE orders SET total = total + 1 WHERE customer_id = 42",
    "delete": "DELETE FROM items WHERE order_id = 9",
    "insert": "INSERT INTO items VALUES (1, 900, 1, 1)",
    "no_table": "SELECT 1 + 1",
    "stale_join": "SELECT count(v.note) FROM items i JOIN visits v ON v.page = i.product WHERE i.order_id = 474",
    "stale_page": "SELECT count(note) FROM visits WHERE page = 7",
}
ONLY_MYSQLS = ("conversion",)
"""PostgreSQL refuses to compare a text with a number."""


def rows() -> Iterator[tuple[str, list[tuple[object, ...]]]]:
    """Each table with all its rows, the same in every run."""
    yield "customers", [(n, f"c{n}@shop.example", f"01{n:05d}", f"city{n % 50}", "x" * 150) for n in range(1, CUSTOMERS + 1)]
    yield (
        "orders",
        [
            (
                n,
                n * 7919 % CUSTOMERS + 1,
                n * 31 % 10007,
                n * 17 % 5003,
                f"s{n % 4}",
                n * 13 % 997,
                "y" * 100 + str(n * 7 % 1009),
            )
            for n in range(1, ORDERS + 1)
        ],
    )
    yield "items", [(n, line, (n + line) * 37 % 503, (n + line) % 9 + 1) for n in range(1, ORDERS // 2 + 1) for line in (1, 2)]
    yield "visits", [(n, n, "z") for n in range(1, 101)]


def rows_after_statistics() -> Iterator[tuple[str, list[tuple[object, ...]]]]:
    """What comes when the servers have looked at their tables: their statistics do not know of it."""
    yield "visits", [(n, 7, "z") for n in range(101, 20101)]


def inserts(every_table: Iterator[tuple[str, list[tuple[object, ...]]]], batch: int = 1000) -> Iterator[str]:
    for table, every in every_table:
        for first in range(0, len(every), batch):
            values = ",".join("(" + ",".join(_literal(cell) for cell in row) + ")" for row in every[first : first + batch])
            yield f"INSERT INTO {table} VALUES {values}"


def _literal(cell: object) -> str:
    return f"'{cell}'" if isinstance(cell, str) else str(cell)
