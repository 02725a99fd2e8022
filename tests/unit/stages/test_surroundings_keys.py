"""What is kept of a server follows the contents of all that it runs with."""

from __future__ import annotations

from pathlib import Path

from fakes import FakeShell, Output

from upshift.measure.variant import Variant
from upshift.server.kind import Program
from upshift.stages.keys import libraries_key, surroundings_key


def test_counts_and_samples_follow_the_contents_of_what_a_server_runs_with(tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("malloc.so", "under")}
    for file in files.values():
        file.write_text("1")
    arm = Variant(
        name="a",
        program=Program(kind="fake", binary=Path("/a")),
        environment={"LD_PRELOAD": f"/none.so:{files['malloc.so']}"},
        under=(str(files["under"]), "--batch"),
    )
    keys = [surroundings_key(arm)]
    for file in files.values():
        file.write_text("2")
        keys.append(surroundings_key(arm))
    assert len({str(each) for each in keys}) == 3
    assert surroundings_key(arm.model_copy(update={"environment": {}, "under": ()})) == {}


def test_counts_follow_the_libraries_that_a_server_loads(tmp_path: Path) -> None:
    library, arm = tmp_path / "libssl.so.3", Variant(name="a", program=Program(kind="fake", binary=Path("/a")))
    shell = FakeShell({"ldd /a": Output(f"\tlinux-vdso.so.1 (0x7ff)\n\tlibssl.so.3 => {library} (0x7f0)\n")})
    keys = []
    for text in ("1", "2"):
        library.write_text(text)
        keys.append(libraries_key(arm, shell))
    assert [list(each) for each in keys] == [[str(library)]] * 2 and keys[0] != keys[1]


def test_a_server_with_a_loader_of_its_own_has_libraries_too(tmp_path: Path) -> None:
    """Debian's server on an older Debian, with patchelf: ldd shows the loader of the program and the one that it ran."""
    own, system = tmp_path / "own ld.so.2", tmp_path / "ld.so.2"
    own.write_text("1")
    system.write_text("2")
    shell = FakeShell({"ldd /a": Output(f"\t{own} => {system} (0x7ff82e3cb000)\n")})
    arm = Variant(name="a", program=Program(kind="fake", binary=Path("/a")))
    assert list(libraries_key(arm, shell)) == [str(system), str(own)]
