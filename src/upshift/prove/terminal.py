"""A proof for people."""

from __future__ import annotations

from collections.abc import Iterator

from upshift.prove.model import Proof

_WORDS = {
    "mix": "fixed statements, byte by byte",
    "tests": "statements of MySQL's tests, byte by byte",
    "random": "random statements, byte by byte",
    "storm": "answers beside DDL, FLUSH, KILL, GRANT and SET GLOBAL",
    "crash": "rows after kill -9 and restart",
    "mtr": "MySQL's own tests",
}

_SILENT_MOST = 200
"""Letters of a request that was not answered in time; the report has all of it."""


def lines(proof: Proof) -> Iterator[str]:
    """The verdict, the parts, and what is wrong."""
    yield f"{proof.verdict}: {proof.asked.patched} against {proof.asked.stock}"
    for part in proof.parts:
        told = f"{len(part.wrong)} wrong" if part.wrong else "nothing wrong"
        more = f", {len(part.unsteady)} unsteady" if part.unsteady else ""
        more += f", {len(part.silent)} not answered in time by stock either" if part.silent else ""
        unit = f"tests, {part.detail['tests']}," if part.name == "mtr" else "statements"
        of = f" ({part.detail['suite']})" if part.name == "tests" else ""
        yield f"  {_WORDS[part.name]}{of}: {part.statements} {unit} in {part.wall_s:.0f} s, {told}{more}"
        for each in part.silent:
            yield f"    {' '.join(each.split())[:_SILENT_MOST]}"
        if part.failed_on_both:
            yield f"    fail on stock, too: {', '.join(part.failed_on_both)}"
        if part.differ_on_purpose:
            yield f"    differ on purpose: {', '.join(part.differ_on_purpose)}"
    if not proof.switches:
        yield "  the patched server has no variable of the series that stock has not: nothing is proven of any patch"
    if proof.untaken:
        yield f"  short paths that no statement took, so that nothing is proven of them: {', '.join(proof.untaken)}"
    for part in proof.parts:
        for each in part.wrong:
            yield f"\n{part.name}: {each}"
