"""The stage that links a server again, with its parts in other places."""

from __future__ import annotations

from upshift.build.model import Build
from upshift.build.relink import link_again
from upshift.stages.lab import Lab
from upshift.stages.names import Stage
from upshift.workbench import Workbench

VERSION = 2
"""Raised when the command that is composed here changes: no key holds it."""


def lay_out(lab: Lab, build: Build, number: int) -> Build:
    """``build`` in its ``number``-th layout. The first is the linker's own; in others lld puts padding between sections, whose
    places follow from the number.

    Where code and data lie decides what shares a cache line, a page or a predictor's entry, and so makes the same code
    faster or slower by chance (Mytkowicz et al., "Producing wrong data without doing anything obviously wrong!", 2009).
    """

    def action(bench: Workbench) -> Build:
        return link_again(bench, lab.kind, build, (f"-Wl,--randomize-section-padding={number}",))

    if number == 1:
        return build
    inputs = {"build": build.anonymous(), "number": number}
    made = lab.stages.run(Stage.LAYOUT, Build, action, inputs=inputs, version=VERSION)
    return made.model_copy(update={"recipe": build.recipe})
