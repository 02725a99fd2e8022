"""What an explanation says of a function that was asked for, in words."""

from __future__ import annotations

from upshift.explain.model import Explained, Focus, FocusSide
from upshift.report import words
from upshift.report.explained import short

_NAMED = 3
"""Functions that are named of those that share their code."""


def about(each: Focus, load: Explained) -> str:
    """What became of it, in a sentence."""
    before, after = each.before, each.after
    nameless = [name for name, side in ((load.before.server, before), (load.after.server, after)) if not side.inlined_known]
    if not before.samples and not after.samples:
        return _of_none(each, nameless)
    said = f"With it on the stack a query spends {before.us:.2f} µs before and {after.us:.2f} µs after{_ratio(each)}."
    if nameless:
        said += (
            f" Copies that were inlined are not in the figures of {' and '.join(nameless)}, and the two times are not to be "
            "compared: without line tables such copies have no names."
        )
    else:
        shares = [side.inlined_us / side.us if side.us else 0.0 for side in (before, after)]
        said += f" Inlined: {shares[0]:.0%} of that time before, {shares[1]:.0%} after."
    said += _same_code(each)
    if before.callers_known != after.callers_known:
        return f"{said} The two times are not to be compared: one server keeps no frame pointers."
    return said


def _same_code(each: Focus) -> str:
    """Whose time the figures have, too; empty for a function with code of its own."""
    named = [short(name) for name in each.same_code[:_NAMED]]
    more = len(each.same_code) - len(named) + each.same_code_more
    if not named:
        return ""
    others = f"{', '.join(named)}{f' and {more:,} more' if more else ''}"
    return f" One of the servers has the same code for it and {others}: in both, the figures are of all of them."


def _of_none(each: Focus, nameless: list[str]) -> str:
    """What is said of a function that no sample shows; ``nameless`` are the servers in which inlined copies have no names."""
    if not (each.before.own_function or each.after.own_function):
        return (
            "Neither server has a function of this name, and no sample shows a copy that was inlined. Without line tables "
            "such copies have no names: studies/recipes/line-tables.toml builds with them."
        )
    if nameless:
        return (
            "It was on no stack in either server as a separate function. Copies that were inlined have no names in "
            f"{' and '.join(nameless)}, without line tables."
        )
    return "It was on no stack in either server: nothing that was sampled ran it."


def _ratio(each: Focus) -> str:
    if each.ratio is None or each.ci_low is None:
        return ""
    differs = each.ci_low > 1 or (each.ci_high is not None and each.ci_high < 1)
    value = words.ratio_in(each.ratio, each.ci_low, each.ci_high, differs=differs)
    above = words.limits(each.ci_low, each.ci_high, differs=differs).replace(" to any", " and more")
    return f", a ratio of {value} ({above} with 95 % confidence)"


def about_side(side: FocusSide) -> str:
    """Where its code is."""
    where = "it is a separate function" if side.own_function else "it is not a separate function"
    if not side.samples:
        return f"{where}, and was on no stack"
    said = f"{where}; {side.us:.2f} µs a query in {side.samples:,} samples"
    if not side.callers_known:
        return f"{said}, without what it called: the server keeps no frame pointers"
    return f"{said}, {side.own_us:.2f} in itself"
