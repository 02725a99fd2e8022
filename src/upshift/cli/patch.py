"""`upshift patch`: the series, which of it fits a source, and a source with it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from upshift.cli.parameters import Json
from upshift.cli.patch_prove import prove

if TYPE_CHECKING:
    from upshift.patches.model import Patch, Series

patch_app = typer.Typer(no_args_is_help=True, help="Show the server's patch series, check where it fits, apply it to a source.")

_TREE = Annotated[Path, typer.Argument(help="A source directory.")]
_NAMES = Annotated[str, typer.Option("--patches", metavar="NAMES", help="Names separated by commas, or all.")]


@patch_app.command("list")
def list_(json: Json = False) -> None:
    """List the patches in the order in which they are applied: what each does, and the variable that turns it off."""
    from upshift import console

    series = _whole_series()
    if json:
        patches = [each.model_dump(mode="json", exclude={"text"}) for each in series.patches]
        _json(patches=patches, dropped=[each.model_dump(mode="json") for each in series.dropped])
        return
    for each in series.patches:
        switch = f"variable {each.variable}" if each.variable else "no variable"
        needs = (f"needs {', '.join(each.needs)}",) if each.needs else ()
        console.entry(each.name, each.what, "; ".join((switch, f"versions {each.versions}", *needs)))


@patch_app.command()
def check(tree: _TREE, patches: _NAMES = "all", json: Json = False) -> None:
    """Check which patches fit a source of any version or fork, hunk by hunk; the exit code is 1 when one does not."""
    from upshift import console
    from upshift.patches.tree import fit_tree
    from upshift.patches.words import hunk_words, why_not

    version = _version(tree)
    chosen = _series(patches)
    fits = fit_tree(chosen, tree, version).fits
    if json:
        _json(version=version, patches=[each.model_dump(mode="json") for each in fits])
    for patch, each in () if json else zip(chosen, fits, strict=True):
        beyond = "" if each.version_fits else f"; it is for versions {patch.versions}, and the source is {version}"
        console.result(f"{'fits' if each.fits else 'does not fit':<13} {each.patch}{beyond}")
        if each.lacks or each.applied_already or each.collides_with:
            console.result(f"    {why_not(each).partition(': ')[0]}")
        for file in each.files:
            told = [file.problem] if file.problem else [hunk_words(hunk) for hunk in file.hunks]
            for words in told or ["a new file"]:
                console.result(f"    {file.path}: {words}")
    if not all(each.version_fits for each in fits):
        console.say("`upshift patch apply` refuses patches for other versions: name a source of theirs, or leave them out")
    if not all(each.fits for each in fits):
        raise typer.Exit(1)


@patch_app.command()
def apply(
    tree: _TREE,
    patches: _NAMES = "all",
    output: Annotated[Path | None, typer.Option(metavar="DIR", help="Write the patched source to this new directory.")] = None,
    in_place: Annotated[bool, typer.Option("--in-place", help="Change TREE itself.")] = False,
    json: Json = False,
) -> None:
    """Write a source with the patches to a new directory, and print its path; TREE stays as it is without --in-place."""
    from upshift import console
    from upshift.errors import UsageError
    from upshift.patches.tree import copy_patched, refuse_unfit, write_changes
    from upshift.shell import SystemShell

    version, chosen = _version(tree), _series(patches)
    if (output is None) != in_place:
        raise UsageError("exactly one of --output and --in-place is needed", "give either --output DIR or --in-place")
    if output is not None and (os.path.lexists(output) or output.resolve().is_relative_to(tree.resolve())):
        raise UsageError(f"{output} exists already, or is inside the source", "name a new directory outside of the source")
    shell = SystemShell()
    try:
        fitted = refuse_unfit(shell, chosen, tree, version)
    finally:
        shell.close()
    if output is None:
        write_changes(tree, tree, fitted)
    else:
        copy_patched(tree, output, fitted, share=False)
    place = (output or tree).resolve()
    if json:
        _json(source=str(place), patches=[each.name for each in chosen], changed=sorted(fitted.changed))
    else:
        console.result(str(place))
        console.say(f"patched: {', '.join(each.name for each in chosen)}; {len(fitted.changed)} files changed")


patch_app.command()(prove)


def _whole_series() -> Series:
    from upshift.patches.model import read_series
    from upshift.server.kinds import default_kind

    return read_series(default_kind().series)


def _series(names: str = "all") -> tuple[Patch, ...]:
    from upshift.cli.amounts import parse_patches

    return _whole_series().named(parse_patches(names))


def _version(tree: Path) -> str:
    """Raises SourceError when there is no such source."""
    from upshift.door import refuse_source
    from upshift.errors import SourceError
    from upshift.server.kinds import default_kind

    kind = default_kind()
    refuse_source(kind, str(tree), "name the directory that it was unpacked to")
    found = kind.recognise(tree) if tree.is_dir() else None
    if found is None:
        raise SourceError(f"{tree} is not a {kind.name} source tree", "name the directory that it was unpacked to")
    return found


def _json(**told: object) -> None:
    import json

    from upshift import console

    console.result_json(json.dumps({"schema_version": 1, **told}, indent=2))
