"""A relay between a client and a server, over unix sockets: it makes a distance, or sends in parts."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

Send = Callable[[socket.socket, bytes], None]
"""How bytes are passed on."""


def passed(to: socket.socket, data: bytes) -> None:
    """As they came."""
    to.sendall(data)


def later(seconds: float) -> Send:
    """After a way that takes so long."""

    def send(to: socket.socket, data: bytes) -> None:
        time.sleep(seconds)
        to.sendall(data)

    return send


def in_parts(seconds: float) -> Send:
    """The first bytes, and the others so much later."""

    def send(to: socket.socket, data: bytes) -> None:
        to.sendall(data[:4])
        time.sleep(seconds)
        to.sendall(data[4:])

    return send


@contextlib.contextmanager
def relayed(place: Path, server: Path, *, to_server: Send = passed, to_client: Send = passed) -> Iterator[Path]:
    """The relay's socket ``place``, in front of a server's, until the end of the block; connections must have ended by then."""
    with contextlib.ExitStack() as sockets:
        listener = sockets.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(place))
        listener.listen(64)
        threads: list[threading.Thread] = []

        def accept() -> None:
            while True:
                try:
                    client = sockets.enter_context(listener.accept()[0])
                except OSError:
                    return
                beyond = sockets.enter_context(socket.socket(socket.AF_UNIX))
                beyond.connect(str(server))
                for way in ((client, beyond, to_server), (beyond, client, to_client)):
                    threads.append(threading.Thread(target=_pass_on, args=way))
                    threads[-1].start()

        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield place
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for each in (accepting, *threads):
                each.join()


def _pass_on(source: socket.socket, target: socket.socket, send: Send) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            send(target, data)
    for each in (source, target):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
