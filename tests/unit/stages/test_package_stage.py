from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from keys_of import Recorder, lab_with

from upshift.package import bundle
from upshift.stages.package import package
from upshift.values import Value


class Made(Value):
    """Stands in for a source, a build and what was verified."""

    path: Path = Path("/")
    tree: Path = Path("/")
    server: Path = Path("/server")
    build: Made | None = None


def test_a_resumed_run_makes_its_package_again_when_its_library_was_built_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "programs_dir", lambda: tmp_path)
    library = tmp_path / "libupshift_hugetext.so"
    some: Any = Made(build=Made())

    def keys(*parts: str) -> list[str]:
        recorder = Recorder()
        for contents in ("old", "new"):
            library.write_text(contents)
            work: Any = SimpleNamespace(options=SimpleNamespace(service=parts), train_on=())
            package(lab_with(recorder), some, some, some, None, some, work)
        return [key for _name, key in recorder.keys]

    assert len(set(keys("huge-text"))) == 2
    assert len(set(keys("batch"))) == 1
