"""Run directories, the lock on the cache, and finding runs again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from upshift.errors import CacheBusy, UsageError
from upshift.paths import CHECKOUT
from upshift.run.directory import Manifest, RunDirectory, all_runs, write_json
from upshift.run.lock import exclusive
from upshift.run.record import StageRecord

VERBS = ("optimize", "measure")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UPSHIFT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def made(at: str = "2026-11-21T05:15:00+00:00", verb: str = "optimize") -> RunDirectory:
    manifest = Manifest(command=("upshift", verb), options={"jobs": 2}, started_at=at, upshift_version="0.1.0")
    return RunDirectory.create(verb, manifest)


def record(name: str, wall_s: float = 1.0, *, cached: bool = False) -> StageRecord:
    return StageRecord(name=name, wall_s=wall_s, cpu_s=1.0, peak_memory_bytes=1, cached=cached)


def test_a_run_is_named_by_its_time_and_command(cache: Path) -> None:
    run = made()
    assert run.path == cache / "runs" / "20261121-051500-optimize"
    assert run.manifest.options == {"jobs": 2}
    assert run.log("plain build") == run.path / "logs" / "plain-build.log"


def test_two_runs_in_one_second_have_two_folders() -> None:
    assert [made().name[16:], made().name[16:], made().name[16:]] == ["optimize", "optimize-2", "optimize-3"]


@pytest.mark.parametrize("asked", ["20261121-051500-optimize", "20261121-0515", "051500-optimize"])
def test_a_run_is_found_by_its_name_its_beginning_or_its_end(asked: str) -> None:
    run = made()
    made("2026-11-21T06:00:00+00:00", "train")
    assert RunDirectory.open(asked, VERBS).path == run.path


def test_a_run_is_found_by_its_path(cache: Path) -> None:
    assert RunDirectory.open(str(made().path), VERBS).name == "20261121-051500-optimize"


def test_a_whole_name_wins_over_a_beginning() -> None:
    first, _second = made(), made()
    assert RunDirectory.open(first.name, VERBS).path == first.path


def test_last_is_the_newest() -> None:
    made("2026-11-21T06:00:00+00:00")
    newest = made("2026-11-21T07:00:00+00:00")
    made("2026-11-21T05:00:00+00:00")
    made("2026-11-21T08:00:00+00:00", "build")
    assert RunDirectory.open("last", VERBS).path == newest.path
    assert [run.name[9:11] for run in all_runs()] == ["08", "07", "06", "05"]


def test_last_is_the_later_of_two_in_one_second() -> None:
    made()
    later = made()
    assert RunDirectory.open("last", VERBS).path == later.path


@pytest.mark.parametrize(("asked", "message"), [("last", "there is no run"), ("2027", "there is no run"), ("", "no run")])
def test_no_such_run(asked: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        RunDirectory.open(asked, VERBS)
    assert "upshift runs" in caught.value.hint


def test_an_empty_name_is_not_the_only_run() -> None:
    """Every name begins with it: `upshift runs rm "$RUN"` would remove that run."""
    made()
    with pytest.raises(UsageError, match="there is no run ''"):
        RunDirectory.open("", VERBS)


def test_a_beginning_of_several_runs_is_refused() -> None:
    made("2026-11-21T06:00:00+00:00")
    made("2026-11-21T07:00:00+00:00")
    with pytest.raises(UsageError, match="several runs match"):
        RunDirectory.open("20261121", VERBS)


def test_the_last_record_of_a_stage_counts_in_the_order_of_the_first() -> None:
    run = made()
    assert run.records() == ()
    for each in (record("source"), record("train", 5.0), record("source", 2.0)):
        run.add_record(each)
    assert [(each.name, each.wall_s) for each in run.records()] == [("source", 2.0), ("train", 5.0)]


def test_what_a_full_disk_cut_short_is_passed_over_alone() -> None:
    run = made()
    run.add_record(record("source"))
    with (run.path / "stages.jsonl").open("a") as out:
        out.write('{"name":"train","wal')
    run.add_record(record("train", 3.0))
    run.add_record(record("gate"))
    assert [each.name for each in run.records()] == ["source", "train", "gate"]
    run.add_use("plain-build-1")
    with (run.path / "uses").open("a") as out:
        out.write("trai")
    run.add_use("train-2")
    assert {"plain-build-1", "train-2"} < run.uses()


@pytest.mark.parametrize("text", ["", "{}", '{"command": []', '{"command": [], "options": {}, "later": 1}'])
def test_a_damaged_manifest_hides_no_other_run(text: str) -> None:
    kept = made()
    damaged = made("2026-11-22T05:15:00+00:00")
    (damaged.path / "manifest.json").write_text(text)
    assert [run.name for run in all_runs()] == [kept.name]
    assert RunDirectory.open("last", VERBS).name == kept.name
    with pytest.raises(UsageError, match="is not a run's manifest"):
        _ = RunDirectory.open(str(damaged.path), VERBS).manifest


def test_json_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    write_json(file, {"a": 1})
    with pytest.raises(TypeError):
        write_json(file, {"a": object()})
    assert file.read_text() == '{\n  "a": 1\n}\n'
    assert list(tmp_path.glob("*.partial")) == []


def test_two_runs_on_one_cache(cache: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(cache)],
        env={"PYTHONPATH": str(CHECKOUT / "src")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None and holder.stdin is not None
    try:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(CacheBusy, match=rf"process {holder.pid}\)") as caught, exclusive(cache):
            pass
        assert "UPSHIFT_CACHE" in caught.value.hint
    finally:
        holder.kill()
        holder.communicate()
    with exclusive(cache):  # the kernel has let go of a killed run's lock
        assert (cache / "lock").read_text() != str(holder.pid)


_HOLD = """
import sys
from pathlib import Path
from upshift.run.lock import exclusive
with exclusive(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_lock_is_free_again_after_an_error(cache: Path) -> None:
    with pytest.raises(KeyboardInterrupt), exclusive(cache):
        raise KeyboardInterrupt
    with exclusive(cache):
        pass


def test_options_before_the_verb_do_not_hide_it() -> None:
    command = ("upshift", "--verbose", "optimize", "--level", "quick")
    manifest = Manifest(command=command, options={}, started_at="2026-11-21T05:15:00+00:00", upshift_version="0.1.0")
    assert manifest.verb == "optimize"
    run = RunDirectory.create("optimize", manifest)
    assert RunDirectory.open("last", ("optimize",)).path == run.path


def test_a_run_from_elsewhere_is_named_by_its_path(tmp_path: Path) -> None:
    """The last line of `upshift report PATH` was a command that found no such run."""
    run = made()
    assert run.argument == run.name
    assert RunDirectory(tmp_path / "from there" / "run").argument == f"'{tmp_path}/from there/run'"
