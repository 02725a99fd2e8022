"""A study's stages: groups share the first arm, and an arm that dies is left out while the rest goes on."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from example_study import LOADS, one_slice
from fakes import FakeKind, FakeProcess, FakeProgress, FakeShell

from upshift.errors import LoadFailed, ServerFailed
from upshift.measure.server_bench import ServerBench
from upshift.measure.tier import Tier
from upshift.measure.variant import Variant
from upshift.server.instance import RunningServer
from upshift.server.kind import Program
from upshift.stages import study
from upshift.stages.data import Filled
from upshift.stages.study import Made, WatchedBench, files_of, measure_arms, parts_of, read_died, same_servers, slices_of
from upshift.study.dealing import deal

DATA = Filled(path=Path("/data"), sha256="data")


def variants(names: str, **changes: Any) -> tuple[Variant, ...]:
    return tuple(
        Variant(name=name, program=Program(kind="fake", binary=Path("/bin") / name), **changes.get(name, {})) for name in names
    )


class Lab:
    """What `measure_arms` needs of one; measuring is made up: an arm of ``dying`` fails from the part ``dies_in`` on."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, dying: str = "", dies_in: int = 1) -> None:
        self.run = SimpleNamespace(path=folder)
        self.progress = FakeProgress()
        self.groups: list[tuple[str, ...]] = []
        """What was started."""
        self.asked: list[tuple[str, ...]] = []
        """The same with the arms that are dead."""
        self.plans: list[dict[str, int]] = []
        self._dying = dying
        self._dies_in = dies_in
        monkeypatch.setattr(study, "measure", self._measure)
        monkeypatch.setattr(study, "templates", lambda *_given: {})
        monkeypatch.setattr(study, "read_samples", lambda _file: ())

    def _measure(
        self,
        _lab: Any,
        arms: tuple[Variant, ...],
        _data: Any,
        part: Any,
        *,
        name: str,
        bench_of: Callable[..., Any],
        without: list[str],
        **_named: Any,
    ) -> Any:
        self.asked.append(tuple(arm.name for arm in arms))
        names = tuple(arm.name for arm in arms if arm.name not in without)
        self.groups.append(names)
        self.plans.append(part.plan.changed)
        for arm in names if int(name.split()[1]) >= self._dies_in else ():
            if arm in self._dying:
                bench_of.keywords["fallen"].add(arm)  # type: ignore[attr-defined]
                raise ServerFailed(f"arm '{arm}': it crashed\nits log", "")
        return SimpleNamespace(flags=())

    def measured(self, *trainings: tuple[Variant, ...], at_once: int = 8, trials: int = 6) -> study.Measured:
        plan: Any = SimpleNamespace(model_copy=lambda update: SimpleNamespace(changed=update))
        part = {"train_on": (), "hold_out": ()}
        measuring: Any = SimpleNamespace(plan=plan, model_copy=lambda update: SimpleNamespace(**part, **update))
        made = tuple(Made(training=number // 2, layout=number % 2, arms=arms) for number, arms in enumerate(trainings))
        groups = deal([(arm.name, (number,)) for number, arm in enumerate(trainings[0])], at_once)
        return measure_arms(self, made, DATA, measuring, trials=trials, groups=groups)  # type: ignore[arg-type]


def test_groups_share_the_first_arm_and_trainings_and_layouts_share_the_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path, monkeypatch)
    found = lab.measured(*[variants("abcd")] * 3, at_once=3)
    assert lab.groups == [("a", "b", "d"), ("a", "c")] * 3
    assert [plan["trials"] for plan in lab.plans] == [2] * 6
    assert [(part.training, part.layout) for part in found.parts] == [(0, 0), (0, 0), (0, 1), (0, 1), (1, 0), (1, 0)]


def test_an_arm_that_dies_is_left_out_reported_and_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(tmp_path, monkeypatch, dying="b")
    found = lab.measured(variants("abc"), variants("abc"))
    assert lab.groups == [("a", "b", "c"), ("a", "c"), ("a", "c")]
    assert found.died == {"b": "arm 'b': it crashed\nits log"}
    assert any("'b' is left out" in note for note in lab.progress.notes)
    again = Lab(tmp_path, monkeypatch, dying="b")
    assert again.measured(variants("abc")).died == found.died
    assert again.groups == [("a", "c")]
    assert json.loads((tmp_path / "died.json").read_text()) == {"b": {"part": 1, "message": found.died["b"]}}


def test_an_arm_keeps_its_place_in_the_parts_that_it_lived_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A finished part is found by its arms: with others it would be measured again."""
    lab = Lab(tmp_path, monkeypatch, dying="b", dies_in=2)
    found = lab.measured(*[variants("abc")] * 3)
    assert lab.groups == [("a", "b", "c"), ("a", "b", "c"), ("a", "c"), ("a", "c")]
    assert set(lab.asked) == {("a", "b", "c")}, "the trials that were finished before it died count for the others"
    again = Lab(tmp_path, monkeypatch, dying="b", dies_in=2)
    assert again.measured(*[variants("abc")] * 3) == found
    assert again.groups == [("a", "b", "c"), ("a", "c"), ("a", "c")] and set(again.asked) == {("a", "b", "c")}


def test_what_a_dead_arm_left_in_its_last_part_is_in_no_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(tmp_path, monkeypatch, dying="b", dies_in=2)
    left = tuple(one_slice(arm, LOADS[0], 0, 0, 20.0) for arm in "abc")
    monkeypatch.setattr(study, "read_samples", lambda _file: left)
    first, second = lab.measured(*[variants("abc")] * 2).parts
    assert first.slices == left and [each.arm for each in second.slices] == ["a", "c"]
    died = read_died(tmp_path)
    again = [slices_of(tmp_path / "any.parquet", died, part) for part in (1, 2)]
    assert again == [first.slices, second.slices], "a report that is made again has the same samples"


def test_samples_that_another_plan_has_put_aside_are_no_part(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    for name in ("confirm.parquet", "measure-1.parquet", "measure-1.old-1.parquet", "measure-1.partial.jsonl"):
        (tmp_path / "parts" / name).touch()
    assert [file.name for file in parts_of(tmp_path)] == ["confirm.parquet", "measure-1.parquet"]


def test_a_study_without_its_first_arm_ends_with_that_arms_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(tmp_path, monkeypatch, dying="a")
    with pytest.raises(ServerFailed, match="arm 'a'"):
        lab.measured(variants("abc"))


def test_a_group_of_which_only_the_first_lives_is_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(tmp_path, monkeypatch, dying="bc")
    found = lab.measured(variants("abc"))
    assert found.parts == () and set(found.died) == {"b", "c"}


def test_servers_are_the_same_when_executable_and_surroundings_are() -> None:
    found = variants("abcd", c={"settings": {"x": "1"}}, d={"settings": {"x": "1"}})
    hashes = {"a": "1", "b": "1", "c": "1", "d": "2"}
    assert same_servers(found, hashes) == {"a": "a", "b": "a", "c": "c", "d": "d"}


def test_a_server_of_which_only_a_plugin_differs_is_another(tmp_path: Path) -> None:
    binary = tmp_path / "mysqld"
    binary.write_bytes(b"server")
    for name, text in (("stock", "pool"), ("patched", "other pool"), ("alike", "pool")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "thread_pool.so").write_text(text)
        (folder / "of_stock.so").symlink_to(tmp_path / "of_stock.so")
    found = {
        name: files_of(Program(kind="mysql", binary=binary, options=(f"--plugin-dir={tmp_path / name}",)))
        for name in ("stock", "patched", "alike")
    }
    assert found["stock"] == found["alike"] != found["patched"]


class Ready(FakeKind):
    def ready(self, socket: Path) -> bool:
        return socket.name != "hangs"


def bench(
    monkeypatch: pytest.MonkeyPatch, fallen: set[str], *, ended: int | None, load: int | None, socket: str
) -> WatchedBench:
    process = FakeProcess(pid=7, code=ended)

    @contextlib.contextmanager
    def arm(_self: Any, given: Variant, _trial: int) -> Iterator[RunningServer]:
        if given.name == "unstartable":
            raise ServerFailed("the server did not start")
        yield RunningServer(Ready(), given.program, process, Path("/run") / socket, Path("/log"))

    monkeypatch.setattr(ServerBench, "arm", arm)
    monkeypatch.setattr(ServerBench, "begin", lambda *_given: SimpleNamespace(process=FakeProcess(code=load)))
    nothing: Any = None
    return WatchedBench(FakeShell(), lambda _program: Ready(), nothing, {}, {}, Path("/folder"), Path("/log"), fallen=fallen)


@pytest.mark.parametrize(
    ("ended", "load", "socket", "blamed"),
    [(1, 0, "s", True), (None, 0, "hangs", True), (None, 2, "s", True), (None, 0, "s", False), (None, None, "s", False)],
)
def test_a_failure_is_that_of_the_server_that_died_hangs_or_whose_load_failed(
    monkeypatch: pytest.MonkeyPatch, ended: int | None, load: int | None, socket: str, blamed: bool
) -> None:
    fallen: set[str] = set()
    servers = bench(monkeypatch, fallen, ended=ended, load=load, socket=socket)
    (arm,) = variants("b")
    nothing: Any = None
    with pytest.raises(LoadFailed), servers.arm(arm, 0) as server:
        servers.begin(server, nothing, 1, 1)
        raise LoadFailed("something failed")
    assert (fallen == {"b"}) is blamed


def test_a_server_without_its_tier_after_a_load_is_the_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its slices are not kept: else the trial would count when the study goes on."""

    def refuse(_shell: Any, _server: Any) -> None:
        raise ServerFailed("the server runs without the tier that its variant asks for")

    monkeypatch.setattr("upshift.measure.server_bench.refuse_without_tier", refuse)
    fallen: set[str] = set()
    servers = bench(monkeypatch, fallen, ended=None, load=0, socket="s")
    for arm in (variants("t")[0].model_copy(update={"tier": Tier(size="1G")}), *variants("b")):
        with servers.arm(arm, 0) as server:
            monkeypatch.setattr(servers, "variant_of", lambda _running, arm=arm: arm)
            if arm.tier:
                with pytest.raises(ServerFailed):
                    servers.check(server)
            else:
                servers.check(server)
    assert fallen == {"t"}


def test_a_server_that_does_not_start_is_the_one(monkeypatch: pytest.MonkeyPatch) -> None:
    fallen: set[str] = set()
    servers = bench(monkeypatch, fallen, ended=None, load=0, socket="s")
    arm = variants("u")[0].model_copy(update={"name": "unstartable"})
    with pytest.raises(ServerFailed), servers.arm(arm, 0):
        pass
    assert fallen == {"unstartable"}
