"""What verifying warns of, and which of its results are kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import FakeKind, FakeProgress, FakeShell, toolchain

from upshift.build.model import Build
from upshift.build.recipe import Recipe
from upshift.errors import CommandFailed, VerifyFailed
from upshift.server.kind import Program
from upshift.source.model import Source
from upshift.stages import verify
from upshift.stages.post_link import PostLinked
from upshift.stages.verify import Verified
from upshift.verify import hardening
from upshift.verify.compare import Compared
from upshift.workbench import Workbench

SOURCE = Source(kind="fake", version="1", origin="", sha256="0", verified="", path=Path("/source"))
PLAIN = Build(
    recipe=Recipe(), toolchain=toolchain(), source_sha256="0", tree=Path("/t"), server=Path("/plain"), sha256="0", objects=1
)
OPTIMISED = PLAIN.model_copy(update={"server": Path("/optimised")})
BOLTED = PLAIN.model_copy(update={"server": Path("/bolted")})


class House:
    """Servers whose tests and hardening are as a test says."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.compared = Compared(run=2, passed=2, failed_on_both=())
        self.fails: Path | None = None
        self.makes_no_data: Path | None = None
        self.hardening: Mapping[str, dict[str, str]] = {}
        self.kept: bool | None = None
        self._bench = Workbench(folder, FakeShell(), folder / "log", FakeProgress())
        patch.setattr(hardening, "examine", lambda binary: self.hardening.get(binary.name, {"PIE": "yes"}))
        patch.setattr(verify, "compare_tests", self._compare)

    def _compare(self, optimised: Callable[[str], Any], _plain: Any, _suite: str) -> Compared:
        # The server under test is in the closure that runs its tests.
        tested: list[Path] = []
        self._tested = tested
        optimised("short")
        if tested == [self.fails]:
            raise VerifyFailed("a.b fails")
        return self.compared

    def verify(self, optimised: Build = OPTIMISED, baseline: Path | None = None) -> Verified:
        def run(_name: str, _output: type, action: Callable[[Workbench], Verified], **given: Any) -> Verified:
            made = action(self._bench)
            self.kept = given["lasts"](made)
            return made

        house = self

        class Kind(FakeKind):
            def verify(self, source: Path, tree: Path, server: Path, *given: Any, **named: Any) -> Any:
                house._tested.append(server)
                return super().verify(source, tree, server, *given, **named)

            def nesting(self, program: Program, *given: Any) -> Mapping[str, int]:
                if program.binary == house.makes_no_data:
                    raise CommandFailed("server did not end within 300 s")
                return super().nesting(program, *given)

        lab: Any = SimpleNamespace(stages=SimpleNamespace(run=run), kind=Kind(), jobs=2)
        return verify.verify(
            lab, SOURCE, PLAIN, optimised, PostLinked(build=BOLTED, applied="bolt", reason=""), "short", baseline
        )


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    return House(tmp_path, monkeypatch)


def test_a_server_that_passes_is_kept_without_a_warning(house: House) -> None:
    made = house.verify()
    assert (made.build, made.warnings, house.kept) == (BOLTED, (), True)


def test_a_post_linked_server_is_given_up_for_this_once(house: House) -> None:
    house.fails = BOLTED.server
    made = house.verify()
    assert (made.build, made.post_link, house.kept) == (OPTIMISED, "", False)
    assert "given up: a.b fails" in made.warnings[0]


def test_a_post_linked_server_that_makes_no_data_is_given_up(house: House) -> None:
    house.makes_no_data = BOLTED.server
    made = house.verify()
    assert made.build == OPTIMISED and "given up: server did not end within 300 s" in made.warnings[0]


def test_there_is_nothing_to_fall_back_to_when_bolt_is_all(house: House) -> None:
    house.fails = BOLTED.server
    with pytest.raises(VerifyFailed, match=r"a\.b fails"):
        house.verify(PLAIN)


def test_a_test_that_fails_now_and_then_is_a_warning(house: House) -> None:
    house.compared = Compared(run=2, passed=1, failed_on_both=(), passed_again=("a.b",))
    assert "failed, and passed when run again: a.b" in house.verify().warnings[0]


def test_hardening_of_the_server_in_use_that_is_lost_is_a_warning(house: House) -> None:
    house.hardening = {"mysqld": {"PIE": "yes", "CET": "full"}}
    assert house.verify(baseline=Path("/usr/sbin/mysqld")).warnings == (
        "the server in use has hardening that this one lacks: CET (full -> no)",
    )
