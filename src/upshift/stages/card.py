"""The stage that measures the machine itself, so that a report's figures can be read on another one."""

from __future__ import annotations

from upshift.card.model import Card
from upshift.card.program import measure_card
from upshift.errors import UpshiftError
from upshift.native.programs import build_card
from upshift.stages.lab import Lab
from upshift.stages.names import Stage
from upshift.values import Value
from upshift.workbench import Workbench


class Carded(Value):
    """A machine card, or why there is none."""

    card: Card | None
    lacking: str = ""
    """A sentence; empty with a card, and when none was asked for."""


def measure_machine(lab: Lab, seconds: float) -> Carded:
    """The card of this machine, its disk that of the servers' data; none in 0 seconds.

    What goes wrong is said in the result: no run ends for it. Never taken from another run.
    """

    def action(bench: Workbench) -> Carded:
        if not seconds:
            return Carded(card=None)
        try:
            program = build_card(bench.shell, say=bench.progress.note)
            return Carded(card=measure_card(bench.shell, program, bench.folder, seconds))
        except UpshiftError as error:
            return Carded(card=None, lacking=f"the machine card was not measured: {error.message.strip()}")

    def lasts(found: Carded) -> bool:
        return not found.lacking

    return lab.stages.run(Stage.CARD, Carded, action, inputs={"seconds": seconds}, keep=False, lasts=lasts)
