"""The stage that gets the source tree."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from upshift.errors import SourceChanged, SourceError
from upshift.run.directory import write_json
from upshift.run.fingerprint import fingerprint
from upshift.run.stages import empty
from upshift.source.fetch import obtain, refuse_changed
from upshift.source.model import Source
from upshift.stages.lab import Lab
from upshift.stages.names import Stage
from upshift.workbench import Workbench


def get_source(lab: Lab, spec: str | None, identity: str) -> Source:
    """The source that ``spec`` names; a run that is resumed keeps what it got, whatever the distribution has by then.

    ``identity`` tells one state of a directory or tarball from another.
    """

    def action(bench: Workbench) -> Source:
        return obtain(spec, kind=lab.kind, cache=lab.cache, shell=bench.shell, say=bench.progress.note, log=bench.log)

    inputs = {"spec": spec, "identity": identity, "kind": lab.kind.name}
    source = lab.stages.run(Stage.SOURCE, Source, action, inputs=inputs, keep=False)
    _refuse_another(lab.run.path / "source.json", source)
    return source


@contextlib.contextmanager
def unchanged(lab: Lab, bench: Workbench, source: Source) -> Iterator[None]:
    """Around what reads a source, which is known by its hash: a directory is the user's, who may switch to another branch.

    Raises SourceChanged when it has. Then what was made of it goes, from which an interrupted build would go on. Ctrl-C
    waits for the hash of the whole tree only where some file was touched.
    """
    if source.path.is_relative_to(lab.cache):  # What lies there is Upshift's own.
        yield
        return
    began_s, before, untouched = time.time(), fingerprint(source.path), False
    try:
        yield
    except KeyboardInterrupt:
        untouched = fingerprint(source.path) == before
        raise
    finally:
        if not untouched:
            try:
                refuse_changed(source, began_s)
            except SourceChanged:
                empty(bench.folder)
                raise


def _refuse_another(began_with: Path, source: Source) -> None:
    """One run has one source, also when what it unpacked was deleted meanwhile and the distribution has a newer one."""
    if not began_with.is_file():
        write_json(began_with, source.model_dump(mode="json"))
        return
    try:
        earlier = Source.model_validate_json(began_with.read_text())
    except ValueError as error:  # of another version, or emptied by a loss of power
        raise SourceError(f"{began_with} is damaged", "start a new run without --resume") from error
    if earlier.sha256 != source.sha256:
        raise SourceError(
            f"this run began with the source {earlier.origin}, and now there is {source.origin}",
            "start a new run without --resume: what it was built from has changed",
        )
