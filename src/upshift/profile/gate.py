"""The profile gate: a profile that is empty or too thin is refused, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from upshift.errors import ProfileRefused
from upshift.profile.model import HotSet, Profile

# A training run that leaves fewer functions or statements than this has not exercised a server.
LEAST_EXECUTED = 5
LEAST_QUERIES = 1000
# Of the functions that hold 95 % of samples; the rest are those that only other compilations of a template leave.
LEAST_HOT_SHARE = 0.6


def refuse_another_source(profile: Profile, source_sha256: str) -> None:
    """Raises ProfileRefused for a profile that was trained on another source, or on one with other patches."""
    if profile.provenance.source_sha256 != source_sha256:
        raise ProfileRefused(
            "the profile was trained on another source, or on one with other patches",
            "train again: counts belong to the functions of one source",
        )


def examine(
    counts: Mapping[str, int], hot_set: HotSet, profile: Profile, *, named: Callable[[list[str]], Iterable[str]] = list
) -> tuple[str, ...]:
    """What a merged profile's counts (symbol to count; GCC's: counter file to 1 or 0) say about it. ``named`` makes names for
    people of symbols. Raises ProfileRefused.
    """
    what = "files" if profile.kind == "gcc" else "functions"
    executed = sum(1 for count in counts.values() if count)
    hot = [function.symbol for function in hot_set.functions]
    with_counts = sum(1 for symbol in hot if counts.get(symbol, 0))
    without = [symbol for symbol in hot if not counts.get(symbol, 0)]
    notes = [
        f"{executed} of {len(counts)} {what} have counts",
        *((f"{with_counts} of the {len(hot)} hottest functions have counts",) if hot else ()),
        f"{_trained_by(profile)} in {profile.duration_s:.0f} s of training",
    ]
    if without:
        notes.append(f"hot without counts (inlined, or another compilation's): {', '.join(named(without[:5]))}")
    if profile.corrupt:
        notes.append(f"{profile.corrupt} raw profiles or counters were damaged and left out")
    if executed < LEAST_EXECUTED:
        raise ProfileRefused(
            f"the profile is empty: {executed} {what} have counts",
            "train longer (--train-seconds), and check that the workload loads the instrumented server",
        )
    if profile.queries is not None and profile.queries < LEAST_QUERIES:
        raise ProfileRefused(
            f"the profile is too thin: the server executed {profile.queries} statements while training",
            f"at least {LEAST_QUERIES} are needed: train longer (--train-seconds) or with more connections",
        )
    if hot and with_counts < LEAST_HOT_SHARE * len(hot):
        raise ProfileRefused(
            f"the profile lacks hot functions: {with_counts} of {len(hot)} have counts",
            "it was not trained on the workload that found the hot set: train again",
        )
    return tuple(notes)


def _trained_by(profile: Profile) -> str:
    return "the server's own tests" if profile.queries is None else f"{profile.queries} statements"
