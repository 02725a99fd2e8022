from __future__ import annotations

from pathlib import Path

import pytest
from fake_tools import FakeShell, llvm, tool, versions

from upshift.errors import CommandFailed, MissingTool, UsageError
from upshift.toolchain.find import Places, find, find_all, matches


def here(root: Path) -> Places:
    return Places(root=root, path=(root / "usr/bin",))


def test_newest_clang_wins_by_number_not_by_text(tmp_path: Path) -> None:
    llvm(tmp_path, "9.0.1")
    newest = llvm(tmp_path, "22.1.8")
    llvm(tmp_path, "19.1.7")
    one = find("clang", shell=FakeShell(versions), places=here(tmp_path))
    assert (one.version, one.major, one.cxx) == ("22.1.8", 22, newest / "clang++")
    assert one.linker == newest / "ld.lld"
    assert one.profdata == newest / "llvm-profdata"


def test_a_clang_with_bolt_beats_a_newer_one_without(tmp_path: Path) -> None:
    llvm(tmp_path, "22.1.8", without=("llvm-bolt",))
    llvm(tmp_path, "21.1.0", without=("libbolt_rt",))
    llvm(tmp_path, "19.1.7")
    assert find("clang", shell=FakeShell(versions), places=here(tmp_path)).version == "19.1.7"


def test_a_bolt_that_lacks_what_it_is_asked_for_is_none(tmp_path: Path) -> None:
    """LLVM 16's would fail after all training."""
    llvm(tmp_path, "16.0.6")
    for name in ("gcc", "g++"):
        tool(tmp_path / "usr/bin" / name, f"{name} (Debian) 12.2.0\n")
    shell = FakeShell(versions)
    assert find("clang", shell=shell, places=here(tmp_path)).bolt is None
    assert find("gcc", shell=shell, places=here(tmp_path)).bolt is None
    newer = llvm(tmp_path, "18.1.3") / "llvm-bolt"
    assert find("clang", version="18", shell=shell, places=here(tmp_path)).bolt == newer
    assert find("clang", version="16", shell=shell, places=here(tmp_path)).bolt is None
    assert find("gcc", shell=shell, places=here(tmp_path)).bolt == newer


def test_a_bolt_that_cannot_be_run_is_none(tmp_path: Path) -> None:
    bolt = str(llvm(tmp_path, "22.1.8") / "llvm-bolt")

    def answer(argv: tuple[str, ...]) -> tuple[int, str] | None:
        if argv[0] == bolt:
            raise CommandFailed("llvm-bolt cannot be run: Exec format error")
        return versions(argv)

    assert find("clang", shell=FakeShell(answer), places=here(tmp_path)).bolt is None


def test_without_any_bolt_the_newest_clang_is_taken(tmp_path: Path) -> None:
    for version in ("19.1.7", "22.1.8"):
        llvm(tmp_path, version, without=("merge-fdata",))
    one = find("clang", shell=FakeShell(versions), places=here(tmp_path))
    assert (one.version, one.bolt, one.merge_fdata) == ("22.1.8", None, None)


def test_a_clang_through_a_link_is_found_with_the_tools_beside_its_real_path(tmp_path: Path) -> None:
    real = llvm(tmp_path / "home", "20.1.0")
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/clang").symlink_to(real / "clang")
    one = find("clang", shell=FakeShell(versions), places=here(tmp_path))
    assert one.bolt == real / "llvm-bolt"
    assert one.cc == real / "clang"


def test_version_asks_for_one_of_several(tmp_path: Path) -> None:
    llvm(tmp_path, "22.1.8")
    llvm(tmp_path, "19.1.7")
    shell = FakeShell(versions)
    assert find("clang", version="19", shell=shell, places=here(tmp_path)).version == "19.1.7"
    with pytest.raises(MissingTool, match="no usable clang 18") as caught:
        find("clang", version="18", shell=shell, places=here(tmp_path))
    assert "apt-get install clang-18 lld-18" in caught.value.hint


@pytest.mark.parametrize(
    ("lost", "named"),
    [
        ("ld.lld", "lld"),
        ("llvm-profdata", "llvm-profdata"),
        ("libclang_rt", "libclang-rt"),
        ("clang++", "clang++"),
    ],
)
def test_half_a_clang_is_none_and_the_error_says_which_half(tmp_path: Path, lost: str, named: str) -> None:
    llvm(tmp_path, "22.1.8", without=(lost,))
    with pytest.raises(MissingTool) as caught:
        find("clang", shell=FakeShell(versions), places=here(tmp_path))
    assert named in caught.value.message
    assert "bolt-22" in caught.value.hint


def test_too_old_says_found_and_needed(tmp_path: Path) -> None:
    llvm(tmp_path, "13.0.1")
    with pytest.raises(MissingTool, match=r"too old: found clang 13\.0\.1, needed 14 or newer"):
        find("clang", shell=FakeShell(versions), places=here(tmp_path))


def test_gcc_reads_its_own_version_not_the_packagers(tmp_path: Path) -> None:
    for name in ("gcc", "g++", "gcc-11", "g++-11"):
        version = "11.4.0" if name.endswith("11") else "12.2.0"
        tool(tmp_path / "usr/bin" / name, f"{name} (Debian 99.9.9-14+deb12u1) {version}\nCopyright")
    tool(tmp_path / "usr/bin/gcc-ar", "GNU ar 2.40")
    tool(tmp_path / "usr/bin/gcc-13", "gcc-13 (Debian) 13.1.0\n")  # no g++-13 beside it
    bolt = llvm(tmp_path, "22.1.8") / "llvm-bolt"
    shell = FakeShell(versions)
    one = find("gcc", shell=shell, places=here(tmp_path))
    assert (one.version, one.cxx.name, one.linker, one.profdata) == ("12.2.0", "g++", None, None)
    assert one.bolt == bolt
    assert [one.version for one in find_all("gcc", shell=shell, places=here(tmp_path))] == [
        "12.2.0",
        "11.4.0",
    ]


def test_a_gcc_and_a_g_plus_plus_of_two_versions_are_no_compiler(tmp_path: Path) -> None:
    """Link-time optimisation reads no objects of another version."""
    binaries = tmp_path / "usr/bin"
    for name, version in (("gcc-12", "12.2.0"), ("g++-12", "12.2.0"), ("gcc-13", "13.3.0"), ("g++-13", "13.3.0")):
        tool(binaries / name, f"{name} (Ubuntu) {version}\n")
    (binaries / "gcc").symlink_to("gcc-13")
    (binaries / "g++").symlink_to("g++-12")
    shell = FakeShell(versions)
    one = find("gcc", shell=shell, places=here(tmp_path))
    assert (one.version, one.cc.name, one.cxx.name) == ("13.3.0", "gcc-13", "g++-13")
    assert find("gcc", version="12", shell=shell, places=here(tmp_path)).cc.name == "gcc-12"
    for name in ("gcc-12", "g++-13"):
        (binaries / name).unlink()
    with pytest.raises(MissingTool, match=r"gcc is 13\.3\.0, and g\+\+ beside it is 12\.2\.0"):
        find("gcc", shell=shell, places=here(tmp_path))


def test_old_gcc_is_refused(tmp_path: Path) -> None:
    for name in ("gcc", "g++"):
        tool(tmp_path / "usr/bin" / name, "gcc (Ubuntu 9.4.0-1ubuntu1) 9.4.0\n")
    with pytest.raises(MissingTool, match=r"found gcc 9\.4\.0, needed 11"):
        find("gcc", shell=FakeShell(versions), places=here(tmp_path))


def test_ccache_does_not_pass_for_a_compiler(tmp_path: Path) -> None:
    ccache = tool(tmp_path / "usr/bin/ccache", "ccache version 4.8.1\n")
    for name in ("gcc", "g++"):
        (tmp_path / "usr/bin" / name).symlink_to(ccache)
    assert find_all("gcc", shell=FakeShell(versions), places=here(tmp_path)) == ()


def test_icx_is_found_in_oneapi_with_tools_in_its_own_folder(tmp_path: Path) -> None:
    folder = tmp_path / "opt/intel/oneapi/compiler/2025.0/bin"
    for name in ("icx", "icpx"):
        tool(folder / name, "Intel(R) oneAPI DPC++/C++ Compiler 2025.0.4 (2025.0.4.20241205)\n")
    for name in ("ld.lld", "llvm-profdata"):
        tool(folder / "compiler" / name)
    one = find("icx", shell=FakeShell(versions), places=here(tmp_path))
    assert (one.version, one.major) == ("2025.0.4", 2025)
    assert one.profdata == folder / "compiler/llvm-profdata"


def test_a_compiler_that_crashes_is_not_taken(tmp_path: Path) -> None:
    llvm(tmp_path, "22.1.8")
    with pytest.raises(MissingTool, match="does not say its version"):
        find("clang", shell=FakeShell(lambda _: (1, "clang version 22.1.8")), places=here(tmp_path))


def test_versions_match_by_whole_numbers() -> None:
    assert matches("19.1.7", "19")
    assert matches("19.1.7", "19.1")
    assert not matches("19.1.7", "1")
    assert not matches("19.1.7", "19.2")
    with pytest.raises(UsageError):
        matches("19.1.7", "newest")
