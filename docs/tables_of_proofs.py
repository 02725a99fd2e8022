"""Draws what a patched server was put through: proofs as `upshift patch prove` writes them, and older ones."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import table_rows as table

SERIES = Path(__file__).resolve().parents[1] / "server" / "mysql-9.7" / "series.toml"
COMPARED = ("mix", "random")
"""Parts that compare the answers of two servers."""

# What SET GLOBAL of a boolean calls.
_SET_GLOBAL = "Sys_var_bool::global_update"


def proof(result: dict[str, Any]) -> Iterator[str]:
    """A row a part of the proof: what was asked, and what was wrong."""
    yield from table.head("part", "statements", "differences that came again", "allowed differences", "wrong answers")
    for one in _parts(result):
        yield table.row(one["name"], f"{one['statements']:,}", one["again"], one["allowed"], one["wrong"])


def proof_tests(result: dict[str, Any]) -> Iterator[str]:
    """A row a suite and mode of MySQL's own tests; no row where a test is the patched server's fault and is not listed."""
    columns = ("tests", "ran", "fail on the patched server alone", "differ on purpose", "fail on stock, too", "passed again")
    yield from table.head(*columns)
    for one in result["parts"]:
        if one["name"] == "mtr":
            wrong = " ".join(one["wrong"]) or "none"
            lists = (table.names(one[name]) for name in ("differ_on_purpose", "failed_on_both", "unsteady"))
            yield table.row(one["detail"]["tests"], f"{one['statements']:,}", wrong, *lists)


def unsteady(result: dict[str, Any]) -> Iterator[str]:
    """A row a kind of difference that did not come again, or that stock has with itself."""
    found = (each for one in _parts(result) for each in one["differences"] if not each["steady"])
    kinds = Counter((each["what"].splitlines()[0], " ".join(each["statement"].split()[:2])) for each in found)
    yield from table.head("difference that did not come again", "statement", "times")
    for (what, statement), times in sorted(kinds.items(), key=lambda item: (-item[1], item[0])):
        yield table.row(what, f"`{statement}`", times)


def short_paths(result: dict[str, Any]) -> Iterator[str]:
    """A row a counter of short paths taken, a column a part that they were counted in."""
    taken = {name: counts for name, _parts_of, counts in _taken(result) if counts}
    if len(taken) == 1:
        (counts,) = taken.values()
        yield from table.head("counter", "short paths taken")
        taken = {"": counts}
    else:
        yield from table.head("counter", *(f"{name}, short paths taken" for name in taken))
    for counter in sorted({counter for counts in taken.values() for counter in counts}):
        yield table.row(f"`{counter}`", *(f"{counts.get(counter, 0):,}" for counts in taken.values()))


def proven(result: dict[str, Any]) -> Iterator[str]:
    """A row a part: how many statements, what was wrong, and how often they took the short path of one patch."""
    yield from table.head("part", "statements", "wrong", "short paths taken")
    for name, parts, counts in _taken(result):
        statements, wrong = _sums(parts)
        taken = "not counted" if counts is None else f"{_of(counts, result['of']):,}"
        yield table.row(name, f"{statements:,}", wrong, taken)


def proven_key(result: dict[str, Any]) -> Iterator[str]:
    """The same as a key of the series."""
    told = []
    for name, parts, counts in _taken(result):
        statements, wrong = _sums(parts)
        taken = "not counted" if counts is None else f"{_of(counts, result['of'])}"
        told.append(f"{name}: {statements} statements, {wrong} wrong, short paths taken: {taken}.")
    yield f'proven = "Its MTR tests. With the whole series: {" ".join(told)}"'


def each_patch(result: dict[str, Any]) -> Iterator[str]:
    """A row a patch that was on by itself, and one for none."""
    yield from table.on_machine(result, f", seed {result['seed']}")
    columns = (
        "on",
        "statements",
        "differences",
        "allowed",
        "not seen again",
        "its short paths",
        "short paths of patches that are off",
    )
    yield from table.head(*columns)
    for one in result["rows"]:
        parts = one["parts"]
        sums = (sum(len(part[name]) for part in parts) for name in ("wrong", "unsteady"))
        wrong, again = sums
        others = {name: one["short_paths"][name] for name in one["others_taken"]}
        own = sum(count for name, count in one["short_paths"].items() if name in _counters(one["patch"]))
        statements = sum(part["statements"] for part in parts)
        allowed = sum(part["allowed"] for part in parts)
        yield table.row(one["patch"], f"{statements:,}", wrong, allowed, again, f"{own:,}", f"{sum(others.values()):,}")


def _parts(result: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The parts but for MySQL's tests, in one form. Until schema 2 a part was what upshift-differ had written."""
    for one in result["parts"]:
        name = one.get("name") or one["part"]
        if name != "mtr":
            said = one.get("detail", one)
            differences = said.get("differences", ())
            again = sum(each["steady"] for each in differences)
            # Since schema 2 what is wrong holds the differences that came again.
            wrong = len(one.get("wrong", ())) - (again if "detail" in one else 0)
            yield {
                "name": f"{name} of {said['suite']}" if "suite" in said else name,
                "statements": one["statements"],
                "differences": differences,
                "again": again,
                "wrong": wrong,
                "allowed": said.get("allowed", 0),
                "short_paths": one.get("short_paths"),
            }


def _taken(result: dict[str, Any]) -> list[tuple[str, list[dict[str, Any]], Mapping[str, int] | None]]:
    """Parts that were counted in one: what they are called, themselves, and the short paths that they took; None: not counted.

    Until schema 2 what compares was counted in one, or the storm where nothing compared.
    """
    parts = [one for one in _parts(result) if one["name"] != "crash"]
    if result["schema_version"] >= 2:
        return [(one["name"], [one], one["short_paths"]) for one in parts]
    compares = [one for one in parts if one["name"] in COMPARED]
    others = [one for one in parts if one["name"] not in COMPARED]
    counts = result["short_paths"]
    if not compares:
        return [(one["name"], [one], counts) for one in others]
    return [(" and ".join(COMPARED), compares, counts), *((one["name"], [one], None) for one in others)]


def races(result: dict[str, Any]) -> Iterator[str]:
    """What ThreadSanitizer reported of the patched server alone: a row a race, as the two functions that it is between.

    Those of SET GLOBAL with whoever reads the variable share a row.
    """
    yield from table.on_machine(result)
    yield from table.head("server", "statements", "reports", "races")
    for name in ("stock", "patched"):
        one = result[name]
        yield table.row(name, f"{sum(one['statements'].values()):,}", f"{one['reports']:,}", f"{one['races']}")
    yield ""
    yield from table.head("race of the patched server alone", "reports")
    set_global = [one for one in result["own"] if _SET_GLOBAL in one["race"]]
    readers = sorted(place for one in set_global for place in one["race"][1:] if place != _SET_GLOBAL)
    for one in result["own"]:
        if one not in set_global:
            yield table.row(" and ".join(f"`{place}`" for place in one["race"][1:]), f"{one['reports']}")
    named = ", ".join(f"`{place}`" for place in readers)
    yield table.row(f"`{_SET_GLOBAL}` and one of {named}", f"{sum(one['reports'] for one in set_global)}")


def _sums(parts: list[dict[str, Any]]) -> tuple[int, int]:
    """Statements, and what was wrong."""
    return sum(one["statements"] for one in parts), sum(one["again"] + one["wrong"] for one in parts)


def _of(counts: Mapping[str, int], patch: str) -> int:
    return sum(counts[name] for name in _counters(patch) if name in counts)


def _counters(patch: str) -> tuple[str, ...]:
    """Those of a patch's short path."""
    series = tomllib.loads(SERIES.read_text())["patch"]
    found = next((one.get("counters", ()) for one in series if one["name"] == patch), ())
    return tuple(name for name in found if name.endswith("_used"))


KINDS = (each_patch, proof, proof_tests, proven, proven_key, races, short_paths, unsteady)
