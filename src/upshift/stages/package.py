"""The stage that makes what is installed."""

from __future__ import annotations

import datetime
from pathlib import Path

from upshift import __version__
from upshift.build.model import Build
from upshift.measure.model import Experiment
from upshift.package.bundle import VERSION, libraries, make_package
from upshift.profile.model import Gated
from upshift.source.model import Source
from upshift.stages.lab import Lab
from upshift.stages.names import Stage
from upshift.stages.verify import Verified
from upshift.stages.work import Work
from upshift.values import Value, file_sha256
from upshift.workbench import Workbench


class Packaged(Value):
    """Where the server to install lies."""

    folder: Path
    tarball: Path


def package(
    lab: Lab,
    source: Source,
    plain: Build,
    verified: Verified,
    gated: Gated | None,
    experiment: Experiment,
    work: Work,
) -> Packaged:
    """An install tree and a tarball with provenance and the way back, in the run's folder."""

    def action(bench: Workbench) -> Packaged:
        provenance = {
            "upshift_version": __version__,
            "made_at": _now(),
            "run": lab.run.name,
            "source": source.model_dump(mode="json"),
            "recipe": verified.build.recipe.model_dump(mode="json"),
            "toolchain": verified.build.toolchain.model_dump(mode="json"),
            "profile": gated.profile.model_dump(mode="json") if gated else None,
            "post_link": verified.post_link,
            "trained_on": work.recipe.trained_by(workload.name for workload in work.train_on),
            "service": work.options.service,
            "results": [each.model_dump(mode="json") for each in experiment.comparisons if each.metric == "qps"],
        }
        made = make_package(
            kind=lab.kind,
            source=source,
            plain=plain,
            server=verified.build.server,
            post_linked=bool(verified.post_link),
            provenance=provenance,
            # All arms have the same.
            settings=experiment.arms[0].settings,
            parts=work.options.service,
            folder=lab.run.path / "package",
            shell=bench.shell,
            log=bench.log,
        )
        return Packaged(folder=made.folder, tarball=made.tarball)

    inputs = {
        "service": work.options.service,
        "libraries": {name: file_sha256(file) for name, file in libraries(work.options.service).items() if file.exists()},
        "source": source,
        "verified": verified,
        "plain": plain,
        "gated": gated,
        "experiment": experiment,
        "trained_on": work.train_on,
        "files": lab.kind.install(source.path, plain.tree, verified.build.server),
    }
    return lab.stages.run(Stage.PACKAGE, Packaged, action, inputs=inputs, version=VERSION, keep=False)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
