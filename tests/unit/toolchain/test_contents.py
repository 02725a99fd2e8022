"""Compilers, tools, libraries and headers by their contents: an equal version and path say nothing of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fake_tools import FakeShell, llvm, tool, versions

from upshift.shell import SystemShell
from upshift.toolchain.contents import development_sha256, toolchain_sha256
from upshift.toolchain.find import Places, find, find_all
from upshift.toolchain.model import Family, Toolchain

LLVM = "usr/lib/llvm-22"
RESOURCES = f"{LLVM}/lib/clang/22"
GCC = "usr/lib/gcc/x86_64-linux-gnu/12"


def found(root: Path, family: Family) -> Toolchain:
    return find(family, shell=FakeShell(versions), places=Places(root=root, path=(root / "usr/bin",)))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A clang and a GCC with what belongs to each, and tools of a build."""
    binaries = llvm(tmp_path, "22.1.8")
    said = f"""NEEDS {tmp_path}/lib/libLLVM.so
-print-resource-dir {tmp_path / RESOURCES}
Configuration file: {tmp_path}/etc/clang.cfg
"""
    tool(binaries / "clang++", (binaries / "clang++").read_text() + said)
    for name in ("gcc", "g++"):
        tool(tmp_path / "usr/bin" / name, f"{name} (Debian) 12.2.0\n")
    inside = f"-print-prog-name=cc1plus {tmp_path / GCC}/cc1plus\n-print-file-name=libgcc.a {tmp_path / GCC}/libgcc.a\n"
    tool(tmp_path / "usr/bin/g++", f"g++ (Debian) 12.2.0\n{inside}-print-file-name=specs specs\n")
    tool(tmp_path / GCC / "cc1plus", f"NEEDS {tmp_path}/lib/libmpfr.so\n")
    tool(tmp_path / "usr/bin/cmake", f"NEEDS {tmp_path}/lib/libarchive.so\n")
    for name in (
        *(f"lib/lib{library}.so" for library in ("LLVM", "mpfr", "archive")),
        *("etc/clang.cfg", f"{GCC}/libgcc.a", f"{RESOURCES}/include/stddef.h", "usr/share/doc/clang/changelog", "usr/bin/vim"),
    ):
        tool(tmp_path / name)
    return tmp_path


@pytest.mark.parametrize(
    ("family", "changed"),
    [
        *(
            ("clang", f"{LLVM}/bin/{name}")
            for name in ("clang", "clang++", "ld.lld", "llvm-profdata", "llvm-bolt", "merge-fdata")
        ),
        ("clang", f"{RESOURCES}/include/stddef.h"),
        ("clang", f"{RESOURCES}/lib/linux/libclang_rt.profile-x86_64.a"),
        *(("clang", name) for name in (f"{LLVM}/lib/libbolt_rt_instr.a", "lib/libLLVM.so", "etc/clang.cfg")),
        *(("clang", name) for name in ("usr/bin/cmake", "lib/libarchive.so")),
        *(("gcc", name) for name in ("usr/bin/gcc", "usr/bin/g++", f"{GCC}/cc1plus", "lib/libmpfr.so", f"{GCC}/libgcc.a")),
        *(("gcc", name) for name in (f"{LLVM}/bin/llvm-bolt", "usr/bin/cmake")),
    ],
)
def test_another_file_of_an_equal_version_is_another_toolchain(root: Path, family: Family, changed: str) -> None:
    before = found(root, family)
    with (root / changed).open("a") as file:
        file.write("\nbuilt with a patch\n")
    after = found(root, family)
    assert before.sha256 != after.sha256
    assert before == after.model_copy(update={"sha256": before.sha256})


@pytest.mark.parametrize("family", ["clang", "gcc"])
def test_what_no_build_reads_changes_nothing(root: Path, family: Family) -> None:
    before = found(root, family)
    for name in ("usr/share/doc/clang/changelog", "usr/bin/vim"):
        (root / name).write_text("changed")
    assert found(root, family) == before


def test_a_list_of_compilers_does_without_their_contents(root: Path) -> None:
    (one,) = find_all("clang", shell=FakeShell(versions), places=Places(root=root, path=(root / "usr/bin",)))
    assert (one.sha256, one.development_sha256) == ("", "")


def test_libraries_that_a_real_program_loads_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = SystemShell()
    real = Toolchain(
        family="gcc", version="1", cc=Path("/bin/ls"), cxx=Path("/bin/ls"), linker=None, profdata=None, bolt=None,
        merge_fdata=None, major=1,
    )  # fmt: skip
    hashes = [toolchain_sha256(real, shell, ())]
    (library,) = list(Path("/lib").glob("*-linux-gnu/libselinux.so.1")) or [pytest.skip("ls loads no library of its own")]
    own = tmp_path / library.name
    own.write_bytes(library.read_bytes())
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    hashes.append(toolchain_sha256(real, shell, ()))
    with own.open("ab") as file:
        file.write(b"\0")
    hashes.append(toolchain_sha256(real, shell, ()))
    assert len(set(hashes)) == 3


SUMS = {
    "libssl-dev:amd64": (
        "usr/include/openssl/ssl.h",
        "usr/lib/x86_64-linux-gnu/libssl.a",
        "usr/share/doc/libssl-dev/changelog",
    ),
    "libssl3:amd64": ("usr/lib/x86_64-linux-gnu/libssl.so.3", "usr/share/doc/libssl3/copyright"),
    "libc6-dev:amd64": ("usr/lib/x86_64-linux-gnu/crt1.o", "usr/lib/x86_64-linux-gnu/pkgconfig/libcrypt.pc"),
    "libother1:amd64": ("usr/lib/x86_64-linux-gnu/libother.so.1",),
    "cmake-data": ("usr/share/cmake-3.25/Modules/FindOpenSSL.cmake",),
    "libstdc++-12-dev:amd64": ("usr/include/c++/12/vector", "usr/lib/gcc/x86_64-linux-gnu/12/libstdc++.a"),
    "vim": ("usr/bin/vim",),
    "libm": ("lib/x86_64-linux-gnu/libm.so.6",),
    "libc6-i386": ("lib32/libssl.so.3",),
    "libclang-common-22-dev": (
        "usr/lib/llvm-22/lib/clang/22/include/stddef.h",
        "usr/lib/llvm-22/lib/clang/22/lib/libclang_rt.a",
    ),
    "llvm-22-dev": ("usr/include/llvm-22/llvm/ADT/ADL.h", "usr/include/llvm-c-22/llvm-c/Core.h"),
    "libllvm22:amd64": ("usr/lib/x86_64-linux-gnu/libLLVM.so.22.1",),
    "libobjc-12-dev:amd64": (
        "usr/lib/gcc/x86_64-linux-gnu/12/include/objc/objc.h",
        "usr/lib/gcc/x86_64-linux-gnu/12/libobjc.a",
    ),
}


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    info = tmp_path / "var/lib/dpkg/info"
    info.mkdir(parents=True)
    for package, files in SUMS.items():
        (info / f"{package}.md5sums").write_text("".join(f"{'0' * 32}  {file}\n" for file in files))
    libraries = tmp_path / "usr/lib/x86_64-linux-gnu"
    libraries.mkdir(parents=True)
    (libraries / "libssl.so.3").touch()
    (libraries / "libssl.so").symlink_to("libssl.so.3")
    if not (tmp_path / "lib").exists():
        (tmp_path / "lib").symlink_to("usr/lib")
    (libraries / "libm.so.6").touch()
    (libraries / "libm.so").symlink_to(tmp_path / "lib/x86_64-linux-gnu/libm.so.6")
    (libraries / "libLLVM.so.22.1").touch()
    (libraries / "libLLVM-22.so").symlink_to("libLLVM.so.22.1")
    return tmp_path


def packed_again(root: Path, file: str) -> None:
    """The package of a file comes with another one of that name."""
    for listed in (root / "var/lib/dpkg/info").iterdir():
        listed.write_text(listed.read_text().replace(f"{'0' * 32}  {file}\n", f"{'1' * 32}  {file}\n"))


def install(root: Path, file: str) -> None:
    tool(root / file, "1")


@pytest.mark.parametrize(
    ("change", "file", "counts"),
    [
        *((packed_again, file, True) for file in SUMS["libssl-dev:amd64"][:2]),
        *(
            (packed_again, file, True)
            for name in ("libc6-dev:amd64", "cmake-data", "libstdc++-12-dev:amd64")
            for file in SUMS[name]
        ),
        (packed_again, "usr/lib/x86_64-linux-gnu/libssl.so.3", True),
        (packed_again, "usr/lib/x86_64-linux-gnu/libother.so.1", False),
        (packed_again, "lib/x86_64-linux-gnu/libm.so.6", True),
        (packed_again, "lib32/libssl.so.3", False),
        *(
            (packed_again, file, False)
            for name in ("libclang-common-22-dev", "llvm-22-dev", "libllvm22:amd64", "libobjc-12-dev:amd64")
            for file in SUMS[name]
        ),
        (packed_again, "usr/share/doc/libssl-dev/changelog", False),
        (packed_again, "usr/bin/vim", False),
        (install, "usr/local/include/deep/inside/own.h", True),
        (install, "usr/local/lib/libown.so.1", True),
        (install, "usr/local/lib/cmake/own/ownConfig.cmake", True),
        (install, "usr/local/lib/python3/module.py", False),
    ],
)
def test_development_files_count_and_others_do_not(
    packages: Path, change: Callable[[Path, str], None], file: str, counts: bool
) -> None:
    before = development_sha256(packages)
    change(packages, file)
    assert (development_sha256(packages) != before) is counts


def test_a_local_header_counts_by_its_contents(tmp_path: Path) -> None:
    """Also where there is no dpkg."""
    hashes = {development_sha256(tmp_path)}
    for text in ("1", "2"):
        tool(tmp_path / "usr/local/include/own.h", text)
        hashes.add(development_sha256(tmp_path))
    assert len(hashes) == 3


def test_a_compiler_is_found_with_the_machine_s_development_files(root: Path, packages: Path) -> None:
    before = found(root, "clang")
    packed_again(packages, "usr/include/openssl/ssl.h")
    after = found(root, "clang")
    assert before.development_sha256 != after.development_sha256 and before.sha256 == after.sha256
