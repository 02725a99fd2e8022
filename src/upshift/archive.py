"""Unpacking tarballs. Python before 3.11.4, which Debian 12 has, knows no filters for it (PEP 706)."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path


def unpack(archive: tarfile.TarFile, folder: Path) -> None:
    """Every member into ``folder``, as this user's.

    Raises tarfile.TarError, as the filter "data" does, for members and links that would lead outside, and for devices.
    """
    if hasattr(tarfile, "data_filter"):
        archive.extractall(folder, filter="data")
        return
    folder.mkdir(parents=True, exist_ok=True)
    root = os.path.realpath(folder)
    for member in archive:
        member.name = member.name.lstrip("/")
        _refuse(member, root)
        member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
        # What is unpacked next may lie in it.
        member.mode = 0o755 if member.isdir() else member.mode & 0o755 | 0o600
        archive.extract(member, folder)


def _refuse(member: tarfile.TarInfo, root: str) -> None:
    path = os.path.join(root, member.name)  # noqa: PTH118
    leads = [path]
    if member.issym():
        leads.append(os.path.join(os.path.dirname(path), member.linkname))  # noqa: PTH118, PTH120
    if member.islnk():
        leads.append(os.path.join(root, member.linkname))  # noqa: PTH118
    # Real paths: an earlier member may be a link.
    if any(os.path.commonpath((root, os.path.realpath(each))) != root for each in leads):
        raise tarfile.ReadError(f"{member.name!r} would be outside of the folder")
    if not (member.isfile() or member.isdir() or member.issym() or member.islnk()):
        raise tarfile.ReadError(f"{member.name!r} is a device")
