"""`upshift clean` and `upshift runs rm`: what a kept run uses stays, all else goes, and never under a command that works."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from upshift.cli import app as cli_app
from upshift.run.directory import Manifest, RunDirectory, all_runs
from upshift.run.lock import exclusive

Run = Callable[..., tuple[int, str, str]]
STAGE, SOURCE = f"-{'0' * 20}", f"-{'0' * 12}"
"""Ends of names that Upshift gives."""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs, years apart, that share a plain build; each has a training and a source of its own. Nobody uses a third."""
    monkeypatch.setenv("UPSHIFT_CACHE", str(tmp_path))
    for day, name in (("2020-01-01", "old"), ("2026-01-02", "new")):
        manifest = Manifest(command=("upshift",), options={}, started_at=f"{day}T00:00:00+00:00", upshift_version="0.1.0")
        run = RunDirectory.create(name, manifest)
        run.add_use(f"plain-build-1{STAGE}")
        run.add_use(f"train-{name}{STAGE}")
        source = run.path / "stages" / "source-1"
        source.mkdir(parents=True)
        output = {"output": {"path": str(tmp_path / "sources" / f"{name}{SOURCE}" / "mysql")}}
        (source / "stage.json").write_text(json.dumps(output))
    stages = [f"stages/{name}{STAGE}" for name in ("plain-build-1", "train-old", "train-new", "train-lost")]
    for folder in (*stages, "target"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "file").write_bytes(b"x" * 50_000)
    for name in ("old", "new", "lost"):
        (tmp_path / "sources" / f"{name}{SOURCE}" / "mysql").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def upshift(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["upshift", *arguments])
        with pytest.raises(SystemExit) as end:
            cli_app.main()
        captured = capsys.readouterr()
        return int(end.value.code or 0), captured.out, captured.err

    return run


def cleaned(upshift: Run, *options: str) -> dict[str, Any]:
    code, out, err = upshift("clean", "--json", *options)
    assert code == 0, err
    told: dict[str, Any] = json.loads(out)
    for entry in told["entries"]:
        entry["name"] = short(entry["name"])
    return told


def short(name: str) -> str:
    return re.sub("-0{12,}", "", name)


def stay(cache: Path) -> set[str]:
    return {short(path.name) for folder in ("stages", "sources") for path in (cache / folder).iterdir()}


def test_what_no_run_uses_goes(upshift: Run, cache: Path) -> None:
    told = cleaned(upshift)
    assert {each["name"] for each in told["entries"] if each["removed"]} == {"train-lost", "lost"}
    assert stay(cache) == {"plain-build-1", "train-old", "train-new", "old", "new"}
    assert len(all_runs()) == 2 and (cache / "target").is_dir()
    assert told["freed_bytes"] >= 50_000


def test_what_an_interrupted_unpacking_left_goes_and_folders_of_the_user_s_own_stay(upshift: Run, cache: Path) -> None:
    foreign = [cache / "stages" / "notes", cache / "sources" / "mysql-9.7.4-mine", cache / "sources" / "used"]
    left = cache / "sources" / f"mysql-9.7.4{SOURCE}.partial"
    for folder in (*foreign, left):
        folder.mkdir()
    (run,) = cache.glob("runs/*-old")
    (run / "stages/source-1/stage.json").write_text(json.dumps({"output": {"path": str(foreign[2])}}))
    entries = {each["path"]: each for each in cleaned(upshift, "--keep", "0")["entries"]}
    assert [entries[str(folder)]["kind"] for folder in foreign] == ["other"] * 3
    assert [folder.is_dir() for folder in foreign] == [True] * 3 and not left.exists()
    assert stay(cache) == {folder.name for folder in foreign}


@pytest.mark.parametrize("limits", [("--keep", "1"), ("--older-than", "52w"), ("--keep", "1", "--older-than", "52w")])
def test_a_run_goes_with_what_it_alone_used(upshift: Run, cache: Path, limits: tuple[str, ...]) -> None:
    cleaned(upshift, *limits)
    assert [run.name for run in all_runs()] == ["20260102-000000-new"]
    assert stay(cache) == {"plain-build-1", "train-new", "new"}


def test_a_run_that_one_of_two_limits_keeps_stays(upshift: Run, cache: Path) -> None:
    cleaned(upshift, "--keep", "2", "--older-than", "1h")
    assert len(all_runs()) == 2


def test_a_dry_run_removes_nothing_and_says_what_is_used_by_whom(upshift: Run, cache: Path) -> None:
    before = sorted(cache.rglob("*"))
    told = cleaned(upshift, "--dry-run", "--keep", "0")
    assert sorted(cache.rglob("*")) == before
    plain = next(each for each in told["entries"] if each["name"] == "plain-build-1")
    assert plain["removed"] and plain["size_bytes"] >= 50_000
    assert plain["used_by"] == ["20260102-000000-new", "20200101-000000-old"]
    code, out, _err = upshift("clean", "--dry-run")
    assert code == 0 and "keep" in out and "train-lost" in out and "would free" in out
    assert all(len(line) <= 80 for line in out.splitlines())


@pytest.mark.parametrize("arguments", [("clean",), ("clean", "--keep", "0"), ("runs", "rm", "old")])
def test_nothing_is_removed_while_a_command_works(upshift: Run, cache: Path, arguments: tuple[str, ...]) -> None:
    with exclusive(cache):
        code, _out, err = upshift(*arguments)
    assert code == 1 and "another run" in err
    assert len(stay(cache)) == 7 and len(all_runs()) == 2


@pytest.mark.parametrize("text", [b"", b'{"output": {"pa', b"[]", b'{"output": {}}', b'{"output": {"path": 1}}', b"\xff\0"])
def test_a_run_whose_source_cannot_be_told_keeps_all_sources(upshift: Run, cache: Path, text: bytes) -> None:
    (damaged,) = cache.glob("runs/*-new/stages/source-1/stage.json")
    damaged.write_bytes(text)
    cleaned(upshift, "--keep", "1")
    assert stay(cache) == {"plain-build-1", "train-new", "old", "new", "lost"}
    cleaned(upshift, "--keep", "0")
    assert stay(cache) == set(), "the run is gone, and keeps nothing"


def test_an_interrupted_cleaning_is_finished_by_the_next(upshift: Run, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = shutil.rmtree

    def interrupted(path: Path, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            raise KeyboardInterrupt
        real(path, ignore_errors=True)

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", interrupted)
        assert upshift("clean")[0] == 130
        # What is half gone has no name that a stage could find.
        assert "train-lost" not in stay(cache)
    cleaned(upshift)
    assert stay(cache) == {"plain-build-1", "train-old", "train-new", "old", "new"}
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", interrupted)
        assert upshift("clean", "--keep", "1")[0] == 130
    assert [run.name for run in all_runs()] == ["20260102-000000-new"]
    cleaned(upshift, "--keep", "1")
    assert stay(cache) == {"plain-build-1", "train-new", "new"}
    assert [path.name for path in (cache / "runs").iterdir()] == ["20260102-000000-new"]


def test_one_run_is_removed_by_its_name(upshift: Run, cache: Path) -> None:
    assert upshift("runs", "rm", "old")[0] == 0
    assert [run.name for run in all_runs()] == ["20260102-000000-new"]
    assert len(stay(cache)) == 7
    code, _out, err = upshift("runs", "rm", "old")
    assert code == 2 and "there is no run" in err


def test_a_dry_run_beside_a_command_that_removes_files(upshift: Run, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.lstat

    def lstat(self: Path) -> object:
        if self.name == "file" and short(self.parent.name) == "train-new":
            raise FileNotFoundError(2, "No such file or directory", str(self))
        return real(self)

    monkeypatch.setattr(Path, "lstat", lstat)
    sizes = {each["name"]: each["size_bytes"] for each in cleaned(upshift, "--dry-run")["entries"]}
    assert sizes["train-new"] == 0 and sizes["train-old"] > 0


@pytest.mark.parametrize("place", [f"stages/train-lost{STAGE}", "runs/20200101-000000-old"])
def test_what_a_process_executes_or_works_in_stays(upshift: Run, cache: Path, place: str) -> None:
    """A server that somebody started from a package or a build."""
    program = cache / place / "server"
    shutil.copy("/bin/sleep", program)
    for at_work in (((str(program), "100"), cache), (("sleep", "100"), cache / place)):
        process = subprocess.Popen(at_work[0], cwd=at_work[1])
        try:
            told = cleaned(upshift, "--keep", "0")
            refused = upshift("runs", "rm", "old")
        finally:
            process.kill()
            process.wait()
        (entry,) = (each for each in told["entries"] if each["path"] == str(cache / place))
        assert not entry["removed"] and f"process {process.pid}" in entry["used_by"] and program.is_file()
        if entry["kind"] == "run":
            assert refused[0] == 2 and f"process {process.pid} executes" in refused[2]
            assert (cache / f"stages/train-old{STAGE}").is_dir(), "what the run uses stays with it"
    cleaned(upshift, "--keep", "0")
    assert not program.exists()


def test_what_a_process_executes_stays_where_a_link_leads_to_the_cache(
    upshift: Run, cache: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel names what it executes without the link."""
    home = tmp_path_factory.mktemp("home")
    (home / "upshift").symlink_to(cache)
    monkeypatch.delenv("UPSHIFT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    process = subprocess.Popen(("sleep", "100"), cwd=cache / f"stages/train-lost{STAGE}")
    try:
        told = cleaned(upshift)
    finally:
        process.kill()
        process.wait()
    assert {each["name"] for each in told["entries"] if each["removed"]} == {"lost"}


@pytest.mark.parametrize("text", ["", '{"command": ["upshift"], "later": 1}'])
def test_a_run_whose_manifest_cannot_be_read_keeps_what_it_uses(upshift: Run, cache: Path, text: str) -> None:
    """Another version's, or one that a loss of power cut short: it stays until it is removed by its name."""
    (cache / "runs/20200101-000000-old/manifest.json").write_text(text)
    told = cleaned(upshift, "--keep", "0")
    kept = {each["name"] for each in told["entries"] if each["kind"] == "run" and not each["removed"]}
    assert kept == {"20200101-000000-old"}
    assert stay(cache) == {"plain-build-1", "train-old", "old"}
    assert upshift("runs", "rm", "old")[0] == 0
    cleaned(upshift)
    assert stay(cache) == set()


def test_an_age_beyond_all_time(upshift: Run, cache: Path) -> None:
    code, _out, err = upshift("clean", "--older-than", "99999999999d")
    assert code == 2 and "longer than time is counted" in err


@pytest.mark.parametrize("text", ["7", "d", "7 d", "7m", "-1d"])
def test_an_age_has_a_unit(upshift: Run, cache: Path, text: str) -> None:
    code, _out, err = upshift("clean", f"--older-than={text}")
    assert code == 2 and "a number and a unit" in err


def test_an_empty_cache(upshift: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPSHIFT_CACHE", str(tmp_path / "none"))
    assert cleaned(upshift, "--dry-run")["entries"] == []


def test_of_a_folder_behind_a_link_only_the_link_goes(
    cache: Path, tmp_path_factory: pytest.TempPathFactory, upshift: Run
) -> None:
    """A link stopped each later `upshift clean` with a traceback."""
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "build"
    lost = cache / "stages" / f"train-lost{STAGE}"
    shutil.move(lost, elsewhere)
    lost.symlink_to(elsewhere)
    (cache / "stages" / ".removed-train-before").symlink_to(elsewhere)
    assert upshift("clean")[0] == 0
    assert not lost.is_symlink() and not list((cache / "stages").glob(".removed-*"))
    assert (elsewhere / "file").is_file()


@pytest.mark.parametrize("started_at", ["yesterday", "2026-01-02T00:00:00"])
def test_a_damaged_run_stops_no_cleaning(cache: Path, upshift: Run, started_at: str) -> None:
    new = next((cache / "runs").glob("*-new"))
    manifest = json.loads((new / "manifest.json").read_text())
    (new / "manifest.json").write_text(json.dumps({**manifest, "started_at": started_at}))
    old = next((cache / "runs").glob("*-old"))
    (old / "uses").write_bytes((old / "uses").read_bytes() + b"\xff\xfe\n")
    assert upshift("clean", "--dry-run", "--older-than", "1d")[0] == 0
    assert upshift("clean")[0] == 0
    assert new.is_dir() and (cache / "stages" / f"train-old{STAGE}").is_dir()


def test_a_run_is_removed_by_its_path_through_a_link(
    cache: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, upshift: Run
) -> None:
    home = tmp_path_factory.mktemp("home") / "link"
    home.symlink_to(cache.parent)
    monkeypatch.delenv("UPSHIFT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    (cache.parent / "upshift").symlink_to(cache)
    old = next((cache / "runs").glob("*-old"))
    monkeypatch.chdir(old.parent)
    assert upshift("runs", "rm", old.name)[0] == 0
    assert not old.exists()
