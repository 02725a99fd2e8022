"""The package: what is in it, that it is the same each time, and that one which does not start is refused."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeKind, FakeProcess, FakeShell, Output, toolchain

from upshift.build.model import Build, Patched
from upshift.build.recipe import Recipe
from upshift.errors import VerifyFailed
from upshift.package.bundle import Bundle, check, make_package
from upshift.shell import Command, SystemShell
from upshift.source.model import Source
from upshift.values import file_sha256


class Kind(FakeKind):
    def install(self, source: Path, tree: Path, server: Path) -> Mapping[str, Path]:
        loaded = {f"lib/{file.name}": file for file in sorted(tree.glob("*.so"))}
        programs = {"bin/server": server, "bin/client": tree / "client"}
        return {**programs, "share": source / "share", "LICENSE": source / "LICENSE", **loaded}


class House:
    """A source and a build to package."""

    def __init__(self, root: Path) -> None:
        self.root = root
        source, tree = root / "source", root / "tree"
        (source / "share" / "charsets").mkdir(parents=True)
        (source / "share" / "charsets" / "latin1.xml").write_text("<charset/>")
        (source / "share" / "CMakeFiles").mkdir()
        (source / "LICENSE").write_text("GPL")
        tree.mkdir()
        self.client, self.server = tree / "client", tree / "server"
        for program in (self.client, self.server):
            program.write_text("program")
            program.chmod(0o755)
        self.source = Source(kind="fake", version="1.0", origin="here", sha256="s", verified="none", path=source)
        self.build = Build.model_validate(
            {
                "recipe": Recipe(name="plain", toolchain="clang"),
                "toolchain": toolchain(),
                "source_sha256": "s",
                "tree": tree,
                "server": self.server,
                "sha256": "0",
                "objects": 1,
            }
        )

    def make(self, name: str = "out", shell: FakeShell | None = None, **given: Any) -> Bundle:
        return make_package(
            kind=Kind(),
            source=self.source,
            plain=self.build,
            server=self.server,
            provenance={"recipe": "pgo"},
            settings={"page_size": "4K", "pool": "2G"},
            folder=self.root / name,
            shell=shell or FakeShell(),
            log=self.root / "log",
            **{"post_linked": False, **given},
        )


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_the_tree_holds_programs_files_and_papers(house: House) -> None:
    made = house.make()
    files = {str(path.relative_to(made.folder)) for path in made.folder.rglob("*") if path.is_file()}
    papers = {"LICENSE", "ROLLBACK.md", "provenance.json", "sample.cnf", "upshift.conf"}
    assert files == {"bin/server", "bin/client", "share/charsets/latin1.xml", *papers}
    assert not (made.folder / "share" / "CMakeFiles").exists()


def test_provenance_names_each_programs_checksum(house: House) -> None:
    made = house.make()
    provenance = json.loads((made.folder / "provenance.json").read_text())
    assert provenance["schema_version"] == 1
    assert provenance["recipe"] == "pgo"
    assert provenance["sha256"]["bin/server"] == file_sha256(made.folder / "bin" / "server")


def test_the_sample_holds_what_was_measured_with(house: House) -> None:
    assert "[server]\nlog = on\npage_size = 4K\npool = 2G\n" in (house.make().folder / "sample.cnf").read_text()


def test_the_way_back_has_this_packages_name_and_spares_other_drop_ins(house: House) -> None:
    text = (house.make().folder / "ROLLBACK.md").read_text()
    assert "tar -C /opt -xzf fake-1.0-upshift.tar.gz" in text
    assert "cp /opt/fake-1.0-upshift/upshift.conf /etc/systemd/system/fake.service.d/upshift.conf" in text
    assert "{" not in text
    assert "systemctl revert" not in text


def test_what_a_server_needs_stands_before_the_restart(house: House) -> None:
    """Its options, its plugins, and the files of a keyring, without which it has no keys of the tables that are encrypted."""
    before, _after = (house.make().folder / "ROLLBACK.md").read_text().split("    systemctl restart fake\n", 1)
    assert "options behind ExecStart's program" in before and "LD_PRELOAD" in before
    assert "`server.my`" in before and "Copy yours to /opt/fake-1.0-upshift/bin and /opt/fake-1.0-upshift/lib/plugin" in before


def test_the_way_back_from_patches_begins_with_their_variables(house: House) -> None:
    """A server without them does not start with a my.cnf that has one."""
    assert "loose_" not in (house.make().folder / "ROLLBACK.md").read_text()
    house.source = house.source.model_copy(update={"patches": ("blocking_read",)})
    _way_in, way_back = (house.make("patched").folder / "ROLLBACK.md").read_text().split("To go back:\n")
    assert way_back.index("loose_") < way_back.index("    rm /etc")
    assert "a server without the patches" in way_back and "{" not in way_back


def test_relocations_are_stripped_but_not_from_what_bolt_wrote(house: House) -> None:
    shell = FakeShell()
    house.make(shell=shell)
    assert [Path(line.split()[-1]).name for line in shell.lines if "objcopy" in line] == ["client", "server"]
    shell = FakeShell()
    house.make(shell=shell, post_linked=True)
    assert [Path(line.split()[-1]).name for line in shell.lines if "objcopy" in line] == ["client"]


def test_plugins_are_packed_stripped_and_summed_too(house: House) -> None:
    plugin = house.root / "tree" / "clone.so"
    plugin.write_text("shared object")
    shell = FakeShell()
    made = house.make(shell=shell)
    assert [Path(line.split()[-1]).name for line in shell.lines if "objcopy" in line] == ["client", "server", "clone.so"]
    provenance = json.loads((made.folder / "provenance.json").read_text())
    assert provenance["sha256"]["lib/clone.so"] == file_sha256(plugin)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
@pytest.mark.parametrize("tag", ["--enable-new-dtags", "--disable-new-dtags"])
def test_a_program_that_needs_libraries_of_the_build_folder_is_refused(house: House, tag: str) -> None:
    """It starts wherever it is unpacked on this machine alone."""
    shell, tree = SystemShell(), house.build.tree
    (tree / "a.c").write_text("int main(void) { return 0; }\n")
    linked = ("gcc", "a.c", "-o", "client", f"-Wl,{tag}")
    shell.run(Command((*linked, "-Wl,-rpath,$ORIGIN/../lib"), cwd=tree))
    house.make()
    shell.run(Command((*linked, f"-Wl,-rpath,/usr/lib:{tree}/library_output_directory"), cwd=tree))
    refused = pytest.raises(VerifyFailed, match=r"client needs shared libraries of the build folder.*/library_output")
    with refused:
        house.make()
    patched = Patched(configured=tree, source=tree, objects=tree, tree=tree)
    house.build = house.build.model_copy(update={"tree": house.root / "links", "patched": patched})
    (house.root / "links").symlink_to(tree)
    with refused:
        house.make()


def test_the_same_content_gives_the_same_tarball(house: House) -> None:
    first = file_sha256(house.make("one").tarball)
    os.utime(house.server, (1, 1))
    before = os.umask(0o077)
    try:
        assert file_sha256(house.make("two").tarball) == first
    finally:
        os.umask(before)
    house.client.write_text("changed")
    assert file_sha256(house.make("three").tarball) != first


def test_the_tarball_belongs_to_root_and_unpacks_into_one_folder(house: House) -> None:
    with tarfile.open(house.make().tarball) as archive:
        members = archive.getmembers()
    assert {member.name.split("/")[0] for member in members} == {"fake-1.0-upshift"}
    assert {(member.uid, member.uname) for member in members} == {(0, "root")}
    assert {member.name: member.mode for member in members if "/bin/" in member.name} == {
        "fake-1.0-upshift/bin/client": 0o755,
        "fake-1.0-upshift/bin/server": 0o755,
    }


def test_the_check_starts_the_unpacked_server_and_stops_it(house: House) -> None:
    process = FakeProcess()
    shell = FakeShell(processes=iter([process]))
    made = house.make(shell=shell)
    (started,) = shell.spawned
    assert Path(started.argv[0]) == house.root / "out" / "check" / made.folder.name / "bin" / "server"
    assert process.signals == [15]
    initialised = next(line for line in shell.lines if "--initialise" in line)
    for option in ("--page_size=4K", "--pool=2G"):
        assert option in initialised and option in started.argv
    assert not (house.root / "out" / "check").exists()


def test_a_package_whose_server_does_not_start_is_refused(house: House) -> None:
    dead = FakeProcess(code=127)
    with pytest.raises(VerifyFailed, match="the unpacked package does not work"):
        house.make(shell=FakeShell(processes=iter([dead])))
    assert not (house.root / "out" / "check").exists()


def test_a_package_that_does_not_initialise_is_refused(house: House) -> None:
    with pytest.raises(VerifyFailed, match="the unpacked package does not work"):
        house.make(shell=FakeShell({"--initialise": Output(returncode=1)}))


def test_a_program_that_was_not_built_is_named(house: House) -> None:
    house.client.unlink()
    with pytest.raises(VerifyFailed, match="the package lacks bin/client"):
        house.make()


def test_a_tarball_without_a_server_is_refused(house: House) -> None:
    with tarfile.open(house.root / "empty.tar.gz", "w:gz") as archive:
        archive.add(house.source.path, arcname="pkg")
    with pytest.raises(VerifyFailed, match="holds no server"):
        check(Kind(), house.root / "empty.tar.gz", {}, house.root / "scratch", FakeShell(), house.root / "log")
