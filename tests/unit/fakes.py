"""Stand-ins that unit tests share: a shell that runs nothing, a server that does not exist, a clock that does not wait."""

from __future__ import annotations

import contextlib
import fcntl
import signal
import struct
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from upshift.errors import CommandFailed
from upshift.run.record import StageRecord
from upshift.server.kind import Counters, Program, Repeatable, TestOutcome
from upshift.shell import Command, Completed
from upshift.toolchain.model import Toolchain
from upshift.workbench import Workbench

Effect = Callable[[Command], None]


@dataclass(frozen=True)
class Output:
    """What a command of ``FakeShell`` prints, how it ends, and what it does to files."""

    text: str = ""
    returncode: int = 0
    effect: Effect | None = None


def counter_file(*counts: int) -> bytes:
    """What an object with one function leaves that GCC 12 has instrumented: one that counts."""
    head = struct.pack("<I4s2I", 0x67636461, b"*22B", 7, 8)
    function = struct.pack("<5I", 0x01000000, 12, 1, 2, 3)
    return head + function + struct.pack(f"<2I{len(counts)}QI", 0x01A10000, 8 * len(counts), *counts, 0)


def half_a_copy(command: Command) -> None:
    """What a ``cp`` leaves that a full disk, or Ctrl-C, ends."""
    (target := Path(command.argv[-1])).mkdir(parents=True)
    (target / "ibdata").write_text("ro")


@contextlib.contextmanager
def another_run(cache: Path) -> Iterator[None]:
    """What a command of another process does to the cache."""
    cache.mkdir(exist_ok=True)
    with (cache / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write("4711")
        file.flush()
        yield


@dataclass
class FakeProcess:
    """A background command. It ends with ``ends_with`` at a signal, or after ``polls_before_end`` looks at it."""

    pid: int = 4711
    code: int | None = None
    ends_with: int | None = 0
    """At SIGTERM; None: it ignores it. SIGKILL always ends it."""
    polls_before_end: int | None = None
    code_at_end: int = 0
    signals: list[int] = field(default_factory=list)
    kept_to: list[tuple[int, ...]] = field(default_factory=list)
    polls: int = 0

    def pause(self) -> None:
        self.signals.append(signal.SIGSTOP)

    def resume(self) -> None:
        self.signals.append(signal.SIGCONT)

    def keep_to(self, cpus: Collection[int]) -> None:
        self.kept_to.append(tuple(cpus))

    def stop(self) -> None:
        if self.code is None:
            self.signal(signal.SIGKILL)

    def poll(self) -> int | None:
        self.polls += 1
        if self.code is None and self.polls_before_end is not None and self.polls > self.polls_before_end:
            self.code = self.code_at_end
        return self.code

    def wait(self, timeout_s: float) -> int | None:
        if self.code is None and self.polls_before_end is not None:
            self.code = self.code_at_end
        return self.code

    def signal(self, number: int) -> None:
        self.signals.append(number)
        if self.code is None:
            self.code = -9 if number == 9 else self.ends_with


class FakeShell:
    """Runs nothing: records each command, and answers by the first key of ``outputs`` that its command line contains."""

    def __init__(self, outputs: Mapping[str, Output] | None = None, processes: Iterator[FakeProcess] | None = None) -> None:
        self.outputs = dict(outputs or {})
        self.ran: list[Command] = []
        self.spawned: list[Command] = []
        self._processes = processes or iter(())

    def run(
        self,
        command: Command,
        *,
        log: Path | None = None,
        timeout_s: float | None = None,
        on_line: Callable[[str], None] | None = None,
        check: bool = True,
    ) -> Completed:
        self.ran.append(command)
        line = command.pasteable()
        output = next((output for key, output in self.outputs.items() if key in line), Output())
        if output.effect:
            output.effect(command)
        if log:
            with log.open("a") as out:
                out.write(output.text)
        for printed in output.text.splitlines() if on_line else ():
            assert on_line is not None
            on_line(printed)
        if check and output.returncode:
            raise CommandFailed(
                f"{command.argv[0]} failed", f"the command was: {line}", returncode=output.returncode, log=output.text
            )
        return Completed(output.returncode, output.text, 0.0, 0.0, 0)

    def spawn(self, command: Command, *, log: Path) -> FakeProcess:
        self.spawned.append(command)
        log.touch()
        return next(self._processes, None) or FakeProcess()

    @property
    def lines(self) -> list[str]:
        return [command.pasteable() for command in self.ran]


@dataclass
class FakeProgress:
    """Remembers what was said."""

    started: list[str] = field(default_factory=list)
    updates: list[tuple[float, float, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    ended: list[StageRecord] = field(default_factory=list)

    def stage_started(self, name: str) -> None:
        self.started.append(name)

    def update(self, done: float, total: float, detail: str = "") -> None:
        self.updates.append((done, total, detail))

    def note(self, text: str) -> None:
        self.notes.append(text)

    def stage_ended(self, record: StageRecord) -> None:
        self.ended.append(record)


class FakeClock:
    """Stands in for a module's ``time``: a sleep takes no time and moves the clock on."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@dataclass
class FakeKind:
    """A server kind whose server answers from fields."""

    name: str = "fake"
    server_target: str = "server"
    one_process: bool = True
    can_have_a_tier: bool = True
    socket_name: str = "s.sock"
    series: Path | None = None
    unbuilt: tuple[str, ...] = ()
    opaque: tuple[str, ...] = ()
    targets: tuple[str, ...] = ("server",)
    lasting: tuple[str, ...] = ("page_size",)
    reserved: tuple[str, ...] = ("data", "socket")
    written: tuple[str, ...] = ("log",)
    build_variables: tuple[str, ...] = ("SERVER_S_OWN",)
    thread_pool: Mapping[str, str] = field(default_factory=lambda: {"pool_size": "2"})
    database: str = "db"
    client_environment: Mapping[str, str] = field(default_factory=dict)
    hidden_from_clients: str = ""
    suites: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: {"short": ("a.b",)})
    is_ready: bool = True
    is_quiet: bool = True
    queries: Iterator[int] = field(default_factory=lambda: iter((0, 5000)))
    headers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    prepared: int = 0
    tidied: int = 0
    forgot: list[Path] = field(default_factory=list)
    refuses: str | None = None
    """What it says of statements on its data; None: it takes them."""
    changed: list[str] = field(default_factory=list)

    def recognise(self, tree: Path) -> str | None:
        return "1.0"

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
            # A test of the toolchain alone would take longer than these builds.
            "CMAKE_CXX_COMPILER_WORKS": "1",
            **options,
        }
        given = [f"-D{name}={value}" for name, value in definitions.items()]
        return Command(("cmake", "-G", "Ninja", "-S", str(source), "-B", str(tree), *given))

    def precompiled_headers(self) -> Mapping[str, tuple[str, ...]]:
        return self.headers

    def program(self, source: Path, tree: Path, binary: Path) -> Program:
        return Program(kind=self.name, binary=binary)

    def packaged(self) -> Path | None:
        return None

    def version(self, binary: Path) -> Command:
        return Command((str(binary), "--version"))

    def initialise(self, program: Program, data: Path, settings: Mapping[str, str] = {}) -> Command:
        options = (f"--{name}={value}" for name, value in settings.items())
        return Command((str(program.binary), "--initialise", *options, str(data)))

    def prepare(self, socket: Path) -> None:
        self.prepared += 1

    def tidy(self, socket: Path) -> None:
        self.tidied += 1

    def trim(self, data: Path) -> None:
        (data / "spare").unlink(missing_ok=True)

    def change(self, socket: Path, sql: str) -> str | None:
        self.changed.append(sql)
        return self.refuses

    def start(self, program: Program, data: Path, socket: Path, settings: Mapping[str, str]) -> Command:
        options = (f"--{name}={value}" for name, value in settings.items())
        return Command((str(program.binary), f"--data={data}", f"--socket={socket}", *options), env={"OWN": "1"})

    def url(self, socket: Path) -> str:
        return f"fake://{socket}"

    def ready(self, socket: Path) -> bool:
        return self.is_ready

    def quiet(self, socket: Path) -> bool:
        return self.is_quiet

    def counters(self, socket: Path) -> Counters:
        queries = next(self.queries)
        return Counters(queries=queries, statements=queries, transactions=queries // 10)

    def forget(self, socket: Path) -> None:
        self.forgot.append(socket)

    def settings(self) -> Mapping[str, str]:
        return {"pool": "1G", "log": "on"}

    def repeatable(self) -> Repeatable:
        return Repeatable(settings={"log": "off", "timer": "0"}, environment={"ARENAS": "1"})

    def leave_undisturbed(self, socket: Path) -> None:
        """Nothing."""

    def pool_bytes(self, settings: Mapping[str, str]) -> int | None:
        return None

    def most_connections(self, settings: Mapping[str, str]) -> int | None:
        return None

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
        return TestOutcome(run=1, passed=1, failed=(), passing=("a.b",))

    def unknown_tests(self, tests: str, source: Path | None) -> tuple[str, ...]:
        return () if tests in self.suites else (tests,)

    def nesting(self, program: Program, data: Path, bench: Workbench) -> Mapping[str, int]:
        return {}

    def plugins(self, tree: Path) -> tuple[str, ...]:
        return ()

    def install(self, source: Path, tree: Path, server: Path) -> Mapping[str, Path]:
        return {"bin/server": server}

    def data_bytes(self, data: Path) -> int:
        return 0


def toolchain(family: str = "clang", folder: Path = Path("/tools")) -> Toolchain:
    """A toolchain that need not be there."""
    return Toolchain.model_validate(
        {
            "family": family,
            "version": "22.1.8",
            "major": 22,
            "cc": folder / "clang",
            "cxx": folder / "clang++",
            "linker": folder / "ld.lld",
            "profdata": folder / "llvm-profdata",
            "bolt": folder / "llvm-bolt",
            "merge_fdata": folder / "merge-fdata",
        }
    )


@dataclass(frozen=True)
class DiskUsage:
    """What stands in for ``shutil.disk_usage``'s answer."""

    free: int
