"""Which tests wait for ``--full``."""

from __future__ import annotations

import pytest

_LATER = pytest.mark.skip(reason="needs a built MySQL: ./upshift test --full")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="also run the tests that are marked full")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("full") and not config.getoption("--full"):
            item.add_marker(_LATER)
