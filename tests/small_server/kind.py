"""The tests' own small server as Upshift sees it; ``UPSHIFT_SERVER_KIND`` names this file."""

from __future__ import annotations

import contextlib
import shutil
import socket as sockets
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from upshift.errors import CommandFailed, NotTested, ServerFailed
from upshift.server.instance import running
from upshift.server.kind import Counters, Program, Repeatable, SourceKind, TestOutcome
from upshift.shell import Command
from upshift.toolchain.model import Toolchain
from upshift.workbench import Workbench

_HERE = Path(__file__).resolve().parent
_CHECKS = _HERE / "checks.toml"
_ANSWER_TIMEOUT_S = 2.0


class SmallServer:
    """smallserver: CMake and ninja, a line protocol on a unix socket, SIGTERM."""

    name = "smallserver"
    server_target = "smallserver"
    one_process = True
    can_have_a_tier = True
    socket_name = "s.sock"
    series: Path | None = _HERE / "patches"
    unbuilt: tuple[str, ...] = ("checks/",)
    opaque: tuple[str, ...] = ()
    targets: tuple[str, ...] = ("smallserver", "smallload")
    lasting: tuple[str, ...] = ()
    reserved: tuple[str, ...] = ("data", "socket")
    written: tuple[str, ...] = ("log",)
    build_variables: tuple[str, ...] = ()
    thread_pool: Mapping[str, str] = {}
    database = "small"
    client_environment: Mapping[str, str] = {}
    hidden_from_clients: str = ""
    suites: Mapping[str, tuple[str, ...]] = {"short": (), "profile": ()}

    def recognise(self, tree: Path) -> str | None:
        file = tree / "SMALLSERVER_VERSION"
        return file.read_text().strip() if file.is_file() else None

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
        definitions = {
            "CMAKE_BUILD_TYPE": build_type,
            "CMAKE_CXX_COMPILER": str(toolchain.cxx),
            "CMAKE_CXX_FLAGS": " ".join(compile_flags),
            "CMAKE_EXE_LINKER_FLAGS": " ".join(link_flags),
            "CMAKE_SHARED_LINKER_FLAGS": "",
            **options,
        }
        given = [f"-D{name}={value}" for name, value in definitions.items()]
        return Command(("cmake", "-G", "Ninja", "-S", str(source), "-B", str(tree), *given))

    def precompiled_headers(self) -> Mapping[str, tuple[str, ...]]:
        return {
            "core": ("core/prelude.h",),
            "storage": ("storage/database.h",),
            "sql": ("sql/statement.h",),
            "net": ("net/session.h",),
            "admin": ("admin/commands.h",),
        }

    def program(self, source: Path, tree: Path, binary: Path) -> Program:
        return Program(kind=self.name, binary=binary, tools=tree, options=(f"--plugin-dir={tree}",))

    def packaged(self) -> Path | None:
        """None: nobody packages it."""
        return None

    def version(self, binary: Path) -> Command:
        return Command((str(binary), "--version"))

    def initialise(self, program: Program, data: Path, settings: Mapping[str, str] = {}) -> Command:
        return Command((str(program.binary), *program.options, "--data", str(data), "--initialize"))

    def prepare(self, socket: Path) -> None:
        """Nothing: this server has one database."""

    def tidy(self, socket: Path) -> None:
        """Nothing."""

    def trim(self, data: Path) -> None:
        """Nothing."""

    def change(self, socket: Path, sql: str) -> str | None:
        """A statement a line."""
        statements = [line for line in sql.splitlines() if line.strip()]
        refused = (lines[-1] for lines in answers(socket, *statements) if lines[-1].startswith("ERR "))
        return next(refused, None)

    def start(self, program: Program, data: Path, socket: Path, settings: Mapping[str, str]) -> Command:
        given = (f"--{name.replace('_', '-')}={value}" for name, value in settings.items())
        return Command((str(program.binary), *program.options, "--data", str(data), "--socket", str(socket), *given))

    def url(self, socket: Path) -> str:
        return f"smallserver://localhost/?socket={socket}"

    def ready(self, socket: Path) -> bool:
        try:
            return answers(socket, "PING") == [["OK 0"]]
        except OSError:
            return False

    def quiet(self, socket: Path) -> bool:
        """Whether all sessions are done: the counters stand still."""
        try:
            first, second = answers(socket, "STATUS", "STATUS")
        except OSError as error:
            raise ServerFailed(f"the server does not answer STATUS: {error}", "it died or hangs") from error
        return first == second

    def counters(self, socket: Path) -> Counters:
        try:
            (lines,) = answers(socket, "STATUS")
        except OSError as error:
            raise ServerFailed(f"the server does not answer STATUS: {error}", "it died or hangs") from error
        queries = int(dict(line.split("\t") for line in lines[:-1])["queries"])
        return Counters(queries=queries, statements=queries, transactions=queries)

    def forget(self, socket: Path) -> None:
        """Nothing is kept open."""

    def settings(self) -> Mapping[str, str]:
        return {"max_connections": "256"}

    def repeatable(self) -> Repeatable:
        return Repeatable()

    def leave_undisturbed(self, socket: Path) -> None:
        """Nothing."""

    def pool_bytes(self, settings: Mapping[str, str]) -> int | None:
        """None: all data lie in memory."""
        return None

    def most_connections(self, settings: Mapping[str, str]) -> int | None:
        return int(settings["max_connections"])

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
        """Statements and their answers from checks.toml, on a data folder of its own; ``suite`` makes no difference."""
        checks = tomllib.loads(_CHECKS.read_text())["check"]
        with self._fresh(self.program(source, tree, server), bench, environment) as socket:
            given = answers(socket, *(check["statement"] for check in checks))
        passed = {check["name"]: _passes(check, lines) for check, lines in zip(checks, given, strict=True)}
        failed, passing = (tuple(name for name in passed if passed[name] is how) for how in (False, True))
        return TestOutcome(run=len(passed), passed=len(passing), failed=failed, passing=passing)

    def unknown_tests(self, tests: str, source: Path | None) -> tuple[str, ...]:
        return () if tests in self.suites else (tests,)

    def nesting(self, program: Program, data: Path, bench: Workbench) -> Mapping[str, int]:
        return {}

    def plugins(self, tree: Path) -> tuple[str, ...]:
        return ("libsmallextra.so",)

    def install(self, source: Path, tree: Path, server: Path) -> Mapping[str, Path]:
        programs = {"bin/smallserver": server, "bin/smallload": tree / "smallload"}
        return {**programs, **{f"lib/plugin/{name}": tree / name for name in self.plugins(tree)}}

    def data_bytes(self, data: Path) -> int:
        return (data / "tables.dat").stat().st_size

    @contextlib.contextmanager
    def _fresh(self, program: Program, bench: Workbench, environment: Mapping[str, str]) -> Iterator[Path]:
        home = Path(tempfile.mkdtemp(prefix="smallserver-"))
        try:
            bench.shell.run(self.initialise(program, home / "data"), log=bench.log)
            with running(bench.shell, self, program, home / "data", log=bench.log, environment=environment) as server:
                yield server.socket
        except (CommandFailed, ServerFailed, OSError) as error:
            raise NotTested(f"the server's checks could not run: {error}", f"see {bench.log}") from error
        finally:
            shutil.rmtree(home, ignore_errors=True)


def answers(socket: Path, *statements: str) -> list[list[str]]:
    """What the server answers to each statement: its lines, the last of which begins with ``OK`` or ``ERR``.

    Raises OSError when there is no server, or no answer within two seconds.
    """
    found: list[list[str]] = []
    with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM) as connection:
        connection.settimeout(_ANSWER_TIMEOUT_S)
        connection.connect(str(socket))
        with connection.makefile("rw", encoding="utf-8", newline="\n") as stream:
            for statement in statements:
                stream.write(statement + "\n")
                stream.flush()
                lines: list[str] = []
                while not lines or not lines[-1].startswith(("OK ", "ERR ")):
                    line = stream.readline()
                    if not line:
                        raise ConnectionError("the server closed the connection")
                    lines.append(line.rstrip("\n"))
                found.append(lines)
    return found


def _passes(check: Mapping[str, Any], lines: list[str]) -> bool:
    wanted: list[str] = check["answer"]
    return lines == wanted or (wanted == ["ERR"] and lines[-1].startswith("ERR "))


KIND: SourceKind = SmallServer()
