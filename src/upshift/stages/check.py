"""The stage that looks at the configuration of the server in use, before anything is optimised."""

from __future__ import annotations

import pymysql

from upshift.check.address import Address, find_address
from upshift.check.gather import read_facts
from upshift.check.model import Checked
from upshift.check.rule import judge
from upshift.check.rules import RULES
from upshift.check.session import opened
from upshift.errors import UpshiftError
from upshift.options import Options
from upshift.server.kind import ServerKind
from upshift.stages.lab import Lab
from upshift.stages.names import Stage
from upshift.workbench import Workbench

_KNOWN = "mysql"
"""The rules are those of MySQL and MariaDB: no other kind has anything to check."""


def address_of(options: Options) -> Address | None:
    """The server to look at; None: nobody named one. Raises UsageError for what is no address."""
    if not (options.server or options.defaults_file):
        return None
    return find_address(options.server, options.defaults_file, None)


def is_checked(kind: ServerKind, options: Options) -> bool:
    """Whether there is a stage for it."""
    return kind.name == _KNOWN and bool(options.server or options.defaults_file)


def check_server(lab: Lab, options: Options) -> Checked:
    """What ``upshift check`` finds on the server that the user runs. It only reads.

    What goes wrong is said in the result: no run ends for it. Never taken from another run.
    """
    if lab.kind.name != _KNOWN:
        return Checked(report=None, why_none="the server is no MySQL: there is nothing to check")
    if not is_checked(lab.kind, options):
        return Checked(report=None, why_none="no server was named: --server takes the one that you run")

    def action(bench: Workbench) -> Checked:
        try:
            address = address_of(options)
            assert address is not None
            with opened(address) as session:
                report = judge(read_facts(session), RULES, server=address.shown())
        except (UpshiftError, pymysql.MySQLError, OSError) as error:
            said = error.message if isinstance(error, UpshiftError) else str(error)
            return Checked(report=None, why_none=f"the server was not checked: {said.strip()}", failed=True)
        for each in report.findings:
            if each.severity != "note":
                bench.progress.note(f"{each.severity}: {each.title} ({each.id})")
        return Checked(report=report)

    def lasts(found: Checked) -> bool:
        return not found.failed

    inputs = {"server": options.server, "defaults_file": options.defaults_file}
    return lab.stages.run(Stage.CHECK, Checked, action, inputs=inputs, keep=False, lasts=lasts)
