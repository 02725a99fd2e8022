"""`upshift doctor`: what this machine can do, and how to get the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from upshift.cli.parameters import Json

if TYPE_CHECKING:
    from upshift.toolchain.doctor import Finding

SCHEMA_VERSION = 1


def doctor(
    json: Json = False,
) -> None:
    """Check this machine: compilers, BOLT, profilers, sysbench, memory and disk.

    The exit code is 1 when something is missing that the default recipe needs.
    """
    from upshift import console
    from upshift.build.whole import headers_bytes
    from upshift.needs import NEEDED_DISK_BYTES
    from upshift.options import Options
    from upshift.resolve import recipe_of
    from upshift.shell import SystemShell
    from upshift.toolchain.doctor import examine

    shell = SystemShell()
    try:
        findings = examine(shell, disk_bytes=NEEDED_DISK_BYTES + headers_bytes(recipe_of(Options())))
    finally:
        shell.close()
    lacking = [one.name for one in findings if one.required and one.state != "found"]
    if json:
        console.result_json(_as_json(findings, ready=not lacking))
    else:
        _show(findings, lacking)
    if lacking:
        raise typer.Exit(1)


def _as_json(findings: tuple[Finding, ...], *, ready: bool) -> str:
    import json

    rows = [one.model_dump(mode="json") for one in findings]
    return json.dumps({"schema_version": SCHEMA_VERSION, "ready": ready, "findings": rows}, indent=2)


def _show(findings: tuple[Finding, ...], lacking: list[str]) -> None:
    from upshift import console

    for one in findings:
        optional = "" if one.required or one.state == "found" else ", optional"
        heading = f"{one.name:<18} {one.state + optional:<20} {one.version}".rstrip()
        console.entry(heading, *((f"For {one.allows}.", f"hint: {one.hint}") if one.hint else ()))
    if lacking:
        console.result(f"\nNot ready: {', '.join(lacking)}. `upshift optimize` installs packages itself.")
    else:
        console.result("\nReady for `upshift optimize`.")
