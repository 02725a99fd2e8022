"""Each language's programs: built with its own tools and locked packages, in the cache."""

from __future__ import annotations

import contextlib
import hashlib
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from upshift.errors import MissingTool, UpshiftError
from upshift.paths import cache_dir, shipped
from upshift.shell import Command, Shell
from upshift.stack.driver_matrix.client_library import ClientLibrary, find_client_library
from upshift.stack.driver_matrix.model import LeftOut
from upshift.stack.driver_matrix.operations import Language

_BUILD_TIMEOUT_S = 900.0
_BUILT = "built"


@dataclass(frozen=True)
class Toolkit:
    """How a language's program is run."""

    argv: tuple[str, ...]
    cwd: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    without: tuple[LeftOut, ...] = ()
    """Drivers that it was built without."""


@dataclass(frozen=True)
class Workshop:
    """What building needs: the shell, and the MySQL whose build may hold its client library."""

    shell: Shell
    binary: Path | None
    say: Callable[[str], None]
    cache: Path = field(default_factory=lambda: cache_dir() / "drivers")

    def run(self, *argv: str, cwd: Path, env: Mapping[str, str] = {}) -> None:
        self.shell.run(Command(argv, cwd=cwd, env=env), timeout_s=_BUILD_TIMEOUT_S)


def prepare(language: Language, shop: Workshop) -> Toolkit:
    """Build a language's programs, or find them built. Raises MissingTool or CommandFailed, with what to do."""
    return _PREPARE[language](shop)


def _java(shop: Workshop) -> Toolkit:
    _require("java", "apt-get install default-jdk-headless")
    _require("mvn", "apt-get install maven")
    folder = _folder(shop, "java")
    if _is_new(folder):
        shop.say("building the drivers' program in Java")
        places = (f"-Dmaven.repo.local={shop.cache / 'maven'}", f"-Dupshift.build={folder}")
        shop.run("mvn", "-q", "-B", *places, "-f", str(_sources("java") / "pom.xml"), "compile", cwd=folder)
        _finish(folder)
    quick = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    return Toolkit(("java", *quick, "-cp", f"{folder / 'classes'}:{folder / 'jars'}/*", "upshift.Main"), folder)


def _node(shop: Workshop) -> Toolkit:
    _require("node", "apt-get install nodejs")
    _require("npm", "apt-get install npm")
    folder = _folder(shop, "node")
    if _is_new(folder):
        shop.say("installing the driver's packages for Node.js")
        shutil.copytree(_sources("node"), folder, dirs_exist_ok=True)
        shop.run("npm", "ci", "--no-audit", "--no-fund", "--cache", str(shop.cache / "npm"), cwd=folder)
        _finish(folder)
    return Toolkit(("node", str(folder / "main.mjs")), folder)


def _go(shop: Workshop) -> Toolkit:
    _require("go", "apt-get install golang, or a newer Go: drivers/go/go.mod says which the drivers need")
    folder = _folder(shop, "go")
    if _is_new(folder):
        shop.say("building the drivers' program in Go")
        # The newer Go that a module asks for would be downloaded otherwise.
        places = {"GOMODCACHE": str(shop.cache / "go-modules"), "GOCACHE": str(shop.cache / "go-build"), "GOTOOLCHAIN": "local"}
        flags = ("-mod=readonly", "-modcacherw", "-buildvcs=false")
        shop.run("go", "build", *flags, "-o", str(folder / "drivers"), ".", cwd=_sources("go"), env=places)
        _finish(folder)
    return Toolkit((str(folder / "drivers"),), folder)


def _python(shop: Workshop) -> Toolkit:
    folder = _folder(shop, "python")
    python = folder / "venv" / "bin" / "python"
    pip = (str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--require-hashes", "-r")
    if _is_new(folder):
        shop.say("installing the drivers' packages for Python")
        shop.run(sys.executable, "-m", "venv", str(folder / "venv"), cwd=folder)
        shop.run(*pip, str(_sources("python") / "requirements.txt"), cwd=folder)
        _finish(folder)
    without: list[LeftOut] = []
    environment: Mapping[str, str] = {}
    try:
        environment = _add_mysqlclient(shop, folder, pip).environment
    except UpshiftError as error:
        without.append(left_out("mysqlclient", error))
    return Toolkit((str(python), str(_sources("python") / "main.py")), folder, environment, tuple(without))


def _add_mysqlclient(shop: Workshop, folder: Path, pip: tuple[str, ...]) -> ClientLibrary:
    """It is compiled, against the C library of a MySQL or MariaDB."""
    library = find_client_library(shop.shell, shop.binary)
    stamp = folder / "mysqlclient"
    if stamp.is_file() and stamp.read_text() == library.model_dump_json():
        return library
    flags = {"MYSQLCLIENT_CFLAGS": shlex.join(library.compile_flags), "MYSQLCLIENT_LDFLAGS": shlex.join(library.link_flags)}
    requirements = str(_sources("python") / "requirements-mysqlclient.txt")
    shop.run(*pip, requirements, "--force-reinstall", "--no-cache-dir", cwd=folder, env=flags)
    stamp.write_text(library.model_dump_json())
    return library


def _c(shop: Workshop) -> Toolkit:
    _require("cc", "apt-get install gcc libc6-dev")
    library: ClientLibrary = find_client_library(shop.shell, shop.binary)
    folder = _folder(shop, "c", library.model_dump_json())
    if _is_new(folder):
        shop.say(f"building the program in C over {library.name}")
        sources = [str(each) for each in sorted(_sources("c").glob("*.c"))]
        out = str(folder / "drivers")
        shop.run("cc", "-O1", *library.compile_flags, "-o", out, *sources, *library.link_flags, cwd=folder)
        _finish(folder)
    return Toolkit((str(folder / "drivers"),), folder, library.environment)


_PREPARE: Mapping[Language, Callable[[Workshop], Toolkit]] = {
    "java": _java,
    "node": _node,
    "go": _go,
    "python": _python,
    "c": _c,
}


def _sources(language: Language) -> Path:
    return shipped("drivers") / language


def _folder(shop: Workshop, language: Language, *more: str) -> Path:
    """Where the programs are built, by the contents of all that they are built from."""
    digest = hashlib.sha256("\0".join(more).encode())
    for file in sorted(_sources(language).rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            digest.update(f"{file.relative_to(_sources(language))}\0".encode() + file.read_bytes())
    folder = shop.cache / f"{language}-{digest.hexdigest()[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _is_new(folder: Path) -> bool:
    """Whether it is to be built; what an interrupted build left is removed."""
    if (folder / _BUILT).is_file():
        return False
    with contextlib.suppress(OSError):
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    return True


def _finish(folder: Path) -> None:
    (folder / _BUILT).write_text("")


def _require(program: str, hint: str) -> None:
    if shutil.which(program) is None:
        raise MissingTool(f"there is no {program} on this machine", hint)


def left_out(what: str, error: UpshiftError) -> LeftOut:
    """A driver that could not be prepared: why, in a line, and what to do."""
    lines = error.message.strip().splitlines() or ["no message"]
    return LeftOut(what=what, why=lines[-1], hint=error.hint or "its packages come from its language's own registry")
