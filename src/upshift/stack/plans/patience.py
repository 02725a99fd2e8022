"""A limit for the time that a server says nothing, for a driver that has none."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator


class Patience:
    """Calls ``end`` once when a wait for the server takes longer than ``limit_s``. ``end`` must let that wait return.

    A thread of its own looks: a wait in C cannot be left by an exception.
    """

    def __init__(self, end: Callable[[], None], limit_s: float) -> None:
        self._end, self._limit_s = end, limit_s
        self._since_s: float | None = None
        self._closed = threading.Event()
        self.ran_out = False
        """Whether a wait was ended."""
        threading.Thread(target=self._look, name="patience", daemon=True).start()

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """What runs within it counts as a wait."""
        self._since_s = time.monotonic()
        try:
            yield
        finally:
            self._since_s = None

    def close(self) -> None:
        """No wait is ended any more."""
        self._closed.set()

    def _look(self) -> None:
        while not self._closed.wait(min(1.0, self._limit_s / 4)):
            since_s = self._since_s
            if since_s is not None and time.monotonic() - since_s > self._limit_s:
                self.ran_out = True
                self._end()
                return
