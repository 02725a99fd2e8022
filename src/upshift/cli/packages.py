"""What the launcher runs before there is a ``.venv``: ``python3 -m upshift.cli.packages [--no-install]``.

Only the standard library is imported here, directly or not.
"""

from __future__ import annotations

import sys

from upshift import interrupts
from upshift.errors import UpshiftError
from upshift.shell import SystemShell
from upshift.toolchain.system import ensure_packages


def main(arguments: list[str]) -> int:
    """Install the packages that a Python environment needs; the exit code."""
    shell = SystemShell()
    try:
        with interrupts.handled():
            ensure_packages("launcher", allow_install="--no-install" not in arguments, shell=shell, say=_say)
    except UpshiftError as error:
        sys.stderr.write(f"ERROR: {error.message}\nhint: {error.hint}\n")
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    finally:
        shell.close()
    return 0


def _say(line: str) -> None:
    sys.stderr.write(f"upshift: {line}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
