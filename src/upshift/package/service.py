"""What the packaged server's service turns on beside the server: a drop-in for systemd, and what the package needs for it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from upshift.errors import UsageError, VerifyFailed
from upshift.native.programs import HUGE_TEXT_LIBRARY
from upshift.paths import cache_dir
from upshift.server.huge_text import with_huge_text
from upshift.server.kind import SourceKind

Part = Literal["huge-text", "batch", "thread-pool"]
DROP_IN = "upshift.conf"
LIBRARY = f"lib/{HUGE_TEXT_LIBRARY}"
"""Where the package holds what moves the server's text."""


def way_in(name: str, service: str) -> tuple[str, ...]:
    """The commands that let ``service`` start the package that was unpacked to /opt/NAME."""
    folder = _drop_ins(service)
    return (
        f"mkdir -p {folder}",
        f"cp /opt/{name}/{DROP_IN} {folder}/{DROP_IN}",
        "systemctl daemon-reload",
        f"systemctl restart {service}",
    )


def way_back(name: str, service: str) -> tuple[str, ...]:
    """Those that undo ``way_in``. ``systemctl revert`` would remove the user's own drop-ins, too."""
    return (
        f"rm {_drop_ins(service)}/{DROP_IN}",
        "systemctl daemon-reload",
        f"systemctl restart {service}",
        f"rm -r /opt/{name}",
    )


def _drop_ins(service: str) -> str:
    return f"/etc/systemd/system/{service}.service.d"


def refuse_parts(kind: SourceKind, parts: tuple[Part, ...]) -> None:
    """Raises UsageError for what this kind of server does not have, and for a part that is named twice."""
    if len(set(parts)) < len(parts):
        raise UsageError(f"--service names a part twice: {', '.join(parts)}", "name each once")
    if "thread-pool" in parts and not kind.thread_pool:
        raise UsageError(f"--service thread-pool: {kind.name} has no thread pool of its own", "leave it out")
    if "huge-text" in parts and re.search(r"[\s:]", str(cache_dir())):
        raise UsageError(
            f"--service huge-text: the cache is {cache_dir()}, and the loader takes spaces and colons for separators",
            "set UPSHIFT_CACHE to a folder without them",
        )


def refuse_unbuilt(kind: SourceKind, tree: Path, parts: tuple[Part, ...]) -> None:
    """Raises UsageError for a plugin that this version's build folder does not make."""
    plugin = settings_of(kind, parts).get("plugin_load_add")
    if plugin and plugin not in {Path(each).name for each in kind.plugins(tree)}:
        raise UsageError(f"--service thread-pool: this {kind.name} has no {plugin}", "leave it out: MySQL has it from 9.7 on")


def settings_of(kind: SourceKind, parts: tuple[Part, ...]) -> Mapping[str, str]:
    """The settings that the server's command line gets."""
    return kind.thread_pool if "thread-pool" in parts else {}


def environment_of(kind: SourceKind, parts: tuple[Part, ...], folder: Path) -> Mapping[str, str]:
    """The server's environment where the package was unpacked into ``folder``."""
    if "huge-text" not in parts:
        return {}
    return with_huge_text({}, folder / "bin" / kind.server_target, folder / LIBRARY)


def refuse_unloaded(pid: int, parts: tuple[Part, ...], log: Path, root: Path = Path("/")) -> None:
    """Raises VerifyFailed for a server that runs without what its environment preloads: the loader says so, and goes on."""
    if "huge-text" not in parts:
        return
    with contextlib.suppress(OSError):
        if f"/{LIBRARY}\n" in (root / f"proc/{pid}/maps").read_text():
            return
    raise VerifyFailed(
        f"the unpacked package's server has not loaded {LIBRARY}",
        f"{log} has the loader's words; it takes spaces and colons in the cache's path for separators",
    )


def drop_in(kind: SourceKind, parts: tuple[Part, ...], folder: Path) -> str:
    """The drop-in of a package that is unpacked into ``folder``."""
    options = "".join(f" --{name.replace('_', '-')}={value}" for name, value in settings_of(kind, parts).items())
    lines = ["[Service]", "ExecStart=", f"ExecStart={folder}/bin/{kind.server_target}{options}"]
    lines += [f'Environment="{name}={value}"' for name, value in environment_of(kind, parts, folder).items()]
    if "batch" in parts:
        lines.append("CPUSchedulingPolicy=batch")
    return "\n".join(lines) + "\n"
