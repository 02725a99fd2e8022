"""Whom to call, with which options of the driver, and how the driver is used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit


@dataclass(frozen=True)
class Target:
    """A server, and the settings."""

    host: str
    port: int
    user: str
    password: str
    database: str
    options: Mapping[str, Any]
    use: Mapping[str, str]

    @classmethod
    def read(cls, url: str, settings: Mapping[str, Any]) -> Target:
        parts = urlsplit(url)
        return cls(
            parts.hostname or "127.0.0.1",
            parts.port or 0,
            unquote(parts.username or ""),
            unquote(parts.password or ""),
            parts.path.lstrip("/"),
            settings["options"],
            settings["use"],
        )
