"""A password that nobody configured is asked for once, and only where somebody can answer."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pymysql
import pytest

from upshift import terminal
from upshift.check import session as check_session
from upshift.check.address import Address, PasswordWanted
from upshift.cli.passwords import with_password
from upshift.errors import ServerFailed, UsageError
from upshift.stack.plans import session as plans_session
from upshift.stack.plans.address import Address as PlansAddress

SHOP = Address(host="db.local", user="app")


class Server:
    """Takes one password, and counts who tries."""

    def __init__(self, password: str) -> None:
        self.password, self.tried = password, 0

    @contextmanager
    def opened(self, address: Address) -> Iterator[None]:
        self.tried += 1
        if address.password != self.password:
            raise UsageError("wrong") if address.password else PasswordWanted("none")
        yield


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was asked of somebody who types "secret"."""
    asked: list[str] = []
    monkeypatch.setattr(terminal, "is_there", lambda: True)

    def typed(question: str) -> str:
        asked.append(question)
        return "secret"

    monkeypatch.setattr(getpass, "getpass", typed)
    return asked


def test_a_password_that_lacks_is_asked_for_once(questions: list[str]) -> None:
    server = Server("secret")
    found = with_password(SHOP, server.opened)
    assert found == SHOP.model_copy(update={"password": "secret"})
    assert questions == ["Password of app at db.local:3306: "]
    # It is configured now.
    assert with_password(found, server.opened) == found
    assert (len(questions), server.tried) == (1, 1)


def test_nothing_is_asked_where_the_server_wants_nothing(questions: list[str]) -> None:
    assert with_password(SHOP, Server("").opened) == SHOP
    assert questions == []


def test_another_refusal_is_told_and_nothing_is_asked(questions: list[str]) -> None:
    @contextmanager
    def gone(_address: Address) -> Iterator[None]:
        raise ServerFailed("gone", "look")
        yield

    with pytest.raises(ServerFailed, match="gone"):
        with_password(SHOP, gone)
    assert questions == []


def test_without_a_terminal_nobody_is_asked_and_the_servers_refusal_comes_later(
    questions: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "is_there", lambda: False)
    server = Server("secret")
    assert with_password(SHOP, server.opened) == SHOP
    assert (questions, server.tried) == ([], 0)


def test_who_types_nothing_gets_the_servers_refusal(questions: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_question: str) -> str:
        raise EOFError

    monkeypatch.setattr(getpass, "getpass", nothing)
    server = Server("secret")
    found = with_password(SHOP, server.opened)
    with pytest.raises(PasswordWanted), server.opened(found):
        pass


MYSQLS: dict[str, Any] = {
    "check": lambda password: check_session.opened(SHOP.model_copy(update={"password": password})),
    "stack": lambda password: plans_session.opened(PlansAddress(postgres=False, port=1, user="app", password=password), 1),
}


@pytest.mark.parametrize("session", MYSQLS)
@pytest.mark.parametrize(
    ("code", "password", "wanted"), [(1045, "", True), (1045, "typed", False), (1698, "", False), (1130, "", False)]
)
def test_a_mysqls_refusal_says_whether_a_password_lacks(
    session: str, code: int, password: str, wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(**_options: object) -> None:
        raise pymysql.err.OperationalError(code, "Access denied")

    monkeypatch.setattr(pymysql, "connect", refuses)
    with pytest.raises(UsageError, match="Access denied") as raised, MYSQLS[session](password):
        pass
    assert isinstance(raised.value, PasswordWanted) is wanted
    assert "option file" in raised.value.hint
