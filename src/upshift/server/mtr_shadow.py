"""The build folder as MTR sees it: mysqld is the server under test, and its keyring can be set up."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

SERVER = Path("runtime_output_directory") / "mysqld"
_PLUGINS = "plugin_output_directory"
_MANIFEST, _CONFIGURATION = '{ "read_local_manifest": true }', '{ "read_local_config": true }'


def make_shadow(shadow: Path, tree: Path, server: Path, source: Path) -> None:
    """Make ``shadow``, a folder that looks like the build folder ``tree``, with links to all that is in it but mysqld, which is
    ``server``. MTR finds every program below MTR_BINDIR; it has no option to name the server.

    It has the files that make a server read the manifest and the configuration of a keyring that a test writes. MTR makes them
    itself, but Debian's does not (its patch disable_root_files): tests of encryption then find no keyring. Upstream's would
    write them through links into the build folder.
    """
    programs, plugins, tests = (shadow / name for name in (SERVER.parent, _PLUGINS, "mysql-test"))
    for folder in (programs, plugins, tests):
        folder.mkdir(parents=True)
        # MTR puts var, a link into memory, into the folder of tests.
        _link(tree / folder.name, folder, without=(SERVER.name,) if folder == programs else ("var",))
    _link(tree, shadow, without=(programs.name, plugins.name, tests.name))
    # A hard copy: what runs is what /proc and MTR's log then name.
    if server.stat().st_dev == programs.stat().st_dev:
        os.link(server, shadow / SERVER)
    else:
        shutil.copy2(server, shadow / SERVER)
    (shadow / f"{SERVER}.my").write_text(_MANIFEST)
    for component in _configured(source):
        if (plugins / f"{component}.so").exists():
            (plugins / f"{component}.cnf").write_text(_CONFIGURATION)


def _link(from_: Path, folder: Path, without: tuple[str, ...]) -> None:
    """Links in ``folder`` to all that is in another one, if there is such."""
    for entry in from_.iterdir() if from_.is_dir() else ():
        if entry.name not in without:
            (folder / entry.name).symlink_to(entry)


def _configured(source: Path) -> Iterator[str]:
    """The components that need a file of configuration: the third word of a line in MTR's list of plugins says so."""
    defined = source / "mysql-test" / "include" / "plugin.defs"
    for line in defined.read_text().splitlines() if defined.is_file() else ():
        match line.split():
            case [name, _folder, "yes", _variable, *_] if not name.startswith("#"):
                yield name
