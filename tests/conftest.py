"""Which tests wait for ``--full``, and which stay with one of the workers that run them side by side."""

from __future__ import annotations

from pathlib import Path

import pytest

_PIPELINE = Path(__file__).parent / "pipeline"
_LATER = pytest.mark.skip(reason="needs a built MySQL: ./upshift test --full")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="also run the tests that are marked full")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A group is a file; the pipeline's tests are one, because they share what they build."""
    for item in items:
        group = "pipeline" if item.path.is_relative_to(_PIPELINE) else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))
        if item.get_closest_marker("full") and not config.getoption("--full"):
            item.add_marker(_LATER)
