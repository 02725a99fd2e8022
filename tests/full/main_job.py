"""What the tests on MySQL share: one run of the main job a level."""

from __future__ import annotations

import functools
import json
import os
import subprocess
from pathlib import Path

from upshift.paths import CHECKOUT
from upshift.report.result import Result


@functools.cache
def optimize(level: str) -> Result:
    """The main job's result."""
    command = [str(CHECKOUT / "upshift"), "optimize", "--level", level, "--json", "--no-install"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return Result.model_validate(json.loads(done.stdout))


def packaged_server() -> Path:
    """The tarball of a packaged MySQL: what ``UPSHIFT_TEST_PACKAGE`` names, or the main job's."""
    named = os.environ.get("UPSHIFT_TEST_PACKAGE")
    return Path(named or optimize("full").package)
