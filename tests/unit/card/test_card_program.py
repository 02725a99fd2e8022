from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from cards import card
from fakes import FakeShell, Output

from upshift.card.program import LEAST_S, MOST_S, measure_card
from upshift.errors import UpshiftError, UsageError
from upshift.paths import CHECKOUT
from upshift.shell import Command, Completed

PROGRAM, FOLDER = Path("/programs/upshift-card"), Path("/srv/my data")


def test_the_program_gets_the_folder_and_the_time_and_its_json_is_the_card() -> None:
    shell = FakeShell({"upshift-card": Output(card().model_dump_json())})
    assert measure_card(shell, PROGRAM, FOLDER, 12.5) == card()
    assert shell.lines == ["/programs/upshift-card --folder '/srv/my data' --seconds 12.5"]


def test_a_card_names_its_folder_for_those_who_read_it_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`check` would look for `.` in the root directory, and take another disk's figures for the data's."""
    monkeypatch.chdir(tmp_path)
    shell = FakeShell({"upshift-card": Output(card().model_dump_json())})
    measure_card(shell, PROGRAM, Path(), 20)
    assert shell.lines == [f"/programs/upshift-card --folder {tmp_path.resolve()} --seconds 20"]


@pytest.mark.parametrize(("code", "kind"), [(1, UpshiftError), (2, UsageError)])
def test_its_own_message_and_hint_are_the_error_s(code: int, kind: type[UpshiftError]) -> None:
    said = "ERROR: /x has 3 MiB free: too little\nhint: free some space\n"
    with pytest.raises(UpshiftError) as caught:
        measure_card(FakeShell({"upshift-card": Output(said, returncode=code)}), PROGRAM, FOLDER, 20)
    assert type(caught.value) is kind
    assert (caught.value.message, caught.value.hint) == ("/x has 3 MiB free: too little", "free some space")


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (Output("", returncode=-9), "SIGKILL"),
        (Output("thread panicked", returncode=101), "exit code 101: thread panicked"),
        (Output("{}"), "no machine card: {}"),
        (Output("warning"), "no machine card: warning"),
    ],
)
def test_a_program_that_fails_otherwise_is_an_error_too(output: Output, said: str) -> None:
    with pytest.raises(UpshiftError) as caught:
        measure_card(FakeShell({"upshift-card": output}), PROGRAM, FOLDER, 20)
    assert said in caught.value.message


@pytest.mark.parametrize("seconds", [math.inf, math.nan, 1e300])
def test_a_time_that_the_program_refuses_is_no_limit_that_cannot_be_waited_for(seconds: float) -> None:
    class Shell(FakeShell):
        def run(self, command: Command, *, timeout_s: float | None = None, **more: Any) -> Completed:
            assert timeout_s == 5 * MOST_S + 60
            return super().run(command, timeout_s=timeout_s, **more)

    with pytest.raises(UsageError, match="from 5 to 600 seconds"):
        measure_card(Shell({"upshift-card": Output("ERROR: from 5 to 600 seconds\n", returncode=2)}), PROGRAM, FOLDER, seconds)


def test_the_limits_are_the_program_s() -> None:
    text = (CHECKOUT / "crates/machinecard/src/budget.rs").read_text()
    assert f"LEAST_S: f64 = {LEAST_S};" in text and f"MOST_S: f64 = {MOST_S};" in text
