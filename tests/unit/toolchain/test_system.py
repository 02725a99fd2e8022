from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fake_tools import FakeShell

from upshift.errors import MissingTool
from upshift.paths import CHECKOUT
from upshift.toolchain import system

LLVM_22 = ("clang-22", "lld-22", "llvm-22", "libclang-rt-22-dev", "bolt-22", "libbolt-22-dev")
LLVM_19 = tuple(name.replace("22", "19") for name in LLVM_22)


class Debian:
    """dpkg, apt and sudo of a make-believe machine."""

    def __init__(self, *, installed: set[str], known: set[str], sudo: bool = False) -> None:
        self.installed = installed
        self.known = known
        self.after_update = known
        self.sudo = sudo
        self.failing_installs = 0
        self.says = "404 Not Found"

    def __call__(self, argv: tuple[str, ...]) -> tuple[int, str] | None:
        if argv[0] == "dpkg-query":
            rows = [f"ii :{name}" if name in self.installed else f"un :{name}" for name in argv[4:]]
            return 1, "\n".join([*rows, "dpkg-query: no packages found matching ii :nothing"]) + "\n"
        if argv[:2] == ("apt-cache", "policy"):
            return 0, "".join(self._policy(name) for name in argv[2:])
        if argv == ("sudo", "-n", "true"):
            return (0, "") if self.sudo else None
        if "update" in argv:
            self.known = self.after_update
            return 0, ""
        assert "install" in argv
        if self.failing_installs:
            self.failing_installs -= 1
            return 100, self.says
        self.installed |= set(argv[argv.index("install") + 4 :])
        return 0, ""

    def _policy(self, name: str) -> str:
        candidate = "1.0" if name in self.known else "(none)"
        return f"{name}:\n  Installed: (none)\n  Candidate: {candidate}\n  Version table:\n"


def everything(purpose: system.Purpose) -> set[str]:
    return {name for need in system._needs(purpose) for name in need[:1]}


@pytest.fixture(autouse=True)
def apt_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(os, "geteuid", lambda: 0)


def test_nothing_is_missing_on_a_complete_machine() -> None:
    machine = Debian(installed=everything("mysql") | set(LLVM_19), known=set())
    assert system.missing_packages("mysql", FakeShell(machine)) == ()


def test_llvm_22_where_apt_has_it_else_the_next_one_that_is_whole() -> None:
    built = everything("mysql")
    both = Debian(installed=built, known={*LLVM_22, *LLVM_19})
    assert system.missing_packages("mysql", FakeShell(both)) == LLVM_22
    no_bolt_22 = Debian(installed=built | {"lld-19"}, known={*LLVM_22, *LLVM_19} - {"bolt-22"})
    assert system.missing_packages("mysql", FakeShell(no_bolt_22)) == tuple(n for n in LLVM_19 if n != "lld-19")


def test_gcc_only_asks_for_no_llvm() -> None:
    machine = Debian(installed=set(), known=everything("gcc-only"))
    missing = system.missing_packages("gcc-only", FakeShell(machine))
    assert "bison" in missing
    assert "g++" in missing
    assert not any("clang" in name or "bolt" in name for name in missing)


def test_measuring_asks_for_no_compiler() -> None:
    assert system.missing_packages("measure", FakeShell(Debian(installed={"util-linux"}, known={"sysbench"}))) == ("sysbench",)


def test_a_need_is_met_by_any_of_its_names_and_installed_by_the_one_that_exists() -> None:
    installed = everything("gcc-only") - {"pkg-config", "linux-perf"} | {"pkgconf"}
    machine = Debian(installed=installed, known={"linux-tools-generic"})
    assert system.missing_packages("gcc-only", FakeShell(machine)) == ("linux-tools-generic",)


@pytest.mark.parametrize("has_it", [True, False])
def test_the_browser_is_installed_where_apt_has_it(has_it: bool) -> None:
    installed = everything("test") - {"chromium"} | set(LLVM_22)
    machine = Debian(installed=installed, known={"chromium"} if has_it else set())
    assert system.missing_packages("test", FakeShell(machine)) == (("chromium",) if has_it else ())


def test_the_tests_of_the_distributions_place_have_what_their_machine_is_made_with() -> None:
    house = (CHECKOUT / "tests" / "full" / "distribution.py").read_text()
    assert "\nip link" in house and "unshare" in house
    assert {"iproute2", "util-linux"} <= everything("test")


def test_root_installs_at_once_and_says_so_in_one_line() -> None:
    machine = Debian(installed=everything("test") - {"cmake"} | set(LLVM_22), known={"cmake"})
    shell, said = FakeShell(machine), list[str]()
    assert system.ensure_packages("test", allow_install=True, shell=shell, say=said.append) == ("cmake",)
    assert said == ["no terminal to ask on: installing 1 system package (--no-install refuses): cmake"]
    assert shell.ran[-1][-5:] == ("install", "-y", "--no-remove", "--no-install-recommends", "cmake")
    assert not any("update" in argv for argv in shell.ran)
    assert not any("sudo" in argv for argv in shell.ran)


def test_package_lists_are_fetched_on_a_fresh_image() -> None:
    machine = Debian(installed=everything("test"), known=set())
    machine.after_update = {*LLVM_19}
    shell = FakeShell(machine)
    assert system.ensure_packages("test", allow_install=True, shell=shell, say=lambda _: None) == LLVM_19
    assert sum("update" in argv for argv in shell.ran) == 1


def test_stale_package_lists_are_fetched_once_then_given_up() -> None:
    machine = Debian(installed=everything("test") - {"cmake"} | set(LLVM_22), known={"cmake"})
    machine.failing_installs = 1
    shell = FakeShell(machine)
    assert system.ensure_packages("test", allow_install=True, shell=shell, say=lambda _: None) == ("cmake",)
    machine.installed.discard("cmake")
    machine.failing_installs = 2
    with pytest.raises(MissingTool, match="installing them failed"):
        system.ensure_packages("test", allow_install=True, shell=shell, say=lambda _: None)


def test_no_package_of_the_users_is_removed() -> None:
    """apt-get install -y removes what conflicts, such as libcurl4-gnutls-dev, without a question."""
    machine = Debian(installed=everything("test") - {"cmake"} | set(LLVM_22), known={"cmake"})
    machine.failing_installs = 2
    machine.says = "The following packages will be REMOVED:\n  mine\nE: Packages need to be removed but remove is disabled.\n"
    shell = FakeShell(machine)
    with pytest.raises(MissingTool, match="cmake, and apt would have to remove other packages to install them") as caught:
        system.ensure_packages("test", allow_install=True, shell=shell, say=lambda _: None)
    assert "sudo apt-get install --no-install-recommends cmake" in caught.value.hint
    assert all("--no-remove" in argv for argv in shell.ran if "install" in argv)


def test_no_llvm_whose_bolt_lacks_an_order_of_functions_is_installed_or_enough() -> None:
    llvm_16 = {name.replace("22", "16") for name in LLVM_22}
    machine = Debian(installed=everything("mysql") | llvm_16, known={*llvm_16, *LLVM_19})
    assert system.missing_packages("mysql", FakeShell(machine)) == LLVM_19


def test_a_user_with_sudo_installs_through_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    machine = Debian(installed=everything("test") - {"cmake"} | set(LLVM_22), known={"cmake"}, sudo=True)
    shell = FakeShell(machine)
    system.ensure_packages("test", allow_install=True, shell=shell, say=lambda _: None)
    assert shell.ran[-1][:4] == ("sudo", "-n", "env", "DEBIAN_FRONTEND=noninteractive")


@pytest.mark.parametrize(("uid", "allow"), [(1000, True), (0, False)])
def test_without_the_right_or_the_permission_the_line_to_paste_is_given(
    monkeypatch: pytest.MonkeyPatch, uid: int, allow: bool
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    machine = Debian(installed=everything("test") - {"cmake"} | set(LLVM_22), known={"cmake"})
    shell = FakeShell(machine)
    with pytest.raises(MissingTool, match="cmake") as caught:
        system.ensure_packages("test", allow_install=allow, shell=shell, say=lambda _: None)
    assert "sudo apt-get install --no-install-recommends cmake" in caught.value.hint
    assert not any("install" in argv for argv in shell.ran)


@pytest.mark.parametrize("agrees", [True, False])
def test_on_a_terminal_it_asks_first(monkeypatch: pytest.MonkeyPatch, agrees: bool) -> None:
    questions: list[str] = []

    def agreed(question: str) -> bool:
        questions.append(question)
        return agrees

    monkeypatch.setattr(system, "agreed", agreed)
    machine = Debian(installed=everything("test") - {"cmake", "fio"} | set(LLVM_22), known={"cmake", "fio"})
    shell, said = FakeShell(machine), list[str]()
    if agrees:
        system.ensure_packages("test", allow_install=True, shell=shell, say=said.append)
    else:
        with pytest.raises(MissingTool, match="cmake"):
            system.ensure_packages("test", allow_install=True, shell=shell, say=said.append)
    assert questions == ["Install 2 system packages (cmake fio)? [Y/n] "]
    assert said == []
    assert any("install" in argv for argv in shell.ran) is agrees


@pytest.mark.parametrize(("typed", "answer"), [("\n", True), ("y\n", True), ("Yes\n", True), ("n\n", False), ("", False)])
def test_what_counts_as_a_yes(typed: str, answer: bool) -> None:
    code = "import sys; from upshift.terminal import agreed; sys.stdout.write(str(agreed('Install? [Y/n] ')))"
    main, side = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT / "src")}
    asked = subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdin=side, stderr=side, stdout=subprocess.PIPE, text=True
    )
    os.write(main, typed.encode() or b"\x04")
    assert asked.communicate(timeout=20)[0] == str(answer)
    os.close(side)
    os.close(main)


def test_without_a_terminal_nobody_is_asked() -> None:
    code = "import sys; from upshift.terminal import agreed; sys.stdout.write(str(agreed('Install? [Y/n] ')))"
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("None", "")


def test_elsewhere_programs_are_named_and_nothing_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/x" if name == "cmake" else None)
    shell = FakeShell(lambda _: None)
    with pytest.raises(MissingTool, match="ninja") as caught:
        system.ensure_packages("test", allow_install=True, shell=shell, say=lambda _: None)
    assert "cmake" not in caught.value.message
    assert shell.ran == []


def test_the_launcher_can_import_it_without_any_installed_package(tmp_path: Path) -> None:
    code = "import sys, upshift.cli.packages; sys.exit('pydantic' in sys.modules or 'typer' in sys.modules)"
    environment = {"PYTHONPATH": str(CHECKOUT / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    # -S: without site-packages, as in a bare Python.
    done = subprocess.run([sys.executable, "-S", "-c", code], env=environment, cwd=tmp_path, check=False)
    assert done.returncode == 0
