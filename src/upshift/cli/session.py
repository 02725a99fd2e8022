"""What every working command shares: the lock on the cache, the run directory, the shell, and their orderly end."""

from __future__ import annotations

import contextlib
import datetime
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from upshift import __version__
from upshift.build.whole import default_jobs
from upshift.console import ConsoleProgress
from upshift.paths import cache_dir
from upshift.run.directory import Manifest, RunDirectory
from upshift.run.lock import exclusive, holding
from upshift.run.stages import Stages
from upshift.server.kinds import default_kind
from upshift.shell import SystemShell
from upshift.stages.lab import Lab

_opened = ""


def opened() -> str:
    """The name of the run that this process has opened; empty before that, when there is nothing to go on with."""
    return _opened


@dataclass(frozen=True)
class Session:
    """One command at work."""

    run: RunDirectory
    shell: SystemShell
    lab: Lab


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """Hold the cache for a command from before it prepares, which installs, compiles and reads a whole source: nobody measures
    beside that. Raises CacheBusy.
    """
    with exclusive(cache_dir()):
        yield


@contextlib.contextmanager
def session(verb: str, options: dict[str, Any], *, stages: int, jobs: int, resume: str | None = None) -> Iterator[Session]:
    """Open (or resume) a run directory, and stop every process of ours at the end, whatever the reason; the cache is held, as
    from ``locked``.
    """
    global _opened  # noqa: PLW0603  a process works on one run
    cache = cache_dir()
    with holding(cache):
        run = RunDirectory.open(resume, (verb,)) if resume else RunDirectory.create(verb, _manifest(options))
        _opened = run.name
        shell = SystemShell(run.commands_log)
        progress = ConsoleProgress(stages)
        lab = Lab(
            stages=Stages(run, cache / "stages", shell, progress),
            kind=default_kind(),
            shell=shell,
            progress=progress,
            cache=cache,
            jobs=jobs or default_jobs(progress.note),
            run=run,
        )
        run.begin()
        try:
            yield Session(run, shell, lab)
            run.finish()
        finally:
            shell.close()


def _manifest(options: dict[str, Any]) -> Manifest:
    return Manifest(
        command=("upshift", *sys.argv[1:]),
        options=options,
        started_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        upshift_version=__version__,
    )
