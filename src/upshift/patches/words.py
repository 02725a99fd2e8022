"""What keeps a patch from fitting, in words."""

from __future__ import annotations

from upshift.patches.fit import FileFit, HunkFit, PatchFit


def why_not(fit: PatchFit) -> str:
    """Why a patch does not fit, in one sentence."""
    if fit.lacks:
        return f"patch {fit.patch} needs {', '.join(fit.lacks)}, which does not fit"
    if fit.applied_already:
        return f"the source has the lines of patch {fit.patch} already"
    where = "; ".join(each for file in fit.files for each in _troubles(file))
    if fit.collides_with:
        return f"patches {fit.collides_with} and {fit.patch} collide: beside the first the second does not fit: {where}"
    return f"patch {fit.patch} does not fit: {where}"


def hunk_words(hunk: HunkFit) -> str:
    """Where a hunk fits, or what comes nearest."""
    if hunk.found is not None:
        moved = f", {abs(hunk.found - hunk.line)} lines off" if hunk.found != hunk.line else ""
        return f"hunk {hunk.hunk} fits at line {hunk.found}{moved}"
    begins = f"hunk {hunk.hunk} at line {hunk.line} does not fit"
    if hunk.nearest is None:
        return f"{begins}; nothing comes near"
    differs = f", which has '{hunk.there.strip()}' for '{hunk.expected.strip()}'" if hunk.expected or hunk.there else ""
    return f"{begins}; the nearest is line {hunk.nearest}, {hunk.agreeing} of {hunk.lines} lines alike{differs}"


def _troubles(file: FileFit) -> list[str]:
    if file.problem:
        return [f"{file.path}: {file.problem}"]
    return [f"{file.path}: {hunk_words(hunk)}" for hunk in file.hunks if hunk.found is None]
