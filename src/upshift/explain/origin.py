"""Which source a server was built from, where its package or the cache tells."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from upshift.files import object_in
from upshift.values import Value, file_sha256


class Origin(Value):
    """A source, and the patches that made it."""

    sha256: str
    patches: tuple[str, ...] = ()


def origin_of(server: Path, cache: Path) -> Origin | None:
    """By the provenance of its package, or by the stage that built it; None for a server from elsewhere, and for one that is no
    longer the file that these speak of.
    """
    server = server.resolve()
    sha256 = file_sha256(server)
    return _of_package(server, sha256) or _of_build(server, sha256, cache)


def _of_package(server: Path, sha256: str) -> Origin | None:
    package = server.parent.parent
    told = object_in(package / "provenance.json")
    if _dict(told, "sha256").get(str(server.relative_to(package))) != sha256:
        return None
    return _origin(_dict(told, "source"))


def _of_build(server: Path, sha256: str, cache: Path) -> Origin | None:
    stage = next((each for each in server.parents if (each / "stage.json").is_file()), None)
    output = _dict(object_in(stage / "stage.json"), "output") if stage else {}
    build = _dict(output, "build") or output
    if build.get("sha256") != sha256 or "source_sha256" not in build:
        return None
    source = build["source_sha256"]
    patched = (_dict(object_in(file), "output") for file in sorted(cache.glob("stages/patched-source-*/stage.json")))
    return next((_origin(each) for each in patched if each.get("sha256") == source), Origin(sha256=source))


def _origin(source: Mapping[str, Any]) -> Origin | None:
    return Origin(sha256=source["sha256"], patches=tuple(source.get("patches", ()))) if "sha256" in source else None


def _dict(told: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = told.get(key)
    return found if isinstance(found, dict) else {}
