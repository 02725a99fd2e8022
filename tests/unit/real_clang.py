"""The machine's own clang, for tests that compile."""

from __future__ import annotations

import pytest

from upshift.errors import MissingTool
from upshift.shell import SystemShell
from upshift.toolchain.find import find
from upshift.toolchain.model import Toolchain


def clang_here() -> Toolchain:
    """Skips the test where there is none."""
    try:
        return find("clang", shell=SystemShell())
    except MissingTool as missing:
        pytest.skip(missing.message)
