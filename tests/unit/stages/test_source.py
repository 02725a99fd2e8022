"""One run has one source."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import FakeKind

from upshift.errors import SourceError
from upshift.source.model import Source
from upshift.stages.source import get_source


def get(run: Path, version: str) -> Source:
    found = Source(kind="fake", version=version, origin=f"apt: {version}", sha256=version, verified="", path=Path("/source"))
    stages = SimpleNamespace(run=lambda *_given, **_named: found)
    lab: Any = SimpleNamespace(stages=stages, kind=FakeKind(), run=SimpleNamespace(path=run))
    return get_source(lab, None, "")


def test_a_resumed_run_takes_no_other_source(tmp_path: Path) -> None:
    assert get(tmp_path, "9.7.4") == get(tmp_path, "9.7.4")
    with pytest.raises(SourceError, match=r"began with the source apt: 9\.7\.4, and now there is apt: 9\.7\.5"):
        get(tmp_path, "9.7.5")
