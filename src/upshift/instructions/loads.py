"""The fixed load of a count: so many transactions, on one connection, from one seed."""

from __future__ import annotations

from pathlib import Path

from upshift.measure.variant import Variant
from upshift.server.instance import RunningServer
from upshift.server.kind import ServerKind
from upshift.shell import Shell
from upshift.workload.driver import run_fixed
from upshift.workload.model import Workload

LONGER = 3
"""The long run's transactions over the short one's."""
_LOAD_TIMEOUT_S = 600.0


def load_fixed(
    shell: Shell,
    kind: ServerKind,
    arm: Variant,
    workload: Workload,
    server: RunningServer,
    transactions: int,
    *,
    cpus: tuple[int, ...],
    log: Path,
) -> None:
    """Raises LoadFailed."""
    run_fixed(
        *(shell, kind, workload, server),
        transactions=transactions,
        options=arm.client,
        cpus=cpus,
        log=log,
        timeout_s=_LOAD_TIMEOUT_S,
    )
