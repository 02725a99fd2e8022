"""Reads the TOML files that users write."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from upshift.errors import UsageError
from upshift.paths import paths_of


def own_file(name: str, folder: Path = Path()) -> Path | None:
    """The absolute path of a file of the user's own; None for one that is shipped, or a program. The ending of the name as it
    was written tells which: a link need not end as what it points to. A relative path begins at ``folder``.
    """
    if not name.endswith(".toml"):
        return None
    with paths_of(name):
        path = folder / Path(name).expanduser()
        return path.parent.resolve() / path.name


def read_toml(file: Path, what: str, hint: str, wrong: type[UsageError] = UsageError, option: str = "") -> dict[str, Any]:
    """The tables of a file that is to be a ``what``, named by ``option``. Raises ``wrong`` where it is not there, cannot be
    read or is not TOML; ``hint`` says what to compare it with.
    """
    where = f"{option}: " if option else ""
    try:
        return tomllib.loads(file.read_bytes().decode())
    except FileNotFoundError as error:
        raise wrong(f"{where}there is no {what} {file}", f"name a .toml file; {hint}") from error
    except OSError as error:
        raise wrong(f"{where}{file} cannot be read: {error.strerror}", "name a .toml file that this user may read") from error
    except UnicodeDecodeError as error:
        raise wrong(f"{where}{file} is not UTF-8, as TOML is", "save it in UTF-8") from error
    except RecursionError as error:
        raise wrong(f"{where}{file} is not a {what}: its tables or lists are nested too deep", hint) from error
    except ValueError as error:  # TOMLDecodeError, or a number of thousands of digits
        raise wrong(f"{where}{file} is not TOML: {error}", hint) from error
