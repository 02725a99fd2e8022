"""Whether idle CPUs of a virtual machine halt at once."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

POLL_NS = Path("/sys/module/haltpoll/parameters/guest_halt_poll_ns")
DEFAULT_NS = 200_000
"""The kernel's own default."""


@contextlib.contextmanager
def polling(poll_ns: int) -> Iterator[None]:
    """An idle CPU waits for work this long before it halts (haltpoll, a governor for guests of KVM). Halting, and being woken
    then, takes the way through the hypervisor. Only root may change it; afterwards, or after SIGTERM, it is as before.
    """
    try:
        before = POLL_NS.read_text()
        POLL_NS.write_text(str(poll_ns))
    except OSError as error:
        raise SystemExit(f"{POLL_NS}: {error.strerror}") from error
    ended = signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    try:
        yield
    finally:
        POLL_NS.write_text(before)
        signal.signal(signal.SIGTERM, ended)
