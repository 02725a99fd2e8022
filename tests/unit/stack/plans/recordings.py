"""The recorded answers of real servers, parsed."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import shop

from upshift.stack.plans.model import Node, Notice
from upshift.stack.plans.mysql_json2 import parse_mysql_json2
from upshift.stack.plans.mysql_tree import parse_mysql_tree
from upshift.stack.plans.postgres import parse_postgres
from upshift.stack.plans.postgres_index import Catalog, Index
from upshift.stack.plans.query_block import parse_mariadb, parse_mysql_json1

FOLDER = Path(__file__).parent / "recorded"
CATALOG = Catalog(
    indexes={
        "customers_pkey": Index(columns=("id",), unique=True),
        "customers_email": Index(columns=("email",), unique=True),
        "customers_phone": Index(columns=("phone",)),
        "orders_pkey": Index(columns=("id",), unique=True),
        "orders_customer": Index(columns=("customer_id", "created")),
        "orders_created": Index(columns=("created",)),
        "orders_shipped": Index(columns=("shipped",)),
        "items_pkey": Index(columns=("order_id", "line"), unique=True),
        "items_product": Index(columns=("product",)),
        "visits_pkey": Index(columns=("id",), unique=True),
        "visits_page": Index(columns=("page",)),
    },
    table_rows={"customers": shop.CUSTOMERS, "orders": shop.ORDERS, "items": shop.ORDERS, "visits": 100},
)


@functools.cache
def answers(family: shop.Family) -> dict[str, dict[str, Any]]:
    statements: dict[str, dict[str, Any]] = json.loads((FOLDER / f"{family}.json").read_text())["statements"]
    return statements


def forms() -> list[tuple[shop.Family, str, str]]:
    """Every recorded plan: server, statement, form."""
    families: tuple[shop.Family, ...] = ("mysql", "mariadb", "postgres")
    return [
        (family, name, form)
        for family in families
        for name, each in answers(family).items()
        for form in each
        if form not in ("notices", "trace")
    ]


@functools.cache
def tree(family: shop.Family, name: str, form: str) -> Node:
    return parsed(family, form, answers(family)[name][form], answers(family)[name].get("trace"))


def parsed(family: shop.Family, form: str, answer: Any, trace: str | None = None) -> Node:
    if family == "postgres":
        return parse_postgres(answer, CATALOG)
    if family == "mariadb":
        return parse_mariadb(answer, trace)
    if form == "json1":
        return parse_mysql_json1(answer)
    return parse_mysql_tree(answer) if "tree" in form else parse_mysql_json2(answer)


def notices(family: shop.Family, name: str) -> tuple[Notice, ...]:
    return tuple(Notice(code=code, text=said) for code, said in answers(family)[name]["notices"])
