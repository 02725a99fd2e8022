"""The stage that fills data folders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from upshift.measure.variant import read_sql
from upshift.server import data
from upshift.server.kind import Program
from upshift.stages.keys import fills_key, program_key
from upshift.stages.lab import Lab
from upshift.stages.names import Stage
from upshift.values import Value
from upshift.workbench import Workbench
from upshift.workload.model import Workload

VERSION = 5
"""Raised when what fills data changes beside the workload's own command: no key holds it."""
CHANGED_VERSION = 3
"""Raised when what changes data changes beside the statements."""


class Filled(Value):
    """A data folder that the workloads have filled."""

    path: Path
    sha256: str
    """Of its contents: what is found out or trained on these data belongs to them alone."""


def change_data(
    lab: Lab, program: Program, base: Filled, sql: Sequence[Path], workloads: tuple[Workload, ...], settings: Mapping[str, str]
) -> Filled:
    """A copy of ``base`` that ``program``, with ``settings`` over those of the workloads, has changed by files of statements.

    Raises UsageError for a file that cannot be read, and for a statement that the server refuses.
    """
    kind = lab.kind_of(program)
    statements = {str(file): read_sql(file) for file in sql}
    settings = {**data.settings_of(workloads), **settings}

    def action(bench: Workbench) -> Filled:
        target = bench.folder / "data"
        folder = data.changed(bench.shell, kind, program, base.path, target, bench.log, settings, statements)
        return Filled(path=folder, sha256=data.contents_sha256(folder))

    inputs = {
        "program": program_key(program),
        "data": base.sha256,
        "statements": list(statements.values()),
        "settings": {**kind.settings(), **settings},
    }
    return lab.stages.run(Stage.CHANGED_DATA, Filled, action, inputs=inputs, version=CHANGED_VERSION)


def fill_data(
    lab: Lab,
    program: Program,
    workloads: tuple[Workload, ...],
    name: Stage = Stage.DATA,
    *,
    settings: Mapping[str, str] = {},
) -> Filled:
    """A data template made by the program that is measured against (its data format is then the program's own).

    The server has ``settings`` over those of the workloads.
    """
    kind = lab.kind_of(program)

    def action(bench: Workbench) -> Filled:
        folder = data.template(bench.shell, kind, program, workloads, bench.folder / "data", bench.log, settings)
        return Filled(path=folder, sha256=data.contents_sha256(folder))

    inputs = {
        "program": program_key(program),
        **fills_key(workloads),
        "settings": {**kind.settings(), **data.settings_of(workloads), **settings},
    }
    return lab.stages.run(name, Filled, action, inputs=inputs, version=VERSION)
