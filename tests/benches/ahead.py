"""A client that sends its requests ahead of their answers, which no driver of MySQL's own does.

    .venv/bin/python tests/benches/ahead.py --socket SOCKET --database NAME --connections 8 --seconds 10

Each connection sends ``--ahead`` point selects on sysbench's first table in one write, and then reads their answers. The
load of ahead.toml.
"""

from __future__ import annotations

import argparse
import random
import socket
import struct
import time
from collections.abc import Iterator

import pymysql
from pymysql.constants import COMMAND

ROWS = 100_000
"""Of sysbench's table, as ahead.toml fills it."""
_HEADER_BYTES = 4
_END, _ERROR = 0xFE, 0xFF
_LONGEST_END_BYTES = 8
"""A longer packet that begins with 0xFE is a row with a long column."""
_ENDS_OF_AN_ANSWER = 2
"""Behind the columns and behind the rows: PyMySQL does not ask the server to leave the first out."""


class Connection:
    """A connection without a driver between it and its requests."""

    def __init__(self, path: str, database: str) -> None:
        # With TLS the server would read as it does without the patch.
        self._driver = pymysql.connect(unix_socket=path, user="root", database=database, ssl_disabled=True)
        found = vars(self._driver)["_sock"]
        assert isinstance(found, socket.socket)
        self._socket = found
        self._rest = b""

    def send(self, statements: list[str]) -> None:
        """All of them in one write, each a packet of its own."""
        bodies = (bytes([COMMAND.COM_QUERY]) + each.encode() for each in statements)
        self._socket.sendall(b"".join(struct.pack("<I", len(body)) + body for body in bodies))

    def receive(self, answers: int) -> None:
        """Read so many result sets. Raises SystemExit where one is an error."""
        ends = 0
        while ends < answers * _ENDS_OF_AN_ANSWER:
            for packet in self._packets():
                if packet[0] == _ERROR:
                    raise SystemExit(f"the server refuses a statement: {packet[9:].decode(errors='replace')}")
                ends += packet[0] == _END and len(packet) <= _LONGEST_END_BYTES

    def _packets(self) -> Iterator[bytes]:
        """The bodies of the whole packets that one read brings."""
        read = self._socket.recv(1 << 16)
        if not read:
            raise SystemExit("the server has closed a connection")
        kept, at = self._rest + read, 0
        while len(kept) - at >= _HEADER_BYTES:
            size = int.from_bytes(kept[at : at + 3], "little")
            if len(kept) - at < _HEADER_BYTES + size:
                break
            yield kept[at + _HEADER_BYTES : at + _HEADER_BYTES + size]
            at += _HEADER_BYTES + size
        self._rest = kept[at:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--socket", required=True)
    parser.add_argument("--database", required=True)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--ahead", type=int, default=16, help="requests in one write")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--requests", type=int, help="end after so many on each connection, in place of --seconds")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()

    chance = random.Random(asked.seed)
    connections = [Connection(asked.socket, asked.database) for _ in range(asked.connections)]
    end_s, sent = time.monotonic() + asked.seconds, 0
    while sent < asked.requests if asked.requests else time.monotonic() < end_s:
        for each in connections:
            each.send([f"SELECT c FROM sbtest1 WHERE id = {chance.randint(1, ROWS)}" for _ in range(asked.ahead)])
        for each in connections:
            each.receive(asked.ahead)
        sent += asked.ahead


if __name__ == "__main__":
    main()
