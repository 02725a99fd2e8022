"""Questions to whoever sits at the terminal. Only the standard library is imported: the launcher asks, too."""

from __future__ import annotations

import sys


def agreed(question: str) -> bool | None:
    """Whether the answer to a ``[Y/n]`` question is yes; None without a terminal, where nobody could answer."""
    if not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    sys.stderr.write(question)
    sys.stderr.flush()
    answer = sys.stdin.readline()
    return answer.endswith("\n") and answer.strip().lower() in ("", "y", "yes")
