"""Ctrl-C, SIGTERM and SIGHUP. The first one raises KeyboardInterrupt, but not while a process is being started or stopped.

Later ones raise nothing, so that nothing interrupts the cleaning up: whoever waits for an orderly end looks at ``hurried``
and stops waiting.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _State:
    came = 0
    held = 0
    raised = False


@contextlib.contextmanager
def handled() -> Iterator[None]:
    """Handle the three signals inside as this module says. One that is ignored, as under nohup, stays ignored."""
    _State.came, _State.held, _State.raised = 0, 0, False
    before = {number: signal.getsignal(number) for number in _NUMBERS}
    caught = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}
    for number in caught:
        signal.signal(number, _note)
    try:
        yield
    finally:
        for number, handler in caught.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Raise nothing inside; a first interrupt that comes meanwhile is raised at the end."""
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers run in the main thread alone
        return
    _State.held += 1
    try:
        yield
    finally:
        _State.held -= 1
        _raise_if_due()


def count() -> int:
    """How many interrupts have come."""
    return _State.came


def hurried() -> bool:
    """Whether a further interrupt came after the first."""
    return _State.came > 1


def _note(_number: int, _frame: FrameType | None) -> None:
    _State.came += 1
    _raise_if_due()


def _raise_if_due() -> None:
    if _State.came and not _State.held and not _State.raised:
        _State.raised = True
        raise KeyboardInterrupt
