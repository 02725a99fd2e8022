"""The stages that patch: Source to Source, and a plain build to one in which what the patches touch was compiled again."""

from __future__ import annotations

from collections.abc import Sequence

from upshift.build.model import Build
from upshift.build.ninja import Step, steps
from upshift.build.relink import build_touched
from upshift.build.rules import VERSION
from upshift.build.steps import archive_members, at_source
from upshift.build.touched import Touched, is_text, read_includes, touched_steps
from upshift.patches.model import Patch, patches_key
from upshift.patches.tree import copy_patched, refuse_unfit
from upshift.source.model import Source
from upshift.stages.builds import build_plain
from upshift.stages.keys import headers_key, processor_key
from upshift.stages.lab import Lab
from upshift.stages.names import Stage
from upshift.stages.source import unchanged
from upshift.values import Value, content_hash
from upshift.workbench import Workbench


class PatchedBuild(Value):
    """A plain build with what the patches touch compiled again, or why that is not possible."""

    build: Build | None
    whole: str = ""


def patch_source(lab: Lab, source: Source, patches: Sequence[Patch]) -> Source:
    """The source with the patches, all other files shared with it. Raises PatchRefused when one does not fit."""
    if not patches:
        return source
    names = tuple(each.name for each in patches)

    def action(bench: Workbench) -> Source:
        target = bench.folder / "source"
        with unchanged(lab, bench, source):
            fitted = refuse_unfit(bench.shell, patches, source.path, source.version)
            # What lies in the cache stays as it is; a folder of the user's own may be written to.
            copy_patched(source.path, target, fitted, share=source.path.is_relative_to(lab.cache))
        return source.contents().model_copy(
            update={
                "sha256": content_hash([source.sha256, dict(fitted.changed)]),
                "path": target,
                "patches": names,
                "changed": tuple(sorted(fitted.changed)),
            }
        )

    inputs = {"source": source.contents(), "patches": patches_key(patches)}
    made = lab.stages.run(Stage.PATCHED_SOURCE, Source, action, inputs=inputs)
    origin = f"{source.origin}, with patches {', '.join(names)}"
    return made.model_copy(update={"origin": origin, "verified": source.verified})


def build_patched(lab: Lab, source: Source, patched: Source, plain: Build, *, relocations: bool) -> Build:
    """``plain``, a build of ``source``, with what the patches touch compiled from ``patched``, with the same flags.

    What cannot be compiled alone is a plain build of the patched source.
    """
    if not patched.patches:
        return plain

    def action(bench: Workbench) -> PatchedBuild:
        bench.progress.update(0, 1, "what the patches touch")
        touched = _touched(lab, source, patched, plain)
        if touched.whole:
            return PatchedBuild(build=None, whole=touched.whole)
        made = build_touched(bench, lab.kind, patched, plain.toolchain, plain, source.path, touched, jobs=lab.jobs)
        return PatchedBuild(build=made)

    inputs = {
        "plain": plain.model_copy(update={"recipe": plain.recipe.before_post_link().before_patches()}),
        "source": patched.contents(),
        "kind": (lab.kind.unbuilt, lab.kind.plugins(plain.tree)),
        "headers": headers_key(lab.kind, plain.recipe),
        **processor_key(plain.recipe),
    }
    made = lab.stages.run(Stage.PATCHED_BUILD, PatchedBuild, action, inputs=inputs, version=VERSION, goes_on=True)
    if made.build is None:
        lab.progress.note(f"the patches need a whole build: {made.whole}")
        return build_plain(lab, patched, plain.recipe, plain.toolchain, relocations=relocations)
    return made.build.model_copy(update={"recipe": plain.recipe})


def _touched(lab: Lab, source: Source, patched: Source, plain: Build) -> Touched:
    """What of ``plain`` the patches touch."""
    built = [path for path in patched.changed if not path.startswith(lab.kind.unbuilt)]
    if opaque := next((path for path in built if not is_text(path)), None):
        return Touched(whole=f"{opaque} is nothing that a compiler reads")
    if not built:
        return Touched()

    def known(*targets: str) -> tuple[Step, ...]:
        return tuple(at_source(step, source.path, patched.path) for step in steps(lab.shell, plain.tree, *targets))

    plugins = lab.kind.plugins(plain.tree)
    members = archive_members(lab.shell, plain.tree, lab.kind.server_target, *plugins)
    includes = read_includes(patched.path, plain.tree, lab.kind.unbuilt)
    server, loaded = known(lab.kind.server_target), known(*plugins) if plugins else ()
    return touched_steps(server, loaded, plugins, members, plain.tree, includes, built)
