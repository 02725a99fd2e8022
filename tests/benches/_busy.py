"""Busy loops beside what a bench measures."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def busy(loops: int, at_most_s: float) -> Iterator[None]:
    """They end by themselves where nobody is left to end them."""
    code = f"import time\nend = time.monotonic() + {at_most_s}\nwhile time.monotonic() < end: pass"
    processes = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(loops)]
    try:
        yield
    finally:
        for each in processes:
            each.kill()
            each.wait()
