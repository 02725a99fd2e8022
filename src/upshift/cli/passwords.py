"""A password that a server wants and nobody configured is asked for, once, where somebody sits at the terminal."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TypeVar

from upshift import terminal

if TYPE_CHECKING:
    from upshift.check import address as check
    from upshift.stack.plans import address as plans

A = TypeVar("A", "check.Address", "plans.Address")


def with_password(address: A, opened: Callable[[A], AbstractContextManager[object]]) -> A:
    """The address as it is, or with the password that was typed. Without a terminal nothing is tried.

    Raises what ``opened`` raises for a server that is not there or refuses the login for another reason.
    """
    from upshift.check.address import PasswordWanted

    if address.password or not terminal.is_there():
        return address
    try:
        with opened(address):
            return address
    except PasswordWanted:
        typed = terminal.password(f"Password of {address.user} at {address.shown()}: ")
        return address.model_copy(update={"password": typed})
