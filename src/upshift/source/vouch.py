"""What vouches for a tarball: the checksum and signature files that lie beside it."""

from __future__ import annotations

import re
from pathlib import Path

from upshift.errors import MissingTool, SourceError
from upshift.shell import Command, Shell

_TAGGED = re.compile(r"SHA(?:2-)?256 ?\((.+)\) ?= ?([0-9a-fA-F]{64})")


def vouched(tarball: Path, sha256: str, shell: Shell) -> str:
    """What was checked, for people: ``SHA256SUMS, signature by KEY``, or ``none`` with the reason.

    Raises SourceError when a checksum or a signature disagrees.
    """
    checked = [text for text in (_checksum(tarball, sha256), _signature(tarball, shell)) if text]
    good = [text for text in checked if not text.startswith("none")]
    return ", ".join(good) or (checked[0] if checked else "none (no checksum beside it)")


def _checksum(tarball: Path, sha256: str) -> str:
    """``NAME.sha256`` may hold the sum alone, or as in SHA256SUMS with the name, as ``sha256sum``, ``sha256sum --tag`` or
    ``openssl dgst -sha256`` writes it; either may list others too.
    """
    unnamed = ""
    for file in (tarball.with_name(tarball.name + ".sha256"), tarball.with_name("SHA256SUMS")):
        if not file.is_file():
            continue
        for line in file.read_text(errors="replace").splitlines():
            tagged = _TAGGED.fullmatch(line.strip())
            parts = [tagged[2], tagged[1]] if tagged else line.strip().split(maxsplit=1)
            if parts and (len(parts) == 1 or Path(parts[-1].lstrip("*")).name == tarball.name):
                if parts[0].lower() != sha256:
                    raise SourceError(f"{tarball.name} does not match its checksum in {file.name}", "download it again")
                return file.name
        unnamed = unnamed or f"none ({file.name} has no SHA-256 of {tarball.name})"
    return unnamed


def _signature(tarball: Path, shell: Shell) -> str:
    file = next((name for end in (".asc", ".sig") if (name := tarball.with_name(tarball.name + end)).is_file()), None)
    if file is None:
        return ""
    try:
        # --status-fd: lines for programs, the same in every language.
        command = Command(("gpg", "--batch", "--status-fd", "1", "--verify", str(file), str(tarball)))
        status = shell.run(command, check=False, timeout_s=300).stdout
    except MissingTool:
        return f"none ({file.name} was not checked: gpg is not on this machine)"
    if re.search(r"^\[GNUPG:\] BADSIG ", status, re.M):
        raise SourceError(f"{tarball.name} does not match its signature {file.name}", "download it again")
    # VALIDSIG names the key, but comes for expired and revoked keys too.
    found = re.search(r"^\[GNUPG:\] VALIDSIG (\w+)", status, re.M)
    if found and "[GNUPG:] GOODSIG " in status:
        return f"signature by {found[1]}"
    return f"none ({file.name} was not checked: its key is not in the keyring, or no longer valid)"
