"""MySQL (and what is built like it): CMake and ninja, ``SHOW GLOBAL STATUS``, SIGTERM."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

import pymysql

from upshift.errors import ServerFailed
from upshift.paths import shipped
from upshift.server import mtr
from upshift.server import mysql_asking as asking
from upshift.server import mysql_building as building
from upshift.server.instance import running
from upshift.server.kind import Counters, Program, Repeatable, TestOutcome
from upshift.server.mysql_change import change, gather_statistics
from upshift.server.mysql_settings import DEFAULT_STACK, LASTING, REPEATABLE, RESERVED, SETTINGS, THREAD_POOL, WRITTEN, given
from upshift.server.nesting import deepest
from upshift.shell import Command
from upshift.toolchain.model import Toolchain
from upshift.workbench import Workbench

_STILL = "upshift_still"
_HOLD = "BEGIN START TRANSACTION WITH CONSISTENT SNAPSHOT; DO SLEEP(86400); END"
_INITIALISE_TIMEOUT_S = 300.0
_EVENT_TIMEOUT_S = 120.0  # under valgrind, beside other work

_FEW_DIRTY_PAGES = 16
_BETWEEN_LOOKS_S = 0.1

# Tables and indexes, not redo and undo logs, doublewrite or binary logs.
_DATA_FILES = ("*/*.ibd",)
_SPARE_REDO = "#innodb_redo/#ib_redo*_tmp"


class MySQL:
    """MySQL 8.0.30 to 9.7, and Percona Server, which builds the same way."""

    name = "mysql"
    server_target = "mysqld"
    one_process = True
    can_have_a_tier = True
    socket_name = "s.sock"
    series: Path | None = shipped("server") / "mysql-9.7"
    unbuilt: tuple[str, ...] = ("mysql-test/", "Docs/", "man/", "unittest/")
    # Callers reserve the stack of what comes later in a buffer that they hand to check_stack_overrun(). Seen into, that
    # function hardly uses it, and ThinLTO takes it out of the frame: deep expressions then pass the check and crash.
    opaque: tuple[str, ...] = ("sql/check_stack.cc",)
    targets: tuple[str, ...] = ("mysqld", *mtr.TARGETS)
    suites: Mapping[str, tuple[str, ...]] = mtr.SUITES
    lasting: tuple[str, ...] = LASTING
    reserved: tuple[str, ...] = RESERVED
    written: tuple[str, ...] = WRITTEN
    build_variables: tuple[str, ...] = building.VARIABLES
    thread_pool: Mapping[str, str] = THREAD_POOL
    database = "upshift"
    client_environment: Mapping[str, str] = {"MYSQL_PWD": ""}
    hidden_from_clients: str = ""

    def __init__(self) -> None:
        self._kept: dict[Path, asking.Connection] = {}
        """By socket, for counters: where hundreds of threads want the server's CPU, a login takes a second."""
        self._asks: dict[Path, int] = {}
        """How often counters were asked for over the kept connection: each is a query for the server, and no client's work."""

    def recognise(self, tree: Path) -> str | None:
        version_file = tree / "MYSQL_VERSION"
        if not version_file.is_file() or not (tree / "sql" / "mysqld.cc").is_file():
            return None
        fields = dict(re.findall(r"^MYSQL_VERSION_(\w+)=\"?([^\"\n]*)\"?$", version_file.read_text(errors="replace"), re.M))
        return ".".join(fields.get(part, "0") for part in ("MAJOR", "MINOR", "PATCH"))

    def configure(
        self,
        source: Path,
        tree: Path,
        toolchain: Toolchain,
        *,
        build_type: str,
        compile_flags: tuple[str, ...],
        link_flags: tuple[str, ...],
        options: Mapping[str, str],
    ) -> Command:
        flags = " ".join(compile_flags)
        definitions = {
            "CMAKE_BUILD_TYPE": build_type,
            "CMAKE_C_COMPILER": str(toolchain.cc),
            "CMAKE_CXX_COMPILER": str(toolchain.cxx),
            "CMAKE_C_FLAGS": flags,
            "CMAKE_CXX_FLAGS": flags,
            "CMAKE_EXE_LINKER_FLAGS": " ".join(link_flags),
            "CMAKE_SHARED_LINKER_FLAGS": "",
            "CMAKE_MODULE_LINKER_FLAGS": "",
            "CMAKE_EXPORT_COMPILE_COMMANDS": "ON",
            # A clang or ICX that MySQL's CMake does not know by version yet.
            "FORCE_UNSUPPORTED_COMPILER": "ON",
            **building.PARTS,
            **building.PLACES,
            **options,
        }
        # The empty ones, too: CMake takes what it is not given from CFLAGS, LDFLAGS and the like of the environment.
        given = [f"-D{name}={value}" for name, value in definitions.items()]
        return Command(("cmake", "-G", "Ninja", "-S", str(source), "-B", str(tree), *given))

    def precompiled_headers(self) -> Mapping[str, tuple[str, ...]]:
        return building.PRECOMPILED

    def program(self, source: Path, tree: Path, binary: Path) -> Program:
        return Program(
            kind=self.name,
            binary=binary,
            tools=tree / "runtime_output_directory",
            options=(
                f"--lc-messages-dir={tree / 'share'}",
                f"--character-sets-dir={source / 'share' / 'charsets'}",
                f"--plugin-dir={tree / building.PLUGINS}",
            ),
        )

    def packaged(self) -> Path | None:
        found = shutil.which(self.server_target, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
        # MariaDB's package has a link of that name.
        return Path(found).resolve() if found and Path(found).resolve().name == self.server_target else None

    def version(self, binary: Path) -> Command:
        return Command((str(binary), "--no-defaults", "--version"))

    def initialise(self, program: Program, data: Path, settings: Mapping[str, str] = {}) -> Command:
        return Command((*_base(program, data, data.parent), "--initialize-insecure", *_options(settings)))

    def prepare(self, socket: Path) -> None:
        with asking.asked(socket) as cursor:
            cursor.execute(f"CREATE DATABASE IF NOT EXISTS {self.database}")

    def tidy(self, socket: Path) -> None:
        """Statistics of all tables. InnoDB gathers those of a table that changes at most once in ten seconds: a fill leaves
        those of some moment while it ran, and the optimizer plans by these. ``quiet`` waits for what else InnoDB does then.
        """
        gather_statistics(socket)

    def trim(self, data: Path) -> None:
        """Spare redo log files. InnoDB keeps as many of them as its redo log may grow by, and removes all when it starts
        (``log_sys_init``).
        """
        for file in data.glob(_SPARE_REDO):
            file.unlink()

    def change(self, socket: Path, sql: str) -> str | None:
        return change(socket, self.database, sql)

    def start(self, program: Program, data: Path, socket: Path, settings: Mapping[str, str]) -> Command:
        return Command(
            (
                *_base(program, data, socket.parent),
                f"--socket={socket}",
                f"--pid-file={socket.with_suffix('.pid')}",
                "--skip-networking",
                "--loose-mysqlx=OFF",
                # The compiled-in folder is the distribution's; a server that does not find it refuses to start.
                "--secure-file-priv=NULL",
                *_options(settings),
            )
        )

    def url(self, socket: Path) -> str:
        return f"mysql://root@localhost/{self.database}?socket={socket}"

    def ready(self, socket: Path) -> bool:
        try:
            with asking.connected(socket) as connection:
                connection.ping(reconnect=False)
        except (pymysql.MySQLError, OSError):
            return False
        return True

    def quiet(self, socket: Path) -> bool:
        """Next to no dirty pages, and nothing read, written, logged or purged between two looks.

        The length of the history list alone says little: an idle InnoDB stops purging with up to 5,000 entries left.
        """
        before = asking.background(socket)
        if before["Innodb_buffer_pool_pages_dirty"] > _FEW_DIRTY_PAGES:
            return False
        time.sleep(_BETWEEN_LOOKS_S)
        return asking.background(socket) == before

    def counters(self, socket: Path) -> Counters:
        with asking.answering():
            if socket not in self._kept:
                self._kept[socket] = asking.connected(socket)
            found = asking.counters(self._kept[socket])
        self._asks[socket] = self._asks.get(socket, 0) + 1
        return found.model_copy(update={"queries": found.queries - self._asks[socket]})

    def forget(self, socket: Path) -> None:
        self._asks.pop(socket, None)
        if connection := self._kept.pop(socket, None):
            connection.close()

    def settings(self) -> Mapping[str, str]:
        return SETTINGS

    def repeatable(self) -> Repeatable:
        return REPEATABLE

    def leave_undisturbed(self, socket: Path) -> None:
        """Purge waits for the oldest snapshot. When it removes a row decides whether a page is reorganised, split or neither.

        An event holds the snapshot, because the server serves one connection at a time.
        """
        with asking.asked(socket) as cursor:
            cursor.execute(f"CREATE EVENT {self.database}.{_STILL} ON SCHEDULE AT CURRENT_TIMESTAMP DO {_HOLD}")
        deadline = time.monotonic() + _EVENT_TIMEOUT_S
        while not asking.holds_snapshot(socket):
            if time.monotonic() > deadline:
                raise ServerFailed("the event that holds purge back did not start", "the server's log says why")
            time.sleep(_BETWEEN_LOOKS_S)

    def pool_bytes(self, settings: Mapping[str, str]) -> int | None:
        return _number(given(settings, "innodb_buffer_pool_size", "128M"))

    def most_connections(self, settings: Mapping[str, str]) -> int | None:
        return _number(given(settings, "max_connections", "151")) or None

    def verify(
        self,
        source: Path,
        tree: Path,
        server: Path,
        suite: str,
        bench: Workbench,
        jobs: int,
        environment: Mapping[str, str],
    ) -> TestOutcome:
        return mtr.run_tests(bench, source, tree, server, suite, jobs=jobs, environment=environment)

    def unknown_tests(self, tests: str, source: Path | None) -> tuple[str, ...]:
        return mtr.unknown_tests(tests, source)

    def nesting(self, program: Program, data: Path, bench: Workbench) -> Mapping[str, int]:
        bench.shell.run(self.initialise(program, data, {}), log=bench.log, timeout_s=_INITIALISE_TIMEOUT_S)
        with running(bench.shell, self, program, data, log=bench.log, settings=DEFAULT_STACK) as server:
            return deepest(server.socket)

    def plugins(self, tree: Path) -> tuple[str, ...]:
        return building.plugins(tree)

    def install(self, source: Path, tree: Path, server: Path) -> Mapping[str, Path]:
        return building.installed(source, tree, server)

    def data_bytes(self, data: Path) -> int:
        return sum(file.stat().st_size for pattern in _DATA_FILES for file in data.glob(pattern))


KIND = MySQL()


def _base(program: Program, data: Path, scratch: Path) -> tuple[str, ...]:
    # Upshift and MTR run as root in containers and CI; mysqld refuses root unless told.
    as_root = ("--user=root",) if _is_root() else ()
    # mysqld removes all #sql* in its tmpdir when it starts (mysql_rm_tmp_tables): in /tmp, those of servers that run.
    places = (f"--datadir={data}", f"--tmpdir={scratch}")
    return (str(program.binary), "--no-defaults", *program.options, *places, *as_root)


def _options(settings: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"--{name.replace('_', '-')}={value}" for name, value in settings.items())


def _number(text: str) -> int:
    """What mysqld reads in an option's value: 128M and the like."""
    found = re.fullmatch(r"([0-9]+)([KMGTPE]?)", text.strip(), re.IGNORECASE)
    if found is None:
        return 0  # The server says what it does not understand.
    return int(found[1]) << 10 * " KMGTPE".index(found[2].upper() or " ")


def _is_root() -> bool:
    return os.geteuid() == 0
