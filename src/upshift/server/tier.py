"""Whether a running server has its tier: the log says why one was not opened, and the server goes on without."""

from __future__ import annotations

import json

from upshift.errors import ServerFailed
from upshift.native.programs import programs_dir
from upshift.server.instance import RunningServer
from upshift.shell import Command, Shell


def refuse_without_tier(shell: Shell, server: RunningServer) -> None:
    """Raises ServerFailed for a server whose tier was not opened, or turned itself off: its figures would be those of none."""
    server.check()
    stat = Command((str(programs_dir() / "upshift-cache"), "stat", "--json", "--pid", str(server.pid)))
    done = shell.run(stat, check=False)
    found = json.loads(done.stdout) if done.returncode == 0 else {}
    if found.get("alive") and not found["off"]:
        return
    why = f": {found['off']}" if found.get("off") else ""
    raise ServerFailed(
        f"{server.label}the server runs without the tier that its variant asks for{why}", f"{server.log} says more"
    )
