"""`upshift stack drivers` on the command line: what it would run, and what it refuses."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from upshift.cli import app
from upshift.stack.driver_matrix.matrix import read_matrix


def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["upshift", "stack", "drivers", *arguments])
    with pytest.raises(SystemExit) as ended:
        app.main()
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


def test_a_dry_run_names_each_driver_and_its_version(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _err = run(capsys, monkeypatch, "--dry-run")
    assert code == 0
    for driver in read_matrix().driver:
        assert f"{driver.name}: {driver.package} {driver.version}".strip() in out
    code, out, _err = run(capsys, monkeypatch, "--dry-run", "--json")
    assert (code, len(json.loads(out)["drivers"])) == (0, len(read_matrix().driver))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--only", "odbc"), "there is no driver 'odbc'"),
        (("--server", "mysql://root@h:1/b", "--binary", "/bin/true"), "--server and --binary name different servers"),
        (("--server", "http://h/"), "--server names no server"),
        (("--show", "seconds"), "--show"),
    ],
)
def test_what_cannot_be_is_refused(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _out, err = run(capsys, monkeypatch, *arguments)
    assert code == 2 and said in err and "hint:" in err


def test_a_file_that_holds_something_else_is_refused_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "notes.json"
    file.write_text('{"mine": 1}')
    code, _out, err = run(capsys, monkeypatch, "--result", str(file))
    assert code == 2 and "is not a result of `upshift stack drivers`" in err
    assert file.read_text() == '{"mine": 1}'
