"""A command that becomes another user first: some servers refuse to run as root."""

from __future__ import annotations

import os
import pwd
import signal

from upshift.errors import MissingTool


def as_user(name: str, *, when_orphaned: signal.Signals) -> tuple[str, ...]:
    """The words before a command that must not run as root; none for those who are not root.

    The command still may read and write what is root's: caches and temporary folders lie where that user may not even look.
    It becomes the server, where runuser would stay in between. The change of user makes the kernel forget what the command
    shall get when Upshift is killed, so it is told again: ``when_orphaned``.

    Raises MissingTool where there is no such user.
    """
    if os.geteuid() != 0:
        return ()
    try:
        group = pwd.getpwnam(name).pw_gid
    except KeyError as error:
        hint = "the server's package brings that user; or start Upshift as a user other than root"
        raise MissingTool(f"this server refuses to run as root, and there is no user {name}", hint) from error
    user = (f"--reuid={name}", f"--regid={group}", "--init-groups")
    files = ("--inh-caps=+dac_override", "--ambient-caps=+dac_override")
    return ("setpriv", *user, *files, f"--pdeathsig={when_orphaned.name.removeprefix('SIG')}")
