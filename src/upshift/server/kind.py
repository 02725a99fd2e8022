"""The seam between Upshift and a server: everything that differs from one server to another, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, Protocol

from upshift.errors import UsageError
from upshift.shell import Command
from upshift.toolchain.model import Toolchain
from upshift.values import Value
from upshift.workbench import Workbench


def one_spelling(settings: Mapping[str, str]) -> Mapping[str, str]:
    """Settings by names with underscores. Servers read ``page-size`` as ``page_size``: two spellings of a name must not pass
    for two settings.
    """
    names = [name.replace("-", "_") for name in settings]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name} is named twice, with dashes and with underscores")
    if wrong := next((text for text in (*names, *settings.values()) if "\0" in text), None):
        raise ValueError(f"{wrong!r} has a NUL, which ends a text before its end")
    return dict(zip(names, settings.values(), strict=True))


class Program(Value):
    """A server that can be started: its executable and the options that let it run from where it lies."""

    kind: str
    binary: Path
    options: tuple[str, ...] = ()
    tools: Path | None = None
    """The folder of client programs that were built with it; None: they lie beside it."""


Unit = Literal["query", "statement", "transaction"]
"""What is counted of a server's work: figures are a unit's."""


class Counters(Value):
    """What a running server says about the work that it has done since its start."""

    queries: int
    """Statements that clients sent (MySQL: ``Questions``)."""
    statements: int
    """Those of them that read or change rows (MySQL: ``Com_select``, ``Com_insert`` and the like)."""
    transactions: int
    """Transactions that clients committed with a COMMIT of their own (MySQL: ``Com_commit``)."""

    def of(self, unit: Unit) -> int:
        return {"query": self.queries, "statement": self.statements, "transaction": self.transactions}[unit]


class Repeatable(Value):
    """What makes a server execute the same instructions for the same statements."""

    settings: Mapping[str, str] = {}
    """Under those of a workload or a variant, which win."""
    environment: Mapping[str, str] = {}


class TestOutcome(Value):
    """Tests of the server's own that ran against one server."""

    __test__ = False  # pytest: not a test class

    run: int
    passed: int
    failed: tuple[str, ...]
    passing: tuple[str, ...]
    """The names of those that passed, as ``failed`` has them: a test that did not run is in neither."""
    repeated: tuple[str, ...] = ()
    """Of those that passed the ones that failed first."""
    crashed: tuple[str, ...] = ()
    """Tests, without their combination of options, in which a server crashed, as its log says."""


class ServerKind(Protocol):
    """One kind of server, as far as it is started, loaded and asked. A new kind is one file with one class of this shape."""

    name: str
    server_target: str
    """The file name of the server's executable, and its build target."""
    one_process: bool
    """Whether all of a server is one process: samples of its code and counts of its instructions are of one."""
    can_have_a_tier: bool
    """Whether the page cache, `upshift cache`, knows its data files."""
    socket_name: str
    """The file name of its unix socket, in a folder of its own."""
    series: Path | None
    """The folder of its patch series; None: there is none."""
    lasting: tuple[str, ...]
    """Settings that hold for a data folder's whole life."""
    reserved: tuple[str, ...]
    """Settings that Upshift gives itself, and those that lead out of the data folder that it makes: no user may give them."""
    written: tuple[str, ...]
    """Settings that name what the server writes: their values are no absolute paths."""
    database: str
    """The database that workloads fill and use; ``prepare`` leaves it there."""
    client_environment: Mapping[str, str]
    """What its clients are started with: the servers that Upshift makes have no password, and users' own may."""
    hidden_from_clients: str
    """The beginning of the names of variables that its clients do not get: these lead to users' own servers. Empty: none."""

    def packaged(self) -> Path | None:
        """The executable of the newest package of it that is installed; None: there is none."""
        ...

    def version(self, binary: Path) -> Command:
        """Prints the version: the smallest proof that an executable starts."""
        ...

    def initialise(self, program: Program, data: Path, settings: Mapping[str, str] = {}) -> Command:
        """Creates an empty data folder for a server with these settings."""
        ...

    def prepare(self, socket: Path) -> None:
        """Once, after the first start on an empty data folder: creates the database that workloads use."""
        ...

    def tidy(self, socket: Path) -> None:
        """After the fills: does at once what the server would do by the clock, such as gathering statistics."""
        ...

    def trim(self, data: Path) -> None:
        """After a clean stop: removes files that the next start would remove, so that no copy of the folder holds them."""
        ...

    def change(self, socket: Path, sql: str) -> str | None:
        """Execute statements on the database that workloads use. What the server says of one that it refuses; None: all are
        done. Raises ServerFailed when it is gone.
        """
        ...

    def start(self, program: Program, data: Path, socket: Path, settings: Mapping[str, str]) -> Command:
        """Starts the server in the foreground on a unix socket, and on no network port."""
        ...

    def url(self, socket: Path) -> str:
        """The URL of that database, as ``upshift load`` takes it."""
        ...

    def ready(self, socket: Path) -> bool:
        """Whether the server answers a query."""
        ...

    def quiet(self, socket: Path) -> bool:
        """Whether background work that follows a start or a load (flushing, purge) has calmed down."""
        ...

    def counters(self, socket: Path) -> Counters: ...

    def forget(self, socket: Path) -> None:
        """Close what ``quiet`` and ``counters`` keep open to the server."""
        ...

    def settings(self) -> Mapping[str, str]:
        """The configuration that measurements use when a workload does not say otherwise."""
        ...

    def repeatable(self) -> Repeatable:
        """What a server runs with while its instructions are counted: threads that work by the clock, and not for a statement
        alone, stand still as far as settings allow.
        """
        ...

    def leave_undisturbed(self, socket: Path) -> None:
        """From now to the server's end, work that statements leave for later, and that no setting stops, waits."""
        ...

    def pool_bytes(self, settings: Mapping[str, str]) -> int | None:
        """How much data the configuration keeps in memory; None when the server has no such limit."""
        ...

    def most_connections(self, settings: Mapping[str, str]) -> int | None:
        """How many clients the configuration lets in at once; None when the server has no such limit."""
        ...

    def data_bytes(self, data: Path) -> int:
        """Size of the tables and indexes in a data folder, without logs."""
        ...


class SourceKind(ServerKind, Protocol):
    """A kind of server that Upshift also builds from its source, tests and packages."""

    targets: tuple[str, ...]
    """Build targets: the server first, then client programs and what its test suite needs."""
    unbuilt: tuple[str, ...]
    """Folders of its source, with a slash at the end, that no step of a build reads."""
    opaque: tuple[str, ...]
    """Sources, by their paths below the source folder, that no link-time optimisation sees: their callers must not be optimised
    with them.
    """
    suites: Mapping[str, tuple[str, ...]]
    """Groups of the server's own tests, by the names that ``verify`` takes, with the arguments that say what they run."""
    build_variables: tuple[str, ...]
    """Environment variables that its CMake files read, besides those that CMake and compilers do: no build may have them."""
    thread_pool: Mapping[str, str]
    """Settings that turn a thread pool of its own on; empty: it has none."""

    def recognise(self, tree: Path) -> str | None:
        """The version, when ``tree`` is the source of this kind of server; else None."""
        ...

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
        """The CMake command that prepares the build folder ``tree`` for ninja."""
        ...

    def precompiled_headers(self) -> Mapping[str, tuple[str, ...]]:
        """Headers worth precompiling, by the source folder whose files include them: ``{"sql": ("sql_class.h", ...)}``."""
        ...

    def program(self, source: Path, tree: Path, binary: Path) -> Program:
        """The server ``binary``, run with the message files and character sets of ``source`` and the build ``tree``."""
        ...

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
        """Run the server's own tests against the executable ``server``: ``short``, ``main``, ``profile`` to train on, or
        tests named with commas between them.

        Raises NotTested when they can't run.
        """
        ...

    def unknown_tests(self, tests: str, source: Path | None) -> tuple[str, ...]:
        """Those of ``tests``, a suite or tests with commas between them, that there are not.

        Without the ``source`` only what cannot be a test's name is told.
        """
        ...

    def nesting(self, program: Program, data: Path, bench: Workbench) -> Mapping[str, int]:
        """How many levels expressions of some shapes may nest at the server's default stack, on an empty ``data`` folder that
        it makes; empty where no such limit exists.
        """
        ...

    def plugins(self, tree: Path) -> tuple[str, ...]:
        """Shared objects that the server can load and a user may want, as targets of the configured build folder."""
        ...

    def install(self, source: Path, tree: Path, server: Path) -> Mapping[str, Path]:
        """What a package holds: path in the package to the file or folder that goes there; programs in ``bin/``."""
        ...


def bare(setting: str) -> str:
    """A setting's name without ``loose_``, which has MySQL pass over a name that it does not know."""
    return setting.removeprefix("loose_")


def refuse_reserved(kind: ServerKind, where: str, settings: Mapping[str, str]) -> None:
    """Raises UsageError where ``settings`` would start a server on other data than Upshift's own, let it write elsewhere, or
    count otherwise; ``where`` says who asks.
    """
    # PostgreSQL's names have no case.
    names = {name: bare(name).lower() for name in settings}
    if led := sorted(name for name, value in settings.items() if names[name] in kind.written and _leads_outside(value)):
        named = ", ".join(f"{name}={settings[name]}" for name in led)
        raise UsageError(
            f"{where} lets {kind.name} write outside of its data folder: {named}",
            "name a file without a path: the server writes it into its own data folder",
        )
    if found := sorted(name for name in settings if names[name] in kind.reserved):
        raise UsageError(
            f"{where} sets {', '.join(found)}: "
            f"Upshift starts {kind.name} on its own data folder and socket, and counts its work",
            "leave these settings out: a server is measured on copies of data that the workloads fill",
        )


def _leads_outside(value: str) -> bool:
    """Whether a path leaves the data folder; of several, or with a size behind it, any of them."""
    return any(part.startswith("/") or ".." in part.split("/") for part in re.split("[:;]", value))


KindOf = Callable[[Program], ServerKind]
"""Finds a program's kind."""
