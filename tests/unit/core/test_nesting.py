"""How deep expressions may nest: found by halving, whatever ends it, but a server that dies is no answer."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pymysql
import pytest
from fakes import FakeProgress, FakeShell

from upshift.errors import CommandFailed, ServerFailed
from upshift.server import nesting
from upshift.server.kind import Program
from upshift.server.mysql import MySQL
from upshift.shell import Command, Completed
from upshift.workbench import Workbench


class Connection:
    """Refuses a statement of more than ``limit`` levels with ``error``."""

    def __init__(self, limit: int, error: pymysql.MySQLError) -> None:
        self.limit, self.error = limit, error

    def cursor(self) -> Connection:
        return self

    def execute(self, statement: str) -> None:
        if max(statement.count(word) for word in ("IF(", "CASE", "ABS(", "(SELECT")) > self.limit:
            raise self.error

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def connect(monkeypatch: pytest.MonkeyPatch, limit: int, error: pymysql.MySQLError) -> None:
    def connected(**_: Any) -> Connection:
        return Connection(limit, error)

    monkeypatch.setattr(pymysql, "connect", connected)


@pytest.mark.parametrize("number", [1436, 3950])
def test_the_deepest_level_that_is_taken_is_found(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    connect(monkeypatch, 2079, pymysql.OperationalError(number, "no more"))
    assert nesting.deepest(Path("/s")) == dict.fromkeys(("IF", "CASE", "ABS", "subquery"), 2079)


def test_a_server_that_hangs_before_it_can_be_asked_is_ended(tmp_path: Path) -> None:
    """What is asked how deep it may nest was compiled just now, and may do anything."""

    class Hanging(FakeShell):
        def run(self, command: Command, *, timeout_s: float | None = None, **named: Any) -> Completed:
            raise CommandFailed(f"it did not end within {timeout_s or math.inf:.0f} s")

    bench = Workbench(tmp_path, Hanging(), tmp_path / "log", FakeProgress())
    with pytest.raises(CommandFailed, match="within 300 s"):
        MySQL().nesting(Program(kind="mysql", binary=tmp_path / "mysqld"), tmp_path / "data", bench)


def test_a_server_that_dies_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, 100, pymysql.OperationalError(2013, "Lost connection"))
    with pytest.raises(ServerFailed, match="died of a deeply nested expression"):
        nesting.deepest(Path("/s"))
