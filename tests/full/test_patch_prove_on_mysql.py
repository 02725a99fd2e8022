"""`upshift patch prove` on a real MySQL: stock against itself is equal in every part."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from marks import only_full

from upshift.cli.test import MYSQLD
from upshift.native.programs import DIFFER, programs_dir, target_dir
from upshift.prove.model import Asked
from upshift.prove.proving import prove
from upshift.server.kinds import default_kind
from upshift.shell import SystemShell

pytestmark = only_full


def differ() -> Path:
    for folder in (target_dir() / "debug", programs_dir()):
        if (folder / DIFFER).is_file():
            return folder / DIFFER
    pytest.skip(f"{DIFFER} is not built: cargo test builds it")


def test_stock_is_equal_to_itself(tmp_path: Path) -> None:
    shell = SystemShell()
    try:
        named = os.environ.get(MYSQLD)
        if not named:
            pytest.skip(f"{MYSQLD} names no server")
        binary = Path(named)
        asked = Asked(stock=binary, patched=binary, statements=3000, minutes=0.1)
        proof = prove(shell, default_kind(), differ(), asked, tmp_path, say=print)
    finally:
        shell.close()
    assert [part.name for part in proof.parts] == ["mix", "random", "storm", "crash"]
    assert proof.verdict == "equal", [part.wrong for part in proof.parts]
    assert all(part.statements for part in proof.parts) and proof.switches == {}
