"""Drivers are recognised by what they say of themselves, and each has fixes of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from faulty_shop import shop

from upshift.errors import UsageError
from upshift.stack.drivers import DRIVERS, GENERIC, find_driver, fixes, recognised
from upshift.stack.read import read_evidence
from upshift.stack.suspects.model import Finding
from upshift.stack.suspects.rules import RULES, judge
from upshift.stack.suspects.thresholds import Thresholds


@pytest.mark.parametrize(
    ("family", "name", "attributes", "driver"),
    [
        ("mysql", "MySQL Connector/J", None, "Connector/J"),
        ("mysql", "MariaDB Connector/J", "{}", "MariaDB Connector/J"),
        ("mysql", "Go-MySQL-Driver", None, "go-sql-driver"),
        ("mysql", "Node-MySQL-2", None, "mysql2"),
        ("mysql", "pymysql", None, "PyMySQL"),
        ("mysql", "libmysql", '{"_connector_name": "mysql-connector-python"}', "Connector/Python"),
        ("mysql", "libmysql", '{"_os": "Linux"}', "libmysqlclient"),
        ("mysql", "libmariadb", None, "libmysqlclient"),
        ("postgres", "PostgreSQL JDBC Driver", None, "pgjdbc"),
        ("postgres", "pymysql", None, None),
        ("postgres", "psql", None, None),
        ("mysql", None, None, None),
    ],
)
def test_a_driver_is_recognised(family: str, name: str | None, attributes: str | None, driver: str | None) -> None:
    assert recognised(family, name, attributes) == driver


def test_every_suspect_has_a_fix_whatever_the_driver() -> None:
    assert set(GENERIC) >= set(RULES)
    assert all(set(each.fixes) <= set(GENERIC) for each in DRIVERS.values())
    assert fixes("C8", ("PyMySQL",)) == fixes("C8", ())


def test_a_finding_names_the_option_of_the_driver(tmp_path: Path) -> None:
    seen = read_evidence(shop(["C3"], client="MySQL Connector/J").export(tmp_path))
    (finding, *_) = judge(seen, Thresholds())
    assert isinstance(finding, Finding)
    assert [(each.driver, "useCursorFetch=false" in each.text) for each in finding.fixes] == [("Connector/J", True)]


def test_a_driver_is_found_by_its_name() -> None:
    assert find_driver("connector/j") == "Connector/J"
    with pytest.raises(UsageError) as refused:
        find_driver("odbc")
    assert "Connector/J" in refused.value.hint
