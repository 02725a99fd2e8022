"""Whether the libraries that a server preloads are loaded: the system's loader goes on without those that it cannot load."""

from __future__ import annotations

import re
from collections.abc import Mapping

from upshift.errors import UsageError
from upshift.shell import Command, Shell

PRELOAD = "LD_PRELOAD"
_IGNORED = re.compile(r"ERROR: ld\.so: object '(.*)' from LD_PRELOAD cannot be preloaded \((.*)\)")
_TIMEOUT_S = 20.0


def refuse_ignored(shell: Shell, whose: str, environment: Mapping[str, str]) -> None:
    """Raises UsageError where the loader would leave out a library that ``environment`` names: a figure of a server without
    its allocator looks like one with it. The loader itself says so, of any program: here of ``env``.
    """
    if not environment.get(PRELOAD):
        return
    command = Command(("env",), env={PRELOAD: environment[PRELOAD]})
    said = shell.run(command, check=False, timeout_s=_TIMEOUT_S).stdout
    for library, why in _IGNORED.findall(said):
        raise UsageError(
            f"{whose}: {PRELOAD} names {library}, which cannot be loaded: {why}",
            "install its package, or leave it out: the server would start without it",
        )
