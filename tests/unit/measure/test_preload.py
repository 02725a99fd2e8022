"""Libraries that a server preloads: the loader goes on without one that it cannot load, and Upshift does not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from upshift.errors import UsageError
from upshift.measure.variant import Variant
from upshift.options import Options
from upshift.plan import prepare_measuring
from upshift.server.kind import Program
from upshift.server.preload import refuse_ignored
from upshift.shell import SystemShell


@pytest.mark.parametrize("library", ["libupshift-none.so.1", "/none/lib.so", __file__])
def test_a_server_that_would_start_without_a_library_is_refused(library: str) -> None:
    environment = {"LD_PRELOAD": f"libm.so.6:{library}"}
    variant = Variant(name="mine", program=Program(kind="mysql", binary=Path("/mysqld")), environment=environment)
    said = re.escape(f"server 'mine': LD_PRELOAD names {library}, which cannot be loaded")
    with pytest.raises(UsageError, match=said) as caught:
        prepare_measuring(Options(), (variant,), allow_install=False, say=lambda _text: None)
    assert caught.value.hint


def test_libraries_that_the_loader_finds_by_their_names_are_not_refused() -> None:
    shell = SystemShell()
    try:
        refuse_ignored(shell, "mine", {"LD_PRELOAD": "libm.so.6 libc.so.6"})
        refuse_ignored(shell, "mine", {})
    finally:
        shell.close()
