"""Which source a server was built from: believed of the very file that was told of, and of no other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from upshift.explain.origin import Origin, origin_of
from upshift.values import file_sha256


def server(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mysqld").write_text("code")
    return folder / "mysqld"


def kept(folder: Path, output: Mapping[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stage.json").write_text(json.dumps({"output": output}))


@pytest.mark.parametrize("nested", [False, True])
def test_what_the_cache_built_names_its_source(tmp_path: Path, nested: bool) -> None:
    binary = server(tmp_path / "stages" / "post-link-1" / "bin")
    build = {"sha256": file_sha256(binary), "source_sha256": "b" * 64}
    kept(tmp_path / "stages" / "post-link-1", {"build": build} if nested else build)
    assert origin_of(binary, tmp_path) == Origin(sha256="b" * 64)
    kept(tmp_path / "stages" / "patched-source-1", {"sha256": "c" * 64, "patches": ["other"]})
    kept(tmp_path / "stages" / "patched-source-2", {"sha256": "b" * 64, "patches": ["one", "two"]})
    assert origin_of(binary, tmp_path) == Origin(sha256="b" * 64, patches=("one", "two"))


def test_a_server_at_the_root_is_of_no_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("upshift.explain.origin.file_sha256", lambda _file: "a" * 64)
    assert origin_of(Path("/mysqld"), tmp_path) is None


def test_a_package_names_its_source(tmp_path: Path) -> None:
    binary = server(tmp_path / "bin")
    provenance = {"source": {"sha256": "a" * 64, "patches": ["one"]}, "sha256": {"bin/mysqld": file_sha256(binary)}}
    (tmp_path / "provenance.json").write_text(json.dumps(provenance))
    assert origin_of(binary, tmp_path) == Origin(sha256="a" * 64, patches=("one",))
    binary.write_text("replaced")
    assert origin_of(binary, tmp_path) is None


@pytest.mark.parametrize("told", ["{", "[]", "{}", '{"output": null}', '{"output": {"build": 1, "sha256": "x"}}'])
def test_what_tells_nothing_is_believed_nothing(tmp_path: Path, told: str) -> None:
    binary = server(tmp_path / "stages" / "x" / "bin")
    for file in (tmp_path / "stages" / "x" / "stage.json", tmp_path / "stages" / "x" / "provenance.json"):
        file.write_text(told)
    assert origin_of(binary, tmp_path) is None


def test_a_file_that_was_built_again_is_not_the_one_that_was_told_of(tmp_path: Path) -> None:
    binary = server(tmp_path / "stages" / "x" / "bin")
    kept(tmp_path / "stages" / "x", {"sha256": "0" * 64, "source_sha256": "b" * 64})
    assert origin_of(binary, tmp_path) is None
