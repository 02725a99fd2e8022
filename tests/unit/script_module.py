"""Scripts outside of the package, as modules."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from upshift.paths import CHECKOUT

BENCHES = CHECKOUT / "tests" / "benches"


def script_module(file: Path) -> Any:
    """What ``file`` defines. A script that imports its neighbours needs their folder on ``sys.path``."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
