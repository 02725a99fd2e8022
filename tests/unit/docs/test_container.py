"""The container recipe installs what the main job needs."""

from __future__ import annotations

import re

from upshift.paths import CHECKOUT
from upshift.toolchain import system

# For the checkout and its Python environment.
OWN = {"ca-certificates", "git", "python3", "python3-venv"}


def test_the_container_has_the_packages_of_the_main_job() -> None:
    text = (CHECKOUT / "Containerfile").read_text()
    (listed,) = re.findall(r"install --no-install-recommends --yes \\\n(.*?)&&", text, re.S)
    llvm = {name.format(n=system._LLVM_VERSIONS[0]) for name in system._LLVM}
    assert set(listed.replace("\\", " ").split()) - OWN == llvm | {need[0] for need in system._needs("mysql")}
