"""The server that the pipeline makes needs fewer instructions for the work it was trained on.

Instructions are counted by Valgrind, not timed: a busy machine changes nothing.
"""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

import pytest
from conftest import SMALL, SOURCE, Cli, workload

from upshift.server.instance import running
from upshift.server.kind import Program
from upshift.server.kinds import default_kind
from upshift.shell import Shell, SystemShell
from upshift.workload.driver import fill, run_load
from upshift.workload.library import find_workload

pytestmark = pytest.mark.pipeline
MIX = find_workload(workload("mix"))


def test_the_new_server_needs_fewer_instructions(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPSHIFT_SERVER_KIND", str(SMALL / "kind.py"))
    built = cli("build", "plain", "--source", str(SOURCE), "--workload", workload("mix"), "--no-install")
    assert built.code == 0, built.stderr
    done = cli.optimize("--trials", "1")
    assert done.code == 0, done.stderr
    with tarfile.open(done.result().package) as package:
        package.extractall(tmp_path, filter="data")
    (installed,) = tmp_path.glob("*/bin/smallserver")
    shell = SystemShell()
    try:
        plain, optimised = (
            _instructions_a_statement(shell, server, tmp_path / name)
            for name, server in (("plain", Path(built.stdout.strip())), ("optimised", installed))
        )
    finally:
        shell.close()
    assert optimised < 0.9 * plain


def _instructions_a_statement(shell: Shell, server: Path, folder: Path) -> float:
    """What ``server`` executes in user mode for a statement of the mix, without its start and the filling."""
    idle, _ = _session(shell, server, folder / "filled", seconds=0)
    loaded, statements = _session(shell, server, folder / "loaded", seconds=3)
    return (loaded - idle) / statements


def _session(shell: Shell, server: Path, folder: Path, *, seconds: float) -> tuple[int, int]:
    """All instructions from a server's start to its end, and the statements of the load."""
    folder.mkdir(parents=True)
    kind, data, log, counted = default_kind(), folder / "data", folder / "log", folder / "counted"
    shell.run(kind.initialise(Program(kind=kind.name, binary=server), data), log=log)
    wrapper = folder / "wrapper"
    count = f"valgrind --quiet --tool=cachegrind --cache-sim=no --cachegrind-out-file='{counted}'"
    wrapper.write_text(f"#!/bin/sh\nexec {count} '{server}' \"$@\"\n")
    wrapper.chmod(0o755)
    program = Program(kind=kind.name, binary=wrapper, tools=server.parent)
    statements = 0
    with running(shell, kind, program, data, log=log) as counting:
        fill(shell, kind, MIX, counting, log)
        if seconds > 0:
            _report, statements = run_load(shell, kind, MIX, counting, seconds=seconds, cpus=(), log=log)
    found = re.search(r"^summary: (\d+)", counted.read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]), statements
