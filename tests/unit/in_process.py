"""Upshift's command line in the test's own process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from upshift.cli import app as cli_app

Run = Callable[..., tuple[int, str, str]]
"""Of arguments: exit code, stdout and stderr."""


def run_main(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """What ``upshift`` with these arguments ends with: exit code, stdout and stderr."""
    monkeypatch.setattr(sys, "argv", ["upshift", *arguments])
    code: Any = 0
    try:
        cli_app.main()
    except SystemExit as end:
        code = end.code or 0
    captured = capsys.readouterr()
    return code, captured.out, captured.err
