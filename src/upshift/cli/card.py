"""`upshift card`: the machine card by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from upshift.cli.parameters import Json, NoInstall


def card(
    folder: Annotated[
        Path | None, typer.Option(help="Measure the disk of this folder; default: the cache's.", show_default=False)
    ] = None,
    seconds: Annotated[float, typer.Option(help="Seconds that it may take, 5 to 600.")] = 20.0,
    json: Json = False,
    no_install: NoInstall = False,
) -> None:
    """Measure what memory, code, the kernel and the disk of this machine cost a server."""
    from upshift import console
    from upshift.card.model import MachineCard
    from upshift.card.program import measure_card
    from upshift.card.rows import machine_facts
    from upshift.machine import describe_machine
    from upshift.native.programs import build_card, building, card_is_built
    from upshift.paths import cache_dir
    from upshift.report.card import show_card, show_facts
    from upshift.shell import SystemShell
    from upshift.toolchain.system import ensure_packages

    shell = SystemShell()
    try:
        if not card_is_built():
            with building():
                ensure_packages("native", allow_install=not no_install, shell=shell, say=console.say)
                build_card(shell, say=console.say)
        program = build_card(shell, say=console.say)
        if folder is None:
            folder = cache_dir()
            folder.mkdir(parents=True, exist_ok=True)
        console.say(f"measuring this machine and the disk of {folder}, for about {seconds:g} s")
        measured = MachineCard(machine=describe_machine(), card=measure_card(shell, program, folder, seconds))
    finally:
        shell.close()
    if json:
        console.result_json(measured.model_dump_json(indent=2))
    else:
        show_card(measured.card, console.out)
        show_facts(machine_facts(measured.machine), console.out)
