"""A verified source tree."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field

from upshift.values import Value, is_empty

VERSION_CONTROL = frozenset({".git", ".hg", ".bzr", ".svn"})
"""Folders that are no part of a source."""


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
    patches: Annotated[tuple[str, ...], Field(exclude_if=is_empty)] = ()
    """Names of the patches that were applied to it."""
    changed: Annotated[tuple[str, ...], Field(exclude_if=is_empty)] = ()
    """Files that they changed, added or removed, by their paths in it."""

    def contents(self) -> Self:
        """What of it decides what is made of it: not what it is called, nor what vouches for it, which a key that expires
        changes.
        """
        return self.model_copy(update={"origin": "", "verified": ""})
