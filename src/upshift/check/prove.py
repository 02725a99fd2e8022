"""A finding as an experiment: the same server with the settings as they are, and as they should be."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from upshift.check.model import Facts, Finding, NotJudged, Report
from upshift.check.rule import can_measure
from upshift.door import OLDEST_MYSQL, mysql_number, version_of
from upshift.errors import CommandFailed, UsageError
from upshift.measure.model import Comparison
from upshift.measure.variant import Variant
from upshift.report.words import count, measured
from upshift.server.kind import Program
from upshift.server.kinds import default_kind
from upshift.shell import SystemShell

NOW, FIXED = "now", "fixed"
_OPTIONS = {"plugin_dir": "--plugin-dir", "lc_messages_dir": "--lc-messages-dir", "character_sets_dir": "--character-sets-dir"}
"""Folders that a server does not find by itself where it was built and not installed."""
_PROGRAMS = ("bin/mysqld", "sbin/mysqld", "libexec/mysqld", "runtime_output_directory/mysqld")


def refuse_server(facts: Facts) -> None:
    """Raises UsageError for a server that Upshift does not start."""
    hint = "make the change on a test server, and load it before and after: `upshift load` prints throughput and latencies"
    if facts.family != default_kind().name:
        raise UsageError("--prove starts MySQL, and this server is MariaDB", hint)
    if not can_measure(facts):
        oldest = ".".join(map(str, OLDEST_MYSQL))
        raise UsageError(f"--prove starts MySQL from {oldest} on, and this server is {facts.version_text}", hint)


def find_finding(report: Report, id: str) -> Finding:
    """What the check found under this name. Raises UsageError when there is nothing that could be measured."""
    finding = next((each for each in report.findings if each.id == id), None)
    if finding is None:
        unknown: NotJudged | None = next((each for each in report.not_judged if each.id == id), None)
        why = f"it was not judged: {unknown.why}" if unknown else "the server is well there"
        raise UsageError(f"there is no finding '{id}' to prove", why)
    if not finding.provable:
        raise UsageError(
            f"'{id}' cannot be proven by a measurement", "a measurement needs a fix by settings that change the cost of a load"
        )
    return finding


def find_binary(facts: Facts, named: Path | None) -> Path:
    """The server's program: what ``--binary`` names, the running one's, or one in its folders.

    Raises UsageError where there is none, or where it is of another version.
    """
    if named is not None:
        if not _executable(named):
            raise UsageError(f"--binary {named} is not an executable", "name the server's program, mysqld")
        return _of_its_version(named, facts)
    if facts.host is None:
        raise UsageError("the server runs on another machine", "name a program of the same version with --binary")
    base = Path(facts.variables.get("basedir", "/usr"))
    for program in (Path(facts.host.program or "/nowhere"), *(base / each for each in _PROGRAMS)):
        if _executable(program):
            return _of_its_version(program, facts)
    raise UsageError(f"there is no server's program below {base}", "name it with --binary")


def _of_its_version(program: Path, facts: Facts) -> Path:
    """The program behind links. Raises UsageError for another version than the server's."""
    # The path may be one of the server's container, or an upgrade may have replaced the file since the server's start.
    version = _version(program)
    if version == facts.version:
        return program.resolve()
    what = f"is MySQL {'.'.join(map(str, version))}" if version else "does not tell its version"
    raise UsageError(
        f"{program} {what}, and the server is {facts.version_text}",
        "name a program of the server's version with --binary; after an upgrade, restart the server and check again",
    )


def _version(program: Path) -> tuple[int, int, int] | None:
    try:
        return mysql_number(version_of(SystemShell(), default_kind(), program))
    except CommandFailed:
        return None


def variants_of(finding: Finding, facts: Facts, binary: Path) -> tuple[Variant, Variant]:
    """The server as it is and as it should be; settings that have nothing to do with it are the laboratory's."""
    folders = {option: facts.variables.get(name, "") for name, option in _OPTIONS.items()}
    options = tuple(f"{option}={folder}" for option, folder in folders.items() if folder and Path(folder).is_dir())
    program = Program(kind=default_kind().name, binary=binary, options=options)
    beside = finding.settings_beside
    return (
        Variant(name=NOW, program=program, settings={**beside, **finding.settings_now}),
        Variant(name=FIXED, program=program, settings={**beside, **finding.settings_then}),
    )


def told(id: str, comparisons: Sequence[Comparison]) -> tuple[str, ...]:
    """What was found about the throughput, a sentence a load. A fix for safety may cost some: that is no refutation."""
    words = {
        "faster": "proven here, the fix is faster",
        "slower": "the fix costs throughput here",
        "equivalent": "no difference here",
        "inconclusive": "not settled here",
    }
    return tuple(
        f"{id}: {words[each.verdict]} ({each.workload} at {count(each.connections, 'connection')}: "
        f"{each.ratio:.2f}x, {measured(each)})"
        for each in comparisons
        if each.metric == "qps" and each.arm == FIXED
    )


def _executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
