"""MySQL's C client library, or MariaDB's: what compiles and links against it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from upshift.build.cmake import source_of
from upshift.errors import MissingTool
from upshift.shell import Command, Shell
from upshift.values import Value

_HINT = "apt-get install libmariadb-dev pkg-config, or --binary of a MySQL in its build folder"
_STATIC = ("-lstdc++", "-lssl", "-lcrypto", "-lz", "-lzstd", "-lresolv", "-lm")
"""What libmysqlclient.a of MySQL's own build leaves to the system."""


class ClientLibrary(Value):
    """Flags of the compiler and the linker."""

    name: str
    compile_flags: tuple[str, ...]
    link_flags: tuple[str, ...]
    environment: Mapping[str, str] = {}
    """What programs run with: where its plugins lie, mysql_native_password among them, which MariaDB asks for."""


def find_client_library(shell: Shell, binary: Path | None) -> ClientLibrary:
    """That of the build folder in which ``binary`` lies, else the system's. Raises MissingTool."""
    if binary is not None and (found := _of_build(binary)):
        return found
    if shutil.which("pkg-config"):
        for name in ("mysqlclient", "libmariadb"):
            done = shell.run(Command(("pkg-config", "--cflags", "--libs", name)), check=False)
            if done.returncode == 0:
                words = done.stdout.split()
                links = tuple(word for word in words if word.startswith(("-l", "-L")))
                return ClientLibrary(
                    name=name, compile_flags=tuple(word for word in words if word not in links), link_flags=links
                )
    raise MissingTool("the C client library of MySQL or MariaDB is not on this machine", _HINT)


def _of_build(binary: Path) -> ClientLibrary | None:
    tree = binary.resolve().parents[1]
    archive, source = tree / "archive_output_directory" / "libmysqlclient.a", source_of(tree)
    if not archive.is_file() or source is None:
        return None
    headers = (f"-I{source / 'include'}", f"-I{tree / 'include'}")
    plugins = {"LIBMYSQL_PLUGIN_DIR": str(tree / "plugin_output_directory")}
    return ClientLibrary(name="libmysqlclient", compile_flags=headers, link_flags=(str(archive), *_STATIC), environment=plugins)
