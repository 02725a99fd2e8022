"""`upshift stack prove` as a command: what it prints, how it ends, and what it refuses before any work."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from fakes import another_run
from prove_examples import EQUAL, chatting, result, scanning, slices

from upshift.cli.app import main
from upshift.run.directory import RunDirectory
from upshift.stack.answers import Answers
from upshift.stack.evidence import Evidence
from upshift.stack.proof import Proof
from upshift.stages.answers import Replayed


def prove_command(monkeypatch: pytest.MonkeyPatch, seen: Evidence, folder: Path, *more: str) -> int:
    """`upshift stack prove` of a trace with this evidence; its exit code."""
    monkeypatch.setattr("upshift.cli.programs.built_programs", lambda *_, **__: folder)
    monkeypatch.setattr("upshift.stack.examining.examined", lambda *_, **__: seen)
    monkeypatch.setenv("UPSHIFT_CACHE", str(folder / "cache"))
    for name in ("before.sql", "mysqld", "app.trace"):
        (folder / name).touch()
    paths = ("--before", str(folder / "before.sql"), "--binary", str(folder / "mysqld"))
    monkeypatch.setattr(sys, "argv", ["upshift", "stack", "prove", str(folder / "app.trace"), *paths, *more])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


def test_what_is_not_provable_is_a_verdict_in_json_and_an_error_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = chatting(tmp_path / "export", "SELECT @@session.tx_read_only")
    assert prove_command(monkeypatch, seen, tmp_path, "--suspect", "C5") == 2
    said = capsys.readouterr()
    assert said.out == "" and "counts as one" in " ".join(said.err.split())
    assert prove_command(monkeypatch, seen, tmp_path, "--suspect", "C5", "--json") == 0
    proof = Proof.model_validate_json(capsys.readouterr().out)
    assert (proof.suspect, proof.verdict, proof.measured, proof.result) == ("C5", "not provable here", (), None)
    assert proof.why and proof.hint
    assert prove_command(monkeypatch, seen, tmp_path, "--suspect", "C5", "--findings", "r", "--threshold", "C5.share=1") == 2
    assert "judged already" in " ".join(capsys.readouterr().err.split())
    # Innocence is no verdict of a proof.
    assert prove_command(monkeypatch, seen, tmp_path, "--suspect", "C1", "--json") == 2
    assert capsys.readouterr().out == ""


def test_answers_that_differ_end_the_command_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = scanning(tmp_path / "export")
    (tmp_path / "fix.sql").write_text("DELETE FROM item")
    differing = EQUAL.model_copy(update={"differ": 100})
    monkeypatch.setattr("upshift.cli.stack_prove._replayed", lambda *_: Replayed(trace=tmp_path / "t", connections=1))
    monkeypatch.setattr("upshift.cli.stack_prove._measured", lambda *_, **__: (differing, None, None))
    given = ("--suspect", "P2", "--sql", str(tmp_path / "fix.sql"))
    assert prove_command(monkeypatch, seen, tmp_path, *given, "--json") == 1
    said = capsys.readouterr()
    proof = Proof.model_validate_json(said.out)
    assert (proof.verdict, proof.measured, proof.result, proof.answers) == ("answers differ", (), None, differing)
    assert "answers differ, and nothing was measured" in " ".join(said.err.split())
    assert prove_command(monkeypatch, seen, tmp_path, *given) == 1
    assert capsys.readouterr().out == ""


def test_a_proof_has_the_statements_that_were_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (fix := tmp_path / "fix.sql").write_text("DELETE FROM item")

    def measured(*_: object, **__: object) -> tuple[Answers, None, None]:
        fix.write_text("CREATE INDEX by_name ON item (name)")
        return EQUAL.model_copy(update={"differ": 100}), None, None

    monkeypatch.setattr("upshift.cli.stack_prove._replayed", lambda *_: Replayed(trace=tmp_path / "t", connections=1))
    monkeypatch.setattr("upshift.cli.stack_prove._measured", measured)
    given = ("--suspect", "P2", "--sql", str(fix), "--json")
    assert prove_command(monkeypatch, scanning(tmp_path / "export"), tmp_path, *given) == 1
    change = Proof.model_validate_json(capsys.readouterr().out).change
    assert change and change.sql == {"fix.sql": "DELETE FROM item"}
    fix.write_bytes(b"CREATE INDEX by_name ON item (n\xe4me)")
    assert prove_command(monkeypatch, scanning(tmp_path / "export"), tmp_path, *given) == 2
    assert "name a file of SQL in UTF-8" in " ".join(capsys.readouterr().err.split())


def test_a_proof_whose_requests_fail_is_a_verdict_in_json_and_an_error_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "fix.sql").write_text("CREATE INDEX by_name ON item (name)")
    seen = scanning(tmp_path / "export")
    half_failed = slices(2.0, errors=50_000)
    run = RunDirectory(tmp_path / "20261123-120000-prove")
    monkeypatch.setattr("upshift.cli.stack_prove._replayed", lambda *_: Replayed(trace=tmp_path / "t", connections=1))
    monkeypatch.setattr("upshift.cli.stack_prove._measured", lambda *_, **__: (EQUAL, result(half_failed), run))
    monkeypatch.setattr("upshift.measure.samples.read_samples", lambda _file: half_failed)
    given = ("--suspect", "P2", "--sql", str(tmp_path / "fix.sql"))
    assert prove_command(monkeypatch, seen, tmp_path, *given) == 2
    said = capsys.readouterr()
    assert said.out == "" and "P2 cannot be proven with this trace: as it was replayed" in " ".join(said.err.split())
    assert "hint:" in said.err and run.name in said.err
    assert prove_command(monkeypatch, seen, tmp_path, *given, "--json") == 0
    proof = Proof.model_validate_json(capsys.readouterr().out)
    assert (proof.verdict, proof.measured) == ("not provable here", ()) and proof.why and proof.hint


def test_nothing_is_replayed_beside_another_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "fix.sql").write_text("CREATE INDEX by_name ON item (name)")
    seen = scanning(tmp_path / "export")
    monkeypatch.setattr("upshift.cli.stack_prove._replayed", lambda *_: pytest.fail("it works beside a measurement"))
    given = ("--suspect", "P2", "--sql", str(tmp_path / "fix.sql"))
    with another_run(tmp_path / "cache"):
        assert prove_command(monkeypatch, seen, tmp_path, *given) == 1
        assert "another run (process 4711)" in " ".join(capsys.readouterr().err.split())
        assert prove_command(monkeypatch, seen, tmp_path, *given, "--dry-run") == 0


@pytest.mark.parametrize("first", [True, False])
def test_a_server_of_ones_own_is_refused_with_what_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], first: bool
) -> None:
    more = ["--suspect", "C1", "--server", "mysql://root@/shop"]
    words = ["prove", *more, str(tmp_path / "app.trace")] if first else ["prove", str(tmp_path / "app.trace"), *more]
    monkeypatch.setattr(sys, "argv", ["upshift", "stack", *words])
    with pytest.raises(SystemExit) as end:
        main()
    said = " ".join(capsys.readouterr().err.split())
    assert end.value.code == 2
    assert "takes no --server" in said and "--before FILE.sql" in said and "--binary FILE" in said


def test_a_dry_run_says_what_the_proof_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "fix.sql").write_text("CREATE INDEX by_name ON item (name)")
    given = ("--suspect", "P2", "--sql", str(tmp_path / "fix.sql"), "--trials", "8", "--dry-run")
    seen = scanning(tmp_path / "export")
    assert prove_command(monkeypatch, seen, tmp_path, *given) == 0
    said = capsys.readouterr()
    assert "Stages, with estimates" in said.out and "answers" in said.out and "data changed by fix.sql" in said.err
    assert prove_command(monkeypatch, seen, tmp_path, *given, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["dry_run"] and [each["name"] for each in told["stages"]] == ["data", "changed data", "answers", "measure"]
    (measured,) = (each["wall_s"] for each in told["stages"] if each["name"] == "measure")
    assert prove_command(monkeypatch, seen, tmp_path, *(*given[:5], "4", *given[6:]), "--json") == 0
    assert 0 < json.loads(capsys.readouterr().out)["stages"][3]["wall_s"] < measured
