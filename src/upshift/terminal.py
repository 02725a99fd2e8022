"""Questions to whoever sits at the terminal. Only the standard library is imported: the launcher asks, too."""

from __future__ import annotations

import getpass
import sys


def is_there() -> bool:
    """Whether somebody could answer."""
    return bool(sys.stdin and sys.stdin.isatty() and sys.stderr.isatty())


def password(question: str) -> str:
    """What is typed, which the terminal does not show; empty where nothing is."""
    try:
        return getpass.getpass(question)
    except EOFError:
        return ""


def agreed(question: str) -> bool | None:
    """Whether the answer to a ``[Y/n]`` question is yes; None without a terminal, where nobody could answer."""
    if not is_there():
        return None
    sys.stderr.write(question)
    sys.stderr.flush()
    answer = sys.stdin.readline()
    return answer.endswith("\n") and answer.strip().lower() in ("", "y", "yes")
