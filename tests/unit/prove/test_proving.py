"""The parts of a proof that start and kill a server: what must have run before anything follows from it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import pymysql
import pytest
from fakes import FakeProcess, FakeShell, Output
from typer.main import get_command

from upshift.cli import programs
from upshift.cli.app import app
from upshift.errors import ServerFailed, UpshiftError, UsageError
from upshift.prove import proving, suites
from upshift.prove.model import Asked, Part, Proof
from upshift.server.instance import RunningServer
from upshift.server.kind import Program
from upshift.server.kinds import default_kind
from upshift.shell import Command

CHECKED = {"statements": 3, "wall_s": 0.0, "wrong": [], "lost": False}


def executable(file: Path) -> Path:
    """A file that looks like a MySQL server."""
    file.write_bytes(b"\x7fELF skip-grant-tables\0")
    return file


def servers_in(folder: Path) -> list[str]:
    """The options that name two servers."""
    for name in ("stock", "patched"):
        (folder / name).touch()
    return ["--stock", str(folder / "stock"), "--patched", str(folder / "patched")]


class House:
    """A patched server that says what it is told into its log, and a load that has checked so many answers."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *, checked: int | None = 5) -> None:
        self.folder, self.log = folder, folder / "patched.log"
        self.log.write_text("2026 ERROR: AddressSanitizer: of another part\n")
        self.starts = 0
        self.process = FakeProcess()
        """Of the server that is to be killed."""
        monkeypatch.setattr("upshift.prove.proving.time.sleep", lambda seconds: None)
        monkeypatch.setattr(proving, "_status", lambda socket: {})

        def written(command: Command) -> None:
            Path(command.argv[2]).write_text(json.dumps(CHECKED))

        self.shell = FakeShell({" check ": Output(effect=written)})
        asked = Asked(stock=folder / "stock", patched=folder / "patched")
        self.work = proving._Work(self.shell, default_kind(), folder / "differ", asked, folder, lambda text: None)
        monkeypatch.setattr(self.work, "_running", self._running)
        if checked is not None:
            (folder / "crash-load.json").write_text(json.dumps({**CHECKED, "statements": checked}))

    @contextlib.contextmanager
    def _running(self, label: str, binary: Path, settings: Mapping[str, str], *, keep: bool = False) -> Iterator[RunningServer]:
        self.starts += 1
        server = self.server(FakeProcess() if keep else self.process)
        yield server
        server.check()

    def server(self, process: FakeProcess) -> RunningServer:
        program = Program(kind="mysql", binary=self.folder / "patched")
        return RunningServer(default_kind(), program, process, self.folder / "socket", self.log)


def test_a_crash_under_load_that_recovers_is_not_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(tmp_path, monkeypatch)
    part = house.work._crash(())
    assert (part.name, part.wrong, house.process.signals) == ("crash", (), [9])
    assert house.starts == 2


@pytest.mark.parametrize("checked", [0, None])
def test_a_kill_before_the_load_had_begun_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checked: int | None
) -> None:
    house = House(tmp_path, monkeypatch, checked=checked)
    with pytest.raises(UpshiftError, match="the load had checked no answer yet"):
        house.work._crash(())
    assert house.starts == 1


def test_a_server_that_died_before_it_was_killed_is_no_crash_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House(tmp_path, monkeypatch)
    house.process = FakeProcess(code=1)
    with pytest.raises(ServerFailed, match="the server ended by itself"):
        house.work._crash(())


def test_what_a_sanitizer_says_in_a_part_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(tmp_path, monkeypatch)
    mix = Part(name="mix", statements=1, wall_s=1, wrong=("packet 1",), detail={})

    def ran() -> Part:
        with house.log.open("a") as out:
            out.write("WARNING: ThreadSanitizer: data race\n")
        return mix

    part: Any = house.work._counted(house.server(FakeProcess()), ran)
    assert part.wrong == ("packet 1", "WARNING: ThreadSanitizer: data race")
    assert house.work._counted(house.server(FakeProcess()), lambda: mix).wrong == ("packet 1",)


@pytest.mark.parametrize(("code", "told"), [(-11, "ended by itself .killed by SIGSEGV"), (None, "does not answer")])
def test_a_server_that_a_part_has_crashed_or_hung_is_said_to_be_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int | None, told: str
) -> None:
    def refuses(socket: Path) -> dict[str, str]:
        raise pymysql.OperationalError(2003, f"cannot connect to {socket}")

    house = House(tmp_path, monkeypatch)
    monkeypatch.setattr(proving, "_status", refuses)
    with pytest.raises(ServerFailed, match=told):
        house.work._counted(house.server(FakeProcess(code=code)), lambda: pytest.fail("nothing can run"))


@pytest.mark.parametrize("wrong", [(), ("packet 1",)])
def test_a_server_that_is_gone_does_not_take_along_what_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: tuple[str, ...]
) -> None:
    part = Part(name="mix", statements=1, wall_s=1, wrong=wrong, detail={})

    def parts(_work: Any) -> Iterator[Part]:
        yield part
        raise ServerFailed("patched: the server ended by itself")

    monkeypatch.setattr(proving._Work, "parts", parts)
    said: list[str] = []

    asked = Asked(stock=executable(tmp_path / "mysqld"), patched=executable(tmp_path / "mysqld"))
    shell = FakeShell({f"{asked.stock} ": Output("mysqld  Ver 9.7.4 for Linux")})

    def proof() -> Proof:
        return proving.prove(shell, default_kind(), tmp_path / "differ", asked, tmp_path, say=said.append)

    if not wrong:
        with pytest.raises(ServerFailed):
            proof()
        return
    found = proof()
    assert (found.verdict, found.complete, found.parts) == ("different", False, (part,))
    assert said == ["the proof ends early: patched: the server ended by itself"]


def test_a_proof_that_is_killed_while_it_is_written_leaves_that_of_the_part_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Proof(asked=Asked(stock=Path("/a"), patched=Path("/b")), switches={}, parts=(), verdict="equal", complete=False)

    def proves(*_given: Any, keep: Callable[[Proof], None], **_named: Any) -> None:
        keep(first)
        with monkeypatch.context() as patch:
            patch.setattr(Path, "write_text", half)
            keep(first.model_copy(update={"verdict": "different"}))

    written = Path.write_text

    def half(file: Path, text: str, **named: str) -> int:
        written(file, text[: len(text) // 2], **named)
        raise KeyboardInterrupt

    monkeypatch.setattr("upshift.prove.proving.prove", proves)
    monkeypatch.setattr(programs, "built_programs", lambda *given, **named: tmp_path)
    kept = tmp_path / "kept"
    words = ["patch", "prove", *servers_in(tmp_path), "--keep", str(kept)]
    assert get_command(app).main(words, standalone_mode=False) == 130
    assert Proof.model_validate_json((kept / "proof.json").read_text()) == first


@pytest.mark.parametrize("is_kept", [True, False])
def test_no_hint_names_a_log_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_kept: bool) -> None:
    def fails(*given: Any, **_named: Any) -> None:
        log = given[4] / "mix.log"
        raise UpshiftError("the part mix could not run", f"its whole output is in {log}")

    monkeypatch.setattr("upshift.prove.proving.prove", fails)
    monkeypatch.setattr(programs, "built_programs", lambda *given, **named: tmp_path)
    keep = ("--keep", str(tmp_path / "kept")) if is_kept else ()
    with pytest.raises(UpshiftError) as caught:
        get_command(app).main(["patch", "prove", *servers_in(tmp_path), *keep], standalone_mode=False)
    assert ("kept/mix.log" in caught.value.hint) == is_kept
    assert ("--keep FOLDER" in caught.value.hint) != is_kept


def test_a_refused_proof_keeps_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command that mended it was refused, because the folder existed."""

    def refuses(*_given: Any, **_named: Any) -> None:
        raise UsageError("they are swapped", "name them in the other order")

    monkeypatch.setattr("upshift.prove.proving.prove", refuses)
    monkeypatch.setattr(programs, "built_programs", lambda *given, **named: tmp_path)
    words = ["patch", "prove", *servers_in(tmp_path), "--keep", str(tmp_path / "kept")]
    with pytest.raises(UsageError, match="swapped"):
        get_command(app).main(words, standalone_mode=False)
    assert not (tmp_path / "kept").exists()


class Switched:
    """A proof of a server with the switches spare_blocks and pool_stay, whose parts say what they were given."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, **settings: str) -> None:
        self.set: list[str] = []
        self.given: dict[str, Mapping[str, str]] = {}
        self.disturbed: list[tuple[str, ...]] = []
        self.tests: Collection[str] = ()
        self.lost: Exception | None = None
        part = Part(name="mix", statements=1, wall_s=1, wrong=(), detail={})

        def disturbing(*given: Any) -> Part:
            self.disturbed.append(given[-1])
            return part

        def tested(*_given: Any, tests_of_patches: Collection[str], **_named: Any) -> Iterator[Part]:
            self.tests = tests_of_patches
            return iter(())

        self.shell = FakeShell({})
        asked = Asked(stock=folder / "stock", patched=folder / "patched", settings=settings, statements=0, minutes=0.1)
        self.work = proving._Work(self.shell, default_kind(), folder / "differ", asked, folder, lambda text: None)
        monkeypatch.setattr(self.work, "_running", self._running)
        for name, fake in (("_compared", lambda *given: part), ("_storm", disturbing), ("_crash", disturbing)):
            monkeypatch.setattr(self.work, name, fake)
        monkeypatch.setattr(self.work, "_counted", lambda _patched, run: run())
        monkeypatch.setattr(suites, "parts", tested)
        monkeypatch.setattr(proving, "_variables", self._variables)
        monkeypatch.setattr(proving, "_run", self._run)

    @contextlib.contextmanager
    def _running(self, label: str, binary: Path, settings: Mapping[str, str]) -> Iterator[RunningServer]:
        self.given[label] = settings
        log = binary.with_name(f"{label}.log")
        yield RunningServer(default_kind(), Program(kind="mysql", binary=binary), FakeProcess(), Path(label), log)

    def _variables(self, socket: Path) -> dict[str, str]:
        return {"read_only": "OFF"} | ({"spare_blocks": "OFF", "pool_stay": "OFF"} if socket.name == "patched" else {})

    def _run(self, _socket: Path, sql: str) -> None:
        if self.lost:
            raise self.lost
        self.set.append(sql)


@pytest.mark.parametrize("name", ["spare_blocks", "loose_spare_blocks"])
def test_a_switch_that_a_setting_names_stays_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The disturbed load switched it on, and so did the start where the setting began with loose_."""
    proof = Switched(tmp_path, monkeypatch, **{name: "OFF"})
    list(proof.work.parts())
    assert proof.set == ["SET GLOBAL pool_stay = ON"]
    assert proof.disturbed == [("pool_stay",), ("pool_stay",)]


def test_both_servers_get_each_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stock lacked those that its --help does not list: a plugin's, and those with loose_."""
    given = {"plugin_load_add": "thread_pool.so", "thread_pool_max_transactions_limit": "0", "loose_pool_stay": "OFF"}
    proof = Switched(tmp_path, monkeypatch, **given)
    list(proof.work.parts())
    assert proof.given["patched"] == given
    assert {name.removeprefix("loose_"): value for name, value in proof.given["stock"].items()} == {
        name.removeprefix("loose_"): value for name, value in given.items()
    }
    assert all(name.startswith("loose_") for name in proof.given["stock"])


def test_data_are_made_with_the_settings_that_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers with pages of 8K did not start on data that were made with 16K."""
    proof = Switched(tmp_path, monkeypatch, loose_innodb_page_size="8K", sort_buffer_size="1M")
    made = proof.shell.ran[0].argv
    assert any("innodb-page-size=8K" in word for word in made) and not any("sort-buffer" in word for word in made)


def test_the_test_of_a_patch_without_a_switch_is_a_patchs_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stock fails main.pool_kill, whose error the patch mends. That excused a patched server that failed it."""
    proof = Switched(tmp_path, monkeypatch)
    list(proof.work.parts())
    assert {"main.pool_kill", "main.pool_stay"} <= set(proof.tests) and "main.count_notnull" not in proof.tests
    monkeypatch.setattr(proving, "_variables", lambda socket: {"read_only": "OFF"})
    list(proof.work.parts())
    assert not proof.tests


def test_a_server_that_dies_at_a_switch_is_an_error_with_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proof = Switched(tmp_path, monkeypatch)
    proof.lost = pymysql.OperationalError(2013, "Lost connection")
    with pytest.raises(ServerFailed, match=r"the servers' variables cannot be read or set: .*Lost connection") as caught:
        list(proof.work.parts())
    assert str(tmp_path / "patched.log") in caught.value.hint


@pytest.mark.parametrize(
    ("stock", "patched", "told"),
    [
        ("9.7.4 for Linux on x86_64", "9.7.3 for Linux on x86_64", "--stock is 9.7.4, and --patched is 9.7.3"),
        ("9.7.4-2 for debian-linux-gnu", "9.7.4-asan for Linux on x86_64", None),
        ("10.11.14-MariaDB-0+deb12u2 for debian-linux-gnu", "9.7.4 for Linux on x86_64", "--stock: .* is a MariaDB"),
    ],
)
def test_servers_of_two_versions_prove_nothing_of_a_patch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stock: str, patched: str, told: str | None
) -> None:
    """Before, MariaDB failed while its data were made, without a word on why."""

    def no_parts(_work: proving._Work) -> Iterator[Part]:
        yield from ()

    monkeypatch.setattr(proving._Work, "parts", no_parts)
    asked = Asked(stock=executable(tmp_path / "stock"), patched=executable(tmp_path / "patched"))
    shell = FakeShell(
        {f"{asked.stock} ": Output(f"mysqld  Ver {stock}"), f"{asked.patched} ": Output(f"mysqld  Ver {patched}")}
    )

    def proof() -> Proof:
        return proving.prove(shell, default_kind(), tmp_path / "differ", asked, tmp_path, say=lambda text: None)

    if told:
        with pytest.raises(UsageError, match=told):
            proof()
    else:
        assert proof().verdict == "equal"


@pytest.mark.parametrize(
    ("stock", "patched", "said"),
    [
        ({"read_only": "OFF"}, {"count_notnull": "ON"}, None),
        ({"count_notnull": "ON"}, {"read_only": "OFF"}, "are they swapped"),
        ({"read_only": "OFF"}, {"read_only": "OFF"}, None),
    ],
)
def test_servers_that_are_swapped_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stock: dict[str, str], patched: dict[str, str], said: str | None
) -> None:
    """Before, the patched server was compared with itself for an hour: everything was equal, and exit code 0."""
    house = House(tmp_path, monkeypatch)
    known = {Path("stock"): stock, Path("patched"): patched}
    monkeypatch.setattr(proving, "_variables", known.__getitem__)
    switched = {name for name in patched if name == "count_notnull"}
    one, other = (
        RunningServer(default_kind(), Program(kind="mysql", binary=tmp_path), FakeProcess(), socket, house.log)
        for socket in known
    )
    if said is None:
        house.work._refuse_swapped(one, other, switched)
        return
    with pytest.raises(UsageError, match=r"--stock has switches of the patches .*: count_notnull") as caught:
        house.work._refuse_swapped(one, other, switched)
    assert said in caught.value.hint
