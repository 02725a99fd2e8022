"""Whether answers stay as they are: read of replays, told in a sentence, and worth more than any speed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import FakeKind, FakeProgress, FakeShell, Output
from prove_examples import EQUAL, experiment, finding, scanning

from upshift.errors import LoadFailed, UpshiftError
from upshift.measure.variant import Variant
from upshift.server.kind import Program
from upshift.stack.answers import Answer, Differing, read_answers
from upshift.stack.change import AS_SENT, CHANGED
from upshift.stack.proof import Change, expected_ratio, proof_of
from upshift.stack.prove import told
from upshift.stages import answers as stage
from upshift.stages.data import Filled
from upshift.workbench import Workbench

DIFFERENT = EQUAL.model_copy(
    update={
        "differ": 3,
        "unsteady": 2,
        "first": Differing(
            request=17,
            sql="SELECT name\n  FROM item WHERE id = 4",
            as_sent=Answer(answer="ok", rows=1, affected=0),
            changed=Answer(answer="ok", rows=0, affected=0),
        ),
    }
)


def test_answers_that_differ_prove_nothing_however_fast_they_came(tmp_path: Path) -> None:
    found = finding(scanning(tmp_path), "P2")
    line, hint = told(found, experiment(9.0), DIFFERENT)
    said = "answers differ in 3 of 300 requests (2 more differ by themselves from one replay to the next), first: "
    assert said + "request 17 (SELECT name FROM item WHERE id = 4): 1 row; with the change 0 rows" in line
    assert "answers differ, and nothing was measured" in line and "change an index or a setting" in hint
    proof = proof_of(found, experiment(9.0), None, Change(sql={"fix.sql": "DELETE FROM item"}), DIFFERENT)
    assert proof.verdict == "answers differ" and proof.why and proof.why in line and proof.hint == hint
    assert proof.answers == DIFFERENT and proof.finding and proof.finding.status == found.status
    assert proof.result is None and proof.change and proof.expected_ratio == expected_ratio(found)
    assert DIFFERENT.remarks() == ()


def test_equal_answers_are_said_with_what_casts_doubt_on_the_dump() -> None:
    assert EQUAL.remarks() == ("answers are equal in 300 requests",)
    doubtful = EQUAL.model_copy(update={"unsteady": 1, "otherwise": 5, "otherwise_overlapped": 4})
    equal, doubt = doubtful.remarks()
    assert equal == "answers are equal in 299 requests (1 more differ by themselves from one replay to the next)"
    assert "5 requests counted other rows than in the capture (1 ordered, 4 overlapped)" in doubt


def printed(*, differences: int | None = None, **more: Any) -> str:
    """What a replay prints, warnings and all."""
    now = {"answer": "error:1146:42S02", "rows": 0, "affected": 0, "warnings": 0, "last_insert_id": 0, "hash": "0"}
    one = {"request": 4, "statement": "update_1", "sql": "UPDATE item SET a = 1", "overlapped": False}
    listed = [{**one, "earlier": {**now, "answer": "ok", "affected": 2}, "now": now}] if differences else []
    replay: dict[str, Any] = {
        "requests": 9,
        "counted_otherwise": 2,
        "counted_otherwise_overlapped": 1,
        "differences": differences,
    }
    replay |= {"unsteady": None if differences is None else 1, "differing": listed, "laps": 1, **more}
    return f"3 s\n{json.dumps({'qps': 1, 'replay': replay}, indent=1)}\nWARNING: behind it\n"


def test_answers_are_read_of_two_replays() -> None:
    found = read_answers(printed(), printed(differences=3, counted_otherwise=7))
    assert (found.requests, found.differ, found.unsteady) == (9, 3, 1)
    assert (found.otherwise, found.otherwise_overlapped) == (2, 1)
    assert (
        found.first and found.first.as_sent.said() == "0 rows, 2 changed" and found.first.changed.said() == "error:1146:42S02"
    )
    assert read_answers(printed(), printed(differences=0)).first is None


@pytest.mark.parametrize("changed", ["", "{\n}", printed(), printed(differences=1)[:-60]])
def test_a_replay_that_compared_nothing_is_no_equality(changed: str) -> None:
    with pytest.raises(LoadFailed):
        read_answers(printed(), changed)


def variants(folder: Path) -> tuple[Variant, Variant]:
    (folder / "mysqld").write_text("server")
    program = Program(kind="fake", binary=folder / "mysqld")
    as_sent = Variant(name=AS_SENT, program=program, client=("--protocol", "text"))
    return as_sent, as_sent.model_copy(update={"name": CHANGED, "settings": {"a": "1"}})


def compared(folder: Path, monkeypatch: pytest.MonkeyPatch, shell: FakeShell) -> Any:
    """What the stage makes of replays that print what ``shell`` says, on servers that do not run."""
    (folder / "upshift-load").write_text("load")
    (folder / "replay.trace").write_text("trace")
    monkeypatch.setattr(stage, "programs_dir", lambda: folder)

    class Bench:
        def __init__(self, *_: Any) -> None: ...

        @contextmanager
        def arm(self, arm: Variant, trial: int) -> Iterator[Any]:
            yield SimpleNamespace(socket=Path(f"/run/{arm.name}-{trial}"))

    monkeypatch.setattr(stage, "ServerBench", Bench)

    def run(_name: str, _output: Any, action: Any, *, inputs: Any) -> Any:
        keys.append(inputs)
        return action(Workbench(folder, shell, folder / "log", FakeProgress()))

    keys: list[Any] = []
    lab: Any = SimpleNamespace(kind_of=lambda _program: FakeKind(), stages=SimpleNamespace(run=run))
    filled = {name: Filled(path=folder, sha256=name) for name in (AS_SENT, CHANGED)}
    plan: Any = SimpleNamespace(client_cpus=(1,))
    replayed = stage.Replayed(trace=folder / "replay.trace", connections=4)
    return stage.compare_answers(lab, variants(folder), filled, replayed, plan, {}), keys[0]


def test_the_trace_is_sent_twice_as_it_was_and_once_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = FakeShell({"--compare": Output(printed(differences=3)), "replay": Output(printed())})
    found, key = compared(tmp_path, monkeypatch, shell)
    assert found.differ == 3
    first, second, third = (each.split() for each in shell.lines)
    for words in (first, second, third):
        assert {"--unordered", "--lenient"} <= set(words) and words[words.index("--order") + 1] == "serial"
        assert words[words.index("--protocol") + 1] == "text"
    assert [next(word for word in words if "/run/" in word).split("/")[-1].strip("'") for words in (first, second, third)] == [
        f"{AS_SENT}-0",
        f"{AS_SENT}-1",
        f"{CHANGED}-2",
    ]
    digests = [words[words.index("--digest") + 1] for words in (first, second)]
    assert (third[third.index("--compare") + 1], third[third.index("--again") + 1]) == tuple(digests)
    # What is kept is another where the trace is, wherever it lies.
    (tmp_path / "moved").mkdir()
    _found, moved = compared(tmp_path / "moved", monkeypatch, shell)
    assert moved["trace"] == key["trace"]


def test_a_replay_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = Output("ERROR: the server does not take select_1\nhint: make the tables\n", returncode=1)
    with pytest.raises(UpshiftError, match="does not take select_1") as said:
        compared(tmp_path, monkeypatch, FakeShell({"replay": refused}))
    assert said.value.hint == "make the tables"
