"""Stages: kept by the hash of their inputs, run again after an interruption, and timed over all attempts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from fakes import FakeProgress, FakeShell

from upshift.errors import LoadFailed
from upshift.paths import CHECKOUT
from upshift.run import stages as stages_module
from upshift.run.directory import Manifest, RunDirectory, write_json
from upshift.run.stages import Stages
from upshift.values import Value
from upshift.workbench import Workbench


class Made(Value):
    text: str
    path: Path


class Unpacked(Value):
    inside: tuple[Made, ...]


class House:
    """A store, and runs that share it."""

    def __init__(self, folder: Path) -> None:
        self.store = folder / "stages"
        self.progress = FakeProgress()
        self.calls = 0

    def run(self) -> RunDirectory:
        manifest = Manifest(command=("upshift",), options={}, started_at="2026-11-21T05:15:00+00:00", upshift_version="0.1.0")
        return RunDirectory.create("optimize", manifest)

    def stages(self, run: RunDirectory) -> Stages:
        return Stages(run, self.store, FakeShell(), self.progress)

    def action(self, bench: Workbench) -> Made:
        self.calls += 1
        file = bench.folder / "out"
        file.write_text("made")
        return Made(text=f"call {self.calls}", path=file)

    def folders(self) -> list[Path]:
        return sorted(self.store.iterdir())


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    monkeypatch.setenv("UPSHIFT_CACHE", str(tmp_path))
    return House(tmp_path)


def test_a_stage_runs_once_for_the_same_inputs(house: House) -> None:
    first = house.stages(house.run()).run("plain build", Made, house.action, inputs={"n": 1})
    again = house.stages(house.run()).run("plain build", Made, house.action, inputs={"n": 1})
    assert house.calls == 1
    assert again == first and first.path.read_text() == "made"


@pytest.mark.parametrize(("name", "inputs"), [("plain build", {"n": 2}), ("other build", {"n": 1}), ("plain build", {"m": 1})])
def test_other_inputs_or_another_stage_run_again(house: House, name: str, inputs: dict[str, int]) -> None:
    stages = house.stages(house.run())
    stages.run("plain build", Made, house.action, inputs={"n": 1})
    stages.run(name, Made, house.action, inputs=inputs)
    assert house.calls == 2


def test_measurements_are_never_another_runs(house: House) -> None:
    run = house.run()
    house.stages(run).run("measure", Made, house.action, inputs={}, keep=False)
    house.stages(run).run("measure", Made, house.action, inputs={}, keep=False)
    assert house.calls == 1
    house.stages(house.run()).run("measure", Made, house.action, inputs={}, keep=False)
    assert house.calls == 2
    assert not house.store.exists()


def test_a_kept_stage_says_what_the_work_took_then(house: House) -> None:
    def slow(bench: Workbench) -> Made:
        time.sleep(0.15)
        return house.action(bench)

    first, second = house.run(), house.run()
    house.stages(first).run("train", Made, slow, inputs={})
    house.stages(second).run("train", Made, slow, inputs={})
    (done,), (kept,) = first.records(), second.records()
    assert not done.cached and kept.cached
    assert done.wall_s >= 0.15 and kept.model_copy(update={"cached": False}) == done
    assert [each.cached for each in house.progress.ended] == [False, True]
    assert house.progress.started == ["train", "train"]


def test_a_resumed_run_keeps_its_own_record(house: House) -> None:
    run = house.run()
    house.stages(run).run("train", Made, house.action, inputs={})
    house.stages(run).run("train", Made, house.action, inputs={})
    assert [each.cached for each in run.records()] == [False]


def test_stages_of_one_name_each_have_a_record(house: House) -> None:
    """Patches that need a whole build bring a second plain build, and a study builds and trains several servers."""
    first, second = house.run(), house.run()
    for run, cached in ((first, False), (second, True)):
        for number in (1, 2, 1):
            house.stages(run).run("plain build", Made, house.action, inputs={"n": number})
        assert [(each.name, each.cached) for each in run.records()] == [("plain build", cached)] * 2
    assert [each.folder for each in first.records()] == [each.folder for each in second.records()]
    assert {each.folder for each in first.records()} == {folder.name for folder in house.folders()}


def test_what_a_resumed_attempt_did_not_take_is_not_among_its_records(house: House) -> None:
    """An update of the compiler changes the key of each build: the first one is not what the result is made of."""
    run = house.run()
    for number in (1, 2):
        stages = house.stages(run)
        stages.run("source", Made, house.action, inputs={})
        stages.run("plain build", Made, house.action, inputs={"n": number})
        stages.run("measure", Made, house.action, inputs={}, keep=False)
    assert [each.name for each in run.records()] == ["source", "plain build", "measure", "plain build"]
    first, second, third = stages.records()
    assert [first.name, second.name, third.name] == ["source", "plain build", "measure"]
    assert second == run.records()[-1] and first == run.records()[0]
    other = house.stages(house.run())
    other.run("plain build", Made, house.action, inputs={"n": 2})
    assert [(each.name, each.cached) for each in other.records()] == [("plain build", True)]


def test_a_record_of_an_earlier_upshift_can_be_read(house: House) -> None:
    run = house.run()
    told = {"name": "train", "wall_s": 1.0, "cpu_s": 1.0, "peak_memory_bytes": 1, "cached": False}
    lines = [told, {**told, "wall_s": 2.0}, {**told, "name": "measure"}]
    (run.path / "stages.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert [(each.name, each.wall_s) for each in run.records()] == [("train", 2.0), ("measure", 1.0)]
    assert json.loads(run.records()[1].model_dump_json()) == lines[-1]


def test_a_run_of_an_earlier_upshift_that_is_resumed_lists_a_stage_once(house: House) -> None:
    first, run = house.run(), house.run()
    house.stages(first).run("train", Made, house.action, inputs={})
    told = {"name": "train", "wall_s": 1.0, "cpu_s": 1.0, "peak_memory_bytes": 1, "cached": False}
    (run.path / "stages.jsonl").write_text(f"{json.dumps(told)}\n")
    (stages := house.stages(run)).run("train", Made, house.action, inputs={})
    assert [each.wall_s for each in run.records()] == [1.0]
    assert stages.records() == run.records()


def test_another_version_of_a_stage_runs_again(house: House) -> None:
    stages = house.stages(house.run())
    for version in (1, 2, 2):
        stages.run("train", Made, house.action, inputs={}, version=version)
    assert house.calls == 2


@pytest.mark.parametrize("goes_on", [False, True])
@pytest.mark.parametrize("error", [LoadFailed("died"), KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_an_interrupted_stage_leaves_no_result_and_runs_again(house: House, error: BaseException, goes_on: bool) -> None:
    run = house.run()

    def interrupted(bench: Workbench) -> Made:
        (bench.folder / "half").write_text("done")
        (bench.folder / "raw").mkdir()
        (bench.folder / "raw" / "1.profraw").write_text("counts")
        time.sleep(0.15)
        raise error

    with pytest.raises(type(error)):
        house.stages(run).run("plain build", Made, interrupted, inputs={}, goes_on=goes_on)
    (folder,) = house.folders()
    assert not (folder / "stage.json").exists()
    assert run.records() == ()

    def resumed(bench: Workbench) -> Made:
        assert (bench.folder / "half").exists() is (bench.folder / "raw").exists() is goes_on
        time.sleep(0.1)
        return house.action(bench)

    house.stages(run).run("plain build", Made, resumed, inputs={}, goes_on=goes_on)
    assert (folder / "stage.json").is_file()
    (record,) = run.records()
    assert record.wall_s >= 0.25 and not record.cached


def test_what_a_killed_attempt_took_is_added(house: House, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(CHECKOUT / "src"), str(CHECKOUT / "tests" / "unit")))}
    attempt = subprocess.Popen([sys.executable, "-c", _ATTEMPT], env=environment)
    try:
        spent = _await_spent(house.store)
    finally:
        attempt.send_signal(signal.SIGKILL)
        attempt.wait()
    run = house.run()
    house.stages(run).run("train", Made, house.action, inputs={})
    (record,) = run.records()
    assert record.wall_s >= spent["wall_s"] > 0
    assert record.cpu_s >= spent["cpu_s"] > 0


_ATTEMPT = """
import time
from collections.abc import Callable
from pathlib import Path
from fakes import FakeProgress, FakeShell
from upshift.paths import cache_dir
from upshift.run import stages
from upshift.run.directory import Manifest, RunDirectory
from upshift.values import Value

stages._LOOK_S = 0.05
run = RunDirectory.create("x", Manifest(command=(), options={}, started_at="2026-11-21T05:00:00+00:00", upshift_version="0"))

def work(bench):
    while True:
        pass

stages.Stages(run, cache_dir() / "stages", FakeShell(), FakeProgress()).run("train", Value, work, inputs={})
"""


def _await_spent(store: Path) -> dict[str, float]:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        for file in store.glob("*/spent.json"):
            spent: dict[str, float] = json.loads(file.read_text())
            if spent["cpu_s"] > 0.1:
                return spent
        time.sleep(0.05)
    raise AssertionError("the attempt never wrote what it spent")


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_full_disk_does_not_end_the_account(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a stage that needs none of it: what watches goes on when there is room again."""
    real, looks = write_json, 0

    def write(path: Path, value: Any) -> None:
        nonlocal looks
        looks += path.name == "spent.json"
        if path.name == "spent.json" and looks < 3:
            raise OSError(28, "No space left on device", str(path))
        real(path, value)

    def work(bench: Workbench) -> Made:
        deadline = time.monotonic() + 20
        while looks < 5:
            assert time.monotonic() < deadline, "nobody looks any more"
            time.sleep(0.01)
        return house.action(bench)

    monkeypatch.setattr(stages_module, "_LOOK_S", 0.01)
    monkeypatch.setattr(stages_module, "write_json", write)
    assert house.stages(house.run()).run("train", Made, work, inputs={}).text == "call 1"


def test_the_peak_memory_of_children_is_seen(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    own_bytes = psutil.Process().memory_info().rss

    def hungry(bench: Workbench) -> Made:
        code = "import time; block = bytearray(150_000_000); time.sleep(1.3)"
        subprocess.run([sys.executable, "-c", code], check=True)
        return house.action(bench)

    monkeypatch.setattr(stages_module, "_LOOK_S", 0.05)
    run = house.run()
    house.stages(run).run("post-link", Made, hungry, inputs={})
    assert run.records()[0].peak_memory_bytes > own_bytes + 120_000_000
    assert run.records()[0].cpu_s > 0


@pytest.mark.parametrize("text", ["", "{", "[]", '{"wall_s": 1'])
def test_a_damaged_account_of_earlier_attempts_is_no_hindrance(house: House, text: str) -> None:
    stages = house.stages(house.run())
    with pytest.raises(ZeroDivisionError):
        stages.run("train", Made, lambda _bench: 1 / 0, inputs={})  # type: ignore[arg-type,return-value]
    (folder,) = house.folders()
    (folder / "spent.json").write_text(text)
    assert stages.run("train", Made, house.action, inputs={}).text == "call 1"


def _write_as_long(file: Path) -> None:
    """Other contents of the same size, at another time."""
    file.write_text(file.read_text().swapcase())
    _move_time(file, 2.0)


def _move_time(file: Path, by_s: float) -> None:
    os.utime(file, ns=(0, file.stat().st_mtime_ns + int(by_s * 1e9)))


@pytest.mark.parametrize("spoil", [Path.unlink, lambda file: file.write_text("cut"), _write_as_long])
def test_a_result_whose_file_is_gone_or_changed_is_made_again(house: House, spoil: Callable[[Path], object]) -> None:
    made = house.stages(house.run()).run("source", Made, house.action, inputs={})
    spoil(made.path)
    again = house.stages(house.run()).run("source", Made, house.action, inputs={})
    assert house.calls == 2 and again.path.read_text() == "made"


def test_a_result_whose_folder_outside_of_the_store_is_gone_is_made_again(house: House, tmp_path: Path) -> None:
    """`rm -r sources/` alone: the stage that unpacked them runs again."""
    sources = tmp_path / "sources"

    def unpack(bench: Workbench) -> Unpacked:
        house.calls += 1
        sources.mkdir()
        return Unpacked(inside=(Made(text="tree", path=sources),))

    for _ in range(2):
        house.stages(house.run()).run("source", Unpacked, unpack, inputs={}, goes_on=True)
    assert house.calls == 1
    sources.rmdir()
    house.stages(house.run()).run("source", Unpacked, unpack, inputs={}, goes_on=True)
    assert house.calls == 2


def kept_tree(house: House) -> Path:
    """A folder as a build leaves it, kept by a stage; made again when it is not as it was."""

    def build(bench: Workbench) -> Made:
        house.calls += 1
        tree = bench.folder / "tree"
        (tree / "sql" / "empty").mkdir(parents=True)
        for name in ("build.ninja", "sql/main.o", "sql/parse.o"):
            (tree / name).write_text(name)
            os.utime(tree / name, ns=(0, 1_700_000_000_250_000_000))
        (tree / "link").symlink_to("sql/main.o")
        os.mkfifo(tree / "pipe")
        return Made(text="tree", path=tree)

    return house.stages(house.run()).run("plain build", Made, build, inputs={}, goes_on=True).path


@pytest.mark.parametrize(
    "change",
    [
        lambda tree: (tree / "sql" / "main.o").unlink(),
        lambda tree: (tree / "sql" / "more.o").write_text("more"),
        lambda tree: (tree / "sql" / "main.o").rename(tree / "main.o"),
        lambda tree: (tree / "sql" / "main.o").write_text("cut"),
        lambda tree: _write_as_long(tree / "sql" / "main.o"),
        lambda tree: ((tree / "link").unlink(), (tree / "link").symlink_to("sql/parse.o")),
    ],
    ids=["gone", "another", "elsewhere", "cut", "as long", "link"],
)
def test_a_result_whose_folder_has_changed_inside_is_made_again(house: House, change: Callable[[Path], object]) -> None:
    change(kept_tree(house))
    kept_tree(house)
    assert house.calls == 2
    kept_tree(house)
    assert house.calls == 2


def test_a_kept_folder_may_be_read_copied_and_lose_fractions_of_seconds(house: House) -> None:
    """A cache that is packed and unpacked again, as CI systems do, has its times in whole seconds."""
    tree = kept_tree(house)
    (tree / "sql" / "main.o").read_text()
    _move_time(tree / "sql" / "main.o", -0.25)
    os.utime(tree / "sql", (0, 0))
    kept_tree(house)
    assert house.calls == 1


@pytest.mark.parametrize("files", [{"{path}": 4}, {"{path}": None}, [], None])
def test_a_result_whose_files_were_kept_in_another_shape_is_made_again(house: House, files: object) -> None:
    """Earlier versions kept a file's size, and nothing of a folder."""
    made = house.stages(house.run()).run("train", Made, house.action, inputs={})
    done = made.path.parent / "stage.json"
    saved = json.loads(done.read_text())
    saved["files"] = {str(made.path): each for each in files.values()} if isinstance(files, dict) else files
    done.write_text(json.dumps(saved))
    assert house.stages(house.run()).run("train", Made, house.action, inputs={}).text == "call 2"


def test_what_is_not_upshift_s_own_may_change(house: House, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A compiler belongs to the key, by its contents: what it built before an update is there for whoever goes back."""
    compiler = tmp_path_factory.mktemp("usr") / "clang"

    def build(bench: Workbench) -> Unpacked:
        return Unpacked(inside=(house.action(bench), Made(text="compiler", path=compiler)))

    for revision in ("1", "1-2"):
        compiler.write_text(revision)
        house.stages(house.run()).run("plain build", Unpacked, build, inputs={}, goes_on=True)
    assert house.calls == 1


def test_a_kept_result_that_no_longer_works_is_made_again(house: House) -> None:
    asked = iter([True, False])
    for _ in range(3):
        house.stages(house.run()).run("plain build", Made, house.action, inputs={}, works=lambda _made: next(asked))
    assert house.calls == 2


def test_a_result_that_does_not_last_is_not_kept(house: House) -> None:
    runs = [house.run(), house.run()]
    for run in runs:
        house.stages(run).run("post-link", Made, house.action, inputs={}, lasts=lambda made: "call 2" in made.text)
    assert house.calls == 2
    house.stages(house.run()).run("post-link", Made, house.action, inputs={}, lasts=lambda made: "call 2" in made.text)
    assert house.calls == 2
    assert all(len(run.records()) == 1 for run in runs)


def test_a_run_remembers_what_it_uses_of_the_store(house: House) -> None:
    first, second = house.run(), house.run()
    house.stages(first).run("train", Made, house.action, inputs={})
    house.stages(first).run("measure", Made, house.action, inputs={}, keep=False)
    house.stages(second).run("train", Made, house.action, inputs={})
    assert first.uses() == second.uses() == {folder.name for folder in house.folders()}


def test_a_result_of_another_version_is_made_again(house: House) -> None:
    """A store outlives an upgrade: a result whose shape has changed is as good as none."""
    run = house.run()
    house.stages(run).run("train", Made, house.action, inputs={})
    (folder,) = house.folders()
    saved = json.loads((folder / "stage.json").read_text())
    saved["output"] = {"text": "old", "file": "renamed since"}
    (folder / "stage.json").write_text(json.dumps(saved))
    assert house.stages(run).run("train", Made, house.action, inputs={}).text == "call 2"
