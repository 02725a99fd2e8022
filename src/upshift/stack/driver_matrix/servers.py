"""The servers that drivers are run on: packaged ones and a MySQL that a user names, on loopback ports, with TLS and without."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from upshift.errors import MissingTool, ServerFailed
from upshift.server.postgres import KIND, USER
from upshift.server.unprivileged import as_user
from upshift.shell import Command, Process, Shell
from upshift.stack.driver_matrix.certificates import Certificates
from upshift.stack.driver_matrix.ground import Ground, ground_of
from upshift.stack.driver_matrix.matrix import Protocol

Family = Literal["mysql", "mariadb", "postgres"]
DATABASE = "upshift_drivers"
_PREPARE_TIMEOUT_S = 120.0
_START_TIMEOUT_S = 90.0
_STOP_TIMEOUT_S = 30.0
_POLL_S = 0.1
_USERS = """CREATE USER root@'127.0.0.1';
GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;
"""
"""MySQL makes root@localhost alone, whom it does not know by an address."""


@dataclass(frozen=True)
class Kind:
    """One kind of server, and its program."""

    family: Family
    program: Path

    @property
    def protocol(self) -> Protocol:
        return "postgres" if self.family == "postgres" else "mysql"


def find_kind(family: Family, binary: Path | None = None) -> Kind:
    """The packaged server; of MySQL, which few distributions package beside MariaDB, the ``binary``. Raises MissingTool."""
    if family == "mysql":
        if binary is None:
            raise MissingTool("no MySQL is named", "--binary PATH/mysqld, as `upshift build` makes one")
        if not binary.is_file():
            raise MissingTool(f"there is no {binary}", "--binary names a mysqld")
        # It starts in another folder.
        return Kind(family, binary.resolve())
    if family == "mariadb":
        found = shutil.which("mariadbd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
        if found is None or shutil.which("mariadb-install-db") is None:
            raise MissingTool("MariaDB is not on this machine", "apt-get install mariadb-server-core mariadb-client-core")
        return Kind(family, Path(found))
    program = KIND.packaged()
    if program is None or shutil.which("psql") is None:
        raise MissingTool("PostgreSQL is not on this machine", "apt-get install postgresql")
    return Kind(family, program)


@contextlib.contextmanager
def running(shell: Shell, kind: Kind, folder: Path, certificates: Certificates | None) -> Iterator[Ground]:
    """A new server in ``folder``, with TLS where there are certificates, and stopped at the end. Raises ServerFailed."""
    folder.mkdir(mode=0o755)
    port = free_port()
    log = folder / "server.log"
    # MariaDB's set-up removes files of others that run at the same time in one folder for temporary files.
    environment = {"TMPDIR": str(folder)}
    if kind.family == "postgres" and _is_root():
        shutil.chown(folder, USER, USER)
    process: Process | None = None
    try:
        shell.run(Command(_initialise(kind, folder), env=environment, cwd=Path("/")), log=log, timeout_s=_PREPARE_TIMEOUT_S)
        start = (*_start(kind, folder, port), *_encrypting(kind, certificates))
        process = shell.spawn(Command(start, env=environment, cwd=Path("/")), log=log)
        ground = ground_of(_url(kind, port), shell)
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not ground.answers():
            if process.poll() is not None or time.monotonic() > deadline:
                raise ServerFailed(f"{kind.program} does not answer: {_tail(log)}", "the end of its log says why")
            time.sleep(_POLL_S)
        yield ground
    finally:
        if process is not None and process.poll() is None:
            # PostgreSQL waits for its clients after SIGTERM, not after SIGINT.
            process.signal(signal.SIGINT if kind.family == "postgres" else signal.SIGTERM)
            if process.wait(_STOP_TIMEOUT_S) is None:
                process.signal(signal.SIGKILL)
                process.wait(_STOP_TIMEOUT_S)


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-6:])


def free_port() -> int:
    """A port of the loopback address that nobody listened on just now."""
    with socket.socket() as each:
        each.bind(("127.0.0.1", 0))
        return int(each.getsockname()[1])


def _url(kind: Kind, port: int) -> str:
    return f"{kind.protocol}://{'postgres' if kind.protocol == 'postgres' else 'root'}@127.0.0.1:{port}/{DATABASE}"


def _initialise(kind: Kind, folder: Path) -> tuple[str, ...]:
    data = folder / "data"
    if kind.family == "postgres":
        initdb = str(kind.program.with_name("initdb"))
        return (
            *as_user(USER, when_orphaned=signal.SIGINT),
            initdb,
            "-U",
            "postgres",
            "-A",
            "trust",
            "--no-sync",
            "-D",
            str(data),
        )
    if kind.family == "mariadb":
        login = "--auth-root-authentication-method=normal"
        return ("mariadb-install-db", "--no-defaults", "--skip-test-db", login, f"--datadir={data}", *_as_root())
    users = folder / "users.sql"
    users.write_text(_USERS)
    given = (f"--datadir={data}", f"--init-file={users}", *_no_files(), *_as_root())
    return (str(kind.program), "--no-defaults", "--initialize-insecure", *given)


def _start(kind: Kind, folder: Path, port: int) -> tuple[str, ...]:
    data = folder / "data"
    if kind.family == "postgres":
        settings = ("listen_addresses=127.0.0.1", f"port={port}", "fsync=off", f"unix_socket_directories={folder}")
        given = (word for setting in settings for word in ("-c", setting))
        return (*as_user(USER, when_orphaned=signal.SIGINT), str(kind.program), *given, "-D", str(data))
    return (
        str(kind.program),
        "--no-defaults",
        *_as_root(),
        f"--datadir={data}",
        "--bind-address=127.0.0.1",
        f"--port={port}",
        f"--socket={folder / 's'}",
        f"--pid-file={folder / 'pid'}",
        "--skip-name-resolve",
        "--local-infile=1",
        "--secure-file-priv=",
        "--innodb-buffer-pool-size=64M",
        "--loose-mysqlx=OFF",
        *(_no_files() if kind.family == "mysql" else ()),
    )


def _no_files() -> tuple[str, ...]:
    """MySQL makes itself a certificate otherwise, and offers TLS with it."""
    return ("--auto-generate-certs=OFF",)


def _encrypting(kind: Kind, certificates: Certificates | None) -> tuple[str, ...]:
    if certificates is None:
        return ()
    ca, certificate, key = certificates.ca, certificates.certificate, certificates.key
    if kind.family == "postgres":
        if _is_root():
            shutil.chown(key, USER)
        return ("-c", "ssl=on", "-c", f"ssl_cert_file={certificate}", "-c", f"ssl_key_file={key}")
    return (f"--ssl-ca={ca}", f"--ssl-cert={certificate}", f"--ssl-key={key}")


def _is_root() -> bool:
    return os.geteuid() == 0


def _as_root() -> tuple[str, ...]:
    """MySQL and MariaDB run as root only where they are told to."""
    return ("--user=root",) if _is_root() else ()
