"""What a package's service turns on: the drop-in, what the package holds for it, and what is refused."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import pytest
from fakes import FakeKind, FakeShell
from test_bundle import House, house

from upshift.cli.app import app
from upshift.errors import UsageError, VerifyFailed
from upshift.options import Options
from upshift.package import service
from upshift.package.service import Part, drop_in, refuse_parts
from upshift.paths import CHECKOUT
from upshift.server.mysql import KIND
from upshift.values import checked

__all__ = ["house"]
OPT = Path("/opt/fake-1.0-upshift")
PLAIN = "[Service]\nExecStart=\nExecStart=/opt/fake-1.0-upshift/bin/server\n"


@pytest.fixture(autouse=True)
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UPSHIFT_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "cache" / "target" / "release" / "libupshift_hugetext.so"
    file.parent.mkdir(parents=True)
    file.write_text("library")
    return file


@pytest.mark.parametrize(
    ("parts", "lines"),
    [
        ((), ""),
        (("batch",), "CPUSchedulingPolicy=batch\n"),
        (
            ("huge-text",),
            'Environment="LD_PRELOAD=/opt/fake-1.0-upshift/lib/libupshift_hugetext.so"\n'
            'Environment="UPSHIFT_HUGETEXT_PROGRAM=server"\nEnvironment="UPSHIFT_HUGETEXT_SAY=1"\n',
        ),
    ],
)
def test_a_drop_in_has_what_was_asked_for(parts: tuple[Part, ...], lines: str) -> None:
    assert drop_in(FakeKind(), parts, OPT) == PLAIN + lines


def test_the_thread_pool_is_options_of_the_server() -> None:
    assert "bin/server --pool-size=2\n" in drop_in(FakeKind(), ("thread-pool",), OPT)
    assert "bin/mysqld --plugin-load-add=thread_pool.so " in drop_in(KIND, ("thread-pool",), OPT)


def test_the_shipped_study_measures_the_thread_pool_that_a_package_gets() -> None:
    study = tomllib.loads((CHECKOUT / "studies" / "service.toml").read_text())
    assert study["factors"]["thread-pool"]["on"]["settings"] == KIND.thread_pool


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The servers that were looked at; no fake process has a memory to look into."""
    seen: list[int] = []
    monkeypatch.setattr(service, "refuse_unloaded", lambda pid, _parts, _log: seen.append(pid))
    return seen


def test_the_package_holds_the_drop_in_and_its_library(house: House, loaded: list[int]) -> None:
    shell = FakeShell()
    made = house.make(shell=shell, parts=("huge-text", "batch", "thread-pool"))
    text = (made.folder / "upshift.conf").read_text()
    assert text == drop_in(FakeKind(), ("huge-text", "batch", "thread-pool"), Path("/opt") / made.folder.name)
    assert (made.folder / "lib" / "libupshift_hugetext.so").read_text() == "library"
    assert "lib/libupshift_hugetext.so" in json.loads((made.folder / "provenance.json").read_text())["sha256"]


def test_the_package_is_tried_with_what_its_service_turns_on(house: House, loaded: list[int]) -> None:
    shell = FakeShell()
    made = house.make(shell=shell, parts=("huge-text", "thread-pool"))
    (started,) = shell.spawned
    unpacked = house.root / "out" / "check" / made.folder.name
    assert started.env["LD_PRELOAD"] == str(unpacked / "lib" / "libupshift_hugetext.so")
    assert started.env["UPSHIFT_HUGETEXT_PROGRAM"] == "server"
    assert "--pool_size=2" in started.argv
    assert loaded == [4711]


def test_a_server_without_its_library_is_no_server_with_it(house: House, tmp_path: Path) -> None:
    """The loader ignores a library that it cannot load, such as one below a folder with a space in its name."""
    with pytest.raises(VerifyFailed, match=r"has not loaded lib/libupshift_hugetext\.so"):
        service.refuse_unloaded(os.getpid(), ("huge-text",), tmp_path / "log")
    service.refuse_unloaded(os.getpid(), ("batch",), tmp_path / "log")
    maps = tmp_path / "proc" / "7" / "maps"
    maps.parent.mkdir(parents=True)
    maps.write_text("7f0-7f1 r-xp 0 fe:00 5 /opt/a b/lib/libupshift_hugetext.so\n")
    service.refuse_unloaded(7, ("huge-text",), tmp_path / "log", root=tmp_path)


def test_without_parts_nothing_is_preloaded(house: House) -> None:
    shell = FakeShell()
    made = house.make(shell=shell)
    assert "LD_PRELOAD" not in shell.spawned[0].env
    assert not (made.folder / "lib" / "libupshift_hugetext.so").exists()


def test_a_kind_without_a_thread_pool_refuses_it() -> None:
    with pytest.raises(UsageError, match="fake has no thread pool") as error:
        refuse_parts(FakeKind(thread_pool={}), ("thread-pool",))
    assert error.value.hint
    refuse_parts(FakeKind(thread_pool={}), ("huge-text", "batch"))
    refuse_parts(FakeKind(), ("thread-pool",))


def test_a_part_that_is_named_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="names a part twice"):
        refuse_parts(FakeKind(), ("batch", "batch"))


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(UsageError, match="--service takes huge-text, batch, thread-pool, not 'hugetext'"):
        checked(Options, {"service": ("hugetext",)})


def test_the_command_names_all_parts() -> None:
    import typer

    help_text = next(each for each in typer.main.get_command(app).commands["optimize"].params if each.name == "service").help  # type: ignore[attr-defined]
    assert "huge-text, batch or thread-pool" in help_text


def test_a_version_without_the_plugin_is_refused_as_soon_as_it_is_built(tmp_path: Path) -> None:
    kind = FakeKind(thread_pool={"plugin_load_add": "pool.so"})
    with pytest.raises(UsageError, match=r"this fake has no pool\.so"):
        service.refuse_unbuilt(kind, tmp_path, ("thread-pool",))
    service.refuse_unbuilt(kind, tmp_path, ("batch",))


def test_a_cache_whose_path_the_loader_would_split_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("UPSHIFT_CACHE", str(tmp_path / "a b"))
    with pytest.raises(UsageError, match="takes spaces and colons for separators"):
        refuse_parts(FakeKind(), ("huge-text",))
    refuse_parts(FakeKind(), ("batch",))
