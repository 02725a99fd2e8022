"""A proof: what the program said becomes parts and a verdict, bad input is refused before any work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from fakes import FakeShell

from upshift.cli.app import app
from upshift.errors import NotTested, UsageError
from upshift.patches.model import Patch, read_series
from upshift.prove import suites
from upshift.prove.allowed import differing_tests
from upshift.prove.model import Asked, Part, Proof
from upshift.prove.reading import compared, crashes, short_paths, stormed, switches
from upshift.prove.terminal import lines
from upshift.server import mtr
from upshift.server.kind import TestOutcome
from upshift.server.kinds import default_kind


def difference(verdict: str, what: str = "packet 1") -> dict[str, Any]:
    return {"what": what, "statement": "SELECT 1;", "script": "SELECT 2;\n", "verdict": verdict}


def test_a_difference_that_stock_has_with_itself_is_no_fault_of_the_patch() -> None:
    said = {"statements": 7, "wall_s": 2.0, "differences": [difference("wrong"), difference("unsteady")]}
    part = compared("random", said)
    assert part.wrong == ("packet 1\nSELECT 2;",)
    assert len(part.unsteady) == 1 and part.statements == 7 and part.silent == ()


def test_what_stock_did_not_answer_in_time_either_is_told_and_does_not_count() -> None:
    slow = difference("slow", "an answer is late: stock answered after 30.1 s, the patched server answered after 31.0 s")
    said = {"statements": 7, "wall_s": 2.0, "differences": [slow, difference("hang", "neither server answers")]}
    part = compared("random", said)
    assert part.wrong == part.unsteady == () and len(part.silent) == 2
    asked = Asked(stock=Path("/a"), patched=Path("/b"))
    told = list(lines(Proof(asked=asked, switches={"trim": "ON"}, parts=(part,), verdict="equal")))
    assert told[1].endswith("nothing wrong, 2 not answered in time by stock either")
    assert told[2:] == [f"    {slow['what']} SELECT 2;", "    neither server answers SELECT 2;"]


PATCHES = (
    Patch(name="counter", file="0", what="", versions=">=1"),
    Patch(name="trim", file="1", what="", versions=">=1", variable="trim", counters=("Ps_trim_used", "Ps_trim_fallbacks")),
    Patch(name="idle", file="2", what="", versions=">=1", variable="idle", counters=("Ps_idle_used",)),
    Patch(name="other", file="3", what="", versions=">=1", variable="other", counters=("Ps_other_used",)),
)


def test_a_short_path_that_no_part_took_is_named() -> None:
    before = {"Questions": "1", "Ps_trim_used": "3", "Ps_idle_used": "5", "Ps_trim_fallbacks": "0", "Debug_used": "1"}
    after = {"Questions": "9", "Ps_trim_used": "7", "Ps_idle_used": "5", "Ps_trim_fallbacks": "2", "Debug_used": "9"}
    taken = short_paths(PATCHES, before, after)
    assert taken == {"Ps_idle_used": 0, "Ps_trim_used": 4}
    asked = Asked(stock=Path("/a"), patched=Path("/b"))
    mix = Part(name="mix", statements=1, wall_s=1, wrong=(), detail={}, short_paths=taken)
    storm = mix.model_copy(update={"name": "storm", "short_paths": {"Ps_idle_used": 1, "Ps_trim_used": 0}})
    assert Proof(asked=asked, switches={}, parts=(mix, storm), verdict="equal").untaken == ()
    told = list(lines(Proof(asked=asked, switches={}, parts=(mix,), verdict="equal")))
    assert any("Ps_idle_used" in line and "Ps_trim_used" not in line for line in told)


def test_a_lost_server_and_a_crash_in_the_log_are_wrong(tmp_path: Path) -> None:
    said = {"statements": 7, "wall_s": 2.0, "wrong": ["a row"], "lost": True}
    log = tmp_path / "log"
    log.write_text("ERROR: AddressSanitizer: SEGV\nall is well\n2026-11-23T04:48:30Z UTC - mysqld got signal 11 ;\nbye\n")
    found = crashes(log, begin=len("ERROR: AddressSanitizer: SEGV\n"))
    part = stormed("storm", said, *found)
    assert part.wrong == ("a row", "the server was lost", "2026-11-23T04:48:30Z UTC - mysqld got signal 11 ;")
    assert stormed("crash", {**said, "wrong": [], "lost": False}).wrong == ()


def test_the_switches_are_the_series_own_and_no_debug_build_adds_one() -> None:
    stock = {"autocommit": "ON", "port": "3306", "other": "OFF"}
    patched = {**stock, "trim": "OFF", "debug_sync_here": "ON", "size": "5"}
    assert switches(PATCHES, stock, patched) == {"trim": "OFF"}


def test_servers_with_the_same_variables_prove_nothing_of_a_patch() -> None:
    asked = Asked(stock=Path("/a"), patched=Path("/a"))
    told = "nothing is proven of any patch"
    for switches_seen, is_told in (({}, True), ({"trim": "ON"}, False)):
        proof = Proof(asked=asked, switches=switches_seen, parts=(), verdict="equal")
        assert any(told in line for line in lines(proof)) == is_told


@pytest.mark.parametrize(("wrong", "verdict"), [((), "equal"), (("packet 3",), "different")])
def test_people_see_the_verdict_first(wrong: tuple[str, ...], verdict: Any) -> None:
    asked = Asked(stock=Path("/a"), patched=Path("/b"))
    part = Part(name="mix", statements=10, wall_s=1, wrong=wrong, detail={})
    told = list(lines(Proof(asked=asked, switches={}, parts=(part,), verdict=verdict)))
    assert told[0].startswith(f"{verdict}: /b against /a")
    assert any("packet 3" in line for line in told) == bool(wrong)


def build_folder(root: Path) -> Path:
    """The server in a folder that CMake made."""
    server = root / "tree" / "runtime_output_directory" / "stock"
    server.parent.mkdir(parents=True)
    server.touch()
    (root / "tree" / "CMakeCache.txt").write_text(f"A:B=C\nCMAKE_HOME_DIRECTORY:INTERNAL={root}\n")
    return server


def run(*arguments: str) -> None:
    typer.main.get_command(app).main(["patch", "prove", *arguments], standalone_mode=False)


def test_bad_input_is_refused_before_any_work(tmp_path: Path) -> None:
    server = tmp_path / "mysqld"
    server.touch()
    other = tmp_path / "patched"
    other.touch()
    both = ("--stock", str(server), "--patched", str(other))
    built = build_folder(tmp_path)
    (dangling := tmp_path / "link").symlink_to("nowhere")
    unreasoned = tmp_path / "allowed.toml"
    unreasoned.write_text('[[test]]\nname = "main.ps"\npatch = "one"\n')
    for arguments, message in (
        (("--stock", str(server), "--patched", str(tmp_path / "none")), "--patched: there is no"),
        (("--stock", str(server), "--patched", str(server)), "--stock and --patched are one file"),
        ((*both, "--setting", "ON"), "NAME=VALUE"),
        ((*both, "--setting", "a=1", "--setting", "a=2"), "--setting a is named twice"),
        ((*both, "--setting", "a_b=1", "--setting", "a-b=2"), "named twice"),
        ((*both, "--setting", "DataDir=/var/lib/mysql"), "--setting sets DataDir: Upshift starts mysql on its own data folder"),
        ((*both, "--setting", "log-bin=/var/log/mysql/bin"), "--setting lets mysql write outside of its data folder: log_bin="),
        ((*both, "--allow", str(tmp_path / "none.toml")), "--allow: there is no"),
        ((*both, "--allow", str(unreasoned)), "test.0.why: this key is missing"),
        ((*both, "--keep", str(tmp_path)), "exists already"),
        ((*both, "--keep", str(dangling)), "exists already"),
        ((*both, "--mtr", "main", "--mtr-mode", "often"), "--mtr-mode: 'often' is not 'on', 'off', 'ps-on' or 'ps-off'"),
        ((*both, "--mtr-mode", "on"), "--mtr-mode says how the tests of --mtr run, and --mtr names none"),
        ((*both, "--mtr-mode", "on", "--mtr-statements", "main"), "--mtr names none"),
        ((*both, "--mtr-source", str(tmp_path)), "--mtr-source has tests, and no option names any"),
        ((*both, "--mtr", "main"), "is not in the folder in which it was built"),
        ((*both, "--mtr", "main", "--mtr-source", str(tmp_path)), "is not in the folder in which it was built"),
        (("--stock", str(built), "--patched", str(server), "--mtr", "nosuite"), "MySQL has no tests nosuite"),
        (("--stock", str(built), "--patched", str(server), "--mtr-statements", "nosuite"), "has no suite nosuite"),
        ((*both, "--mtr-statements", "main"), "is not in the folder in which it was built"),
        ((*both, "--mtr-statements", "main", "--mtr-source", str(tmp_path)), "has no suite main"),
    ):
        with pytest.raises(UsageError, match=message):
            run(*arguments)


def test_a_dry_run_names_the_parts_and_starts_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = tmp_path / "mysqld"
    server.touch()
    both = ("--stock", str(build_folder(tmp_path)), "--patched", str(server))
    (tmp_path / "mysql-test" / "t").mkdir(parents=True)
    less = ("--minutes", "0", "--statements", "500", "--seed", "9")
    modes = ("--mtr-mode", "ps-on", "--mtr-mode", "off", "--mtr-mode", "ps-on")
    run(*both, "--dry-run", *less, "--mtr-statements", "main", "--mtr", "main", "--mtr", "main", *modes)
    assert capsys.readouterr().out.splitlines() == [
        "mix: fixed statements",
        "tests: statements of MySQL's suite main",
        "random: 500 statements from seed 9",
        "mtr: main --ps-protocol with all switches ON",
        "mtr: main with all switches OFF",
    ]
    run(*both, "--dry-run", *less, "--json")
    told = json.loads(capsys.readouterr().out)
    assert told["dry_run"] and told["parts"][:2] == ["mix: fixed statements", "random: 500 statements from seed 9"]


class _Mtr:
    """MTR with a server that fails main.ps and main.help when the switch is ON, main.old on both, and main.flaky once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str, str, tuple[str, ...]]] = []
        self.logs: set[Path] = set()
        self.trees: set[tuple[str, Path]] = set()
        monkeypatch.setattr(mtr, "run_tests", self.run)

    def run(self, *given: Any, jobs: int, options: tuple[str, ...]) -> TestOutcome:
        bench, _source, tree, server, tests = given
        self.logs.add(bench.log)
        self.trees.add((server.name, tree))
        first = not any(asked[2] == options for asked in self.asked)
        self.asked.append((server.name, tests, options))
        patched = server.name == "patched"
        fails = {"main.ps", "main.help 'row'"} if "--mysqld=--loose-a-switch=ON" in options and patched else set()
        if first and patched:
            fails |= {"main.flaky"}
        names = {"main.ps", "main.help 'row'", "main.flaky", "main.1st"} if tests == "main" else set(tests.split(","))
        failed = tuple(sorted(fails | {"main.old"}))
        passing = tuple(sorted(names - fails))
        repeated = ("main.1st",) if first and patched else ()
        return TestOutcome(run=len(names), passed=1, failed=failed, passing=passing, repeated=repeated)


def test_a_server_is_tested_with_the_plugins_that_were_built_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = _Mtr(monkeypatch)
    stock, other = build_folder(tmp_path / "a"), build_folder(tmp_path / "b").rename(tmp_path / "patched")
    linked = tmp_path / "b" / "patched"
    for patched, tree in ((other, "a"), (linked, "b")):
        asked = Asked(stock=stock, patched=patched, suites=("main",))
        list(suites.parts(FakeShell({}), asked, (), tmp_path, say=lambda text: None))
        assert fake.trees == {("stock", tmp_path / "a" / "tree"), ("patched", tmp_path / tree / "tree")}
        fake.trees.clear()


DIFFER = '[[test]]\nname = "main.help"\npatch = "all"\nwhy = "it lists all variables"\n'


def test_what_fails_on_the_patched_server_alone_is_wrong_unless_it_is_declared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = _Mtr(monkeypatch)
    allow = tmp_path / "allowed.toml"
    allow.write_text(DIFFER)
    asked = Asked(stock=build_folder(tmp_path), patched=tmp_path / "patched", suites=("main",), allow=allow)
    on, off, ps_on, ps_off = suites.parts(FakeShell({}), asked, ("a_switch",), tmp_path, say=lambda text: None)
    assert len(on.wrong) == 1 and on.wrong[0].startswith("main.ps fails on the patched server alone")
    assert on.differ_on_purpose == ("main.help 'row'",) and off.differ_on_purpose == ()
    assert on.failed_on_both == off.failed_on_both == ("main.old",)
    assert on.statements == off.statements == 4 and on.detail["passed"] == 1
    # The second one passed when MTR repeated it.
    assert off.wrong == () and off.unsteady == on.unsteady == ("main.flaky", "main.1st")
    assert len(ps_on.wrong) == 1 and ps_off.wrong == ()
    assert off.detail["tests"] == "main with all switches OFF"
    assert len(fake.logs) == 4
    protocols = {options[0] for _, _, options in fake.asked if len(options) == 2}
    assert protocols == {"--ps-protocol"}
    told = list(lines(Proof(asked=asked, switches={}, parts=(on,), verdict="different")))
    assert "    fail on stock, too: main.old" in told and "    differ on purpose: main.help 'row'" in told


def test_a_test_of_a_patch_has_no_excuse_on_stock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _Mtr(monkeypatch)
    asked = Asked(stock=build_folder(tmp_path), patched=tmp_path / "patched", suites=("main",), modes=("off",))
    of_patches = ("main.old", "main.1st")
    (part,) = suites.parts(FakeShell({}), asked, (), tmp_path, tests_of_patches=of_patches, say=lambda text: None)
    assert len(part.wrong) == 1 and part.wrong[0].startswith("main.old, a patch's own test, fails; see ")
    assert part.failed_on_both == ()


def test_tests_that_fail_alike_prove_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine with a full disk: two fail on both, and one passes."""

    def run(*_given: Any, jobs: int, options: tuple[str, ...]) -> TestOutcome:
        return TestOutcome(run=3, passed=1, failed=("main.old", "main.older"), passing=("main.1st",))

    monkeypatch.setattr(mtr, "run_tests", run)
    asked = Asked(stock=build_folder(tmp_path), patched=tmp_path / "patched", suites=("main",), modes=("off", "on"))
    kept: list[Part] = []
    with pytest.raises(NotTested, match="2 of 3 tests fail on the stock server, too"):
        for each in suites.parts(FakeShell({}), asked, (), tmp_path, say=lambda text: None):
            kept.append(each)
    assert [part.failed_on_both for part in kept] == [("main.old", "main.older")] * 2
    allow = tmp_path / "allowed.toml"
    allow.write_text(DIFFER.replace("main.help", "main.older"))
    declared = asked.model_copy(update={"allow": allow, "modes": ("off",)})
    (part,) = suites.parts(FakeShell({}), declared, (), tmp_path, say=lambda text: None)
    assert part.wrong == () and part.failed_on_both == ("main.old", "main.older")


def test_many_tests_are_named_by_the_first_and_the_last() -> None:
    assert suites.title_of("main.a,main.b", "on") == "main.a,main.b with all switches ON"
    many = ",".join(f"main.t{number}" for number in range(20))
    assert suites.title_of(many, "ps-off") == "20 tests from main.t0 to main.t19 --ps-protocol with all switches OFF"


def test_statements_of_tests_are_named_with_their_suite(tmp_path: Path) -> None:
    said = {"statements": 7, "wall_s": 2.0, "differences": []}
    part = compared("tests", said).model_copy(update={"detail": {**said, "suite": "main"}})
    asked = Asked(stock=tmp_path / "stock", patched=tmp_path / "patched", statements_of=("main",))
    told = list(lines(Proof(asked=asked, switches={}, parts=(part,), verdict="equal")))
    assert "  statements of MySQL's tests, byte by byte (main): 7 statements in 2 s, nothing wrong" in told


def test_settings_reach_the_tests_and_a_mode_can_be_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = _Mtr(monkeypatch)
    settings = {"performance_schema_instrument": "wait/io/socket/%=OFF", "a_switch": "OFF"}
    asked = Asked(
        stock=build_folder(tmp_path), patched=tmp_path / "patched", suites=("main",), modes=("ps-on",), settings=settings
    )
    (part,) = suites.parts(FakeShell({}), asked, ("a_switch",), tmp_path, say=lambda text: None)
    assert part.detail["tests"] == "main --ps-protocol with all switches ON"
    options = fake.asked[0][2]
    assert options[0] == "--ps-protocol"
    assert "--mysqld=--loose-performance-schema-instrument=wait/io/socket/%=OFF" in options
    # The last one holds.
    assert [each for each in options if "a-switch" in each][-1] == "--mysqld=--loose-a-switch=OFF"
    assert {options for _, _, options in fake.asked} == {options}


def test_a_server_that_cannot_be_tested_at_all_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*given: Any, jobs: int, options: tuple[str, ...]) -> TestOutcome:
        if given[3].name == "patched":
            raise NotTested("it does not start", "see its log")
        return TestOutcome(run=3, passed=3, failed=(), passing=())

    monkeypatch.setattr(mtr, "run_tests", run)
    asked = Asked(stock=build_folder(tmp_path), patched=tmp_path / "patched", suites=("main",), modes=("on",))
    (part,) = suites.parts(FakeShell({}), asked, (), tmp_path, say=lambda text: None)
    assert len(part.wrong) == 1 and "not on the patched one: it does not start" in part.wrong[0]


def test_the_series_list_of_what_differs_names_patches_that_there_are() -> None:
    folder = default_kind().series
    assert folder is not None
    found = differing_tests(folder / "allowed.toml")
    names = {each.name for each in read_series(folder).patches} | {"all"}
    assert found and {each.patch for each in found} <= names
