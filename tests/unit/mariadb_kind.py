"""MariaDB as a server kind, as far as measuring needs one: the packaged server stands in for MySQL where none is built.

``UPSHIFT_SERVER_KIND`` names this file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from upshift.server.kind import Program
from upshift.server.mysql import MySQL
from upshift.shell import Command

_AS_ROOT = ("--user=root",) if os.geteuid() == 0 else ()


class MariaDB(MySQL):
    """Started, filled and asked as MySQL, and made with a program of its own."""

    name = "mariadb"

    def initialise(self, program: Program, data: Path, settings: Mapping[str, str] = {}) -> Command:
        login = ("--skip-test-db", "--auth-root-authentication-method=normal")
        places = (f"--datadir={data}", f"--tmpdir={data.parent}")
        return Command(("mariadb-install-db", "--no-defaults", *_AS_ROOT, *login, *places))

    def start(self, program: Program, data: Path, socket: Path, settings: Mapping[str, str]) -> Command:
        # It removes all #sql* in its tmpdir when it starts: in /tmp, those of servers that run.
        own = (
            f"--datadir={data}",
            f"--socket={socket}",
            f"--pid-file={socket.with_suffix('.pid')}",
            f"--tmpdir={socket.parent}",
        )
        options = (f"--{re.sub('_', '-', name)}={value}" for name, value in settings.items())
        return Command((str(program.binary), "--no-defaults", *_AS_ROOT, *own, "--skip-networking", *options))

    def settings(self) -> Mapping[str, str]:
        return {
            "innodb_buffer_pool_size": "256M",
            "innodb_flush_log_at_trx_commit": "2",
            # Without it an idle MariaDB keeps its dirty pages, and is never quiet.
            "innodb_max_dirty_pages_pct_lwm": "0.001",
            "max_connections": "300",
        }


KIND = MariaDB()
