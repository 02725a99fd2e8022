"""What the patches bring and what the rest brings, apart, on the terminal and on the page."""

from __future__ import annotations

import io
import re

from example import comparison, example
from rich.console import Console

from upshift.report.html import render
from upshift.report.result import Result
from upshift.report.terminal import show

PATCHES = "The patches alone, compared with the plain server"
REST = "What was rebuilt, compared with the patched server"


def patched(*, slower: bool = False) -> Result:
    found = example()
    experiment = found.experiment
    arms = (experiment.arms[0], experiment.arms[1].model_copy(update={"name": "patched"}), *experiment.arms[1:])
    load = {"workload": "oltp_read_only", "connections": experiment.plan.headline_connections}
    verdict = {"ratio": 0.9, "ci_low": 0.88, "ci_high": 0.92, "verdict": "slower"} if slower else {"ratio": 1.21}
    more = (
        comparison(**load, arm="patched", ratio=1.11),
        comparison(**load, baseline="patched", **{"ci_low": 1.2, "ci_high": 1.22, **verdict}),
    )
    changed = experiment.model_copy(update={"arms": arms, "comparisons": (*experiment.comparisons, *more)})
    return found.model_copy(update={"experiment": changed})


def told(result: Result) -> str:
    out = io.StringIO()
    show(result, Console(file=out, width=200))
    return " ".join(out.getvalue().split())


def page(result: Result) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", render(result)).split())


def test_each_lever_has_its_figure() -> None:
    for text in (told(patched()), page(patched())):
        patches, rest = text.index(PATCHES), text.index(REST)
        assert "oltp_read_only: 1.11x the throughput" in text[patches:rest]
        assert "oltp_read_only: 1.21x the throughput" in text[rest:]


def test_without_patches_there_is_one_lever() -> None:
    for text in (told(example()), page(example())):
        assert PATCHES not in text and REST not in text


def test_a_loss_against_the_patched_server_is_named_as_one() -> None:
    assert "compared with the patched server that was not rebuilt" in told(patched(slower=True))
