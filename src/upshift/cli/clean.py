"""`upshift clean`: what the cache holds, and room."""

from __future__ import annotations

import json as jsonlib
from typing import TYPE_CHECKING, Annotated

import typer

from upshift.cli.parameters import Json

if TYPE_CHECKING:
    import datetime

    from upshift.run.cleaning import Entry

_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


def clean(
    older_than: Annotated[
        str | None, typer.Option(metavar="TIME", help="Remove runs that began longer ago, such as 12h, 7d or 4w.")
    ] = None,
    keep: Annotated[int | None, typer.Option(min=0, metavar="N", help="Remove all runs but the newest N.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed, and exit.")] = False,
    json: Json = False,
) -> None:
    """Show the sizes of runs and kept results, and remove what no run uses.

    With both limits, a run is removed only if neither keeps it.
    """
    import contextlib
    import datetime

    from upshift.paths import cache_dir
    from upshift.run.cleaning import remove, remove_leftovers, survey
    from upshift.run.lock import exclusive

    cache, age = cache_dir(), parse_age(older_than) if older_than else None
    with contextlib.nullcontext() if dry_run else exclusive(cache):
        if not dry_run:
            remove_leftovers(cache)
        entries = survey(cache, older_than=age, keep=keep, now=datetime.datetime.now(datetime.UTC))
        if not dry_run:
            remove(entry.path for entry in entries if entry.removed)
    _show(entries, dry_run=dry_run, as_json=json)


def parse_age(text: str) -> datetime.timedelta:
    import datetime
    import re

    from upshift.errors import UsageError

    found = re.fullmatch(r"([0-9]+)([hdw])", text)
    if found is None:
        raise UsageError(f"--older-than takes a number and a unit, not '{text}'", "for example --older-than 12h, 7d or 4w")
    try:
        return datetime.timedelta(**{_UNITS[found[2]]: int(found[1])})
    except OverflowError as error:
        raise UsageError(
            f"--older-than {text} is longer than time is counted", "for example --older-than 12h, 7d or 4w"
        ) from error


def _show(entries: tuple[Entry, ...], *, dry_run: bool, as_json: bool) -> None:
    from upshift import console

    freed_bytes = sum(entry.size_bytes for entry in entries if entry.removed)
    if as_json:
        told = [entry.model_dump(mode="json") for entry in entries]
        report = {"schema_version": 1, "dry_run": dry_run, "freed_bytes": freed_bytes, "entries": told}
        console.result_json(jsonlib.dumps(report, indent=2))
        return
    for entry in entries:
        used = [f"used by {', '.join(entry.used_by)}"] if entry.used_by else []
        fate = "remove" if entry.removed else "keep"
        console.entry(f"{fate:<6} {entry.size_bytes / 1e9:7.2f} GB  {entry.kind:<6} {entry.name}", *used)
    would = "would free" if dry_run else "freed"
    console.result(f"{would} {freed_bytes / 1e9:.2f} GB")
