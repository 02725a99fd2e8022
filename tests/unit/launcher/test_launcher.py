"""The launcher in a checkout of its own, with stand-ins for Python and pip: nothing is downloaded."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from upshift.paths import CHECKOUT

# Notes what it is asked to do. Like the real one, it makes an environment with a copy of itself.
PYTHON = """#!/bin/sh
here=$(dirname "$0")
case "$1 $2" in
"-c import sys"*) exit "${PYTHON_OLD:-0}" ;;
"-c import ensurepip"*) [ -z "${NO_ENSUREPIP:-}" ] || [ -f "$CALLS.venv-package" ] ; exit ;;
"-c import pip"*) [ ! -f "$here/no-pip" ]; exit ;;
"-m upshift.cli.packages")
    echo "packages $3" >>"$CALLS"
    [ "$3" != --no-install ] || { echo "ERROR: system packages are missing: python3.11-venv" >&2; exit 1; }
    touch "$CALLS.venv-package" ;;
"-m venv")
    echo venv >>"$CALLS"
    rm -rf "$4"; mkdir -p "$4/bin"; cp "$0" "$4/bin/python" ;;
"-m pip")
    echo pip >>"$CALLS"; sleep "${PIP_SECONDS:-0}"; exit "${PIP_CODE:-0}" ;;
"-X utf8") shift 5; echo "run:$PYTHONPATH:$*" ;;
"--version "*) echo Python 3.11.7 ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "a checkout"
    root.mkdir()
    shutil.copy(CHECKOUT / "upshift", root / "upshift")
    (root / "requirements.lock").write_text("typer==1\n")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("python3", "python3.11"):
        (programs / name).write_text(PYTHON)
        (programs / name).chmod(0o755)
    return root


def environment(checkout: Path, **more: str) -> dict[str, str]:
    programs = checkout.parent / "bin"
    system = "/usr/bin:/bin"
    return {"PATH": f"{programs}:{system}", "CALLS": str(checkout.parent / "calls"), **more}


def start(checkout: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [checkout / "upshift", *arguments],
        env=environment(checkout, **more),
        cwd=checkout.parent,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def calls(checkout: Path) -> list[str]:
    path = checkout.parent / "calls"
    return path.read_text().splitlines() if path.exists() else []


def test_first_start_makes_the_environment_and_passes_the_arguments_on(checkout: Path) -> None:
    done = start(checkout, "doctor", "--json", "two words")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"run:{checkout}/src:doctor --json two words\n"
    assert calls(checkout) == ["venv", "pip"]
    assert "making .venv" in done.stderr


def test_second_start_does_nothing_but_start(checkout: Path) -> None:
    start(checkout)
    done = start(checkout)
    assert calls(checkout) == ["venv", "pip"]
    assert done.stderr == ""


def test_a_changed_lock_updates_the_environment_in_place(checkout: Path) -> None:
    start(checkout)
    (checkout / "requirements.lock").write_text("typer==2\n")
    assert "up to date" in start(checkout).stderr
    assert calls(checkout) == ["venv", "pip", "pip"]


def test_a_failed_pip_is_an_error_and_is_tried_again(checkout: Path) -> None:
    failed = start(checkout, PIP_CODE="1")
    assert failed.returncode == 1
    assert "ERROR: pip could not install requirements.lock" in failed.stderr
    assert "hint:" in failed.stderr
    assert failed.stdout == ""
    assert start(checkout).returncode == 0
    assert calls(checkout) == ["venv", "pip", "pip"]


def test_an_environment_without_pip_is_made_anew(checkout: Path) -> None:
    start(checkout, PIP_CODE="1")
    (checkout / ".venv/bin/no-pip").touch()
    assert start(checkout).returncode == 0
    assert calls(checkout) == ["venv", "pip", "venv", "pip"]


def test_an_old_python_is_named_with_what_to_do(checkout: Path) -> None:
    done = start(checkout, PYTHON_OLD="1", PATH=str(fake_path(checkout)))
    assert done.returncode == 1
    assert "Python 3.11 to 3.14 is needed; this machine has Python 3.11.7" in done.stderr
    assert "apt-get install python3" in done.stderr
    assert calls(checkout) == []


def fake_path(checkout: Path) -> Path:
    """A $PATH with the stand-in Pythons and nothing else that could be one."""
    folder = checkout.parent / "bin"
    for name in ("dirname", "readlink", "sha256sum", "flock", "sh", "rm", "mkdir", "cp", "sleep", "touch"):
        found = shutil.which(name)
        assert found
        (folder / name).symlink_to(found)
    return folder


def test_a_missing_venv_module_is_installed(checkout: Path) -> None:
    done = start(checkout, "doctor", NO_ENSUREPIP="1")
    assert done.returncode == 0, done.stderr
    assert calls(checkout) == ["packages ", "venv", "pip"]


def test_no_install_refuses_that(checkout: Path) -> None:
    done = start(checkout, "test", "--no-install", NO_ENSUREPIP="1")
    assert done.returncode == 1
    assert "python3.11-venv" in done.stderr
    assert calls(checkout) == ["packages --no-install"]


def test_two_first_starts_make_one_environment(checkout: Path) -> None:
    both = [
        subprocess.Popen(
            [checkout / "upshift"],
            env=environment(checkout, PIP_SECONDS="0.5"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    outputs = [one.communicate(timeout=30) for one in both]
    assert [one.returncode for one in both] == [0, 0]
    assert all(stdout.startswith("run:") for stdout, _ in outputs)
    assert calls(checkout) == ["venv", "pip"]


def test_it_starts_through_a_link(checkout: Path) -> None:
    link = checkout.parent / "linked"
    link.symlink_to(checkout / "upshift")
    done = subprocess.run([link], env=environment(checkout), capture_output=True, text=True, check=False)
    assert done.stdout.startswith(f"run:{checkout}/src:")


def test_continuous_integration_runs_the_launcher_and_nothing_else() -> None:
    script = CHECKOUT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    lines = [line for line in script.read_text().splitlines() if line and not line.startswith("#")]
    assert lines == ["set -e", 'cd "$(dirname "$0")/.."', "./upshift test"]
