"""What is refused before any work, and what the plan is."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from fakes import DiskUsage, FakeShell, Output, toolchain
from plenty import PLENTY, plenty

from upshift import plan
from upshift.build.recipe import find_recipe
from upshift.errors import MissingTool, NotEnoughRoom, RecipeError, SourceError, UpshiftError, UsageError, WorkloadError
from upshift.measure.variant import Surroundings, Variant
from upshift.options import Options
from upshift.paths import CHECKOUT, shipped
from upshift.plan import prepare, prepare_measuring, refuse_pointless
from upshift.server.kind import Program
from upshift.stages.work import Work


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plenty(tmp_path, monkeypatch)


def prepared(**options: object) -> Work:
    return prepare(Options.model_validate(options), allow_install=False, say=lambda _text: None)


def workload(folder: Path, name: str, more: str = "") -> str:
    file = folder / f"{name}.toml"
    file.write_text(f'{more}\nfill = {{ command = ["filler"] }}\nload = {{ command = ["{{tools}}/loader"] }}\n')
    return str(file)


def test_the_default() -> None:
    work = prepared()
    assert (work.recipe.name, work.plain.name, work.toolchain.family) == ("max-clang", "plain", "clang")
    assert [each.name for each in work.train_on] == ["oltp_read_write", "oltp_read_only", "oltp_point_select"]
    assert [each.name for each in work.hold_out] == ["oltp_write_only", "select_random_ranges"]
    assert work.perf


@pytest.mark.parametrize(("family", "recipe"), [("clang", "max-clang"), ("gcc", "gcc-pgo-lto"), ("icx", "max-clang")])
def test_each_toolchain_has_its_recipe_and_a_plain_build_of_its_own(family: str, recipe: str) -> None:
    work = prepared(toolchain=family)
    assert (work.recipe.name, work.recipe.toolchain, work.plain.toolchain) == (recipe, family, family)


def test_the_plain_build_shares_all_but_the_optimisation(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        'build_type = "RelWithDebInfo"\nversion = 19\nprofile = "ir"\nlto = "thin"\nflags = ["-O3"]\n'
        'options = { WITH_X = "1" }\n'
    )
    plain = prepared(recipe=str(file)).plain
    assert (plain.build_type, plain.version, dict(plain.options)) == ("RelWithDebInfo", 19, {"WITH_X": "1"})
    assert (plain.profile, plain.lto, plain.flags) == ("none", "none", ())


def test_the_scope_asked_for_wins() -> None:
    assert prepared(scope="all").recipe.scope == "all"


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"recipe": "no-such"}, RecipeError, "there is no recipe 'no-such'"),
        ({"workloads": ("no-such",)}, WorkloadError, "there is no workload 'no-such'"),
        ({"held_out": ("no-such",)}, WorkloadError, "there is no workload 'no-such'"),
        ({"workloads": ("oltp_delete", "oltp_delete")}, UsageError, "'oltp_delete' is named twice"),
        ({"workloads": ("oltp_write_only",)}, UsageError, "'oltp_write_only' is named twice"),
        ({"baseline": "/etc/passwd"}, UsageError, "--baseline /etc/passwd is not an executable"),
        ({"baseline": "/no/mysqld"}, UsageError, "is not an executable"),
        ({"baseline": "/usr/bin"}, UsageError, "is not an executable"),
        ({"baseline": "/bin/false"}, UsageError, "--baseline: /usr/bin/false does not start"),
        ({"recipe": "gcc-pgo-lto", "toolchain": "clang"}, RecipeError, "is for gcc, not for clang"),
        ({"recipe": "max-clang", "toolchain": "gcc"}, RecipeError, "is for clang, not for gcc"),
        ({"until": 0.01, "trials": 1}, UsageError, "--until needs at least two trials"),
        ({"verify": "mian"}, UsageError, "--verify mian: mysql has no tests 'mian'"),
        ({"verify": "main.1st,innodb"}, UsageError, "has no tests 'innodb'"),
        (
            {"connections": (8, 1101)},
            UsageError,
            "1101 client connections are asked for, and the server's limit is 1100",
        ),
    ],
)
def test_what_is_refused_before_the_work(options: dict[str, object], error: type[UsageError], said: str) -> None:
    with pytest.raises(error, match=re.escape(said)) as caught:
        prepared(**options)
    assert caught.value.hint and caught.value.exit_code == 2


def test_a_workload_whose_buffer_pool_is_beyond_the_machine_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "huge.toml"
    shipped_text = (shipped("workloads") / "oltp_point_select.toml").read_text()
    file.write_text(f'{shipped_text}\n[settings]\ninnodb_buffer_pool_size = "900T"\n')
    with pytest.raises(NotEnoughRoom, match="workload 'huge': a buffer pool of 921600"):
        prepared(workloads=(str(file),))


@pytest.mark.parametrize("verify", ["short", "main", "main.1st", "main.1st,innodb.innodb-index"])
def test_tests_that_there_may_be(verify: str) -> None:
    assert prepared(verify=verify).options.verify == verify


@pytest.mark.parametrize(
    ("source", "said"), [("/no/mysql", "there is no source at /no/mysql"), ("/usr", "is not a mysql source")]
)
def test_a_source_that_is_none_is_refused_before_anything_is_installed(
    source: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "_install", lambda *_given: pytest.fail("installed"))
    with pytest.raises(SourceError, match=said):
        prepared(source=source)


def test_a_cache_in_the_source_is_refused_before_anything_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each build would change the source that it is made of, which is seen when the build is done."""
    monkeypatch.setattr(plan, "_install", lambda *_given: pytest.fail("installed"))
    monkeypatch.setattr(plan, "refuse_source", lambda *_given: None)
    tree = tmp_path / "tree"
    tree.mkdir()
    (tmp_path / "mysql").symlink_to(tree)
    monkeypatch.setenv("UPSHIFT_CACHE", str(tree / "cache"))
    for source in (tree, tmp_path / "mysql", tree / "cache"):
        with pytest.raises(SourceError, match="lies in the source") as caught:
            prepared(source=str(source))
        assert "UPSHIFT_CACHE" in caught.value.hint


def test_files_are_named_by_their_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is resumed from another folder finds them."""
    monkeypatch.chdir(tmp_path)
    options = Options.model_validate(
        {"source": "mysql.tar", "recipe": "r.toml", "workloads": ("oltp_insert", "w.toml"), "baseline": "mysqld"}
    )
    assert (options.source, options.recipe) == (str(tmp_path / "mysql.tar"), str(tmp_path / "r.toml"))
    assert options.workloads == ("oltp_insert", str(tmp_path / "w.toml"))
    assert options.baseline == tmp_path / "mysqld"
    assert (Options(recipe="plain").recipe, Options(source="apt").source) == ("plain", "apt")


@pytest.mark.parametrize("named", [{"source": "~nobody-of-this-name/mysql"}, {"workloads": ("~nobody-of-this-name/w.toml",)}])
def test_the_home_of_an_unknown_user_is_no_path(named: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=r"~nobody-of-this-name/.* names a path that is none"):
        Options.model_validate(named)


def test_a_workload_of_another_server(tmp_path: Path) -> None:
    file = tmp_path / "pg.toml"
    file.write_text('server = "postgresql"\nfill = { command = ["f"] }\nload = { command = ["l"] }\n')
    with pytest.raises(WorkloadError, match="workload 'pg' is for postgresql, the server is mysql"):
        prepared(workloads=(str(file),))


def test_a_workload_s_settings_lead_to_no_other_data(tmp_path: Path) -> None:
    """A my.cnf names the data of the server in use: started there, a newer version would upgrade them."""
    mine = workload(tmp_path, "mine", 'settings = { datadir = "/var/lib/mysql", tmpdir = "/tmp", pid-file = "/p" }')
    with pytest.raises(
        UsageError, match="workload 'mine' sets datadir, pid_file, tmpdir: Upshift starts mysql on its own data folder"
    ):
        prepared(workloads=(mine,))


def test_a_measured_server_s_settings_lead_to_no_other_data(tmp_path: Path) -> None:
    """Such as those of `stack prove --setting`, which no file of a variant has."""
    for settings, said in (
        ({"datadir": "/var/lib/mysql"}, "server 'after' sets datadir"),
        (
            {"log_bin": "/var/log/mysql/b"},
            "server 'after' lets mysql write outside of its data folder: log_bin=/var/log/mysql/b",
        ),
    ):
        variant = Variant(name="after", program=Program(kind="mysql", binary=tmp_path / "mysqld"), settings=settings)
        with pytest.raises(UsageError, match=said):
            prepare_measuring(Options(), (variant,), allow_install=False, say=print)


def test_workloads_that_ask_for_two_values_of_a_setting(tmp_path: Path) -> None:
    """Servers take a name with dashes and one with underscores for the same."""
    a = workload(tmp_path, "a", 'settings = { innodb-page-size = "4K" }')
    b = workload(tmp_path, "b", 'settings = { innodb_page_size = "8K" }')
    with pytest.raises(WorkloadError, match="'a' asks for innodb_page_size=4K, workload 'b' for innodb_page_size=8K"):
        prepared(workloads=(a,), held_out=(b,))
    with pytest.raises(WorkloadError, match="innodb_page_size is named twice"):
        prepared(workloads=(workload(tmp_path, "c", 'settings = { innodb-page-size = "4K", innodb_page_size = "8K" }'),))
    alone = prepared(workloads=(a,), held_out=("oltp_delete",))
    assert alone.train_on[0].settings == alone.hold_out[0].settings == {"innodb_page_size": "4K"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"recipe": "plain"}, "has no profile, so there is nothing to train"),
        ({"recipe": "stock-gcc"}, "has no profile"),
        ({"recipe": "gcc-pgo-lto", "level": "quick"}, "has post_link = "),
    ],
)
def test_a_recipe_that_gives_the_level_nothing_to_do(options: dict[str, object], said: str) -> None:
    with pytest.raises(RecipeError, match=said):
        refuse_pointless(Options.model_validate(options))


def test_what_quick_would_not_do_is_refused(tmp_path: Path) -> None:
    """BOLT runs on the plain build there: nothing is compiled for the recipe."""
    mine = tmp_path / "mine.toml"
    bolt = 'post_link = "bolt"\nprofile = "none"\nflags = '
    mine.write_text(f'{bolt}["-march=x86-64-v3"]')
    with pytest.raises(RecipeError, match="has no -march=x86-64-v3 of recipe 'mine'"):
        refuse_pointless(Options(level="quick", recipe=str(mine)))
    mine.write_text(f'{bolt}["-fno-reorder-blocks-and-partition"]\ntoolchain = "gcc"')  # which BOLT asks for, and plain has
    refuse_pointless(Options(level="quick", recipe=str(mine)))
    with pytest.raises(UsageError, match="--scope says what is compiled again"):
        refuse_pointless(Options(level="quick", scope="hot"))


@pytest.mark.parametrize("options", [{}, {"level": "quick"}, {"toolchain": "gcc"}])
def test_recipes_that_make_sense(options: dict[str, object]) -> None:
    refuse_pointless(Options.model_validate(options))


def test_a_small_disk_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: DiskUsage(5_000_000_000))
    with pytest.raises(NotEnoughRoom, match=r"about 14 GB of disk, 5\.0 GB are free at") as caught:
        prepared()
    assert "UPSHIFT_CACHE" in caught.value.hint
    monkeypatch.setenv("UPSHIFT_NEEDED_DISK_BYTES", "4000000000")
    assert prepared()


def test_little_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1_200_000_000, total=PLENTY))
    with pytest.raises(NotEnoughRoom, match=r"about 3 GB of memory, 1\.2 GB are free") as caught:
        prepared()
    assert "more memory" in caught.value.hint


@pytest.mark.parametrize(
    ("options", "perf", "needed"),
    [
        ({"level": "quick"}, True, True),
        ({}, False, True),
        ({}, True, False),
        ({"scope": "all"}, False, False),
        ({"level": "quick", "recipe": "plain"}, False, False),
    ],
)
def test_bolt_that_instruments_a_whole_server_is_asked_for_before_the_work(
    options: dict[str, object], perf: bool, needed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusal(error: type[UpshiftError], said: str) -> contextlib.AbstractContextManager[object]:
        return pytest.raises(error, match=said) if needed else contextlib.nullcontext()

    monkeypatch.setattr(plan, "_perf_samples", lambda _shell: perf)
    assert prepared(**options)
    with monkeypatch.context() as patch:
        patch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=6_000_000_000, total=PLENTY))
        with refusal(NotEnoughRoom, r"BOLT.* needs about 10 GB of memory, 6\.0 GB are free"):
            prepared(**options)
    monkeypatch.setattr(plan, "find", lambda family, **_given: toolchain(family).model_copy(update={"bolt": None}))
    with refusal(MissingTool, "BOLT.* is missing beside /tools/clang"):
        prepared(**options)


@pytest.mark.parametrize("perf", [True, False])
def test_bolt_can_read_gcc_s_plain_server_where_it_finds_the_hot_set(perf: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "_perf_samples", lambda _shell: perf)
    assert prepared(toolchain="gcc").relocations is not perf


def test_gcc_weighs_no_workloads(tmp_path: Path) -> None:
    heavy = workload(tmp_path, "heavy", "weight = 2.0")
    with pytest.raises(WorkloadError, match="GCC's profile has none"):
        prepared(toolchain="gcc", workloads=("oltp_insert", heavy))
    assert prepared(workloads=("oltp_insert", heavy)) and prepared(toolchain="gcc", workloads=(heavy,))


def test_a_program_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    own = workload(tmp_path, "own")
    with pytest.raises(WorkloadError, match="workload 'own' runs 'filler', which does not exist"):
        prepared(workloads=(own,), held_out=())
    with pytest.raises(WorkloadError, match="workload 'own' runs 'filler', which does not exist"):
        prepare_measuring(Options(workloads=(own,), held_out=()), (), allow_install=False, say=lambda _text: None)


def test_a_workload_s_own_connections_are_within_the_server_s_limit(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="2000 client connections"):
        prepared(workloads=(workload(tmp_path, "many", "connections = 2000"),))
    more = workload(tmp_path, "more", 'connections = 2000\nsettings = { max-connections = "2100" }')
    assert prepared(workloads=(more,))


def test_gcc_s_headers_need_room_where_the_recipe_has_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: DiskUsage(15_000_000_000))
    with pytest.raises(NotEnoughRoom, match="about 19 GB of disk"):
        prepared(toolchain="gcc")
    without = tmp_path / "without.toml"
    without.write_text('toolchain = "gcc"\nprecompiled_headers = false\n')
    assert prepared(recipe=str(without))


def test_measuring_needs_less_room_and_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: DiskUsage(4_000_000_000))
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=2_500_000_000, total=PLENTY))
    purposes: list[tuple[str, bool]] = []
    monkeypatch.setattr(plan, "_install", lambda purpose, *_given, programs: purposes.append((purpose, programs)))
    found = prepare_measuring(Options(held_out=()), (), allow_install=False, say=lambda _text: None)
    assert [each.name for each in found.train_on] == ["oltp_read_write", "oltp_read_only", "oltp_point_select"]
    assert purposes == [("measure", False)]


def test_what_moves_text_is_built_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []
    monkeypatch.setattr(plan, "_build_huge_text", lambda *_given: built.append("library"))
    measuring = functools.partial(prepare_measuring, Options(held_out=()), (), allow_install=False, say=lambda _text: None)
    measuring(others=(Surroundings(),))
    prepared(service=("batch",))
    assert built == []
    measuring(others=(Surroundings(text_huge_pages=True),))
    prepared(service=("huge-text",))
    assert built == ["library", "library"]


@pytest.mark.parametrize(
    ("recipe", "purpose"),
    [
        ('toolchain = "gcc"', "gcc-only"),
        ('toolchain = "gcc"\npost_link = "bolt"\nflags = ["-fno-reorder-blocks-and-partition"]', "mysql"),
        ("", "mysql"),
    ],
)
def test_what_is_installed_is_what_the_recipe_needs(
    recipe: str, purpose: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    purposes: list[str] = []
    monkeypatch.setattr(plan, "_install", lambda purpose, *_given: purposes.append(purpose))
    file = tmp_path / "mine.toml"
    file.write_text(recipe)
    prepared(recipe=str(file))
    assert purposes == [purpose]


@pytest.mark.parametrize(("versions", "stages"), [(("9.7", "9.7", "9.7"), 4), (("9.7", "8.4", "9.7"), 5)])
def test_a_server_of_another_version_takes_a_stage_more(
    versions: tuple[str, ...], stages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = tuple(Variant(name=name, program=Program(kind="mysql", binary=Path("/mysqld"))) for name in ("a", "b", "c"))
    monkeypatch.setattr(plan, "versions_of", lambda _shell, _kind, named: dict(zip(named, versions, strict=True)))
    assert plan.refuse_unstartable(servers) == stages


def test_a_script_in_the_place_of_a_server_is_refused(tmp_path: Path) -> None:
    """Its contents stay as they are when the server that it starts is another one: what is kept by them would be that one's."""
    script = tmp_path / "mysqld"
    script.write_text('#!/bin/sh\nLD_PRELOAD=/lib/libjemalloc.so.2 /usr/sbin/mysqld "$@"\n')
    script.chmod(0o755)
    variant = Variant(name="mine", program=Program(kind="mysql", binary=script))
    for refused in (lambda: plan.refuse_unstartable((variant,)), lambda: prepared(baseline=str(script))):
        with pytest.raises(UsageError, match=f"{script} is no ELF executable") as caught:
            refused()
        assert "`environment` and `under`" in caught.value.hint


def test_nothing_is_installed_for_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def install(*_given: object) -> None:
        raise AssertionError("installed")

    monkeypatch.setattr(plan, "_install", install)
    with pytest.raises(UsageError):
        prepared(held_out=("no-such",))


def test_optimize_needs_a_held_out_workload() -> None:
    with pytest.raises(UsageError, match="no workload is held out"):
        refuse_pointless(Options(held_out=()))


PERF = plan._perf_samples


@pytest.mark.parametrize(("code", "works"), [(0, True), (255, False)])
def test_perf_is_tried(monkeypatch: pytest.MonkeyPatch, code: int, works: bool) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: "/usr/bin/perf")
    assert PERF(FakeShell({"perf record": Output(returncode=code)})) is works


def test_perf_is_not_tried_where_it_is_not_or_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = FakeShell()
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    assert not PERF(shell)
    monkeypatch.setattr(shutil, "which", lambda _name: "/usr/bin/perf")
    monkeypatch.setenv("UPSHIFT_PERF", "off")
    assert not PERF(shell) and shell.ran == []


def test_the_documents_name_recipes_that_there_are() -> None:
    text = (CHECKOUT / "docs" / "reference" / "recipes.md").read_text()
    for name in ("max-clang", "gcc-pgo-lto"):
        assert f"`{name}`" in text and find_recipe(name)


def test_what_the_run_that_is_resumed_has_filled_counts_as_free(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("UPSHIFT_NEEDED_DISK_BYTES", "5000300000")
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: DiskUsage(5_000_000_000))
    (tmp_path / "mysqld").write_bytes(os.urandom(400_000))
    with pytest.raises(NotEnoughRoom) as caught:
        prepared()
    assert "UPSHIFT_NEEDED_DISK_BYTES" in caught.value.hint
    assert prepare(Options(), allow_install=False, say=lambda _text: None, kept=[tmp_path])


@pytest.mark.parametrize(
    ("character", "told"),
    [(" ", "white space"), ("\n", "white space"), *((each, re.escape(each)) for each in "%,:()&;$'\"`*\\")],
)
def test_a_cache_whose_path_mysqls_build_or_tests_would_split_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, character: str, told: str
) -> None:
    monkeypatch.setenv("UPSHIFT_CACHE", str(tmp_path / f"a{character}b"))
    with pytest.raises(UsageError, match=f"with {told}$") as caught:
        prepared()
    assert "UPSHIFT_CACHE" in caught.value.hint


def test_a_cache_with_other_signs_in_its_path_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("UPSHIFT_CACHE", str(tmp_path / "a-b_c.d+e@f=g~h/Größe"))
    prepared()
