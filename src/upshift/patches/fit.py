"""Whether patches fit files, hunk by hunk, with every line as the patch has it: no fuzz. Pure but for the reading of files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from upshift.patches.diff import FileDiff, Hunk
from upshift.patches.model import Patch
from upshift.values import Value

Read = Callable[[str], str | None]
"""A file's text by its path in the tree; None where there is none."""


class HunkFit(Value):
    """Where a hunk fits in its file, or what comes nearest to it."""

    hunk: int
    line: int
    """Where the patch has it, from 1."""
    found: int | None
    """Where its lines are, from 1; None: nowhere."""
    nearest: int | None = None
    """The lines that agree most with it begin here."""
    agreeing: int = 0
    """Lines of the nearest that are as the patch has them."""
    lines: int = 0
    """That the hunk must find."""
    expected: str = ""
    """The first line that is otherwise in the nearest, as the patch has it."""
    there: str = ""
    """That line as the file has it."""


class FileFit(Value):
    """Whether a patch's changes to one file fit."""

    path: str
    problem: str = ""
    """Of the file as a whole: it is not there, or it is there already."""
    hunks: tuple[HunkFit, ...] = ()

    @property
    def fits(self) -> bool:
        return not self.problem and all(hunk.found is not None for hunk in self.hunks)


class PatchFit(Value):
    """Whether a patch fits a tree on which those before it, as far as they fit, are applied."""

    patch: str
    fits: bool
    version_fits: bool = True
    """Whether the tree's version lies in the patch's range."""
    lacks: tuple[str, ...] = ()
    """Patches that it needs, and that do not fit."""
    collides_with: str = ""
    """The earlier patch without which it would fit."""
    applied_already: bool = False
    """Whether the tree has the patch's lines already."""
    files: tuple[FileFit, ...] = ()


class Fitted(Value):
    """A series on a tree."""

    fits: tuple[PatchFit, ...]
    changed: Mapping[str, str | None]
    """Files of the patched tree that differ, by path, from those patches that fit; None: removed."""
    executable: tuple[str, ...] = ()
    """Of the files that are added, the programs."""


def fit_series(patches: Sequence[Patch], read: Read, version: str | None = None) -> Fitted:
    """Try each patch on top of those before it that fit."""
    changed: dict[str, str | None] = {}
    done: list[Patch] = []
    fits: list[PatchFit] = []
    programs: list[str] = []
    for patch in patches:
        version_fits = version is None or patch.fits_version(version)
        if lacks := tuple(name for name in patch.needs if name not in {each.name for each in done}):
            fits.append(PatchFit(patch=patch.name, fits=False, version_fits=version_fits, lacks=lacks))
            continue
        files, after = _try(patch, changed, read)
        if after is not None:
            changed.update(after)
            done.append(patch)
            programs += [file.path for file in patch.changes if file.executable]
        fits.append(
            PatchFit(
                patch=patch.name,
                fits=after is not None,
                version_fits=version_fits,
                collides_with="" if after is not None else _collides(patch, done, read),
                applied_already=after is None and _is_in(patch, changed, read),
                files=files,
            )
        )
    return Fitted(fits=tuple(fits), changed=changed, executable=tuple(programs))


def fit_file(diff: FileDiff, text: str | None) -> tuple[FileFit, str | None]:
    """How one file's changes fit its text (None: no such file), and the text with them; None when they do not, or remove it."""
    if diff.does == "add":
        problem = "" if text is None else "it is there already"
        return FileFit(path=diff.path, problem=problem), "".join(line for hunk in diff.hunks for line in hunk.new)
    if text is None:
        return FileFit(path=diff.path, problem="there is no such file"), None
    lines = _lines(text)
    fits: list[HunkFit] = []
    made: list[str] = []
    done, shift = 0, 0
    for hunk in diff.hunks:
        # A hunk of new lines alone stands behind the line that it names.
        wanted = hunk.line - 1 + (not hunk.old)
        at = _place(hunk.old, lines, wanted + shift, done)
        if at is None:
            fits.append(_nearest(hunk, lines, wanted))
            continue
        fits.append(HunkFit(hunk=hunk.number, line=hunk.line, found=at + 1, lines=len(hunk.old)))
        made += [*lines[done:at], *hunk.new]
        done, shift = at + len(hunk.old), at - wanted
    found = FileFit(path=diff.path, hunks=tuple(fits))
    if diff.does == "remove":
        # A fork's own lines are not the patch's to remove.
        more = found.fits and bool(made or lines[done:])
        return found.model_copy(update={"problem": "it has lines that the patch does not remove"}) if more else found, None
    return found, "".join([*made, *lines[done:]])


def _try(
    patch: Patch, changed: Mapping[str, str | None], read: Read
) -> tuple[tuple[FileFit, ...], dict[str, str | None] | None]:
    """How the patch fits a tree with ``changed`` files, and what it changes; None when it does not fit."""
    files: list[FileFit] = []
    after: dict[str, str | None] = {}
    for diff in patch.changes:
        text = changed[diff.path] if diff.path in changed else read(diff.path)
        found, made = fit_file(diff, text)
        files.append(found)
        after[diff.path] = made
    return tuple(files), after if all(file.fits for file in files) else None


def _collides(patch: Patch, done: Sequence[Patch], read: Read) -> str:
    """The first of the patches ``done`` beside which the patch does not fit; empty when it does not fit alone either."""
    for other in (None, *(each for each in done if each.name not in patch.needs)):
        changed: dict[str, str | None] = {}
        beside = {*patch.needs, *((other.name, *other.needs) if other else ())}
        for each in (*(each for each in done if each.name in beside), patch):
            after = _try(each, changed, read)[1]
            if after is None:
                return other.name if other else ""
            changed.update(after)
    return ""


def _is_in(patch: Patch, changed: Mapping[str, str | None], read: Read) -> bool:
    """Whether each file has the lines that the patch would give it."""

    def has(diff: FileDiff) -> bool:
        text = changed[diff.path] if diff.path in changed else read(diff.path)
        if diff.does == "remove" or text is None:
            return diff.does == "remove" and text is None
        lines = _lines(text)
        return all(_place(hunk.new, lines, hunk.line - 1, 0) is not None for hunk in diff.hunks)

    return all(has(diff) for diff in patch.changes)


def _lines(text: str) -> list[str]:
    """Lines with their ends, which are newlines alone: splitlines() breaks at form feeds, too."""
    parts = text.split("\n")
    return [*(part + "\n" for part in parts[:-1]), *([parts[-1]] if parts[-1] else [])]


def _place(old: Sequence[str], lines: Sequence[str], wanted: int, least: int) -> int | None:
    """Where ``old`` stands in ``lines``, from line ``least`` on and nearest to ``wanted``."""
    last = len(lines) - len(old)
    wanted = min(max(wanted, least), max(last, least))
    wanted_lines = list(old)
    for distance in range(max(wanted - least, last - wanted) + 1):
        for at in (wanted - distance, wanted + distance):
            if least <= at <= last and list(lines[at : at + len(old)]) == wanted_lines:
                return at
    return None


def _nearest(hunk: Hunk, lines: Sequence[str], wanted: int) -> HunkFit:
    """The place at which most of the hunk's lines agree, among equals the nearest to where the patch has it."""

    def agreeing(at: int) -> int:
        # Lines of braces alone agree everywhere.
        return sum(len(old.strip()) > 1 and old == line for old, line in zip(hunk.old, lines[at:], strict=False))

    at = max(range(len(lines)), key=lambda at: (agreeing(at), -abs(at - wanted)), default=None)
    if at is None or not agreeing(at):
        return HunkFit(hunk=hunk.number, line=hunk.line, found=None, lines=len(hunk.old))
    pairs = [*zip(hunk.old, [*lines[at : at + len(hunk.old)], *([""] * len(hunk.old))], strict=False)]
    expected, there = next((pair for pair in pairs if pair[0] != pair[1]), ("", ""))
    return HunkFit(
        hunk=hunk.number,
        line=hunk.line,
        found=None,
        nearest=at + 1,
        agreeing=sum(old == line for old, line in pairs),
        lines=len(hunk.old),
        expected=expected.rstrip("\n"),
        there=there.rstrip("\n"),
    )
