"""What pyproject.toml requires is used, and is what requirements.lock pins."""

from __future__ import annotations

import re
import tomllib

import pytest

from upshift.paths import CHECKOUT

REQUIRED = [
    re.split(r"[<>=\[]", each)[0].strip()
    for each in tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["dependencies"]
]
MODULES = {"pyelftools": "elftools"}
"""Modules that are not called as their package is."""


@pytest.mark.parametrize("name", REQUIRED)
def test_a_required_package_is_imported_and_pinned(name: str) -> None:
    module = MODULES.get(name, name)
    sources = "\n".join(file.read_text() for file in (CHECKOUT / "src").rglob("*.py"))
    assert re.search(rf"^\s*(import|from) {module}\b", sources, re.M)
    assert re.search(rf"^{name}==", (CHECKOUT / "requirements.lock").read_text(), re.M)


def test_each_pin_is_there_for_something_that_is_pinned_or_required() -> None:
    text = (CHECKOUT / "requirements.lock").read_text()
    pinned = set(re.findall(r"^([\w-]+)==", text, re.M))
    reasons = set(re.findall(r"^    (?:# via|#  ) ([\w-]+)$", text, re.M))
    assert reasons <= pinned
