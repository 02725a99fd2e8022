"""An explanation on disk, as JSON and as a page, and its way back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from markupsafe import Markup

from upshift.card import rows
from upshift.card.sentences import sentences
from upshift.explain import stacks
from upshift.explain.model import Explained, Explanation
from upshift.report import explained, explained_focus, explained_kernel, templates, words
from upshift.run.directory import write_json, write_text

EXPLANATION_FILE = "explanation.json"
_NARROWEST = 0.0005
"""Of a flame graph's width: narrower frames are left out of the page; the folded files have them."""


def publish(explanation: Explanation, folder: Path) -> None:
    """Write the JSON and the page into the folder that holds the explanation's stacks; a reader never meets half of either."""
    write_json(folder / EXPLANATION_FILE, explanation.model_dump(mode="json"))
    write_text(folder / explained.PAGE_FILE, render(explanation, folder))


def render(explanation: Explanation, folder: Path) -> str:
    """The page as text; flame graphs come from the stacks in ``folder``."""
    graphs = {f"{load.workload}": _graphs(load, folder) for load in explanation.loads}
    return templates.page("explanation.html").render(
        explanation=explanation,
        told=explained,
        in_kernel=explained_kernel,
        in_focus=explained_focus,
        words=words,
        card_rows=rows,
        card_sentences=sentences(explanation.card) if explanation.card else (),
        style=Markup((templates.FOLDER / "style.css").read_text(encoding="utf-8")),
        script=Markup((templates.FOLDER / "flame.js").read_text(encoding="utf-8")),
        # Within a script element only what could end it must not stand there.
        graphs=Markup(json.dumps(graphs, separators=(",", ":")).replace("<", "\\u003c")),
    )


def _graphs(load: Explained, folder: Path) -> list[Any]:
    """Both servers' flame graphs on one scale: [name, microseconds a query, [children]]."""
    folded = [name for name in load.stacks if name.endswith(".folded")]
    trees = []
    for name, samples, us in zip(
        folded,
        (load.before.samples, load.after.samples),
        (sum(row.before_us for row in load.rows), sum(row.after_us for row in load.rows)),
        strict=True,
    ):
        with (folder / name).open(encoding="utf-8") as lines:
            trees.append((stacks.tree(stacks.unfolded(lines)), us / samples))
    widest = max(root.samples * scale for root, scale in trees)
    return [_frame(root, scale, widest * _NARROWEST) for root, scale in trees]


def _frame(node: stacks.Node, scale: float, narrowest_us: float) -> list[Any]:
    children = sorted(node.children.values(), key=lambda each: each.name)
    kept = [_frame(each, scale, narrowest_us) for each in children if each.samples * scale >= narrowest_us]
    return [node.name, round(node.samples * scale, 4), kept]
