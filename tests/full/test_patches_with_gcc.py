"""The patches with MySQL's own compiler on Linux: the other tests build them with clang. Half an hour and more."""

from __future__ import annotations

import subprocess

from marks import only_full

from upshift.paths import CHECKOUT

pytestmark = only_full


def test_the_patches_compile_with_gcc() -> None:
    command = [str(CHECKOUT / "upshift"), "build", "plain", "--toolchain", "gcc", "--patches", "all", "--no-install"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    server = done.stdout.splitlines()[-1]
    said = subprocess.run([server, "--no-defaults", "--help", "--verbose"], capture_output=True, text=True)
    assert "pipeline-flush" in said.stdout, said.stderr
