"""Study files: what they come to, and every bad one refused with a hint before any work."""

from __future__ import annotations

from pathlib import Path

import pytest

from upshift.errors import NotEnoughRoom, UpshiftError, UsageError
from upshift.resolve import measuring_plan
from upshift.server.mysql import KIND
from upshift.study.file import Study, find_study, read_study
from upshift.study.plan import StudyPlan, make_plan, refuse_missing_latency, refuse_missing_libraries
from upshift.workload.library import find_workload

GOOD = """
budget = "2h"
workloads = ["oltp_read_only"]
[base]
binary = "mysqld"
settings = { innodb_buffer_pool_size = "64M" }
[factors.log.lazy]
settings = { innodb_flush_log_at_trx_commit = "2" }
[factors.spin.none]
settings = { innodb_spin_wait_delay = "0" }
[factors.spin.long]
settings = { innodb_spin_wait_delay = "24" }
"""
BUILT = """
budget = "2h"
workloads = ["oltp_read_only"]
[base]
recipe = "plain"
[factors.native.on]
build = { flags = ["-march=native"] }
[factors.unroll.on]
build = { flags = ["-funroll-loops"] }
"""


def written(tmp_path: Path, text: str) -> Study:
    server = tmp_path / "mysqld"
    server.touch(mode=0o755)
    file = tmp_path / "mine.toml"
    file.write_text(text)
    return read_study(file)


def planned(tmp_path: Path, text: str) -> StudyPlan:
    study = written(tmp_path, text)
    return make_plan(study, KIND, measuring_plan(study.options()), {})


def test_levels_add_their_sql(tmp_path: Path) -> None:
    for name in ("a.sql", "b.sql"):
        (tmp_path / name).touch()
    factors = '[factors.index.on]\nsql = ["a.sql"]\n[factors.statistics.fresh]\nsql = ["b.sql"]\n'
    base = GOOD.partition("[factors")[0]
    plan = planned(tmp_path, base + factors)
    assert [[file.name for file in arm.change.sql] for arm in plan.arms] == [[], ["b.sql"], ["a.sql"], ["a.sql", "b.sql"]]
    assert plan.arms[1].change.sql == (tmp_path / "b.sql",)
    (tmp_path / "b.sql").unlink()
    with pytest.raises(UsageError, match=r"mine: there is no file of SQL .*b\.sql"):
        planned(tmp_path, base + factors)


def test_a_relative_medium_lies_beside_the_study(tmp_path: Path) -> None:
    level = '[factors.tier.file.tier]\nsize = "1M"\nmedium = "file:fast/tier"\n'
    plan = planned(tmp_path, GOOD.partition("[factors")[0] + level)
    assert [arm.change.tier and arm.change.tier.medium for arm in plan.arms] == [None, f"file:{tmp_path}/fast/tier"]


def test_a_row_is_the_base_with_its_levels(tmp_path: Path) -> None:
    plan = planned(tmp_path, GOOD)
    assert [arm.name for arm in plan.arms] == ["off", "spin=none", "spin=long", "log", "log+spin=none", "log+spin=long"]
    last = plan.arms[-1].change
    assert last.binary == tmp_path / "mysqld"
    assert last.settings == {
        "innodb_buffer_pool_size": "64M",
        "innodb_flush_log_at_trx_commit": "2",
        "innodb_spin_wait_delay": "24",
    }


def test_flags_add_up_in_recipes_and_each_recipe_is_built_once(tmp_path: Path) -> None:
    plan = planned(tmp_path, BUILT)
    assert [arm.recipe.flags for arm in plan.built if arm.recipe] == [
        (),
        ("-funroll-loops",),
        ("-march=native",),
        ("-march=native", "-funroll-loops"),
    ]


def test_trials_fill_the_budget_and_a_share_of_it_confirms(tmp_path: Path) -> None:
    plan = planned(tmp_path, GOOD)
    assert plan.trials > 20 and plan.confirm_trials > 20
    assert plan.wall_s <= 7200
    assert planned(tmp_path, GOOD.replace('"2h"', '"4h"', 1)).half_width < plan.half_width


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('binary = "mysqld"', "", "name a binary, a recipe, or a server"),
        ('binary = "mysqld"', 'binary = "mysqld"\nrecipe = "plain"', "recipe: it builds the server"),
        ('binary = "mysqld"', 'server = "mysql"\nrecipe = "plain"', "recipe: it builds the server"),
        ("[factors.log.lazy]", '[factors.log.lazy]\nrecipe = "plain"\nbinary = "mysqld"', "recipe: it builds the server"),
        ("[factors.log.lazy]", '[factors.log.lazy]\nbinary = "b"\nbuild = { lto = "thin" }', "that a recipe builds"),
        ('binary = "mysqld"', 'server = "oracle"', "there is no kind of server 'oracle'"),
        ('binary = "mysqld"', 'binary = "missing"', "not an executable"),
        ('binary = "mysqld"', 'binary = "mysqld"\nbuild = { flags = ["-O3"] }', "only for a server that a recipe builds"),
        ('binary = "mysqld"', 'binary = "mysqld"\ntrained_on = ["tpcc"]', "only for a server that a recipe builds"),
        ('binary = "mysqld"', 'recipe = "plain"\ntrained_on = ["tpcc"]', "its recipe trains nothing"),
        ('binary = "mysqld"', 'binary = "mysqld"\ncolour = "red"', "colour"),
        ('binary = "mysqld"', 'binary = "mysqld"\nunder = ["no-such-program"]', "no program"),
        ('binary = "mysqld"', 'binary = "mysqld"\nserver_cpus = [999]', "CPUs that this machine does not have: 999"),
        ('budget = "2h"', 'budget = "2 days"', "not a time such as"),
        ('budget = "2h"', "budget = inf", "budget: inf is not a finite number"),
        ('budget = "2h"', "slice_s = inf", "slice_s: inf is not a finite number"),
        ('budget = "2h"', "warmup_s = inf", "warmup_s: inf is not a finite number"),
        ('budget = "2h"', "card_s = 1", "card_s: a card takes 5 to 600 seconds, or 0 for none"),
        ('budget = "2h"', "connections = [8, 8]", "connections: 8 is named twice"),
        ('budget = "2h"', 'held_out = ["oltp_read_only"]', "oltp_read_only is named twice"),
        ('binary = "mysqld"', 'binary = "~nobody-of-this-name/mysqld"', "names a path that is none"),
        ('binary = "mysqld"', f'binary = "{"m" * 5000}"', "not an executable"),
        ('budget = "2h"', 'budget = "1m"', "too large for its budget"),
        ('budget = "2h"', 'budget = "20m"\ntrials = 50', "too large for its budget"),
        ('budget = "2h"', 'budget = "10m"\nconfirm = 0.01', "share that confirms"),
        ('budget = "2h"', 'metric = "beauty"', "metric"),
        ('budget = "2h"', 'design = "latin-square"', "design"),
        ('budget = "2h"', 'design = "grid"', "rows"),
        ('budget = "2h"', 'rows = [["log"]]', "rows"),
        ('budget = "2h"', 'design = "grid"\nrows = [["lag"]]', "unknown factor 'lag'"),
        ('budget = "2h"', 'design = "grid"\nrows = [["spin=short"]]', "no level 'short'"),
        ('budget = "2h"', 'design = "grid"\nrows = [["spin"]]', "without a level"),
        ('budget = "2h"', 'design = "grid"\nrows = [["log", "log"]]', "twice"),
        ('budget = "2h"', 'design = "fractional"', "two levels"),
        ('_delay = "24"', '_delay = "0"', "factor 'spin' changes nothing: its level 'long' is the same as 'none'"),
        (
            "[factors.log.lazy]\n",
            '[factors.pool.same]\nsettings = { innodb-buffer-pool-size = "64M" }\n[factors.log.lazy]\n',
            "factor 'pool' changes nothing: its level 'same' is the same as 'off'",
        ),
        ("[factors.log.lazy]", "[factors.log.off]", "not a name"),
        ("budget", "budget = [", "not TOML"),
        ('budget = "2h"', "trainings = 2", "no row's recipe has a profile"),
        ('budget = "2h"', "layouts = 2", "row 'off' is an executable that nothing builds"),
    ],
)
def test_a_bad_study_is_refused_with_a_hint(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(UsageError) as error:
        planned(tmp_path, GOOD.replace(old, new, 1))
    assert message in error.value.message
    assert error.value.hint


def test_trainings_share_the_trials(tmp_path: Path) -> None:
    trained = BUILT.replace('recipe = "plain"', 'recipe = "max-clang"')
    assert planned(tmp_path, trained.replace("[base]", "trainings = 4\n[base]")).trials % 4 == 0
    with pytest.raises(UsageError, match=r"4 servers \(4 trainings, 1 layouts of each\), which share 3 trials") as error:
        planned(tmp_path, trained.replace("[base]", "trainings = 4\ntrials = 3\n[base]"))
    assert error.value.hint


def test_layouts_share_the_trials_too(tmp_path: Path) -> None:
    assert planned(tmp_path, BUILT.replace("[base]", "layouts = 5\n[base]")).trials % 5 == 0
    with pytest.raises(UsageError, match="which share 3 trials"):
        planned(tmp_path, BUILT.replace("[base]", "layouts = 4\ntrials = 3\n[base]"))
    # Each layout has as many.
    assert planned(tmp_path, BUILT.replace("[base]", "layouts = 2\ntrials = 3\n[base]")).trials == 2
    with pytest.raises(UsageError, match="GNU ld") as error:
        planned(tmp_path, BUILT.replace("[base]", "layouts = 4\n[base]").replace('"plain"', '"stock-gcc"'))
    assert error.value.hint


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('recipe = "plain"', 'recipe = "missing"', "no recipe 'missing'"),
        ('["-march=native"] }', '["-march=native"], colour = "red" }', "colour"),
        ('["-march=native"] }', '["-march=native"], lto = "full" }', "row 'native' is impossible"),
        ('flags = ["-march=native"]', 'options = ["-DFOO=1"]', "options: a list is not a table"),
        ('build = { flags = ["-march=native"] }', 'binary = "mysqld"', "factor 'unroll' says how one is built"),
        (
            'build = { flags = ["-march=native"] }',
            'binary = "mysqld"\ntrained_on = ["tpcc"]',
            "only for a server that a recipe builds",
        ),
        ('flags = ["-march=native"]', 'lto = "none"', "factor 'native' changes nothing"),
    ],
)
def test_a_bad_recipe_is_refused_with_a_hint(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in BUILT
    with pytest.raises(UsageError) as error:
        planned(tmp_path, BUILT.replace(old, new, 1))
    assert message in error.value.message
    assert error.value.hint


STEPS = """
budget = "2h"
design = "steps"
workloads = ["oltp_read_only"]
[base]
recipe = "plain"
[factors.optimised.on]
recipe = "max-clang"
[factors.then.on]
build = { %s }
"""


@pytest.mark.parametrize("build", ['lto = "none"', 'post_link_flags = ["-icf=1"]'])
def test_what_a_level_changes_is_judged_in_its_rows(tmp_path: Path, build: str) -> None:
    """Alone, on the base, the first would change nothing and the second be impossible; no row has them so."""
    arms = planned(tmp_path, STEPS % build).arms
    assert [arm.name for arm in arms] == ["off", "optimised", "optimised+then"]
    with pytest.raises(UsageError, match="factor 'then' changes nothing: its level 'on' is the same as 'off'"):
        planned(tmp_path, STEPS % 'lto = "thin"')


def test_a_level_says_how_the_server_of_another_levels_recipe_is_built(tmp_path: Path) -> None:
    text = STEPS.replace('recipe = "plain"', 'binary = "mysqld"') % 'lto = "none"'
    first, _second, last = planned(tmp_path, text).arms
    assert first.recipe is None and last.recipe and (last.recipe.profile, last.recipe.lto) == ("ir", "none")
    with pytest.raises(UsageError, match="row 'then' is an executable that nothing builds, and factor 'then'"):
        planned(tmp_path, text.replace('design = "steps"', 'design = "full"'))
    with pytest.raises(UsageError, match="only for a server that a recipe builds, which nothing names"):
        planned(tmp_path, text.replace('recipe = "max-clang"', "text_huge_pages = true"))


@pytest.mark.parametrize(("rows", "lacking"), [('[["log", "spin=none"]]', "spin=long"), ("[[]]", "log")])
def test_a_level_that_no_row_of_a_grid_has_is_refused(tmp_path: Path, rows: str, lacking: str) -> None:
    with pytest.raises(UsageError, match=f"no row has {lacking} on") as error:
        planned(tmp_path, f'design = "grid"\nrows = {rows}\n' + GOOD)
    assert error.value.hint


def test_latencies_that_a_driver_does_not_report_are_no_metric(tmp_path: Path) -> None:
    study = written(tmp_path, GOOD.replace('budget = "2h"', 'metric = "latency_ms_p99"'))
    reads = find_workload("oltp_read_only")
    refuse_missing_latency(study, [reads])
    silent = reads.model_copy(update={"load": reads.load.model_copy(update={"latency": "none"})})
    with pytest.raises(UsageError, match="the driver of workload 'oltp_read_only' reports no latencies"):
        refuse_missing_latency(study, [silent])
    refuse_missing_latency(written(tmp_path, GOOD), [silent])


def test_a_tier_without_room_is_refused(tmp_path: Path) -> None:
    tier = GOOD.replace("[factors.log.lazy]", '[factors.tier.huge.tier]\nsize = "900T"\n[factors.log.lazy]')
    with pytest.raises(NotEnoughRoom, match="row 'tier'") as error:
        planned(tmp_path, tier)
    assert error.value.hint


def test_two_levels_of_a_tier_in_one_file_are_refused(tmp_path: Path) -> None:
    tier = '[factors.tier.{0}.tier]\nsize = "{0}"\nmedium = "file:fast"\n'
    levels = GOOD.replace("[factors.log.lazy]", tier.format("1M") + tier.format("2M") + "[factors.log.lazy]")
    with pytest.raises(UsageError, match=f"row 'tier=1M' and row '.*' have a tier in {tmp_path}/fast"):
        planned(tmp_path, levels)


def test_a_buffer_pool_beyond_the_machine_is_refused(tmp_path: Path) -> None:
    pool = GOOD.replace(
        "[factors.log.lazy]", '[factors.pool.huge]\nsettings = { innodb_buffer_pool_size = "900T" }\n[factors.log.lazy]'
    )
    with pytest.raises(NotEnoughRoom, match="row 'pool': a buffer pool of 921600") as error:
        planned(tmp_path, pool)
    assert error.value.hint


def test_a_row_has_no_number_of_connections_of_its_own(tmp_path: Path) -> None:
    level = GOOD.replace("[factors.log.lazy]", '[factors.many.more]\nclient = ["--threads=64"]\n[factors.log.lazy]')
    with pytest.raises(UsageError, match="row 'many': --threads=64 in `client`"):
        planned(tmp_path, level)


def test_text_on_huge_pages_is_refused_where_the_kernel_gives_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    level = GOOD.replace("[factors.log.lazy]", "[factors.text.huge]\ntext_huge_pages = true\n[factors.log.lazy]")
    refused = UsageError("no huge pages")

    def refuse(whose: str) -> None:
        assert whose == "row 'text'"
        raise refused

    monkeypatch.setattr("upshift.measure.variant.refuse_without_huge_pages", refuse)
    with pytest.raises(UsageError) as error:
        planned(tmp_path, level)
    assert error.value is refused


@pytest.mark.parametrize("library", ["libupshift-none.so.1", "/none/lib.so"])
def test_a_preloaded_library_that_the_loader_leaves_out_is_refused(library: str, tmp_path: Path) -> None:
    def preloading(names: str) -> StudyPlan:
        preload = f'[factors.allocator.mine]\nenvironment = {{ LD_PRELOAD = "{names}" }}\n'
        return planned(tmp_path, GOOD.replace("[factors.log.lazy]", preload + "[factors.log.lazy]"))

    refuse_missing_libraries(preloading("libm.so.6"))
    with pytest.raises(UsageError, match=f"LD_PRELOAD names {library}, which cannot be loaded") as error:
        refuse_missing_libraries(preloading(f"libm.so.6 {library}"))
    assert error.value.hint


def test_a_study_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for file in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(UpshiftError) as error:
            read_study(file)
        assert error.value.exit_code == 2 and error.value.hint


def test_a_shipped_study_goes_by_its_name_and_another_by_its_file(tmp_path: Path) -> None:
    assert find_study("settings").name == "settings"
    with pytest.raises(UsageError, match="there is no study 'setings'") as error:
        find_study("setings")
    assert "settings" in (error.value.hint or "")
    with pytest.raises(UsageError, match="there is no study"):
        find_study(str(tmp_path / "settings.toml"))
    written(tmp_path, GOOD)
    with pytest.raises(UsageError, match="there is no study"):
        find_study(str(tmp_path / "mine"))


PATCHED = """
budget = "2h"
workloads = ["oltp_read_only"]
[base]
recipe = "plain"
build = { patches = ["one"] }
[factors.more.two]
build = { patches = ["two"] }
[factors.more.all]
build = { patches = "all" }
"""


@pytest.fixture
def series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    diff = "diff --git a/x{0} b/x{0}\nnew file mode 100644\n--- /dev/null\n+++ b/x{0}\n@@ -0,0 +1 @@\n+int x;\n"
    told = ""
    for name in ("one", "two", "three"):
        (tmp_path / f"{name}.patch").write_text(diff.format(name))
        told += f'[[patch]]\nname = "{name}"\nfile = "{name}.patch"\nwhat = "x"\nversions = ">9"\nvariable = "{name}_on"\n'
    (tmp_path / "series.toml").write_text(told)
    monkeypatch.setattr(KIND, "series", tmp_path)


@pytest.mark.usefixtures("series")
def test_patches_of_levels_are_added_to_those_of_the_base(tmp_path: Path) -> None:
    arms = planned(tmp_path, PATCHED).arms
    assert [arm.recipe.patches for arm in arms if arm.recipe] == [("one",), ("one", "two"), ("one", "two", "three")]
    assert len({arm.build for arm in arms}) == 3


@pytest.mark.usefixtures("series")
@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('patches = "all"', 'patches = ["four"]', "there is no patch 'four'"),
        ('patches = "all"', 'patches = ["two"]', "its level 'all' is the same as 'two'"),
        ('build = { patches = "all" }', 'settings = { two_on = "OFF" }', "switch of patch two"),
    ],
)
def test_a_level_of_impossible_patches_is_refused(tmp_path: Path, before: str, after: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        planned(tmp_path, PATCHED.replace(before, after))
