"""Bad input is one ERROR with a hint, before any work: no traceback, and no `--dry-run` that says yes to it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fakes import FakeShell
from in_process import Run, run_main

from upshift.cli.amounts import parse_connections, parse_patches, parse_time, parse_until
from upshift.cli.clean import parse_age
from upshift.door import versions_of
from upshift.errors import UpshiftError, UsageError
from upshift.measure.samples import read_samples
from upshift.paths import CHECKOUT
from upshift.prove.allowed import differing_tests
from upshift.run.directory import Manifest, RunDirectory
from upshift.server.kind import Program
from upshift.server.mysql import KIND
from upshift.study.file import find_study

SERVERS = ("/bin/true", "b=/bin/echo")
STUDY = """
budget = "2h"
workloads = ["oltp_read_only"]
[base]
binary = "/bin/true"
[factors.log.none]
settings = { innodb_flush_log_at_trx_commit = "2" }
"""


@pytest.fixture
def upshift(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Runs ``upshift`` with arguments; exit code, stdout and stderr."""
    monkeypatch.setenv("UPSHIFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("UPSHIFT_SERVER_KIND", raising=False)

    def run(*arguments: str) -> tuple[int, str, str]:
        return run_main(monkeypatch, capsys, *arguments)

    return run


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("optimize", "--resume", ""), "--resume"),
        (("optimize", "--patches="), "--patches"),
        (("study", "settings", "--resume", ""), "--resume"),
        (("study", "settings", "--budget", ""), "--budget"),
        (("patch", "check", "/src", "--patches", ""), "--patches"),
        (("build", "plain", "--patches", ""), "--patches"),
        (("check", "--server", ""), "--server"),
        (("measure", *SERVERS, "--workload", "commit", "--workload", ""), "--workload"),
        (("optimize", "--baseline", ""), "--baseline"),
    ],
)
def test_an_empty_value_is_not_an_option_that_is_left_out(upshift: Run, arguments: tuple[str, ...], option: str) -> None:
    code, out, err = upshift(*arguments)
    assert (code, out) == (2, "") and f"{option} is empty: give it a value, or leave it out" in err


@pytest.mark.parametrize("names", ["", ",", "a,", "a, ,b"])
def test_an_empty_name_of_a_patch_is_refused(names: str) -> None:
    with pytest.raises(UsageError, match="has an empty name"):
        parse_patches(names)
    assert parse_patches(None) == () and parse_patches(" a,b") == ("a", "b")


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_result_that_nobody_can_take_is_an_error(more: tuple[str, ...]) -> None:
    """Without --json the result was lost, with exit code 0; with it there was a traceback."""
    words = " ".join((sys.executable, "-m", "upshift", "recipes", *more))
    done = subprocess.run(
        ["sh", "-c", f"exec {words} >&-"], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": "src"}, cwd=CHECKOUT
    )
    assert done.returncode == 1 and done.stderr.startswith("ERROR stdout is closed") and "hint: " in done.stderr


@pytest.mark.parametrize("columns", ["0", "1", "4", "7"])
def test_a_terminal_of_no_width_is_no_error(columns: str) -> None:
    for command in (("recipes",), ("patch", "list"), ("--help",)):
        environment = {**os.environ, "PYTHONPATH": "src", "COLUMNS": columns}
        done = subprocess.run(
            [sys.executable, "-m", "upshift", *command], capture_output=True, text=True, env=environment, cwd=CHECKOUT
        )
        assert (done.returncode, done.stderr) == (0, "") and done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("measure", *SERVERS, "--workload", "nope"), "there is no workload 'nope'"),
        (("measure", *SERVERS, "--workload", "commit", "--workload", "commit"), "workload 'commit' is named twice"),
        (("measure", *SERVERS, "-c", "5000"), "5000 client connections are asked for, and the server's limit is"),
        (("explain", *SERVERS, "--workload", "nope"), "there is no workload 'nope'"),
        (("explain", *SERVERS, "--workload", "commit", "--workload", "commit"), "workload 'commit' is named twice"),
        (("explain", *SERVERS, "-c", "5000"), "5000 client connections are asked for"),
        (("optimize", "--source", "/nope"), "there is no source at /nope"),
        (("optimize", "--baseline", "/nope"), "--baseline /nope is not an executable"),
        (("optimize", "--verify", "nope"), "--verify nope: mysql has no tests 'nope'"),
        (("optimize", "--workload", "oltp_write_only"), "workload 'oltp_write_only' is named twice"),
        (("optimize", "-c", "5000"), "5000 client connections are asked for"),
        (("optimize", "--margin", "0.05"), "--margin is a share of --fail-below, which is not given"),
        (("build", "plain", "--source", "/nope"), "there is no source at /nope"),
        (("train", "--workload", "commit", "--workload", "commit"), "workload 'commit' is named twice"),
    ],
)
def test_a_dry_run_refuses_what_the_command_refuses(upshift: Run, arguments: tuple[str, ...], said: str) -> None:
    """The dry run showed a plan, and the same command without it was refused in its first second."""
    code, out, err = upshift(*arguments, "--dry-run")
    assert code in (1, 2) and out == "" and said in err and "hint: " in err
    if arguments[0] == "measure" and "twice" in said:
        assert "--held-out" not in err


@pytest.mark.parametrize(
    ("more", "said", "hint"),
    [
        ('source = "/nope"\n', "there is no source at /nope", "correct `source` in the study"),
        ("connections = [5000]\n", "5000 client connections are asked for", "ask for fewer"),
        ("", "there is no workload 'nope'", "`upshift workloads` lists"),
    ],
)
def test_the_dry_run_of_a_study_refuses_what_the_study_refuses(
    upshift: Run, tmp_path: Path, more: str, said: str, hint: str
) -> None:
    text = more + STUDY
    if not more:
        text = text.replace('binary = "/bin/true"', 'recipe = "max-clang"') + '[factors.train.on]\ntrained_on = ["nope"]\n'
    (tmp_path / "mine.toml").write_text(text)
    code, out, err = upshift("study", str(tmp_path / "mine.toml"), "--dry-run")
    assert code in (1, 2) and out == "" and said in err and hint in err and "--source" not in err


def test_a_study_is_not_explained(upshift: Run) -> None:
    """The error was about versions of a schema."""
    manifest = Manifest(command=("upshift", "study"), options={}, started_at="2026-11-22T12:00:00+00:00", upshift_version="0")
    run = RunDirectory.create("study", manifest)
    code, _out, err = upshift("explain", run.name)
    assert code == 2 and f"run {run.name} is one of `upshift study`, and explain takes a run of optimize or measure" in err


def test_an_unknown_level_is_told_from_one_that_is_called_none(tmp_path: Path, upshift: Run) -> None:
    (tmp_path / "mine.toml").write_text('design = "grid"\nrows = [[], ["log=some"]]\n' + STUDY)
    _code, _out, err = upshift("study", str(tmp_path / "mine.toml"), "--dry-run")
    assert "factor 'log' has no level 'some'" in err and "its levels are 'none'" in err
    (tmp_path / "mine.toml").write_text('design = "grid"\nrows = [[], ["leg"]]\n' + STUDY)
    assert "the factors are 'log'" in upshift("study", str(tmp_path / "mine.toml"), "--dry-run")[2]


def test_a_source_that_is_not_there_names_no_option_that_the_command_lacks(upshift: Run) -> None:
    code, _out, err = upshift("patch", "check", "/nope")
    assert code == 1 and "there is no source at /nope" in err and "--source" not in err


@pytest.mark.parametrize("verb", ["study", "measure"])
def test_a_file_that_cannot_be_read_is_told_of_itself(
    upshift: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """The hint was about the cache."""
    file = tmp_path / "mine.toml"
    file.touch()

    def refused(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refused)
    code, _out, err = upshift(verb, str(file), *(("b=/bin/true",) if verb == "measure" else ()))
    assert code == 2 and f"{file} cannot be read: Permission denied" in err and "UPSHIFT_CACHE" not in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("optimize", "--dry-run", "--baseline", "loop"),
        ("optimize", "--dry-run", "--source", "loop"),
        ("optimize", "--dry-run", "--defaults-file", "loop"),
        ("patch", "prove", "--stock", "loop", "--patched", "/bin/true"),
        ("patch", "check", "loop"),
        ("measure", "a=loop", "b=/bin/true"),
    ],
)
def test_a_link_to_itself_is_no_path(
    upshift: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    code, out, err = upshift(*arguments)
    assert code in (1, 2) and out == "" and "loop" in err and "hint: " in err


def test_a_cache_that_is_a_link_to_itself_is_refused(upshift: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.setenv("UPSHIFT_CACHE", str(tmp_path / "loop"))
    code, out, err = upshift("runs")
    assert (code, out) == (2, "") and f"UPSHIFT_CACHE: {tmp_path / 'loop'}" in err and "hint: " in err


def test_a_workloads_setting_with_a_nul_is_refused_before_any_work(upshift: Run, tmp_path: Path) -> None:
    workload = tmp_path / "mine.toml"
    text = (CHECKOUT / "tests/small_server/workloads/point.toml").read_text()
    workload.write_text(text + '\n[settings]\nfoo = "a\\u0000b"\n')
    code, out, err = upshift("optimize", "--workload", str(workload), "--dry-run")
    assert (code, out) == (2, "") and "has a NUL" in err and "hint: " in err


@pytest.mark.parametrize(("below", "is_named"), [("cache/runs", True), ("elsewhere", False)])
def test_the_variable_of_the_cache_is_named_for_paths_below_it(
    upshift: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, below: str, is_named: bool
) -> None:
    def refused(*_given: object, **_named: object) -> None:
        raise PermissionError(13, "Permission denied", str(tmp_path / below))

    monkeypatch.setattr("upshift.build.recipe.shipped_recipes", refused)
    code, _out, err = upshift("recipes")
    assert code == 1 and "Permission denied" in err and ("UPSHIFT_CACHE" in err) == is_named and "hint: " in err


def test_a_study_in_another_encoding_is_told(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_bytes(b'description = "caf\xe9"\n' + STUDY.encode())
    with pytest.raises(UsageError, match=r"mine\.toml is not UTF-8"):
        find_study(str(file))
    with pytest.raises(UsageError, match=r"--allow: .*mine\.toml is not UTF-8"):
        differing_tests(file)
    file.unlink()
    file.symlink_to(file.name)
    with pytest.raises(UsageError, match="cannot be read"):
        find_study(str(file))


def test_samples_that_are_damaged_are_told(tmp_path: Path) -> None:
    """It was duckdb's traceback."""
    file = tmp_path / "samples.parquet"
    file.write_bytes(b"PAR1 and no more")
    with pytest.raises(UpshiftError, match=r"samples\.parquet is damaged: ") as caught:
        read_samples(file)
    assert caught.value.hint and "\n" not in caught.value.message


def test_a_server_that_is_gone_is_told(tmp_path: Path) -> None:
    gone = Program(kind="mysql", binary=tmp_path / "mysqld")
    with pytest.raises(UsageError, match=r"row: .*mysqld cannot be read: No such file"):
        versions_of(FakeShell(), lambda _program: KIND, {"row": gone})


def test_a_source_whose_version_is_no_text_is_none(tmp_path: Path) -> None:
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "mysqld.cc").touch()
    (tmp_path / "MYSQL_VERSION").write_bytes(b"MYSQL_VERSION_MAJOR=9\n\xff")
    assert KIND.recognise(tmp_path) == "9.0.0"


def source_of_version_9(tree: Path) -> Path:
    (tree / "sql").mkdir(parents=True)
    (tree / "sql" / "mysqld.cc").touch()
    (tree / "MYSQL_VERSION").write_text("MYSQL_VERSION_MAJOR=9\n")
    return tree


def test_the_versions_of_patches_are_told_for_another_one(upshift: Run, tmp_path: Path) -> None:
    tree = source_of_version_9(tmp_path / "tree")
    code, out, err = upshift("patch", "check", str(tree), "--patches", "patch_counter")
    assert code == 0 and "patch_counter; it is for versions >=9.7.4, <9.8, and the source is 9.0.0" in out
    assert "`upshift patch apply` refuses patches for other versions: name a source of theirs" in err
    code, _out, err = upshift("patch", "apply", str(tree), "--output", str(tmp_path / "new"))
    assert code == 1 and "name a source of versions >=9.7.4, <9.8" in err


def test_a_link_to_nothing_is_no_new_directory(upshift: Run, tmp_path: Path) -> None:
    tree = source_of_version_9(tmp_path / "tree")
    (tmp_path / "link").symlink_to("absent")
    code, _out, err = upshift("patch", "apply", str(tree), "--output", str(tmp_path / "link"))
    assert code == 2 and "exists already" in err


HUGE = "9" * 400


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("optimize", "--trials", HUGE), "--trials takes 1000 at most"),
        (("measure", *SERVERS, "--rounds", HUGE), "--rounds takes 10000 at most"),
        (("optimize", "-j", HUGE), "--jobs takes 10000 at most"),
        (("optimize", "--slice-seconds", "1e300"), "--slice-seconds takes 86400 at most"),
        (("train", "--train-seconds", "86401"), "--train-seconds takes 86400 at most"),
        (("explain", *SERVERS, "-c", HUGE), "--connections takes 100000 at most"),
        (("explain", *SERVERS, "--seconds", "1e9"), "--seconds takes 86400 at most"),
        (("optimize", "-c", HUGE), "--connections takes counts from 1 to 100000"),
        (("study", "settings", "--budget", f"{HUGE}h"), "--budget takes a number and a unit, up to 1000h"),
        (("patch", "prove", "--stock", "a", "--patched", "b", "--seed", str(2**64)), f"--seed takes {2**64 - 1} at most"),
    ],
)
def test_a_number_beyond_what_anybody_means_is_refused(upshift: Run, arguments: tuple[str, ...], said: str) -> None:
    code, out, err = upshift(*arguments, "--dry-run")
    assert (code, out) == (2, "") and said in err and "hint: " in err


@pytest.mark.parametrize(
    "line",
    [
        f"trials = {HUGE}",
        f"rounds = {HUGE}",
        f"connections = [{HUGE}]",
        f"trainings = {HUGE}",
        "lead_s = 1e308",
        "slice_s = 1e300",
        "warmup_s = 86401",
        "trials = true",
        'trials = "6"',
        "connections = [true]",
        'connections = ["8"]',
        "confirm = false",
        "slice_s = true",
        f'budget = "{HUGE}h"',
        'budget = "1001h"',
        'budget = "٣m"',
        "budget = true",
        "x = " + "[" * 3000,
    ],
)
def test_what_is_no_sensible_number_of_a_study_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "mine.toml").write_text(
        line + "\n" + STUDY.replace('budget = "2h"\n', "" if "budget" in line else 'budget = "2h"\n')
    )
    with pytest.raises(UsageError) as caught:
        find_study(str(tmp_path / "mine.toml"))
    assert line.split(maxsplit=1)[0].rstrip("x") in caught.value.message and caught.value.hint


def test_a_version_of_a_compiler_is_a_number(tmp_path: Path, upshift: Run) -> None:
    for value in ("true", '"19"'):
        (tmp_path / "mine.toml").write_text(f"version = {value}\n")
        code, _out, err = upshift("recipes", "show", str(tmp_path / "mine.toml"))
        shown = value.replace('"', "'")
        assert code == 2 and f"version: {shown} is not a whole number" in err


@pytest.mark.parametrize("text", ["٣", "1_0", "１", "+1", "1,", "0", "100001"])
def test_counts_are_written_with_the_ten_digits(text: str) -> None:
    with pytest.raises(UsageError, match="--connections takes counts"):
        parse_connections(text)
    with pytest.raises(UsageError, match="--budget"):
        parse_time(f"{text}m" if text != "100001" else "100001h")
    with pytest.raises(UsageError, match="--until"):
        parse_until(f"{text}%")
    with pytest.raises(UsageError, match="--older-than"):
        parse_age("٣d")
    assert parse_connections("1, 8") == (1, 8)
