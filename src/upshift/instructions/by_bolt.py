"""Counts by a server that BOLT has instrumented: it counts its own branches, at a fraction of valgrind's cost.

The counts are written when the server ends, so that the short and the long run are two starts of it, each with the same
statements before those that count. What starting, ending and warming up execute is the same in both, and in neither's slope.
BOLT then puts the counts back on the blocks of the server as it was, and adds up what they hold.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from threading import Lock

from upshift.build import bolt
from upshift.errors import CommandFailed, CountFailed
from upshift.instructions.executed import Executed
from upshift.instructions.loads import LONGER, load_fixed
from upshift.measure.variant import Variant
from upshift.server.data import copy
from upshift.server.instance import RunningServer, running
from upshift.server.kind import ServerKind
from upshift.server.tier import refuse_without_tier
from upshift.shell import Command, Shell
from upshift.toolchain.model import Toolchain
from upshift.workload.model import Workload

MORE = 20
"""Times the transactions of ``fixed``: all threads count here, by the clock as well, and the statements must outweigh them."""
_READ_TIMEOUT_S = 900.0
_START_TIMEOUT_S = 300.0
_FAILED = re.compile(r"BOLT-ERROR: (.*)")
_STATISTICS = "program-wide dynostats"
_FIGURE = re.compile(r"^\s*(\d+) : (executed instructions|all function calls|taken branches)$", re.M)


class Instrumented:
    """Copies of servers that count, each made once; one at a time, as that takes gigabytes for a large server."""

    def __init__(self, shell: Shell, toolchain: Toolchain, folder: Path, log: Path) -> None:
        self._shell = shell
        self._toolchain = toolchain
        self._folder = folder
        self._log = log
        self._made: dict[Path, Path] = {}
        self._lock = Lock()

    def of(self, server: Path) -> Path:
        """Raises CountFailed when BOLT does not take the server, NotEnoughRoom when memory would not do."""
        with self._lock:
            if server not in self._made:
                self._made[server] = self._make(server)
            return self._made[server]

    def _make(self, server: Path) -> Path:
        folder = self._folder / f"counting-{len(self._made)}"
        folder.mkdir(parents=True, exist_ok=True)
        output = folder / server.name
        log = self._log.with_name(f"{self._log.stem}-instrumenting-{len(self._made)}.log")
        try:
            bolt.instrument(self._shell, self._toolchain, server, output, folder / "counts", (), log)
        except CommandFailed as error:
            raise CountFailed(
                f"BOLT does not instrument it: {_reason(log) or error.message}",
                "it needs a server with its symbols that was linked with -Wl,--emit-relocs, as it was before BOLT optimised it",
            ) from error
        return output

    def remove(self) -> None:
        """Delete the copies: that of a large server has hundreds of megabytes."""
        for copied in self._made.values():
            shutil.rmtree(copied.parent, ignore_errors=True)

    def executed(self, server: Path, pid: int) -> Executed:
        """What the process ``pid``, which ran the copy of ``server`` and ended, has counted. Raises CountFailed."""
        assert self._toolchain.bolt is not None
        counts = self.of(server).parent / f"counts.{pid}.fdata"
        if not counts.is_file():
            raise CountFailed("the instrumented server left no counts when it ended")
        command = (str(self._toolchain.bolt), str(server), "-o", "/dev/null", f"-data={counts}", "-dyno-stats")
        try:
            done = self._shell.run(Command(command), timeout_s=_READ_TIMEOUT_S)
        except CommandFailed as error:
            raise CountFailed(f"BOLT does not read what the server counted: {error.message}", error.hint) from error
        counts.unlink()
        return read(done.stdout)


def read(said: str) -> Executed:
    """BOLT's statistics of the server as it was, which stand before those of what it would make of it. Raises CountFailed."""
    _, found, statistics = said.partition(_STATISTICS)
    figures: dict[str, int] = {}
    for figure in _FIGURE.finditer(statistics):
        figures.setdefault(figure[2], int(figure[1]))
    if not found or len(figures) < 3:
        raise CountFailed("BOLT printed no statistics of what the server executed")
    return Executed(
        instructions=figures["executed instructions"],
        calls=figures["all function calls"],
        taken_branches=figures["taken branches"],
    )


def count_twice(
    shell: Shell,
    kind: ServerKind,
    arm: Variant,
    workload: Workload,
    template: Path,
    folder: Path,
    *,
    instrumented: Instrumented,
    cpus: tuple[int, ...],
    log: Path,
) -> tuple[tuple[Executed, int], tuple[Executed, int]]:
    """What a short and a long run execute, each with the queries that the server counted in it.

    Raises CountFailed, ServerFailed, LoadFailed, CommandFailed or NotEnoughRoom.
    """
    assert workload.fixed is not None
    transactions = MORE * workload.fixed.transactions
    counting = instrumented.of(arm.program.binary)
    tools = arm.program.tools or arm.program.binary.parent
    program = arm.program.model_copy(update={"binary": counting, "tools": tools})
    steady = kind.repeatable()

    def run(many: int) -> tuple[Executed, int]:
        try:
            data = copy(shell, template, folder / "data")
            with running(
                *(shell, kind, program, data),
                log=log,
                settings={**steady.settings, **workload.settings, **arm.settings},
                environment={**steady.environment, **arm.environment},
                under=(*arm.before_server(folder), "setarch", "-R"),
                cpus=cpus,
                start_timeout_s=_START_TIMEOUT_S,
            ) as server:
                if arm.tier:
                    refuse_without_tier(shell, server)
                queries = _loaded(server, many)
            return instrumented.executed(arm.program.binary, server.pid), queries
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _loaded(server: RunningServer, many: int) -> int:
        kind.leave_undisturbed(server.socket)
        load_fixed(shell, kind, arm, workload, server, LONGER * transactions, cpus=cpus, log=log)
        before = server.counted(workload.unit)
        load_fixed(shell, kind, arm, workload, server, many, cpus=cpus, log=log)
        return server.counted(workload.unit) - before

    return run(transactions), run(LONGER * transactions)


def _reason(log: Path) -> str:
    """What BOLT says is wrong, in its own words."""
    found = _FAILED.findall(log.read_text(errors="replace")) if log.is_file() else []
    return found[-1].rstrip(".") if found else ""
