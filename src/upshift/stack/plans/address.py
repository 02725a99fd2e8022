"""Where a server is and who logs in. No password comes from the command line's arguments."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from upshift.check.address import find_address
from upshift.errors import UsageError
from upshift.stack.plans.model import Family
from upshift.values import Value

_EXAMPLE = "such as mysql://user@host:3306/shop, or postgres://user@/shop?socket=/run/postgresql"
_POSTGRES = ("postgres", "postgresql")


class Address(Value):
    """All that a connection needs."""

    postgres: bool
    host: str = ""
    port: int
    socket: str = ""
    """For PostgreSQL the folder that it lies in."""
    user: str
    password: str = ""
    """Empty for PostgreSQL, whose library takes it from ``PGPASSWORD`` or ``~/.pgpass``, unless the user typed it."""
    database: str = ""
    ca: str = ""
    """A file of certificates; with it the server's is verified."""

    @property
    def family(self) -> Family:
        """Whose statements it reads; MariaDB's are written as MySQL's."""
        return "postgres" if self.postgres else "mysql"

    def shown(self) -> str:
        """Without the login."""
        place = self.socket or f"{self.host or 'localhost'}:{self.port}"
        return f"{place}, {self.database}" if self.database else place


def read_address(
    url: str,
    option: str = "--server",
    defaults_file: Path | None = None,
    login_path: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Address:
    """The address of a URL; what it lacks of a MySQL or MariaDB comes from the login path and option files.

    Raises UsageError.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"{option} is no address: its host or port is malformed", _EXAMPLE) from error
    database = unquote(parts.path.lstrip("/"))
    if parts.scheme in ("mysql", "mariadb"):
        found = find_address(url, defaults_file, login_path, environment, option=option)
        return Address(postgres=False, database=database, **found.model_dump())
    if parts.scheme not in _POSTGRES:
        raise UsageError(f"{option} is no address of a server", _EXAMPLE)
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    if parts.password is not None or "password" in options:
        raise UsageError(
            f"{option} holds a password, which every user of this machine could read in the list of processes",
            "put it into ~/.pgpass or the variable PGPASSWORD",
        )
    if unknown := options.keys() - {"socket", "tls-ca"}:
        raise UsageError(f"{option} has an unknown option: {', '.join(sorted(unknown))}", "the options are socket and tls-ca")
    if port == 0:
        raise UsageError(f"{option} has port 0, which no server has", "ports are numbers from 1 to 65535")
    return Address(
        postgres=True,
        host=parts.hostname or ("" if "socket" in options else "127.0.0.1"),
        port=port or 5432,
        socket=options.get("socket", ""),
        user=unquote(parts.username or "") or getpass.getuser(),
        database=database,
        ca=options.get("tls-ca", ""),
    )
