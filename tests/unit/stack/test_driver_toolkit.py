"""Programs of drivers are built once, in the cache; what is missing is named."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from fakes import FakeShell, Output

from upshift.errors import MissingTool
from upshift.stack.driver_matrix.client_library import find_client_library
from upshift.stack.driver_matrix.toolkit import Workshop, prepare


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)


@pytest.fixture
def all_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")


def shop(folder: Path, shell: FakeShell, binary: Path | None = None) -> Workshop:
    return Workshop(shell, binary, lambda _line: None, folder)


@pytest.mark.parametrize(("language", "said"), [("java", "java"), ("node", "node"), ("go", "go"), ("c", "cc")])
@pytest.mark.usefixtures("nothing_installed")
def test_a_tool_that_is_missing_is_named_with_a_hint(language: str, said: str, tmp_path: Path) -> None:
    shell = FakeShell()
    with pytest.raises(MissingTool, match=f"there is no {said} on this machine") as raised:
        prepare(language, shop(tmp_path, shell))  # type: ignore[arg-type]
    assert "apt-get install" in raised.value.hint and not shell.ran


@pytest.mark.usefixtures("all_installed")
def test_a_program_is_built_once_and_outside_the_checkout(tmp_path: Path) -> None:
    shell = FakeShell()
    first = prepare("go", shop(tmp_path, shell))
    assert prepare("go", shop(tmp_path, shell)) == first
    (command,) = shell.ran
    assert command.argv[:2] == ("go", "build") and "-mod=readonly" in command.argv
    assert Path(first.argv[0]).is_relative_to(tmp_path)
    assert all(Path(command.env[name]).is_relative_to(tmp_path) for name in ("GOMODCACHE", "GOCACHE"))


@pytest.mark.usefixtures("nothing_installed")
def test_python_s_drivers_do_without_the_one_that_needs_a_c_library(tmp_path: Path) -> None:
    shell = FakeShell()
    found = prepare("python", shop(tmp_path, shell))
    assert [(each.what, bool(each.hint)) for each in found.without] == [("mysqlclient", True)]
    assert any("--require-hashes" in command.argv for command in shell.ran)


def test_the_c_library_is_that_of_the_server_s_build_folder(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "archive_output_directory").mkdir(parents=True)
    (tree / "archive_output_directory" / "libmysqlclient.a").write_text("")
    (tree / "CMakeCache.txt").write_text("CMAKE_HOME_DIRECTORY:INTERNAL=/src/mysql\n")
    found = find_client_library(FakeShell(), tree / "runtime_output_directory" / "mysqld")
    assert found.name == "libmysqlclient" and "-I/src/mysql/include" in found.compile_flags
    assert found.environment == {"LIBMYSQL_PLUGIN_DIR": str(tree / "plugin_output_directory")}


@pytest.mark.usefixtures("all_installed")
def test_else_it_is_the_system_s(tmp_path: Path) -> None:
    shell = FakeShell(
        {
            "pkg-config --cflags --libs mysqlclient": Output(returncode=1),
            "libmariadb": Output("-I/usr/include/mariadb -L/usr/lib -lmariadb\n"),
        }
    )
    found = find_client_library(shell, tmp_path / "bin" / "mysqld")
    assert (found.name, found.compile_flags) == ("libmariadb", ("-I/usr/include/mariadb",))
    assert found.link_flags == ("-L/usr/lib", "-lmariadb")


@pytest.mark.usefixtures("nothing_installed")
def test_without_one_the_packages_are_named() -> None:
    with pytest.raises(MissingTool, match="C client library") as raised:
        find_client_library(FakeShell(), None)
    assert "libmariadb-dev" in raised.value.hint
