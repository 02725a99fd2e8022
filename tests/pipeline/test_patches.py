"""Patches on the small server: only what they touch is compiled, their switch works, and every bad one is refused early."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import SMALL, SOURCE, Cli, Run, workload

from upshift.archive import unpack
from upshift.build.model import Build
from upshift.explain.origin import origin_of
from upshift.instructions.model import Instructions
from upshift.server.instance import running
from upshift.server.kind import Program, SourceKind
from upshift.server.kinds import default_kind
from upshift.shell import SystemShell

pytestmark = pytest.mark.pipeline

PATCHES = "skip_recheck,extra"
NAMES = ("counter", "skip_recheck", "extra")
POINT = ("--workload", workload("point"))
TOUCHED = {
    "main.cc",
    "net/session.cc",
    *(f"sql/{name}.cc" for name in ("executor", "expression", "functions", "parser")),
    "admin/explain.cc",
}
"""main.cc, and all that includes sql/expression.h, over sql/statement.h or by itself."""


@pytest.fixture(scope="module")
def patched(cli: Cli) -> Build:
    done = cli("build", "plain", "--patches", PATCHES, "--source", str(SOURCE), *POINT, "--json", "--no-install")
    assert done.code == 0, done.stderr
    return Build.model_validate_json(done.stdout)


@pytest.fixture(scope="module")
def kind() -> Iterator[SourceKind]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UPSHIFT_SERVER_KIND", str(SMALL / "kind.py"))
        yield default_kind()


def loads(kind: SourceKind, program: Program, folder: Path) -> str:
    """What the shared object says that a server loads."""
    shell = SystemShell()
    try:
        shell.run(kind.initialise(program, folder / "data"))
        with (
            running(shell, kind, program, folder / "data", log=folder / "log") as server,
            socket.socket(socket.AF_UNIX) as connection,
        ):
            connection.connect(str(server.socket))
            connection.sendall(b"EXTRA\n")
            return connection.recv(100).decode()
    finally:
        shell.close()
        shutil.rmtree(folder / "data")


def counted(cli: Cli, *arms: str) -> dict[str, float]:
    done = cli("count", *arms, *POINT, "--json", "--no-install", env={"UPSHIFT_PERF": "off"})
    assert done.code == 0, done.stderr
    found = done.json()
    del found["schema_version"]
    return {each.arm: each.instructions_per_query for each in Instructions.model_validate(found).counts}


def test_only_what_the_patches_touch_is_compiled(patched: Build) -> None:
    assert patched.patched
    objects = {str(file.relative_to(patched.patched.objects)) for file in patched.patched.objects.rglob("*.o")}
    assert objects == {f"CMakeFiles/smallserver.dir/{name}.o" for name in TOUCHED}
    assert patched.objects == len(TOUCHED) + 1
    source = patched.patched.source
    assert (source / "storage/btree.cc").read_bytes() == (SOURCE / "storage/btree.cc").read_bytes()
    assert b"skip_recheck" in (source / "main.cc").read_bytes() and b"skip_recheck" not in (SOURCE / "main.cc").read_bytes()


def test_what_the_server_loads_is_compiled_and_linked_apart(patched: Build, kind: SourceKind, tmp_path: Path) -> None:
    assert patched.patched and patched.patched.tree
    made = patched.server.parent / "plugins"
    assert [file.name for file in made.rglob("*.o")] == ["extra.cc.o"], "it keeps its copy of core/checksum.cc"
    assert [file.name for file in patched.tree.iterdir() if not file.is_symlink()] == ["libsmallextra.so"]
    for tree, says in ((patched.patched.tree, "nothing more"), (patched.tree, "something more")):
        program = kind.program(SOURCE, tree, patched.server)
        assert loads(kind, program, tmp_path) == f"{says}\nOK 1\n"


def test_the_levers_add_up(cli: Cli, kind: SourceKind, tmp_path: Path) -> None:
    """By instructions, which a busy machine does not change."""
    alone, both = cli.optimize(), cli.optimize("--patches", PATCHES)
    assert alone.code == both.code == 0, alone.stderr + both.stderr
    result = both.result()
    assert [arm.name for arm in result.experiment.arms] == ["plain", "patched", "optimised"]
    assert {(one.arm, one.baseline) for one in result.comparisons} == {
        ("patched", "plain"),
        ("optimised", "plain"),
        ("optimised", "patched"),
    }
    assert {each.name: each.scope for each in result.builds} == {"plain": "all", "patched": "touched", "optimised": "hot"}
    assert result.source.patches == NAMES and alone.result().source.patches == ()
    rebuilt = alone.result().instructions
    assert result.instructions and rebuilt
    ratios = {each.arm: each.ratio for each in result.instructions.ratios if each.workload == "mix"}
    (unpatched,) = (each.ratio for each in rebuilt.ratios if each.workload == "mix")
    assert ratios["patched"] < 0.99
    assert ratios["optimised"] < 0.99 * unpatched < 0.95
    with tarfile.open(result.package) as package:
        unpack(package, tmp_path)
    (way_back,) = tmp_path.glob("*/ROLLBACK.md")
    assert f"with the patches {', '.join(NAMES)}" in " ".join(way_back.read_text().split())
    binary, plugins = way_back.parent / "bin" / "smallserver", way_back.parent / "lib" / "plugin"
    packed = origin_of(binary, tmp_path)
    assert packed and packed.patches == NAMES and packed.sha256 == result.source.sha256
    program = Program(kind=kind.name, binary=binary, options=(f"--plugin-dir={plugins}",))
    assert loads(kind, program, tmp_path) == "something more\nOK 1\n"


def test_an_explanation_knows_what_its_servers_were_built_from(cli: Cli, patched: Build) -> None:
    plain, found = (origin_of(server, cli.cache) for server in (patched.tree / "smallserver", patched.server))
    assert plain and found
    assert (plain.patches, found.patches) == ((), NAMES)
    assert plain.sha256 != found.sha256 == patched.source_sha256


def test_off_is_stock(cli: Cli, patched: Build, tmp_path: Path) -> None:
    arms = []
    for name, server in (("plain", patched.tree / "smallserver"), ("patched", patched.server)):
        (tmp_path / name).mkdir()
        for program in (server, patched.tree / "smallload"):
            shutil.copy2(program, tmp_path / name)
        arms.append(f"{name}={tmp_path / name / 'smallserver'}")
    off = tmp_path / "off.toml"
    off.write_text('binary = "patched/smallserver"\nsettings = { skip_recheck = "OFF" }\n')
    found = counted(cli, *arms, f"off={off}")
    assert found["patched"] < 0.97 * found["plain"]
    assert found["off"] == pytest.approx(found["plain"], rel=0.005)


@pytest.mark.parametrize(
    ("patches", "code", "said"),
    [
        ("nope", 2, "there is no patch 'nope'"),
        ("skip_recheck,no_empty_list", 1, "patches skip_recheck and no_empty_list collide"),
        ("misfit", 1, "patch misfit does not fit: sql/statement.h: hunk 1 at line 33"),
        ("newer", 1, "patch newer is for versions >=2, and the source is 1.4.2"),
    ],
)
def test_bad_patches_are_refused_before_any_stage(cli: Cli, here: Run, patches: str, code: int, said: str) -> None:
    before = cli.runs()
    done = here("build", "plain", "--patches", patches, "--source", str(SOURCE), *POINT, "--no-install")
    assert done.code == code and said in done.stderr and "hint: " in done.stderr
    assert cli.runs() == before


def test_a_tarball_is_judged_before_it_is_built(cli: Cli, tmp_path: Path) -> None:
    tarball = tmp_path / "small.tar.gz"
    with tarfile.open(tarball, "w:gz") as archive:
        archive.add(SOURCE, "small")
    done = cli("build", "plain", "--patches", "misfit", "--source", str(tarball), *POINT, "--no-install")
    assert done.code == 1 and "patch misfit does not fit" in done.stderr
    assert "plain build" not in done.stderr


def test_local_changes_are_refused(here: Run, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(SOURCE, tree)
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tree))
    for step in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "stock")):
        subprocess.run([*git, *step], check=True)
    with (tree / "main.cc").open("a") as file:
        file.write("// mine\n")
    for command in (f"build plain {' '.join(POINT)} --no-install --source {tree}", f"patch apply {tree} --in-place"):
        done = here(*command.split(), "--patches", "skip_recheck")
        assert done.code == 1 and "changes of its own in files that the patches change: main.cc" in done.stderr


def test_a_switch_needs_its_patch(here: Run, patched: Build, tmp_path: Path) -> None:
    off = tmp_path / "off.toml"
    off.write_text(f'binary = "{patched.tree / "smallserver"}"\nsettings = {{ skip_recheck = "OFF" }}\n')
    done = here("measure", str(off), f"other={patched.server}", *POINT, "--no-install")
    assert done.code == 2 and "skip_recheck is the switch of patch skip_recheck, which this server does not have" in done.stderr


def test_the_patch_commands(cli: Cli, here: Run, tmp_path: Path) -> None:
    listed = cli("patch", "list", "--json").json()
    assert listed["patches"][1]["variable"] == "skip_recheck" and "text" not in listed["patches"][1]
    checked = cli("patch", "check", str(SOURCE), "--json")
    fits = {each["patch"]: each["fits"] for each in checked.json()["patches"]}
    assert checked.code == 1
    fitting = {"counter": True, "skip_recheck": True, "no_empty_list": False, "misfit": False, "extra": True, "newer": False}
    assert fits == fitting
    assert cli("patch", "check", str(SOURCE), "--patches", "skip_recheck").code == 0
    target = tmp_path / "patched"
    applied = cli("patch", "apply", str(SOURCE), "--patches", "skip_recheck", "--output", str(target))
    assert applied.code == 0 and applied.stdout.strip() == str(target)
    assert (target / "core" / "counter.h").is_file() and not (SOURCE / "core" / "counter.h").exists()
    for wrong in ((), ("--output", str(target)), ("--in-place", "--output", str(tmp_path / "other"))):
        assert here("patch", "apply", str(SOURCE), "--patches", "skip_recheck", *wrong).code == 2
