"""Variants as a user writes them, and what they do to a server's command and its load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake_bench import plan
from fakes import FakeKind, FakeProcess, FakeShell, Output, half_a_copy
from pydantic import ValidationError

from upshift.errors import CommandFailed, NotEnoughRoom, ServerFailed, UsageError
from upshift.measure.model import Load
from upshift.measure.server_bench import ServerBench
from upshift.measure.tier import Tier
from upshift.measure.variant import Surroundings, Variant, find_variant, split_name
from upshift.paths import CHECKOUT
from upshift.server.kind import Program
from upshift.workload.model import Workload


@pytest.fixture
def server(tmp_path: Path) -> Path:
    binary = tmp_path / "bin" / "mysqld"
    binary.parent.mkdir()
    binary.write_text("#!/bin/sh\n")
    binary.chmod(0o755)
    return binary


def written(folder: Path, text: str) -> str:
    file = folder / "tuned.toml"
    file.write_text(text)
    return str(file)


def test_an_executable_is_a_variant(server: Path) -> None:
    assert find_variant(str(server)) == Variant(name="bin/mysqld", program=Program(kind="mysql", binary=server))
    assert find_variant(f"today={server}").name == "today"


def test_two_names_are_never_one_in_a_file_name(server: Path) -> None:
    names = ("a/b", "a-b", "a%2Fb", "a%b", "plain+unroll")
    files = [find_variant(f"{name}={server}").file_name for name in names]
    assert len(set(files)) == len(names) and not any("/" in each for each in files)
    assert files[-1] == "plain+unroll"


def test_a_long_name_is_a_part_of_a_file_name_too(server: Path, tmp_path: Path) -> None:
    """The row of a study that has all of forty factors on is called after all of them."""
    row = "+".join(f"größe-{number}" for number in range(40))
    files = [find_variant(f"{name}={server}").file_name for name in (row, f"{row}x", row[:-1])]
    assert len(set(files)) == 3
    for each in files:
        (tmp_path / f"trial-999-{each}").mkdir()


def test_a_file_says_what_surrounds_the_server(server: Path, tmp_path: Path) -> None:
    text = """
        binary = "bin/mysqld"
        under = ["env", "-u", "HOME"]
        client = ["--protocol", "text"]
        server_cpus = [0]
        [settings]
        innodb-buffer-pool-size = "64M"
        [environment]
        LD_PRELOAD = "/lib/jemalloc.so"
        [tier]
        size = "1G"
        medium = "file:{folder}/tier"
        options = ["--read-ahead"]
    """
    found = find_variant(f"tuned={written(tmp_path, text)}")
    assert (found.name, found.program.binary, found.server_cpus) == ("tuned", server, (0,))
    assert (found.settings, found.environment) == ({"innodb_buffer_pool_size": "64M"}, {"LD_PRELOAD": "/lib/jemalloc.so"})
    under = found.before_server(Path("/trial"))
    assert under[:3] == ("env", "-u", "HOME") and under[3].endswith("upshift-cache")
    tier = ("run", "--size", "1G", "--medium", "file:/trial/tier", "--mode", "write-through")
    assert under[4:] == (*tier, "--status", "/trial/tier.status", "--read-ahead", "--")


@pytest.mark.parametrize("options", [["--status", "/run/page"], ["--status=/run/page"]])
def test_a_statistics_page_that_the_variant_names_is_the_only_one(server: Path, tmp_path: Path, options: list[str]) -> None:
    text = f'binary = "{server}"\n[tier]\nsize = "1M"\noptions = {options}'
    under = find_variant(written(tmp_path, text)).before_server(Path("/trial"))
    assert sum(word.startswith("--status") for word in under) == 1


def test_relative_files_of_sql_lie_beside_the_variant(server: Path, tmp_path: Path) -> None:
    (tmp_path / "fix.sql").touch()
    absolute = tmp_path / "bin" / "more.sql"
    absolute.touch()
    text = f'binary = "{server}"\nsql = ["fix.sql", "{absolute}"]'
    assert find_variant(written(tmp_path, text)).sql == (tmp_path / "fix.sql", absolute)


@pytest.mark.parametrize(
    ("medium", "placed"),
    [
        ("file:fast/tier", "file:{here}/fast/tier"),
        ("direct:tier", "direct:{here}/tier"),
        ("direct:/dev/nvme1n1", "direct:/dev/nvme1n1"),
        ("file:{folder}/tier", "file:/trial/tier"),
        ("memory-lz4", "memory-lz4"),
    ],
)
def test_a_relative_medium_lies_beside_the_variant(server: Path, tmp_path: Path, medium: str, placed: str) -> None:
    text = f'binary = "{server}"\n[tier]\nsize = "1M"\nmedium = "{medium}"'
    under = find_variant(written(tmp_path, text)).before_server(Path("/trial"))
    assert under[under.index("--medium") + 1] == placed.replace("{here}", str(tmp_path))


def test_no_sql_leaves_a_variant_as_older_versions_wrote_it() -> None:
    assert "sql" not in TUNED.model_dump() and "sql" in TUNED.model_copy(update={"sql": (Path("/a"),)}).model_dump()


def test_a_file_is_named_by_its_stem(server: Path, tmp_path: Path) -> None:
    assert find_variant(written(tmp_path, f'binary = "{server}"')).name == "tuned"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("binary = ", "not TOML"),
        ("", "name a binary, or a server whose package is installed"),
        ('server = "oracle"', "there is no kind of server 'oracle'"),
        ('binary = "/no/such/mysqld"', "/no/such/mysqld is not an executable"),
        ('binary = "bin/mysqld"\nbinaries = 2', "binaries: there is no such key"),
        ('binary = "bin/mysqld"\n[tier]\nmedium = "memory"', "tier.size: this key is missing"),
        ('binary = "bin/mysqld"\n[settings]\na-b = "1"\na_b = "2"', "a_b is named twice"),
        ('binary = "bin/mysqld"\n[settings]\nloose-datadir = "/var/lib/mysql"', "sets loose_datadir: Upshift starts"),
        ('binary = "bin/mysqld"\nserver = "postgres"\n[settings]\ndata_directory = "/data"', "sets data_directory"),
        (
            'binary = "bin/mysqld"\n[settings]\nlog-bin = "/var/log/mysql/b"',
            "write outside of its data folder: log_bin=/var/log",
        ),
        ('binary = "bin/mysqld"\nserver = "postgres"\n[settings]\nlog_directory = "/var/log"', "write outside of its data"),
        ('binary = "bin/mysqld"\nunder = ["no-such-program"]', "there is no program no-such-program"),
        ('binary = "bin/mysqld"\nsql = ["absent.sql"]', r"tuned\.toml: there is no file of SQL .*absent\.sql"),
        ('binary = "bin/mysqld"\nserver = "postgres"\n[tier]\nsize = "1G"', "there is no tier for a postgres"),
        (
            'binary = "bin/mysqld"\n[settings]\ninnodb-buffer-pool-size = "900T"',
            "a buffer pool of 921600.0G, and this machine has",
        ),
        ('binary = "bin/mysqld"\nserver = "postgres"\n[settings]\nshared_buffers = "900TB"', "a buffer pool of 921600.0G"),
        ('binary = "bin/mysqld"\n[tier]\nsize = "900T"', r"tuned\.toml: a tier of 900T in memory"),
        ('binary = "bin/mysqld"\n[tier]\nsize = "much"\nmedium = "file:/x"', r"tuned\.toml: a tier of much"),
        ('binary = "bin/mysqld"\n[tier]\nsize = "²M"', r"tuned\.toml: a tier of ²M"),
        ('binary = "~nobody-of-this-name/mysqld"', r"tuned\.toml names a path that is none"),
        ('binary = "bin/mysqld"\nsql = ["a\\u0000b"]', r"tuned\.toml names a path that is none"),
        ('binary = "bin/mysqld"\nclient_cpus = [4096]', "CPUs that this machine does not have: 4096"),
        *(
            (f'binary = "bin/mysqld"\nclient = ["--protocol", "text", {words}]', "the load says how many connections there are")
            for words in (
                '"--connections", "64"',
                '"--connections=64"',
                '"--threads=64"',
                '"--threads", "64"',
                '"-c", "64"',
                '"-c64"',
            )
        ),
    ],
)
def test_what_no_variant_can_be(server: Path, tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises((UsageError, NotEnoughRoom), match=said) as error:
        find_variant(written(tmp_path, text))
    assert error.value.hint


def test_options_of_the_client_that_are_like_connections_are_its_own(server: Path, tmp_path: Path) -> None:
    words = ("--client-threads", "2", "--connections-reset", "-cfile", "c")
    found = find_variant(written(tmp_path, f'binary = "bin/mysqld"\nclient = {list(words)}'))
    assert found.client == words


def test_a_server_in_the_home_of_an_unknown_user() -> None:
    with pytest.raises(UsageError, match="names a path that is none"):
        find_variant("new=~nobody-of-this-name/mysqld")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"environment": {"A=B": "1"}}, "environment: 'A=B' has '=' in a name"),
        ({"environment": {"": "1"}}, "environment have a value without a name"),
        ({"settings": {"": "1"}}, "settings have a value without a name"),
        ({"environment": {"A": "b\0c"}}, "has a NUL"),
        ({"settings": {"a": "\0"}}, "has a NUL"),
        ({"under": ("nice", "\0")}, "has a NUL"),
        ({"client": ("\0",)}, "has a NUL"),
        ({"tier": {"size": "1M", "options": ("--rule", "\0")}}, "has a NUL"),
        ({"server_cpus": (True,)}, "valid integer"),
        ({"client_cpus": ("1",)}, "valid integer"),
    ],
)
def test_what_no_process_can_be_started_with_is_refused(given: dict[str, Any], said: str) -> None:
    """Before, the first server that was to start ended in a traceback."""
    with pytest.raises(ValidationError, match=said):
        Surroundings.model_validate(given)


def test_names_and_folders_may_have_an_equals_sign(server: Path, tmp_path: Path) -> None:
    odd = tmp_path / "a=b" / "mysqld"
    odd.parent.mkdir()
    odd.symlink_to(server)
    assert split_name(f"{odd}") == ("", f"{odd}")
    assert split_name(f"old={odd}") == ("old", f"{odd}")
    assert split_name(f"spin=none={server}") == ("spin=none", f"{server}")
    assert split_name(f"a/b={server}") == ("a/b", f"{server}")
    assert split_name("new=/a=b/absent") == ("new", "/a=b/absent")
    assert split_name("/a=b/absent") == ("", "/a=b/absent")
    assert split_name("new=absent") == ("new", "absent")


def test_a_variant_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "program.toml").write_bytes(b"\x7fELF\xff")
    (tmp_path / "folder.toml").mkdir()
    (tmp_path / "loop.toml").symlink_to("loop.toml")
    (tmp_path / "deep.toml").write_text("x = " + "[" * 3000)
    (tmp_path / "long.toml").write_text("x = " + "1" * 5000)
    for name, said in (
        ("program", "is not UTF-8"),
        ("folder", "cannot be read: Is a directory"),
        ("loop", "names a path that is none|cannot be read"),
        ("deep", "is not a variant file: .* nested too deep"),
        ("long", "is not TOML"),
    ):
        with pytest.raises(UsageError, match=rf"{name}\.toml ({said})"):
            find_variant(str(tmp_path / f"{name}.toml"))


def test_a_variant_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no variant file"):
        find_variant(str(tmp_path / "absent.toml"))


def test_every_key_of_a_file_is_documented() -> None:
    page = (CHECKOUT / "docs" / "reference" / "variants.md").read_text()
    named = [*Surroundings.model_fields, *(f"tier.{name}" for name in Tier.model_fields)]
    assert [name for name in named if name != "tier" and f"`{name}`" not in page] == []


SERVER = Program(kind="fake", binary=Path("/opt/server"))
TUNED = Variant(
    name="a/tuned",
    program=SERVER,
    settings={"pool": "2G"},
    environment={"LD_PRELOAD": "/lib/jemalloc.so"},
    under=("chrt", "0"),
    client=("--text",),
    server_cpus=(2,),
    client_cpus=(3,),
)
LOAD = Load(workload="reads", connections=8, held_out=False)


def bench_with(shell: FakeShell, folder: Path, unit: str = "query") -> ServerBench:
    made = {"name": "reads", "unit": unit, "fill": {"command": ["fill"]}, "load": {"command": ["load", "{connections}"]}}
    loads, data = {"reads": Workload.model_validate(made)}, {TUNED.name: folder}
    return ServerBench(shell, lambda _program: FakeKind(), plan(), loads, data, folder, folder / "log")


def test_a_server_starts_with_its_surroundings_and_is_loaded_by_its_client(tmp_path: Path) -> None:
    shell = FakeShell()
    bench = bench_with(shell, tmp_path)
    with bench.arm(TUNED, trial=3) as server:
        bench.begin(server, LOAD, 1.0, 7)
    started, loaded = shell.spawned
    assert started.argv[:3] == ("chrt", "0", "/opt/server") and "--pool=2G" in started.argv
    assert f"--data={tmp_path}/trial-3-a%2Ftuned/data" in started.argv
    assert (started.env, started.cpus) == ({"OWN": "1", "LD_PRELOAD": "/lib/jemalloc.so"}, (2,))
    assert (loaded.argv, loaded.cpus) == (("load", "8", "--text"), (3,))


@pytest.mark.parametrize(("unit", "counted"), [("query", 5000), ("transaction", 500)])
def test_a_load_counts_what_its_workload_says(tmp_path: Path, unit: str, counted: int) -> None:
    bench = bench_with(FakeShell(), tmp_path, unit)
    with bench.arm(TUNED, trial=0) as server:
        load = bench.begin(server, LOAD, 1.0, 7)
        assert (load.answered(), load.answered()) == (0, counted)


def test_a_server_that_does_not_start_is_named_by_its_arm(tmp_path: Path) -> None:
    bench = bench_with(FakeShell(processes=iter([FakeProcess(code=1)])), tmp_path)
    with pytest.raises(ServerFailed, match="arm 'a/tuned': the server did not start"), bench.arm(TUNED, trial=0):
        pass


def test_a_copy_that_fails_leaves_no_half_of_the_data(tmp_path: Path) -> None:
    (template := tmp_path / "template").mkdir()
    shell = FakeShell({"cp -a": Output("cp: No space left on device", 1, half_a_copy)})
    bench = bench_with(shell, tmp_path)
    bench._templates = {TUNED.name: template}
    with pytest.raises(CommandFailed), bench.arm(TUNED, trial=0):
        raise AssertionError("it never ran")
    assert list(tmp_path.iterdir()) == [template]


def test_of_several_servers_the_one_that_died_is_named(tmp_path: Path) -> None:
    dying = FakeProcess(polls_before_end=2, code_at_end=-11)
    bench = bench_with(FakeShell(processes=iter([dying, FakeProcess()])), tmp_path)
    other = TUNED.model_copy(update={"name": "b"})
    bench._templates = {**bench._templates, "b": tmp_path}
    with (
        pytest.raises(ServerFailed, match=r"^arm 'a/tuned': the server ended by itself"),
        bench.arm(TUNED, trial=0) as server,
        bench.arm(other, trial=0),
    ):
        while True:
            server.queries()
