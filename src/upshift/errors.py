"""What can go wrong, as a tree of exceptions.

    UpshiftError                  exit 1
      UsageError                  exit 2   an invalid option or value, on the command line or in a file
        RecipeError                        a recipe that is malformed or contradicts itself
        WorkloadError                      a workload file that is malformed
      MissingTool                 exit 1   a compiler, linker or program is absent or too old
      NotEnoughRoom               exit 1   disk or memory that the work would need
      SourceError                 exit 1   no source, a damaged one, or not a server's
        SourceChanged                      a source directory that is another than when it was hashed
      PatchRefused                exit 1   a patch that does not fit the source, or fits one of another version
      CommandFailed               exit 1   a command ended with an error
      ServerFailed                exit 1   a server does not start, dies or hangs
      LoadFailed                  exit 1   a workload's command fails, does nothing, or leaves the server idle
      CountFailed                 exit 1   a server's instructions could not be counted
      ProfileRefused              exit 1   a profile that is empty or too thin
      VerifyFailed                exit 1   the optimised server fails a test or lost hardening
      NotTested                   exit 1   a server's own tests could not run: nothing is known of the server
      CacheBusy                   exit 1   another run works in the same cache

Library code raises; only ``upshift.cli.app.main`` turns an exception into an ERROR line, its hint and an exit code.
"""

from __future__ import annotations


class UpshiftError(Exception):
    """Something that a user can act on.

    ``message`` says what happened, in one sentence; ``hint`` says what to do about it.
    """

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(UpshiftError):
    exit_code = 2


class RecipeError(UsageError):
    pass


class WorkloadError(UsageError):
    pass


class MissingTool(UpshiftError):
    pass


class NotEnoughRoom(UpshiftError):
    pass


class SourceError(UpshiftError):
    pass


class SourceChanged(SourceError):
    """A source directory is another than when it was hashed."""


class PatchRefused(UpshiftError):
    pass


class CommandFailed(UpshiftError):
    """A command ended with an error; ``returncode`` is negative for a signal, ``log`` holds its output."""

    def __init__(self, message: str, hint: str = "", *, returncode: int = 1, log: str = "") -> None:
        super().__init__(message, hint)
        self.returncode = returncode
        self.log = log


class ServerFailed(UpshiftError):
    pass


class LoadFailed(UpshiftError):
    pass


class CountFailed(UpshiftError):
    pass


class ProfileRefused(UpshiftError):
    pass


class VerifyFailed(UpshiftError):
    pass


class NotTested(UpshiftError):
    pass


class CacheBusy(UpshiftError):
    pass
