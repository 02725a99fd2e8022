"""What the pipeline decides before its first build."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from explained_example import variant
from fakes import FakeKind, toolchain

from upshift import pipeline
from upshift.build.model import Build
from upshift.build.recipe import Recipe
from upshift.errors import UsageError
from upshift.explain.door import Asked
from upshift.measure.model import Plan
from upshift.options import Options
from upshift.source.model import Source
from upshift.stages.card import Carded
from upshift.stages.data import Filled
from upshift.stages.explain import Explaining
from upshift.stages.work import Measuring, Work

SOURCE = Source(kind="fake", version="1", origin="", sha256="0", verified="", path=Path("/source"))
GCC = {"toolchain": "gcc", "flags": ("-fno-reorder-blocks-and-partition",)}


class Building(Exception):
    """The first build begins."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether BOLT can read what is built."""
    found: list[bool] = []

    def build_plain(*_given: Any, relocations: bool) -> None:
        found.append(relocations)
        raise Building

    monkeypatch.setattr(pipeline, "get_source", lambda *_given: SOURCE)
    monkeypatch.setattr(pipeline, "build_plain", build_plain)
    return found


def work(**recipe: Any) -> Work:
    return Work.model_construct(
        options=Options(),
        source_identity="",
        plain=Recipe(toolchain="gcc"),
        recipe=Recipe.model_validate({**GCC, **recipe}),
        toolchain=toolchain("gcc"),
        perf=True,
        train_on=(),
        hold_out=(),
        plan=Plan.model_construct(),
    )


@pytest.mark.parametrize("command", [pipeline.optimize, pipeline.train, pipeline.build])
@pytest.mark.parametrize(("post_link", "profile"), [("bolt", "gcc"), ("none", "gcc"), ("bolt", "none")])
def test_what_bolt_rewrites_is_built_with_its_relocations(
    command: Callable[..., Any], post_link: str, profile: str, asked: list[bool]
) -> None:
    lab: Any = SimpleNamespace(kind=FakeKind())
    with pytest.raises(Building):
        command(lab, work(post_link=post_link, profile=profile))
    assert asked == [post_link == "bolt"]


def test_training_tests_that_the_source_does_not_have_are_refused_before_the_first_build(asked: list[bool]) -> None:
    lab: Any = SimpleNamespace(kind=FakeKind())
    with pytest.raises(UsageError, match=r"training_tests main\.nosuch: fake has no tests"):
        pipeline.train(lab, work(profile="gcc", training="mtr", training_tests="main.nosuch"))
    assert asked == []


def test_flags_of_the_hot_set_alone_are_compiled_without_a_training(monkeypatch: pytest.MonkeyPatch, asked: list[bool]) -> None:
    calls: list[str] = []

    def noted(name: str, result: Any) -> Callable[..., Any]:
        def stage(*_given: Any, **_named: Any) -> Any:
            calls.append(name)
            return result

        return stage

    build, hot = (Build.model_construct(tree=Path("/tree"), server=Path("/tree") / name) for name in ("server", "hot"))
    data = Filled.model_construct()
    for name, result in (("build_plain", build), ("fill_data", data), ("find_hot_set", "hot set"), ("build_optimised", hot)):
        monkeypatch.setattr(pipeline, name, noted(name, result))
    lab: Any = SimpleNamespace(kind=FakeKind())
    made = pipeline.build(lab, work(scope="hot", profile="none"))
    assert made.build is hot and not made.applied
    assert calls == ["build_plain", "fill_data", "find_hot_set", "build_optimised"]
    assert asked == []


@pytest.mark.parametrize("same", [False, True])
def test_an_explanation_has_the_machines_card_unless_there_is_nothing_to_explain(
    monkeypatch: pytest.MonkeyPatch, same: bool
) -> None:
    measured, pair = Carded(card=None, lacking="measured"), (variant("plain"), variant("new"))
    monkeypatch.setattr(pipeline, "nothing_differs", lambda _pair: same)
    monkeypatch.setattr(pipeline, "fill_data", lambda *_given, **_named: "data")
    monkeypatch.setattr(pipeline, "measure_machine", lambda _lab, seconds: measured if seconds == 7 else None)
    monkeypatch.setattr(pipeline, "explain_pair", lambda _lab, _explaining, data, carded: (data, carded))
    measuring = Measuring.model_construct(options=Options(card_s=7), train_on=(), hold_out=())
    explaining = Explaining.model_construct(asked=Asked(before=pair[0], after=pair[1]), measuring=measuring)
    kind = FakeKind()
    lab: Any = SimpleNamespace(kind=kind, kind_of=lambda _program: kind)
    found: Any = pipeline.explain(lab, explaining)
    assert found == ((None, Carded(card=None)) if same else ("data", measured))
