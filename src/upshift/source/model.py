"""A verified source tree."""

from __future__ import annotations

from pathlib import Path

from upshift.values import Value


class Source(Value):
    """A server's source tree, unpacked and verified."""

    kind: str
    """Name of the server kind that recognised the tree: ``mysql``."""
    version: str
    origin: str
    """For people: ``apt: mysql-source 9.7.4-2 (sid)``, ``tarball: mysql-9.7.4.tar.gz``, ``directory: /src/mysql``."""
    sha256: str
    """Of the archive, or for a directory of its files' paths, sizes and contents."""
    verified: str
    """What vouches for it: ``apt signature``, ``SHA256SUMS``, ``none (directory)``."""
    path: Path
