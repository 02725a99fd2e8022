"""The reference pages name every key, variable and member that the code has, and no command that it lacks."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any, get_args

import pytest
import typer

from upshift.build.model import Build
from upshift.build.recipe import Recipe, shipped_recipes
from upshift.cli.app import app
from upshift.door import OF_SERVERS
from upshift.estimate import Estimate
from upshift.explain.layout import Spread
from upshift.explain.model import (
    Change,
    CodeChange,
    Explained,
    Explanation,
    Family,
    Figure,
    Focus,
    FocusCaller,
    FocusLine,
    FocusSide,
    Inlined,
    KernelGroup,
    KernelTime,
    Row,
    Side,
    Slots,
    SystemCall,
)
from upshift.explain.origin import Origin
from upshift.measure.model import Flag, Metric, Slice, Verdict
from upshift.patches.fit import FileFit, HunkFit, PatchFit
from upshift.patches.model import Patch, read_series
from upshift.paths import CHECKOUT
from upshift.profile.model import Gated, Profile
from upshift.report.result import Result
from upshift.run.directory import Manifest
from upshift.server.kind import ServerKind, SourceKind
from upshift.server.mysql import KIND
from upshift.toolchain import environment
from upshift.toolchain.doctor import Finding
from upshift.toolchain.find import OLDEST
from upshift.values import Value
from upshift.workload.model import PLACEHOLDERS, Fill, FixedCommand, LoadCommand, Workload

PAGES = sorted([*(CHECKOUT / "docs").rglob("*.md"), *CHECKOUT.glob("*.md")])
GROUP: Any = typer.main.get_command(app)


def words(page: str) -> set[str]:
    """Every word and dotted name that stands in backticks on a reference page."""
    text = (CHECKOUT / "docs" / "reference" / f"{page}.md").read_text()
    code = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.S))
    return {word for part in code for word in re.split(r"[^\w.-]+", part.replace("[]", ""))}


def models_in(annotation: object) -> Iterator[type[Value]]:
    if isinstance(annotation, type) and issubclass(annotation, Value):
        yield annotation
    for part in get_args(annotation):
        yield from models_in(part)


def keys(model: type[Value], prefix: str = "", deep: bool = True) -> Iterator[str]:
    """All keys of a model's JSON and of the values in it, as the page may name them: ``machine.cpu``."""
    for name, field in model.model_fields.items():
        yield prefix + name
        for inner in models_in(field.annotation) if deep else ():
            yield from keys(inner, f"{prefix}{name}.")


@pytest.mark.parametrize("key", sorted(set(keys(Result))))
def test_every_key_of_a_result_is_named(key: str) -> None:
    named = words("result-json") | (words("explain") if key.startswith("explanation.") else set())
    assert key.removeprefix("explanation.") in named or key.rsplit(".", 1)[-1] in named


@pytest.mark.parametrize("model", [Build, Profile, Gated, Finding, Estimate])
def test_what_other_commands_print_is_named(model: type[Value]) -> None:
    assert set(keys(model, deep=False)) <= words("result-json")


@pytest.mark.parametrize(
    "model",
    [
        *(Explanation, Explained, Origin, Side, Slots, Change, Row, Inlined, Family, CodeChange, SystemCall, Spread),
        *(KernelTime, KernelGroup, Figure, Focus, FocusSide, FocusLine, FocusCaller),
    ],
)
def test_every_key_of_an_explanation_is_named(model: type[Value]) -> None:
    named = words("explain")
    assert set(keys(model, deep=False)) <= named
    choices = {each for field in model.model_fields.values() for each in get_args(field.annotation) if isinstance(each, str)}
    text = (CHECKOUT / "docs" / "reference" / "explain.md").read_text()
    assert all(f"`{each}`" in text for each in choices)


def test_every_metric_verdict_and_flag_is_named() -> None:
    flags = get_args(Flag.model_fields["name"].annotation)
    assert {*get_args(Metric), *get_args(Verdict), *flags} <= words("result-json")
    explained = (CHECKOUT / "docs" / "explanation" / "measuring.md").read_text()
    assert set(flags) <= set(re.findall(r"[\w-]+", explained))


@pytest.mark.parametrize("model", [Slice, Manifest])
def test_what_lies_in_a_run_directory_is_named(model: type[Value]) -> None:
    assert set(model.model_fields) <= words("run-directory")


def test_every_key_of_a_recipe_is_named_with_its_choices() -> None:
    named = words("recipes")
    assert set(Recipe.model_fields) <= named
    for field in Recipe.model_fields.values():
        assert {each for each in get_args(field.annotation) if isinstance(each, str)} <= named
    assert {each.name for each in shipped_recipes()} <= named


@pytest.mark.parametrize("model", [Patch, PatchFit, FileFit, HunkFit])
def test_every_key_of_a_patch_series_is_named(model: type[Value]) -> None:
    assert set(model.model_fields) - {"text"} <= {part for word in words("patches") for part in word.split(".")}


def test_patches_with_a_switch_have_pages_and_no_others_do() -> None:
    pages = {file.stem for file in (CHECKOUT / "docs" / "reference" / "patches").glob("*.md")}
    patches = read_series(KIND.series).patches
    assert {each.name for each in patches if each.variable} <= pages <= {each.name for each in patches}


def test_every_key_and_placeholder_of_a_workload_is_named() -> None:
    named = words("workloads")
    assert {*Workload.model_fields, *PLACEHOLDERS, "transactions"} - {"fill", "load", "fixed"} <= named
    assert {f"fill.{name}" for name in Fill.model_fields} | {f"load.{name}" for name in LoadCommand.model_fields} <= named
    assert {f"fixed.{name}" for name in FixedCommand.model_fields} <= named


def test_every_variable_is_named() -> None:
    sources = [*(CHECKOUT / "src").rglob("*.py"), CHECKOUT / "upshift"]
    read = {name for file in sources for name in re.findall(r"\bUPSHIFT_[A-Z_]+\b", file.read_text())}
    assert read
    assert read <= words("environment")


def test_the_oldest_compilers_are_those_that_are_taken() -> None:
    text = (CHECKOUT / "docs" / "how-to" / "install.md").read_text()
    for name in ("clang", "GCC", "icx"):
        assert re.search(rf"\b{name} {OLDEST[name.lower()]} and newer", text), name  # type: ignore[index]


def test_every_variable_that_is_refused_is_named() -> None:
    assert words("environment") >= environment.NAMES | environment.HARMLESS | {*OF_SERVERS}


def test_every_member_of_a_server_kind_is_named() -> None:
    both = (ServerKind, SourceKind)
    members = {name for each in both for name in (*each.__annotations__, *vars(each)) if not name.startswith("_")}
    assert {"verify", "counters"} <= members
    assert members <= words("server-kinds")


def shown() -> list[tuple[str, str]]:
    """Every line of a page's code blocks, fenced or indented, that starts with ./upshift."""
    return [
        (file.name, line)
        for file in PAGES
        for line in re.findall(r"^(?: {3,}|)(\./upshift\b[^\n#|>]*)", file.read_text(), re.M)
    ]


# What follows these is parsed by programs: tests/documents.rs of each crate gives it to them.
PROGRAMS = re.compile(r"\./upshift (cache|load|stack (capture|export|dump))\b")


@pytest.mark.parametrize(("page", "line"), [each for each in shown() if not PROGRAMS.match(each[1])])
def test_every_command_that_is_shown_could_be_typed(page: str, line: str) -> None:
    _program, verb, *arguments = shlex.split(line)
    if "--help" in (verb, *arguments):
        return
    GROUP.commands[verb].make_context(verb, arguments)
