"""A plugin of these tests: servers with one shop, of each family one for all files that ask for it by ``pytest_plugins``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import plan_servers
import pytest
import shop
from plan_servers import Url

PACKAGES = {
    "mariadb": "needs MariaDB, Debian's mariadb-server",
    "postgres": "needs PostgreSQL, Debian's postgresql",
    "mysql": f"{plan_servers.MYSQLD} names no MySQL",
}


@pytest.fixture(scope="session")
def url() -> Iterator[Url]:
    """The URL of a server, which starts when a test first wants it and ends with the session."""
    with contextlib.ExitStack() as running:
        started: dict[shop.Family, str] = {}

        def of(family: shop.Family) -> str:
            if plan_servers.program(family) is None:
                pytest.skip(PACKAGES[family])
            if family not in started:
                started[family] = running.enter_context(plan_servers.running(family))
            return started[family]

        yield of
