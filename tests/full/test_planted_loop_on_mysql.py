"""A slow-down that is planted into mysqld: a loop of known instructions for each request, of about 2 % of a point select."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from marks import only_full

from upshift.paths import CHECKOUT

pytestmark = only_full

KIND = Path(__file__).resolve().parent / "planted" / "planted_kind.py"
LOAD = ("--workload", "oltp_point_select")
ROUNDS = 400
OF_A_ROUND = (1.9, 4.1)
"""Instructions of a round: add, copy, compare, jump; fewer where the compiler does without the copy, or counts down to zero."""


def upshift(*arguments: str) -> Any:
    environment = {**os.environ, "UPSHIFT_SERVER_KIND": str(KIND), "UPSHIFT_PERF": "off"}
    command = [str(CHECKOUT / "upshift"), *arguments, "--json", "--no-install"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_loop_is_counted_to_the_instruction() -> None:
    plain = upshift("build", "plain", *LOAD)["server"]
    planted = upshift("build", "plain", "--patches", "counted_loop", *LOAD)["server"]
    found = upshift("count", f"plain={plain}", f"planted={planted}", *LOAD)
    counts = {one["arm"]: one["instructions_per_query"] for one in found["counts"]}
    a_round = (counts["planted"] - counts["plain"]) / ROUNDS
    assert OF_A_ROUND[0] < a_round < OF_A_ROUND[1], counts
    assert 1.01 < counts["planted"] / counts["plain"] < 1.05, counts
