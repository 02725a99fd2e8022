"""What cannot be explained is refused before any work."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeKind, FakeShell, Output

from upshift.errors import UsageError
from upshift.explain.door import asked, nothing_differs, pair_of, refuse_nameless, refuse_unexplainable
from upshift.explain.explaining import Pair
from upshift.measure.variant import Variant
from upshift.server.kind import Program


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPSHIFT_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("server")
    (folder / "server.c").write_text("int main(void) { return 0; }\n")
    subprocess.run(["cc", "-o", folder / "server", folder / "server.c"], check=True)
    return folder / "server"


def pair(first: Path, second: Path, **changes: Any) -> Pair:
    before, after = (
        Variant(name=name, program=Program(kind="fake", binary=binary)) for name, binary in (("a", first), ("b", second))
    )
    return before, after.model_copy(update=changes)


@pytest.mark.parametrize(
    ("servers", "said"),
    [
        (["a=/bin/true"], "compares two servers, not 1"),
        (["a=/bin/true", "b=/bin/true", "c=/bin/true"], "compares two servers, not 3"),
        (["a=/bin/true", "a=/bin/false"], "the same name"),
        (["a=/bin/true", "b=/no/such"], "not an executable"),
        (["20250101-000000-optimize"], "there is no run"),
    ],
)
def test_what_names_no_two_servers_is_refused(servers: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        asked(servers)


@pytest.mark.parametrize(
    ("arms", "explained"),
    [
        ("plain optimised", "plain optimised"),
        ("plain optimised baseline", "plain optimised"),
        ("plain patched optimised baseline", "patched optimised"),
        ("plain patched", "plain patched"),
        ("a b c", "a b"),
    ],
)
def test_patches_are_never_told_as_what_a_compiler_did(arms: str, explained: str) -> None:
    made = [Variant(name=name, program=Program(kind="fake", binary=Path("/bin/true"))) for name in arms.split()]
    assert [each.name for each in pair_of(made, made[0].name)] == explained.split()


@pytest.mark.parametrize("name", ["", " ", "<int>"])
def test_a_function_without_a_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="names no function"):
        refuse_nameless(["operator<<", name])


def test_a_server_of_another_kind_is_refused(server: Path) -> None:
    before, after = pair(server, server)
    other = after.model_copy(update={"program": Program(kind="postgres", binary=server)})
    with pytest.raises(UsageError, match="b is a postgres, and explain supports only fake") as error:
        refuse_unexplainable(FakeShell(), FakeKind(), (before, other))
    assert "upshift measure" in error.value.hint


def test_servers_of_two_versions_are_refused(server: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(server.read_bytes())
    shell = FakeShell({str(other): Output("fake  Ver 9.8.0 for Linux"), str(server): Output("fake  Ver 9.7.4-log for Linux")})
    with pytest.raises(UsageError, match=r"a is 9\.7\.4-log, b is 9\.8\.0") as error:
        refuse_unexplainable(shell, FakeKind(), pair(server, other))
    assert "same source" in error.value.hint
    assert refuse_unexplainable(shell, FakeKind(), pair(server, server)) == "9.7.4-log"


def test_a_stripped_server_is_refused(server: Path, tmp_path: Path) -> None:
    subprocess.run(["strip", "-o", tmp_path / "bare", server], check=True)
    with pytest.raises(UsageError, match=r"b: .*bare is stripped"):
        refuse_unexplainable(FakeShell({"": Output("1.0")}), FakeKind(), pair(server, tmp_path / "bare"))


def test_text_that_was_moved_is_refused(server: Path) -> None:
    with pytest.raises(UsageError, match="b: with text_huge_pages its code is in memory without a file") as error:
        refuse_unexplainable(FakeShell({"": Output("1.0")}), FakeKind(), pair(server, server, text_huge_pages=True))
    assert "text_huge_pages" in error.value.hint


def test_the_same_program_in_the_same_surroundings_does_not_differ(server: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.write_bytes(server.read_bytes())
    assert nothing_differs(pair(server, copy))
    assert not nothing_differs(pair(server, copy, settings={"pool": "1G"}))
    copy.write_bytes(server.read_bytes() + b"\0")
    assert not nothing_differs(pair(server, copy))
