"""A stage's key says all that its result depends on: the contents of what it reads, not their paths, and never the day."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeKind, FakeShell, Output, toolchain
from keys_of import Recorder, lab_with, workload

from upshift.build import bolt
from upshift.build.model import Build
from upshift.build.recipe import Recipe
from upshift.errors import UsageError
from upshift.measure.model import Plan
from upshift.measure.variant import Variant
from upshift.options import Options
from upshift.patches.model import Patch
from upshift.profile.model import Gated, HotFunction, HotSet, Profile, Provenance
from upshift.server.kind import Program
from upshift.shell import Command
from upshift.source.model import Source
from upshift.stages import builds, data, hot_set, layout, measure, patching, post_link, training, verify
from upshift.stages.builds import Instrumented
from upshift.stages.data import Filled
from upshift.stages.keys import workloads_key
from upshift.stages.patching import PatchedBuild
from upshift.stages.post_link import PostLinked
from upshift.stages.work import Measuring, Trained
from upshift.toolchain.model import Toolchain
from upshift.values import content_hash
from upshift.workload.model import Workload


@pytest.fixture
def server(tmp_path: Path) -> Program:
    binary = tmp_path / "server"
    binary.write_text("server 1")
    return Program(kind="fake", binary=binary)


@pytest.fixture
def driver(tmp_path: Path) -> Path:
    file = tmp_path / "driver"
    file.write_text("load 1")
    return file


def filling_key(server: Program, load: Workload) -> str:
    stages = Recorder()
    data.fill_data(lab_with(stages), server, (load,))
    return stages.keys[0][1]


def test_data_follow_the_server_s_contents_the_driver_s_the_fill_and_the_settings(server: Program, driver: Path) -> None:
    """A server that was upgraded in place must not start on the data of the version before."""
    changes: list[Callable[[], object]] = [
        lambda: server.binary.write_text("server 2"),
        lambda: driver.write_text("load 2"),
    ]
    keys = [filling_key(server, workload(driver))]
    for change in changes:
        change()
        keys.append(filling_key(server, workload(driver)))
    keys.append(filling_key(server, workload(driver, settings={"innodb_page_size": "8K"})))
    keys.append(filling_key(server, workload(driver, fill={"command": (str(driver), "fill more")})))
    assert len(set(keys)) == len(keys)
    assert filling_key(server, workload(driver, description="said otherwise")) == keys[2]


def test_data_follow_what_the_files_of_a_fill_hold_not_where_they_lie(server: Program, driver: Path, tmp_path: Path) -> None:
    """A proof's replay lies in another temporary folder each time, and a dump may be copied."""

    def key(dump: Path, load: Path) -> str:
        named = str(dump).replace("{", "{{").replace("}", "}}")
        fill = (str(driver), "{tools}/mysql", f"--from={named}", named)
        return filling_key(server, workload(driver, fill={"command": fill}, load={"command": (str(driver), str(load))}))

    files = [tmp_path / name for name in ("a.sql", "copy {of} a.sql", "b.sql", "one.trace", "two.trace")]
    for file, text in zip(files, ("1", "1", "2", "3", "4"), strict=True):
        file.write_text(text)
    dump, copied, other, one, two = files
    assert key(dump, one) == key(copied, one) == key(dump, two)
    assert key(other, one) != key(dump, one)
    # A file that is not there is a word.
    assert key(tmp_path / "absent", one) != key(tmp_path / "gone", one)


PLAIN = Build(
    recipe=Recipe(),
    toolchain=toolchain(),
    source_sha256="0",
    tree=Path("/tree"),
    server=Path("/tree/server"),
    sha256="0",
    objects=1,
)
SOURCE = Source(kind="fake", version="1", origin="", sha256="0", verified="", path=Path("/source"))
RECIPE = Recipe()
HOT_SET = HotSet(method="perf", objects=(), coverage=1, all_objects=1, samples=1000, functions=())
DONE = PostLinked(build=PLAIN, applied="bolt 22", reason="")


def trained_keys(load: Workload, filled: str = "0", kind: FakeKind | None = None, plain: Build = PLAIN) -> list[str]:
    stages = Recorder(DONE)
    lab = lab_with(stages, kind=kind)
    on = Filled(path=Path("/data"), sha256=filled)
    hot_set.find_hot_set(lab, SOURCE, plain, (load,), on, seconds=1, use_perf=True)
    instrumented = Instrumented.model_construct(build=plain)
    training.train_profile(lab, SOURCE, Recipe(), instrumented, (load,), on, seconds=1)
    post_link.post_link(lab, SOURCE, plain, None, (load,), on, Recipe(), seconds=1)
    assert [name for name, _key in stages.keys] == ["hot set", "train", "post-link"]
    return [key for _name, key in stages.keys]


def test_what_is_trained_follows_the_data_the_drivers_and_how_the_server_is_started(driver: Path) -> None:
    """Data that were deleted and filled again are others."""

    class Configured(FakeKind):
        def settings(self) -> Mapping[str, str]:
            return {"pool": "2G"}

    made = [
        trained_keys(workload(driver)),
        trained_keys(workload(driver), filled="1"),
        trained_keys(workload(driver), kind=Configured()),
        # Built again in the same folder, with other libraries.
        trained_keys(workload(driver), plain=PLAIN.model_copy(update={"sha256": "1"})),
    ]
    driver.write_text("load 2")
    made.append(trained_keys(workload(driver)))
    for keys in zip(*made, strict=True):
        assert len(set(keys)) == len(keys)


def post_linked_key(hot_set: HotSet, profile: str) -> str:
    gated = Gated.model_construct(profile=Profile.model_construct(kind="ir", sha256=profile))
    trained = Trained.model_construct(hot_set=hot_set, gated=gated)
    stages = Recorder(DONE)
    filled = Filled(path=Path("/data"), sha256="0")
    post_link.post_link(lab_with(stages), SOURCE, PLAIN, trained, (), filled, Recipe(post_link="bolt"), seconds=1)
    return stages.keys[0][1]


def test_bolt_follows_what_was_executed_and_its_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [post_linked_key(HOT_SET, "0"), post_linked_key(HOT_SET, "1")]
    keys.append(post_linked_key(HOT_SET.model_copy(update={"functions": (HotFunction(symbol="f", share=1),)}), "0"))
    monkeypatch.setattr(bolt, "OPTIMISE_FLAGS", ("-icf=1",))
    keys.append(post_linked_key(HOT_SET, "0"))
    assert len(set(keys)) == len(keys)


def test_recipes_of_other_names_share_bolt_s_server_and_a_layout() -> None:
    """Rows of a study that differ in settings alone: BOLT trained anew for each would be a difference of its own."""
    stages = Recorder(DONE)
    filled = Filled(path=Path("/data"), sha256="0")
    rows = [PLAIN.model_copy(update={"recipe": Recipe(name=name, post_link="bolt")}) for name in ("off", "pool")]
    made = [post_link.post_link(lab_with(stages), SOURCE, row, None, (), filled, row.recipe, seconds=1) for row in rows]
    assert len({key for _name, key in stages.keys}) == 1
    assert [each.build.recipe.name for each in made] == ["off", "pool"]
    stages = Recorder(PLAIN)
    laid = [layout.lay_out(lab_with(stages), row, 2) for row in rows]
    assert len({key for _name, key in stages.keys}) == 1
    assert [each.recipe.name for each in laid] == ["off", "pool"]


def test_a_workload_s_files_are_known_wherever_they_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = [tmp_path / name for name in ("drive.py", "rows.lua", "dump.sql")]
    # No file, and too long for a file's name.
    fill = ("sh", "-c", "x" * 5000)
    load = Workload.model_validate(
        {
            "name": "w",
            "fill": {"command": fill},
            "load": {"command": ("python3", "drive.py", f"--rows={files[1]}", str(files[2]))},
        }
    )
    keys = [content_hash(workloads_key((load,)))]
    for file in files:
        file.write_text("1")
        keys.append(content_hash(workloads_key((load,))))
        file.write_text("2")
        keys.append(content_hash(workloads_key((load,))))
    assert len(set(keys)) == len(keys)


def built_keys(
    kind: FakeKind, profile: str = "0", relocations: bool = True, recipe: Recipe = RECIPE, **tools: str
) -> list[str]:
    stages = Recorder(PLAIN)
    lab = lab_with(stages, kind=kind)
    gcc, clang = (Toolchain.model_validate({**toolchain(family).model_dump(), **tools}) for family in ("gcc", "clang"))
    builds.build_plain(lab, SOURCE, recipe, gcc, relocations=relocations)
    builds.build_instrumented(lab, SOURCE, recipe, clang, PLAIN, HOT_SET)
    provenance = Provenance.model_construct(source_sha256=PLAIN.source_sha256)
    trained = Profile.model_construct(kind="ir", path=Path("/profile"), sha256=profile, provenance=provenance)
    gated = Gated.model_construct(profile=trained)
    builds.build_optimised(lab, SOURCE, recipe, clang, PLAIN, HOT_SET, gated, None)
    return [key for _name, key in stages.keys]


def test_builds_follow_their_commands() -> None:
    class Otherwise(FakeKind):
        def configure(self, *given: Any, **named: Any) -> Command:
            command = super().configure(*given, **named)
            return Command((*command.argv, "-DWITH_MORE=1"))

    plain, instrumented, optimised = built_keys(FakeKind())
    assert built_keys(Otherwise())[0] != plain
    assert built_keys(FakeKind(), relocations=False)[0] != plain
    assert not {plain, instrumented, optimised} & set(built_keys(FakeKind(headers={"sql": ("a.h",)})))
    same_plain, same_instrumented, other = built_keys(FakeKind(), profile="1")
    assert (same_plain, same_instrumented) == (plain, instrumented) and other != optimised


@pytest.mark.parametrize(
    ("recipe", "same"),
    [
        (Recipe(flags=("-march=native",)), False),
        (Recipe(link_flags=("-Wl,-mllvm,-mcpu=native",)), False),
        (Recipe(options={"CMAKE_CXX_FLAGS_RELEASE": "-mtune=native -O2"}), False),
        (Recipe(flags=("-march=x86-64-v3",)), True),
    ],
)
def test_builds_for_the_machine_s_own_processor_follow_it(recipe: Recipe, same: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    patched, built = SOURCE.model_copy(update={"patches": ("a",)}), PLAIN.model_copy(update={"recipe": recipe})
    made = []
    # Hosts of one name may differ in their instructions.
    for flags in ("avx2", "avx2 avx512f"):
        monkeypatch.setattr("upshift.stages.keys.cpu_identity", lambda flags=flags: ("Xeon", flags))
        stages = Recorder(PatchedBuild(build=PLAIN))
        patching.build_patched(lab_with(stages), SOURCE, patched, built, relocations=True)
        made.append([*built_keys(FakeKind(), recipe=recipe), stages.keys[0][1]])
    assert [one == other for one, other in zip(*made, strict=True)] == [same] * 4


def test_builds_follow_the_contents_of_compilers_and_development_files() -> None:
    """Their versions and paths stay when a distribution or a user packs them again."""
    made = [built_keys(FakeKind()), built_keys(FakeKind(), sha256="1"), built_keys(FakeKind(), development_sha256="1")]
    for keys in zip(*made, strict=True):
        assert len(set(keys)) == len(keys)


def test_builds_do_not_follow_what_vouches_for_a_source() -> None:
    """The signature of a tarball no longer holds when its key has expired, and the same command built all again."""
    patched = SOURCE.model_copy(update={"sha256": "1", "patches": ("a",)})
    patch = Patch(name="a", file="1.patch", what="", versions=">=1", text="x")
    made = []
    for origin, verified in (("tarball: a.tar", "signature by ABC"), ("tarball: b.tar", "none (no checksum beside it)")):
        told = {"origin": origin, "verified": verified}
        of_patching, building, touching = Recorder(patched), Recorder(PLAIN), Recorder(PatchedBuild(build=PLAIN))
        source = SOURCE.model_copy(update=told)
        found = patching.patch_source(lab_with(of_patching), source, (patch,))
        assert (found.origin, found.verified) == (f"{origin}, with patches a", verified), "what is told is of today"
        builds.build_plain(lab_with(building), source, RECIPE, toolchain(), relocations=True)
        patching.build_patched(lab_with(touching), source, found, PLAIN, relocations=True)
        made.append([*of_patching.keys, *building.keys, *touching.keys])
    assert len(made[0]) == 3 and made[0] == made[1]


@pytest.mark.parametrize(("code", "kept"), [(0, True), (127, False), (-9, True), (-15, True), (-4, False)])
def test_a_plain_build_goes_where_its_server_does_not_start(code: int, kept: bool) -> None:
    """127: a library is missing. One that was killed, for want of memory or of time, may start the next time."""
    asked = []

    class Stages:
        def run(self, *_given: Any, works: Callable[[Build], bool], **_named: Any) -> Build:
            asked.append(works(PLAIN))
            return PLAIN

    shell = FakeShell({"--version": Output(returncode=code)})
    builds.build_plain(lab_with(Stages(), shell), SOURCE, RECIPE, toolchain(), relocations=True)
    assert asked == [kept]


def test_how_many_compilers_run_side_by_side_makes_no_other_build() -> None:
    recipe = Recipe(lto="thin")
    keys = []
    for jobs in (2, 8):
        stages = Recorder(PLAIN)
        builds.build_plain(lab_with(stages, jobs=jobs), SOURCE, recipe, toolchain(), relocations=True)
        keys += stages.keys
    assert keys[0] == keys[1]


def test_verifying_follows_what_a_suite_runs() -> None:
    keys = []
    for tests in (("a.b",), ("a.b", "a.c")):
        stages = Recorder()
        verify.verify(lab_with(stages, kind=FakeKind(suites={"short": tests})), SOURCE, PLAIN, PLAIN, DONE, "short", None)
        keys.append(stages.keys[0])
    assert keys[0] != keys[1]


def measured(arms: tuple[Variant, ...], load: Workload, filled: str = "0") -> Recorder:
    stages = Recorder()
    plan = Plan.model_construct(trials=1)
    measuring = Measuring.model_construct(options=Options(), train_on=(load,), hold_out=(), plan=plan)
    data = Filled(path=Path("/data"), sha256=filled)
    measure.measure(lab_with(stages), arms, {arm.name: data for arm in arms}, measuring)
    return stages


def measuring_key(server: Program, load: Workload, filled: str = "0") -> str:
    return measured((Variant(name="a", program=server), Variant(name="b", program=server)), load, filled).keys[-1][1]


def test_a_measurement_records_all_settings_that_its_servers_have(server: Program, driver: Path) -> None:
    arms = (Variant(name="a", program=server), Variant(name="b", program=server, settings={"log": "off"}))
    recorded = measured(arms, workload(driver, settings={"pages": "4K"})).inputs[-1]["arms"]
    kinds = {"pool": "1G", "log": "on", "pages": "4K"}
    assert [arm.settings for arm in recorded] == [kinds, {**kinds, "log": "off"}]


def test_a_measurement_follows_the_contents_of_servers_workloads_and_data(server: Program, driver: Path) -> None:
    keys = [measuring_key(server, workload(driver))]
    keys.append(measuring_key(server, workload(driver), filled="1"))
    keys.append(measuring_key(server, workload(driver, load={"command": (str(driver), "otherwise")})))
    server.binary.write_text("server 2")
    keys.append(measuring_key(server, workload(driver)))
    driver.write_text("load 2")
    keys.append(measuring_key(server, workload(driver)))
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(("other", "own_data"), [("Ver 9.7.4", False), ("Ver 8.4.2", True)])
def test_a_server_of_another_version_has_data_of_its_own(server: Program, driver: Path, other: str, own_data: bool) -> None:
    second = server.model_copy(update={"binary": server.binary.with_name("other")})
    second.binary.write_text("")
    said = {
        f"{server.binary} --version": Output(f"{server.binary}  Ver 9.7.4"),
        f"{second.binary} --version": Output(f"{second.binary}  {other}"),
    }
    stages = Recorder(Filled(path=Path("/own"), sha256="own"))
    shared = Filled(path=Path("/shared"), sha256="shared")
    lab = lab_with(stages, FakeShell(said))
    arms = (Variant(name="today", program=server), Variant(name="other", program=second))
    found = measure.templates(lab, arms, shared, (workload(driver),))
    assert (found["today"], found["other"] != shared) == (shared, own_data)


@pytest.mark.parametrize(("settings", "own_data"), [({"pool": "2"}, False), ({"page_size": "4k"}, True)])
def test_a_setting_that_lasts_asks_for_data_of_its_own(
    server: Program, driver: Path, settings: dict[str, str], own_data: bool
) -> None:
    stages = Recorder(Filled(path=Path("/own"), sha256="own"))
    shared = Filled(path=Path("/shared"), sha256="shared")
    arms = (Variant(name="today", program=server), Variant(name="other", program=server, settings=settings))
    found = measure.templates(lab_with(stages), arms, shared, (workload(driver),))
    assert (found["today"], found["other"] != shared) == (shared, own_data)
    assert [name for name, _key in stages.keys] == (["baseline data"] if own_data else [])


def changed(server: Program, driver: Path, *sqls: tuple[Path, ...], first: str = "0") -> tuple[Recorder, dict[str, Filled]]:
    """The data of arms with these files of SQL, and the stages that made them."""
    stages = Recorder(Filled(path=Path("/changed"), sha256="changed"))
    arms = tuple(Variant(name=f"{number}", program=server, sql=sql) for number, sql in enumerate(sqls))
    shared = Filled(path=Path("/shared"), sha256=first)
    return stages, measure.templates(lab_with(stages), arms, shared, (workload(driver),))


def test_an_arm_with_sql_has_changed_data_of_its_own(server: Program, driver: Path, tmp_path: Path) -> None:
    file = tmp_path / "fix.sql"
    file.write_text("CREATE INDEX")
    stages, found = changed(server, driver, (), (file,), (file,))
    assert [found[name].sha256 for name in "012"] == ["0", "changed", "changed"]
    # Arms with the same SQL share what it makes: one key.
    assert [name for name, _key in stages.keys] == ["changed data"] * 2 and len(set(stages.keys)) == 1


def test_changed_data_follow_the_contents_of_the_sql_its_order_and_the_data(
    server: Program, driver: Path, tmp_path: Path
) -> None:
    file, other = tmp_path / "fix.sql", tmp_path / "other.sql"
    file.write_text("CREATE INDEX a")
    other.write_text("ANALYZE TABLE b")

    def key(*sql: Path, first: str = "0") -> str:
        return changed(server, driver, sql, first=first)[0].keys[0][1]

    keys = [key(file), key(file, other), key(other, file), key(file, first="1")]
    file.write_text("CREATE INDEX b")
    keys.append(key(file))
    file.rename(elsewhere := tmp_path / "elsewhere.sql")
    assert len(set(keys)) == len(keys) and key(elsewhere) == keys[-1]
    elsewhere.write_bytes(b"\xff")
    with pytest.raises(UsageError, match=r"elsewhere\.sql cannot be read"):
        key(elsewhere)
