"""The command line in this process: exit codes, errors with hints, JSON, and a document that says all of it."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer

from upshift import __version__, console, errors, interrupts, plan, shell
from upshift.card.program import LEAST_S, MOST_S
from upshift.cli import app as cli_app
from upshift.cli import session as cli_session
from upshift.cli.session import locked, session
from upshift.errors import CacheBusy, LoadFailed
from upshift.explain.recording import SHORTEST_S
from upshift.options import Options
from upshift.paths import CHECKOUT
from upshift.run.directory import Manifest, RunDirectory, all_runs
from upshift.shell import Command
from upshift.toolchain import doctor

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def upshift(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Runs ``upshift`` with arguments; exit code, stdout and stderr."""
    monkeypatch.setenv("UPSHIFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("UPSHIFT_SERVER_KIND", raising=False)
    monkeypatch.setattr(cli_session, "_opened", "")

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["upshift", *arguments])
        try:
            cli_app.main()
            code: Any = 0
        except SystemExit as end:
            code = end.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException, run_of: str = "") -> None:
    """Before a command has begun a run, or within one ``run_of`` this command."""

    def prepare(*_given: object, **_named: object) -> None:
        if run_of:
            with session(run_of, {}, stages=1, jobs=1):
                raise error
        raise error

    monkeypatch.setattr(plan, "prepare", prepare)


ERRORS = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.UpshiftError)]


@pytest.mark.parametrize("error", ERRORS)
def test_every_error_is_one_line_with_a_hint_and_its_exit_code(
    upshift: Run, monkeypatch: pytest.MonkeyPatch, error: type[errors.UpshiftError]
) -> None:
    failing(monkeypatch, error("it [broke]", "mend it"))
    code, out, err = upshift("optimize")
    assert code == error.exit_code
    assert err == "ERROR it [broke]\nhint: mend it\n" and out == ""


@pytest.mark.parametrize("command", ["optimize", "train"])
def test_an_interrupt_is_exit_code_130(upshift: Run, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    failing(monkeypatch, KeyboardInterrupt())
    assert upshift(command)[0] == 130


def test_an_interrupted_measurement_begins_again(upshift: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(*_given: object, **_named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(plan, "refuse_unstartable", len)
    monkeypatch.setattr(plan, "prepare_measuring", prepare)
    assert upshift("measure", "/bin/true", "b=/bin/echo") == (130, "", "ERROR interrupted\n")


@pytest.mark.parametrize(("command", "way_on"), [("optimize", "--resume {}"), ("train", "the same command again")])
def test_an_interrupt_says_how_to_go_on(upshift: Run, monkeypatch: pytest.MonkeyPatch, command: str, way_on: str) -> None:
    failing(monkeypatch, KeyboardInterrupt(), run_of=command)
    code, _out, err = upshift(command)
    assert code == 130
    assert "interrupted" in err and way_on.format(all_runs()[0].name) in err


def test_a_run_that_was_not_begun_cannot_be_resumed(upshift: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, KeyboardInterrupt())
    assert upshift("optimize") == (130, "", "ERROR interrupted\n")


def test_a_full_disk_is_no_traceback(upshift: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, OSError(28, "No space left on device"), run_of="optimize")
    code, _out, err = upshift("optimize")
    assert code == 1 and "the disk is full" in err and f"--resume {all_runs()[0].name}" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("optimise",), "No such command"),
        (("optimize", "--fast"), "No such option"),
        (("optimize", "--level", "extreme"), "'--level'"),
        (("optimize", "--toolchain", "msvc"), "'--toolchain'"),
        (("optimize", "--scope", "some"), "'--scope'"),
        (("optimize", "--connections", "many"), "--connections takes counts from 1 to 100000"),
        (("optimize", "--connections", "1,0"), "--connections takes counts"),
        (("optimize", "-c", ""), "--connections is empty"),
        (("measure", "a", "b", "-c", "1", "--connections", "64"), "--connections is given twice, and takes one value"),
        (("stack", "prove", "a", "--suspect", "C1", "--suspect", "C2"), "--suspect is given twice"),
        (("stack", "compare", "a.sql", "--a", "mysql://h", "--b", "mysql://i", "--rounds", "9"), "belongs to --execute"),
        (("optimize", "--connections", "8,8"), "--connections 8,8 names a count twice"),
        (("measure", "/bin/true", "b=/bin/echo", "-c", "1,8,1"), "names a count twice"),
        (("measure", "a=/bin/false", "b=/bin/echo"), "a: /usr/bin/false does not start"),
        (("optimize", "--trials", "0"), "trials"),
        (("optimize", "--slice-seconds", "0"), "slice-seconds"),
        (("optimize", "--slice-seconds", "inf"), "--slice-seconds takes a finite number, not inf"),
        (("measure", "a", "b", "--warmup-seconds", "-1"), "warmup-seconds"),
        (("measure", "a", "b", "--warmup-seconds", "inf"), "--warmup-seconds takes a finite number, not inf"),
        (("optimize", "--fail-below", "nan"), "'--fail-below'"),
        (("optimize", "--explain-seconds", "inf", "--dry-run"), "--explain-seconds takes a finite number, not inf"),
        (("train", "--train-seconds", "inf"), "--train-seconds takes a finite number, not inf"),
        (("measure", "a", "b", "--rounds", "0"), "rounds"),
        (("measure", "a=/bin/true", "b=/bin/echo", "c=/bin/false", "--duet"), "a duet measures two servers, and 3 servers are"),
        (("optimize", "--duet", "--baseline", "/bin/true"), "a duet measures two servers, and 3 servers are"),
        (("optimize", "--duet", "--patches", "all"), "a duet measures two servers, and 3 servers are"),
        (("measure", "a=/bin/true", "b=/bin/echo", "--duet", "--rounds", "3", "--dry-run"), "3 turns are no even number"),
        (("optimize", "--jobs", "-1"), "jobs"),
        (("optimize", "--resume", "last"), "there is no run 'last'"),
        (("optimize", "--recipe", "no-such"), "there is no recipe"),
        (("optimize", "--workload", "no-such"), "there is no workload"),
        (("build",), "Missing argument"),
        (("build", "no-such"), "there is no recipe"),
        (("train", "--recipe", "no-such"), "there is no recipe"),
        (("train", "--recipe", "plain"), "recipe 'plain' has no profile, so there is nothing to train"),
        (("report", "last"), "there is no run 'last'"),
        (("measure", "/bin/true"), "there is only one server"),
        (("measure", "a=/bin/true", "a=/bin/false"), "the same name"),
        (("measure", "/bin/true", "b=/bin/false", "--card-seconds", "3"), "--card-seconds takes 5 to 600, or 0 for no card"),
        (("optimize", "--card-seconds", "601"), "--card-seconds takes 5 to 600, or 0 for no card"),
        (("measure", "/bin/true", "/no/such"), "is not an executable"),
        (("measure", "/bin/true", "/bin"), "is not an executable"),
        (("measure", "/bin/true", "b=/bin/false", "--connections", "x"), "--connections takes counts"),
        (("explain",), "Missing argument"),
        (("explain", "no-such-run"), "there is no run 'no-such-run'"),
        (("explain", "a=/bin/true"), "compares two servers, not 1"),
        (("explain", "a=/bin/true", "a=/bin/false"), "the same name"),
        (("explain", "a=/bin/true", "b=/bin/false", "--seconds", "1"), "--seconds"),
        (("explain", "a=/bin/true", "b=/bin/false", "--connections", "0"), "--connections"),
        (("explain", "a=/bin/true", "b=/bin/false", "--card-seconds", "3"), "--card-seconds takes 5 to 600, or 0 for no card"),
        (("explain", "a=/bin/false", "b=/bin/echo"), "a: /usr/bin/false does not start"),
        (("explain", "a=/bin/echo", "b=/bin/echo"), "is no MySQL server"),
    ],
)
def test_what_cannot_be_meant_is_exit_code_2(upshift: Run, arguments: tuple[str, ...], said: str) -> None:
    code, out, err = upshift(*arguments)
    assert code == 2, err
    assert said in err and "Traceback" not in err and out == ""


@pytest.mark.parametrize("level", ["quick", "full"])
def test_a_dry_run_shows_stages_and_does_nothing(upshift: Run, level: str, tmp_path: Path) -> None:
    code, out, _err = upshift("optimize", "--dry-run", "--json", "--level", level)
    told = json.loads(out)
    assert code == 0 and told["dry_run"] is True and told["schema_version"] == 1
    assert told["stages"][0]["name"] == "source" and told["stages"][-1]["name"] == "report"
    code, out, _err = upshift("optimize", "--dry-run", "--level", level)
    assert code == 0 and "plain build" in out and "at the peak" in out
    assert "expected half-width" in out and "one quiet machine" in out
    assert not (tmp_path / "cache").exists()


def test_quick_trains_and_measures_less(upshift: Run) -> None:
    def takes_s(stage: str, *more: str) -> float:
        told = json.loads(upshift("optimize", "--dry-run", "--json", *more)[1])
        return next(float(each["wall_s"]) for each in told["stages"] if each["name"] == stage)

    assert takes_s("measure", "--level", "quick") < 0.75 * takes_s("measure")
    assert takes_s("measure", "--level", "quick", "--connections", "1,8") == takes_s("measure")
    # Three workloads train in one round, or in two on a single CPU.
    assert takes_s("post-link") - takes_s("post-link", "--level", "quick") in (10, 20)
    assert takes_s("post-link", "--level", "quick", "--train-seconds", "20") == takes_s("post-link")


@pytest.mark.parametrize(
    ("arguments", "last"),
    [
        (("explain", "a=/bin/true", "b=/bin/false"), "explain"),
        (("measure", "a=/bin/true", "b=/bin/false"), "instructions"),
        (("build", "plain"), "plain build"),
        (("build", "max-clang"), "post-link"),
        (("train",), "profile gate"),
    ],
)
def test_a_dry_run_of_a_single_command(upshift: Run, arguments: tuple[str, ...], last: str, tmp_path: Path) -> None:
    code, out, _err = upshift(*arguments, "--dry-run", "--json")
    assert code == 0 and json.loads(out)["stages"][-1]["name"] == last
    assert not (tmp_path / "cache").exists()


def test_a_dry_run_with_until_says_what_it_takes(upshift: Run) -> None:
    def told(*more: str) -> tuple[dict[str, Any], float]:
        both = json.loads(upshift("measure", "a=/bin/true", "b=/bin/false", "--dry-run", "--json", *more)[1])
        (measure_s,) = (float(each["wall_s"]) for each in both["stages"] if each["name"] == "measure")
        return both["expected"], measure_s

    plain, _takes_s = told()
    until, takes_s = told("--until", "2%")
    held, held_s = told("--until", "2%", "--budget", "20m")
    assert plain["trials"] == 6 < held["trials"] < until["trials"]
    assert until["half_width_percent"] <= 2 < held["half_width_percent"] < plain["half_width_percent"]
    assert takes_s == until["wall_s"] and held_s == held["wall_s"] <= 1200


def test_a_run_is_resumed_with_its_own_options_alone(upshift: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = Options(connections=(4,), verify="main")
    manifest = Manifest(
        command=("upshift", "optimize"),
        options=asked.model_dump(mode="json"),
        started_at="2026-11-21T05:15:00+00:00",
        upshift_version="0.1.0",
    )
    RunDirectory.create("optimize", manifest)
    given = ("--connections", "1,8", "--trials", "9", "--verify", "main")
    code, _out, err = upshift("optimize", "--resume", "last", *given, "--dry-run")
    assert code == 2 and "another value of --connections, --trials" in err and "--verify" not in err
    code, out, _err = upshift("optimize", "--resume", "last", "--connections", "4", "--dry-run", "--json")
    assert code == 0 and json.loads(out)["dry_run"]

    def build_s(jobs: str) -> float:
        code, out, _err = upshift("optimize", "--resume", "last", "--jobs", jobs, "--dry-run", "--json")
        assert code == 0
        return next(float(stage["wall_s"]) for stage in json.loads(out)["stages"] if stage["name"] == "plain build")

    # Memory ran out, and fewer need less of it; the result is the same.
    assert build_s("1") == 2 * build_s("2")


@pytest.mark.parametrize(
    ("command", "again", "counts"),
    [
        (("build", "plain"), (), True),
        (("build", "plain"), ("--jobs", "1"), True),
        (("build", "plain"), ("--patches", "all"), False),
        (("train",), (), True),
        (("optimize",), ("--trials", "12"), True),
        (("optimize",), ("--train-seconds", "5"), False),
    ],
)
def test_what_the_same_builds_have_filled_counts_as_free(
    upshift: Run,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    command: tuple[str, ...],
    again: tuple[str, ...],
    counts: bool,
) -> None:
    folder = tmp_path / "cache" / "stages" / "plain-build-1"
    held: list[tuple[Path, ...]] = []

    def prepare(options: Options, *, kept: tuple[Path, ...], **_named: object) -> None:
        held.append(kept)
        with session(command[0], options.model_dump(mode="json"), stages=1, jobs=1) as at_work:
            folder.mkdir(parents=True, exist_ok=True)
            at_work.run.add_use(folder.name)
            raise KeyboardInterrupt

    monkeypatch.setattr(plan, "prepare", prepare)
    assert upshift(*command)[0] == upshift(*command, *again)[0] == 130
    assert held == [(), (folder,) if counts else ()]


def test_lists_for_machines_and_for_people(upshift: Run) -> None:
    assert {each["name"] for each in json.loads(upshift("recipes", "--json")[1])} >= {"plain", "max-clang"}
    assert {each["name"] for each in json.loads(upshift("workloads", "--json")[1])} >= {"oltp_read_write"}
    assert json.loads(upshift("runs", "--json")[1]) == {"schema_version": 1, "runs": []}
    for command in ("recipes", "workloads", "runs"):
        code, out, err = upshift(command)
        assert (code, err) == (0, "") and out.strip()


def test_lists_and_the_dry_run_fit_80_columns(upshift: Run) -> None:
    for arguments in (("recipes",), ("workloads",), ("optimize", "--dry-run"), ("optimize", "--help"), ("--help",)):
        _code, out, _err = upshift(*arguments)
        assert max(map(len, out.splitlines())) <= 80, arguments


def test_the_version_and_the_help_say_upshift(upshift: Run) -> None:
    assert upshift("--version") == (0, f"upshift {__version__}\n", "")
    for arguments in ((), ("-h",), ("--help",)):
        code, out, err = upshift(*arguments)
        assert (code, err) == (0, "")
        assert "Usage: upshift [OPTIONS] COMMAND" in out and "--install-completion" in out
    assert "Usage: upshift optimize [OPTIONS]" in upshift("optimize", "-h")[1]


def test_a_group_that_is_named_alone_shows_its_help(upshift: Run) -> None:
    code, out, err = upshift("patch")
    assert code == 2 and "upshift patch" in out and err == ""


def test_a_usage_error_names_the_option_and_where_to_look(upshift: Run) -> None:
    _code, _out, err = upshift("train", "--fast")
    assert err.startswith("ERROR No such option: --fast")
    assert err.endswith("hint: `upshift train --help` says what it takes\n")


@pytest.mark.parametrize("arguments", [("-q", "runs"), ("runs", "-q"), ("runs", "--json", "--quiet")])
def test_quiet_shows_no_progress(
    upshift: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    monkeypatch.setattr(console, "_quiet", False)
    assert upshift(*arguments)[0] == 0
    console.say("progress")
    console.ConsoleProgress(1).stage_started("source")
    console.error("wrong", "mend it")
    assert capsys.readouterr().err == "ERROR wrong\nhint: mend it\n"


def test_verbose_shows_each_command(upshift: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "announce", None)
    monkeypatch.setattr(doctor, "examine", lambda shell, **_named: shell.run(Command(("true", "a b"))) and ())
    _code, out, err = upshift("doctor", "-v")
    assert err == "+ true 'a b'\n"
    assert "Ready" in out


def test_a_recipe_is_shown_as_its_file_or_with_all_keys(upshift: Run) -> None:
    code, out, _err = upshift("recipes", "show", "max-clang")
    assert code == 0 and out == (CHECKOUT / "recipes" / "max-clang.toml").read_text()
    assert json.loads(upshift("recipes", "show", "max-clang", "--json")[1])["lto"] == "thin"
    assert upshift("recipes", "show", "no-such")[0] == 2


def test_no_colour_off_a_terminal(upshift: Run) -> None:
    for arguments in (("recipes",), ("optimize", "--dry-run"), ("report", "last"), ("--help",)):
        _code, out, err = upshift(*arguments)
        assert "\x1b" not in out + err


def test_a_session_makes_a_run_and_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPSHIFT_CACHE", str(tmp_path))
    with interrupts.handled(), pytest.raises(KeyboardInterrupt), session("train", {"jobs": 2}, stages=1, jobs=2) as at_work:
        process = at_work.shell.spawn(Command(("sleep", "100")), log=at_work.run.log("x"))
        with pytest.raises(CacheBusy), locked():
            raise AssertionError("two runs on one cache")
        os.kill(os.getpid(), signal.SIGTERM)
    assert process.poll() is not None
    (run,) = all_runs()
    assert run.manifest.options == {"jobs": 2}
    assert run.commands_log.read_text() == "sleep 100\n"
    assert not run.finished
    with session("train", {}, stages=1, jobs=2, resume=run.name) as again:
        assert again.run.path == run.path
    assert run.finished
    with pytest.raises(LoadFailed), session("train", {}, stages=1, jobs=2, resume=run.name):
        raise LoadFailed("it failed when it was resumed")
    assert not run.finished


# The reference document says all that the program takes, and nothing else. It is read, not written, here.

DOCUMENT = CHECKOUT / "docs" / "reference" / "cli.md"
GROUP: Any = typer.main.get_command(cli_app.app)
COMMANDS: Mapping[str, Any] = {
    **GROUP.commands,
    **{
        f"{name} {below}": command
        for name, group in GROUP.commands.items()
        for below, command in getattr(group, "commands", {}).items()
    },
}
"""Each command, and those below one, such as ``runs rm``."""


def section(command: str) -> str:
    """What the document says below a command's heading."""
    parts = re.split(r"^## ", DOCUMENT.read_text(), flags=re.M)
    found = [part for part in parts if part.splitlines()[0].strip("` ") == f"upshift {command}"]
    assert len(found) == 1, f"docs/reference/cli.md needs one heading '## upshift {command}'"
    return found[0]


PROGRAMS = {"cache", "load", "stack capture", "stack import", "stack export", "stack dump"}
"""Those whose help is the Rust programs' own."""


def parameters(command: str) -> list[Any]:
    return [each for each in COMMANDS[command].params if each.name != "help" and not getattr(each, "hidden", False)]


def test_the_document_names_every_command_and_no_other() -> None:
    headings = re.findall(r"^## `?upshift ([^`\n]+?)`?$", DOCUMENT.read_text(), re.M)
    assert sorted(headings) == sorted(COMMANDS)


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_the_document_says_what_a_command_is_for(command: str) -> None:
    (first, *_) = COMMANDS[command].help.splitlines()
    assert first in " ".join(section(command).split())


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_the_document_names_every_option_with_its_help_and_default_and_no_other(command: str) -> None:
    entries = {name: line for line in section(command).splitlines() for name in _entries(line)}
    options = {option: each for each in parameters(command) if each.param_type_name == "option" for option in each.opts}
    assert {name for name in entries if name.startswith("-")} == set(options)
    for name, option in options.items():
        assert option.help and option.help in entries[name]
        if not (option.is_flag or option.default in (None, 0, ())):
            assert f"Default: {option.default}." in entries[name]


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--card-seconds", f", {LEAST_S:g} to {MOST_S:g}; 0: "),
        ("--explain-seconds", f", {SHORTEST_S:g} or more; 0: "),
    ],
)
def test_the_help_of_an_option_says_its_range(option: str, said: str) -> None:
    helps = [each.help for command in COMMANDS for each in parameters(command) if option in each.opts]
    assert helps and [each for each in helps if said not in each] == []


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_the_document_names_every_argument(command: str) -> None:
    text = section(command)
    missing = [each.name for each in parameters(command) if each.param_type_name == "argument" and each.help not in text]
    assert missing == []


def _entries(line: str) -> list[str]:
    """The names of an option, as in ``- `--jobs`, `-j`: help``."""
    found = re.match(r"- ((?:`[^`]+`(?:, )?)+)", line)
    return re.findall(r"`([^`]+)`", found[1]) if found else []


@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - PROGRAMS))
def test_help_works_without_a_machine_to_work_on(upshift: Run, command: str) -> None:
    code, out, _err = upshift(*command.split(), "--help")
    assert code == 0
    assert [each.opts[0] for each in parameters(command) if each.param_type_name == "option" and each.opts[0] not in out] == []


def test_count_without_valgrind_says_how_to_get_it(upshift: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    code, out, err = upshift("count", "/bin/true")
    assert (code, out) == (1, "")
    assert "ERROR valgrind is not installed" in err and "apt-get install --no-install-recommends valgrind" in err


@pytest.mark.parametrize(
    ("arms", "said"),
    [
        (("/no/such/mysqld",), "/no/such/mysqld is not an executable"),
        (("a=/bin/true", "a=/bin/echo"), "two servers have the same name"),
        ((), "Missing argument"),
    ],
)
def test_count_refuses_what_is_no_server(
    upshift: Run, monkeypatch: pytest.MonkeyPatch, arms: tuple[str, ...], said: str
) -> None:
    monkeypatch.setattr("upshift.instructions.tools.find_tool", lambda _shell: "something")
    code, out, err = upshift("count", *arms)
    assert (code, out) == (2, "") and said in err
