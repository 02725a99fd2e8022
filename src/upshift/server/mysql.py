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
from upshift.server.instance import running
from upshift.server.kind import Counters, Program, Repeatable, TestOutcome
from upshift.server.mysql_change import change
from upshift.server.nesting import deepest
from upshift.shell import Command
from upshift.toolchain.model import Toolchain
from upshift.workbench import Workbench

# The parts of a server that Debian's and Ubuntu's packages of MySQL switch on (the CMakeCache.txt in Debian's mysql-source
# has them), with the same system libraries: the server that is packaged takes the place of theirs. Unit tests, NDB and
# MySQL Router are packages of their own.
_PARTS: Mapping[str, str] = {
    "WITH_UNIT_TESTS": "OFF",
    "WITH_NDB": "OFF",
    "WITH_NDBCLUSTER_STORAGE_ENGINE": "OFF",
    "WITH_ROUTER": "OFF",
    "WITH_MYSQLX": "ON",
    "WITH_AUTHENTICATION_CLIENT_PLUGINS": "ON",
    "WITH_AUTHENTICATION_WEBAUTHN": "ON",
    **dict.fromkeys(
        (
            f"WITH_{library}"
            for library in (
                "SSL",
                "ICU",
                "ZSTD",
                "LZ4",
                "ZLIB",
                "PROTOBUF",
                "CURL",
                "FIDO",
                "KERBEROS",
                "LDAP",
                "SASL",
                "MECAB",
                "EDITLINE",
            )
        ),
        "system",
    ),
}
# Where the distribution's server seeks its files when nothing else is configured. Paths below the installation's own
# prefix stay relative to the executable, so that the package starts from any folder.
_PLACES: Mapping[str, str] = {
    "SYSCONFDIR": "/etc/mysql",
    "MYSQL_DATADIR": "/var/lib/mysql",
    "MYSQL_UNIX_ADDR": "/var/run/mysqld/mysqld.sock",
    "INSTALL_SECURE_FILE_PRIVDIR": "/var/lib/mysql-files",
    "INSTALL_MYSQLKEYRINGDIR": "/var/lib/mysql-keyring",
}

_SQL_HEADERS = (
    "sql/sql_class.h",
    "sql/sql_lex.h",
    "sql/item_func.h",
    "sql/handler.h",
    "sql/field.h",
    "sql/table.h",
    "sql/mysqld.h",
)
# What many files of sql take much of their time for; too much for those of other folders, which hardly use them.
_SERVER_HEADERS = (
    *_SQL_HEADERS,
    "sql/item_sum.h",
    "sql/parse_tree_nodes.h",
    "sql/sql_optimizer.h",
    "sql/thd_raii.h",
    "sql/rpl_rli.h",
    "sql/log_event.h",
    "sql/dd/cache/dictionary_client.h",
)
_DICTIONARY_HEADERS = tuple(
    f"sql/dd/impl/{name}"
    for name in (
        "types/table_impl.h",
        "system_views/system_view_definition_impl.h",
        "transaction_impl.h",
        "system_registry.h",
    )
)
_INNODB_HEADERS = tuple(
    f"storage/innobase/include/{name}"
    for name in (
        "univ.i",
        "ha_prototypes.h",
        "buf0buf.h",
        "trx0trx.h",
        "row0mysql.h",
        "fil0fil.h",
        "log0log.h",
        "dict0dd.h",
        "lock0lock.h",
        "srv0start.h",
        "clone0clone.h",
    )
)

_SETTINGS: Mapping[str, str] = {
    "innodb_buffer_pool_size": "1G",
    "innodb_redo_log_capacity": "1G",
    # Durability on one virtual disk measures the disk: the log is written at each commit and synced once a second.
    "innodb_flush_log_at_trx_commit": "2",
    "sync_binlog": "0",
    "max_connections": "1100",
    # Newer BOLT and clang instrumentation use more stack than the 1 MiB default leaves.
    "thread_stack": "2M",
}

# InnoDB's are read from the data folder's first day on; lower_case_table_names is compared with the data dictionary's.
# What its CMakeLists.txt asks $ENV for, and where CMake looks for the system libraries of _PARTS and for its generators.
_BUILD_VARIABLES = (
    "PB2WORKDIR",
    "COMPRESS_DEBUG_SECTIONS",
    "OPTIMIZE_DEBUG_BUILDS",
    *(
        name
        for package in ("BISON", "CURL", "Curses", "OpenSSL", "PkgConfig", "Protobuf", "ZLIB", "absl", "utf8_range")
        for name in (f"{package}_ROOT", f"{package.upper()}_ROOT", f"{package}_DIR")
    ),
    "OPENSSL_ROOT_DIR",
)

# Its own in 9.7. The size follows the CPUs. The other algorithm turns direct processing off (plugin/thread_pool/src).
_THREAD_POOL: Mapping[str, str] = {
    "plugin_load_add": "thread_pool.so",
    "thread_pool_algorithm": "0",
    "thread_pool_query_threads_per_group": "1",
}

_LASTING = ("innodb_page_size", "innodb_data_file_path", "lower_case_table_names")

# InnoDB's threads work by the clock and meet the connection's on pages, latches and malloc's arenas. The server's own
# thread serves the connection: a thread of its own may get any arena, and what lies in that decides malloc's way.
_REPEATABLE = Repeatable(
    settings={
        "thread_handling": "no-threads",
        "event_scheduler": "ON",  # for leave_undisturbed()
        # Above 2^31 ms there is no limit, and the server just reads: with one, it looks first whether there is something.
        **dict.fromkeys(("wait_timeout", "net_read_timeout"), "31536000"),
        "innodb_log_writer_threads": "OFF",
        "innodb_adaptive_hash_index": "OFF",
        "innodb_stats_auto_recalc": "OFF",
        "innodb_use_native_aio": "OFF",
        "innodb_buffer_pool_load_at_startup": "OFF",
        "innodb_undo_log_truncate": "OFF",
        "innodb_purge_threads": "1",
        "innodb_spin_wait_delay": "0",
        "innodb_sync_spin_loops": "0",
        # Pages are written when the log is full, or not at all.
        "innodb_max_dirty_pages_pct": "99",
        "innodb_max_dirty_pages_pct_lwm": "98",
        "innodb_adaptive_flushing": "OFF",
        "innodb_idle_flush_pct": "0",
    },
    # glibc's: an arena for each thread; no fast bins, whose consolidation comes once in a while; and the thread's own cache of
    # blocks without a limit, because what lies in the arena, and so the way to a block there, is another each time.
    environment={"GLIBC_TUNABLES": "glibc.malloc.arena_max=1000:glibc.malloc.mxfast=0:glibc.malloc.tcache_count=60000"},
)

_DEFAULT_STACK: Mapping[str, str] = {"thread_stack": "1M"}

_PACKAGED = (
    "mysql",
    "mysqladmin",
    "mysqlbinlog",
    "mysqlcheck",
    "mysqldump",
    "mysqlimport",
    "mysqlshow",
    "mysqlslap",
    "mysql_config_editor",
    "mysql_secure_installation",
    "mysql_tzinfo_to_sql",
    "my_print_defaults",
    "innochecksum",
    "ibd2sdi",
    "perror",
)
_PLUGINS = "plugin_output_directory"
_PLUGIN = re.compile(rf"^build {_PLUGINS}/(\S+\.so):", re.M)
# Of the source's shared objects those that its own tests and examples load.
_ONLY_FOR_TESTS = re.compile(r"test|example|udf_|mock|^qa_|^adt_null|^auth\.|mypluglib|conflicting|message_emit")
_SHARED_TEXTS = ("dictionary.txt", "messages_to_clients.txt", "messages_to_error_log.txt")

_STILL = "upshift_still"
_HOLD = "BEGIN START TRANSACTION WITH CONSISTENT SNAPSHOT; DO SLEEP(86400); END"
_EVENT_TIMEOUT_S = 120.0  # under valgrind, beside other work

_FEW_DIRTY_PAGES = 16
_BETWEEN_LOOKS_S = 0.1

# Tables and indexes, not redo and undo logs, doublewrite or binary logs.
_DATA_FILES = ("*/*.ibd",)


class MySQL:
    """MySQL 8.0 to 9.7, and Percona Server, which builds the same way."""

    name = "mysql"
    server_target = "mysqld"
    one_process = True
    can_have_a_tier = True
    socket_name = "s.sock"
    # Callers reserve the stack of what comes later in a buffer that they hand to check_stack_overrun(). Seen into, that
    # function hardly uses it, and ThinLTO takes it out of the frame: deep expressions then pass the check and crash.
    series: Path | None = shipped("server") / "mysql-9.7"
    unbuilt: tuple[str, ...] = ("mysql-test/", "Docs/", "man/", "unittest/")
    opaque: tuple[str, ...] = ("sql/check_stack.cc",)
    targets: tuple[str, ...] = ("mysqld", *mtr.TARGETS)
    suites: Mapping[str, tuple[str, ...]] = mtr.SUITES
    lasting: tuple[str, ...] = _LASTING
    build_variables: tuple[str, ...] = _BUILD_VARIABLES
    thread_pool: Mapping[str, str] = _THREAD_POOL
    database = "upshift"

    def __init__(self) -> None:
        self._kept: dict[Path, asking.Connection] = {}
        """By socket, for counters: where hundreds of threads want the server's CPU, a login takes a second."""

    def recognise(self, tree: Path) -> str | None:
        version_file = tree / "MYSQL_VERSION"
        if not version_file.is_file() or not (tree / "sql" / "mysqld.cc").is_file():
            return None
        fields = dict(re.findall(r"^MYSQL_VERSION_(\w+)=\"?([^\"\n]*)\"?$", version_file.read_text(), re.M))
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
            **_PARTS,
            **_PLACES,
            **options,
        }
        # The empty ones, too: CMake takes what it is not given from CFLAGS, LDFLAGS and the like of the environment.
        given = [f"-D{name}={value}" for name, value in definitions.items()]
        return Command(("cmake", "-G", "Ninja", "-S", str(source), "-B", str(tree), *given))

    def precompiled_headers(self) -> Mapping[str, tuple[str, ...]]:
        return {
            "sql": _SERVER_HEADERS,
            "sql/auth": (*_SERVER_HEADERS, "sql/auth/sql_auth_cache.h", "sql/auth/auth_internal.h"),
            "sql/dd": (*_SERVER_HEADERS, *_DICTIONARY_HEADERS),
            # The last two bring in all of Boost.Geometry.
            "sql/gis": (*_SQL_HEADERS, *(f"sql/gis/{name}" for name in ("geometries_traits.h", "mbr_utils.h", "relops.h"))),
            "sql/server_component": _SQL_HEADERS,
            "storage/innobase": (*_INNODB_HEADERS, "sql/sql_class.h", "storage/innobase/handler/ha_innodb.h"),
            "storage/perfschema": (*_SQL_HEADERS, "storage/perfschema/pfs_instr_class.h"),
            "storage/temptable": _SQL_HEADERS,
            "storage/myisam": ("storage/myisam/myisamdef.h",),
            "storage/myisammrg": ("storage/myisammrg/myrg_def.h",),
            "mysys": ("include/my_sys.h", "mysys/mysys_priv.h"),
            "plugin/semisync": _SQL_HEADERS,
        }

    def program(self, source: Path, tree: Path, binary: Path) -> Program:
        return Program(
            kind=self.name,
            binary=binary,
            tools=tree / "runtime_output_directory",
            options=(
                f"--lc-messages-dir={tree / 'share'}",
                f"--character-sets-dir={source / 'share' / 'charsets'}",
                f"--plugin-dir={tree / _PLUGINS}",
            ),
        )

    def packaged(self) -> Path | None:
        found = shutil.which(self.server_target, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
        # MariaDB's package has a link of that name.
        return Path(found).resolve() if found and Path(found).resolve().name == self.server_target else None

    def version(self, binary: Path) -> Command:
        return Command((str(binary), "--no-defaults", "--version"))

    def initialise(self, program: Program, data: Path, settings: Mapping[str, str] = {}) -> Command:
        return Command((*_base(program, data), "--initialize-insecure", *_options(settings)))

    def prepare(self, socket: Path) -> None:
        with asking.asked(socket) as cursor:
            cursor.execute(f"CREATE DATABASE IF NOT EXISTS {self.database}")

    def tidy(self, socket: Path) -> None:
        """Nothing: what InnoDB still does then, ``quiet`` waits for."""

    def change(self, socket: Path, sql: str) -> str | None:
        return change(socket, self.database, sql)

    def start(self, program: Program, data: Path, socket: Path, settings: Mapping[str, str]) -> Command:
        return Command(
            (
                *_base(program, data),
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
            return asking.counters(self._kept[socket])

    def forget(self, socket: Path) -> None:
        if connection := self._kept.pop(socket, None):
            connection.close()

    def settings(self) -> Mapping[str, str]:
        return _SETTINGS

    def repeatable(self) -> Repeatable:
        return _REPEATABLE

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
        return _number(settings.get("innodb_buffer_pool_size", "128M"))

    def most_connections(self, settings: Mapping[str, str]) -> int | None:
        return _number(settings.get("max_connections", "151"))

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
        bench.shell.run(self.initialise(program, data, {}), log=bench.log)
        with running(bench.shell, self, program, data, log=bench.log, settings=_DEFAULT_STACK) as server:
            return deepest(server.socket)

    def plugins(self, tree: Path) -> tuple[str, ...]:
        found = _PLUGIN.findall((tree / "build.ninja").read_text())
        return tuple(sorted(f"{_PLUGINS}/{name}" for name in found if not _ONLY_FOR_TESTS.search(name)))

    def install(self, source: Path, tree: Path, server: Path) -> Mapping[str, Path]:
        programs = tree / "runtime_output_directory"
        clients = {f"bin/{name}": programs / name for name in _PACKAGED if (programs / name).is_file()}
        languages = {f"share/{entry.name}": entry for entry in (tree / "share").iterdir() if (entry / "errmsg.sys").is_file()}
        texts = {f"share/{name}": source / "share" / name for name in ("charsets", *_SHARED_TEXTS)}
        loaded = {f"lib/plugin/{Path(file).name}": tree / file for file in self.plugins(tree)}
        return {"bin/mysqld": server, "LICENSE": source / "LICENSE", **clients, **languages, **texts, **loaded}

    def data_bytes(self, data: Path) -> int:
        return sum(file.stat().st_size for pattern in _DATA_FILES for file in data.glob(pattern))


KIND = MySQL()


def _base(program: Program, data: Path) -> tuple[str, ...]:
    # InnoDB and MTR run as root in containers and CI; mysqld refuses root unless told.
    as_root = ("--user=root",) if _is_root() else ()
    return (str(program.binary), "--no-defaults", *program.options, f"--datadir={data}", *as_root)


def _options(settings: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"--{name.replace('_', '-')}={value}" for name, value in settings.items())


def _number(text: str) -> int:
    """What mysqld reads in an option's value: 128M and the like."""
    unit = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}.get(text[-1:].upper())
    return int(text[:-1]) * unit if unit else int(text)


def _is_root() -> bool:
    return os.geteuid() == 0
