"""The main job on MySQL itself: an hour or more. ``./upshift test --full``."""

from __future__ import annotations

import json
import subprocess
import tarfile
from pathlib import Path

import pytest

from upshift.paths import CHECKOUT
from upshift.report.result import Result

pytestmark = pytest.mark.full


@pytest.mark.parametrize("level", ["full", "quick"])
def test_mysql_gets_faster_and_stays_itself(level: str) -> None:
    done = subprocess.run(
        [str(CHECKOUT / "upshift"), "optimize", "--level", level, "--plugins", "--json", "--no-install"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    result = Result.model_validate(json.loads(done.stdout))
    assert result.verify is not None
    assert result.verify.tests_passed == result.verify.tests_run
    with tarfile.open(result.package) as package:
        loaded = {Path(name).name for name in package.getnames() if "/lib/plugin/" in name}
    assert {"component_reference_cache.so", "component_validate_password.so", "mysql_clone.so"} <= loaded
    user_cpu = [
        one for one in result.comparisons if one.metric == "user_cpu_us_per_query" and not one.held_out and one.threads > 1
    ]
    assert {one.workload for one in user_cpu} == {"oltp_read_write", "oltp_read_only", "oltp_point_select"}
    assert all(one.verdict == "faster" for one in user_cpu)
