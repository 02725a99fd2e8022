"""What the patches bring and what the rest brings, apart, on the terminal and on the page."""

from __future__ import annotations

import io
import re

from example import comparison, example, measured_only
from rich.console import Console

from upshift.report.findings import Findings
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


def named_by_a_user(first: str, *others: str) -> Result:
    """A result of `upshift measure`, with the comparisons with a second baseline that kept ones have. The last is slower."""
    found = measured_only()
    plain = found.experiment.arms[0]
    arms = tuple(plain.model_copy(update={"name": name}) for name in (first, *others))
    slower = {"ratio": 0.9, "ci_low": 0.88, "ci_high": 0.92, "verdict": "slower"}
    load = {"workload": "oltp_read_only", "connections": found.experiment.plan.headline_connections}
    compared = [
        comparison(**load, arm=arm, baseline=baseline, **(slower if arm == others[-1] else {}))
        for baseline in (first, *({"patched", "baseline"} & set(others)))
        for arm in (first, *others)
        if arm != baseline
    ]
    experiment = found.experiment.model_copy(update={"arms": arms, "baseline": first, "comparisons": tuple(compared)})
    return found.model_copy(update={"experiment": experiment})


def test_names_that_a_user_chose_hide_no_loss() -> None:
    result = named_by_a_user("plain", "optimised", "tier")
    assert [each.arm for each in Findings(result.experiment, rebuilt=False).losses()] == ["tier"]
    assert told(result).startswith("LOSS: oltp_read_only on tier")
    assert "oltp_read_only on tier" in page(result)


def test_names_that_a_user_chose_say_nothing_of_patches_or_of_a_server_that_runs() -> None:
    result = named_by_a_user("one", "patched", "baseline", "optimised")
    findings = Findings(result.experiment, rebuilt=False)
    assert findings.levers() == ()
    assert findings.against_current("qps") == ()
    assert len(findings.losses()) == 1
    for first in ("patched", "baseline"):
        for text in (told(result), page(result), told(named_by_a_user(first, "b")), page(named_by_a_user(first, "b"))):
            for false in (PATCHES, REST, "with patches alone", "rebuilt around", "runs today", "that was not rebuilt"):
                assert false not in text


def test_a_loss_against_the_patched_server_is_named_as_one() -> None:
    assert "compared with the patched server that was not rebuilt" in told(patched(slower=True))
