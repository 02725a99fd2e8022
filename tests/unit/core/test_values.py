"""Values, their hashes, what is said about bad ones, the tree of errors, and where things are kept."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import os
from pathlib import Path
from typing import Any

import pydantic
import pytest

from upshift import errors
from upshift.build.recipe import Recipe
from upshift.errors import UsageError
from upshift.measure.variant import Surroundings
from upshift.patches.model import Series
from upshift.paths import CHECKOUT, cache_dir, shipped
from upshift.stack.driver_matrix.matrix import Matrix
from upshift.study.change import Change
from upshift.study.file import Study
from upshift.values import Value, checked, content_hash, describe_invalid, file_sha256
from upshift.workload.model import Workload


class Point(Value):
    x: int
    y: float = 0.0


class Line(Value):
    ends: tuple[Point, Point]


def test_values_do_not_change() -> None:
    with pytest.raises(pydantic.ValidationError):
        Point(x=1).x = 2


def test_unknown_keys_are_errors() -> None:
    with pytest.raises(pydantic.ValidationError):
        Point.model_validate({"x": 1, "z": 2})


def test_a_value_survives_as_json() -> None:
    line = Line(ends=(Point(x=1), Point(x=2, y=0.1)))
    assert Line.model_validate_json(line.model_dump_json()) == line


def test_the_hash_knows_the_content_alone() -> None:
    assert content_hash({"a": 1, "b": Point(x=1, y=0.5)}) == content_hash({"b": {"x": 1, "y": 0.5}, "a": 1})
    assert content_hash((1, 2)) == content_hash([1, 2])
    assert content_hash({"set": {"b", "a"}}) == content_hash({"set": ["a", "b"]})
    assert content_hash(Path("/a")) == content_hash("/a")


def test_a_changed_default_changes_the_hash_of_what_never_named_it() -> None:
    class Shifted(Point):
        y: float = 1.0

    assert content_hash(Shifted(x=1)) != content_hash(Point(x=1)) == content_hash(Shifted(x=1, y=0.0))


@pytest.mark.parametrize("other", [{"a": 2}, {"a": "1"}, {"b": 1}, {"a": 1, "b": None}, [1]])
def test_the_hash_tells_contents_apart(other: object) -> None:
    assert content_hash({"a": 1}) != content_hash(other)


def test_the_hash_is_the_same_in_another_process_and_year() -> None:
    """Cached stages are found by it: this very number must not change without a reason."""
    assert content_hash({"stage": "train", "n": 1})[:16] == "595d4db25e177664"


def test_a_files_hash(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    assert file_sha256(tmp_path / "f") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_what_is_wrong_is_said_with_the_keys_as_written() -> None:
    with pytest.raises(pydantic.ValidationError) as caught:
        Line.model_validate({"ends": [{"x": "one"}, {"x": 1}], "colour": "red"})
    said = describe_invalid(caught.value)
    assert "ends.0.x: " in said and "colour: there is no such key" in said


@pytest.mark.parametrize("model", [Recipe, Workload, Study, Change, Surroundings, Series, Matrix])
def test_what_is_wrong_in_a_file_is_said_in_words_of_our_own(model: type[Value]) -> None:
    """pydantic's are about "inputs", strings to parse, tuples and classes of Python."""
    odd: list[Any] = [
        "",
        "x",
        0,
        -1,
        1.5,
        math.inf,
        True,
        10**9,
        1 << 20_000,
        [],
        [""],
        [5],
        [[]],
        [{}],
        {},
        {"x": 5},
        {"x": {}},
    ]
    odd += [dt.date(2026, 1, 1), {"x": {"y": 5}}, {"x": {"y": {"settings": []}}}, [{"name": 5}], {"size": "1M", "z": 1}]
    own: set[str] = set()
    for key, value in itertools.product((*model.model_fields, "patch", "unknown"), odd):
        try:
            model.model_validate({key: value})
        except pydantic.ValidationError as error:
            said = describe_invalid(error)
            own |= {item["msg"] for item in error.errors() if item["type"] != "value_error" and item["msg"] in said}
    assert own == set()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"x": "one"}, "x: 'one' is not a whole number"),
        ({"x": 1.5}, "x: 1.5 is not a whole number"),
        ({"x": 1, "y": 1 << 20_000}, "y: a number of more than 60 digits is not a number"),
        ({"x": []}, "x: a list is not a whole number"),
        ({"x": 1, "y": "z" * 100}, f"y: '{'z' * 59}... is not a number"),
        ({"y": True, "z": {}}, "x: this key is missing; z: there is no such key"),
    ],
)
def test_what_is_wrong_is_said_with_the_value(given: dict[str, Any], said: str) -> None:
    with pytest.raises(pydantic.ValidationError) as caught:
        Point.model_validate(given)
    assert describe_invalid(caught.value) == said


def test_what_was_typed_is_checked_as_usage() -> None:
    assert checked(Point, {"x": 3}) == Point(x=3)
    with pytest.raises(errors.UsageError, match=r"^x: ") as caught:
        checked(Point, {"x": "many"})
    assert caught.value.hint and caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.UsageError, 2),
        (errors.RecipeError, 2),
        (errors.WorkloadError, 2),
        (errors.MissingTool, 1),
        (errors.NotEnoughRoom, 1),
        (errors.SourceError, 1),
        (errors.CommandFailed, 1),
        (errors.ServerFailed, 1),
        (errors.LoadFailed, 1),
        (errors.ProfileRefused, 1),
        (errors.VerifyFailed, 1),
        (errors.CacheBusy, 1),
    ],
)
def test_each_error_has_its_exit_code(error: type[errors.UpshiftError], code: int) -> None:
    raised = error("what happened", "what to do")
    assert (raised.exit_code, raised.message, raised.hint, str(raised)) == (
        code,
        "what happened",
        "what to do",
        "what happened",
    )


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    classes = [name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, errors.UpshiftError)]
    assert errors.__doc__ is not None
    assert [name for name in classes if name not in errors.__doc__] == []


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("UPSHIFT_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_dir() == tmp_path / ".cache" / "upshift"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_dir() == tmp_path / "xdg" / "upshift"
    monkeypatch.setenv("XDG_CACHE_HOME", "xdg")
    assert cache_dir() == tmp_path / ".cache" / "upshift", "the specification calls a relative one invalid"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UPSHIFT_CACHE", "here")
    assert cache_dir() == tmp_path / "here"


def test_without_a_home_the_cache_has_to_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs as a user of whom /etc/passwd knows nothing."""
    for name in ("UPSHIFT_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**31)
    with pytest.raises(UsageError, match="no home for the cache") as error:
        cache_dir()
    assert "UPSHIFT_CACHE" in error.value.hint


def test_a_cache_that_is_no_folder_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Making it would be a traceback: a file is in the way, or a link to a disk that is not mounted."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("UPSHIFT_CACHE", str(tmp_path / "file"))
    with pytest.raises(UsageError, match="is no folder"):
        cache_dir()
    monkeypatch.delenv("UPSHIFT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "upshift").symlink_to("/mnt/unmounted")
    with pytest.raises(UsageError, match="a link to what is not there") as error:
        cache_dir()
    assert "UPSHIFT_CACHE" in error.value.hint


def test_shipped_files_lie_in_the_checkout() -> None:
    assert (CHECKOUT / "pyproject.toml").is_file()
    assert (shipped("recipes") / "plain.toml").is_file()
