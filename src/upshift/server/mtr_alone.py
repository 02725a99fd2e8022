"""One run of MTR at a time on a machine.

Each worker of MTR takes its ports by locking files in one folder, and each MTR removes files there when it ends, those of
others among them. A server of another run may then find its port in use, and a test fails that no server made fail.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

_FOLDER = "mysql-unique-ids"


def ids_folder() -> Path:
    """Where MTR keeps these files, for all users of the machine (`create_unique_id_dir` of mysql-test-run.pl)."""
    return Path(os.environ.get("MTR_UNIQUE_IDS_DIR", "/tmp")) / _FOLDER


@contextlib.contextmanager
def alone(waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the folder, which MTR itself never locks; where another run of Upshift holds it, call ``waiting`` and wait.

    The kernel lets go when the process ends, however it ends.
    """
    folder = ids_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(PermissionError):  # Another user has made it, as MTR does, for all.
        folder.chmod(0o777)
    held = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)
