"""E1: one server executes the same plan over the same rows more slowly than the other."""

from __future__ import annotations

from upshift.stack.plans.asked import Asked, Seen, figure
from upshift.stack.plans.compare import compare
from upshift.stack.plans.model import Plan, rows_examined
from upshift.stack.suspects.thresholds import Thresholds


def incomparable(a: Plan | None, b: Plan | None, same_answer: bool | None, thresholds: Thresholds) -> str | None:
    """Why the times of a statement would say nothing of the engines; None: they would."""
    if a is None or b is None or not (a.executed and b.executed):
        return "it was not executed for its plan on both servers"
    if same_answer is False:
        return "its answers differ"
    if compare(a.tree, b.tree):
        return "its plans differ"
    rows = [rows_examined(each.tree) for each in (a, b)]
    told = [each for each in rows if each is not None]
    if len(told) == 1:
        return "one server does not say how many rows it examines"
    if told and max(told) > thresholds["E1.rows_times"] * max(1.0, min(told)):
        return f"A examines {told[0]:,.0f} rows, B {told[1]:,.0f}"
    return None


def untimed(asked: Asked) -> str | None:
    """Why the rule sees nothing of a statement."""
    if asked.timing is None:
        return asked.why_untimed or "it needs the times of two servers: `upshift stack compare --execute`"
    return None if asked.timing.rounds > 1 else "one round has no spread: --rounds 2 or more"


def engine(asked: Asked, thresholds: Thresholds) -> Seen | None:
    """E1: the ratio of the times is large, and its interval excludes 1.

    An execution that counts rows takes longer than a plain one, on each family by another part. So beside another family's, the
    plain executions must show the ratio, too, and the smaller of both ratios is the share.
    """
    timing, other = asked.timing, asked.other
    if timing is None or other is None or timing.ci_low <= 1 <= timing.ci_high:
        return None
    b_slower = timing.ratio > 1
    times, low, high = (
        (timing.ratio, timing.ci_low, timing.ci_high)
        if b_slower
        else (1 / timing.ratio, 1 / timing.ci_high, 1 / max(timing.ci_low, 1e-9))
    )
    slower_us = max(timing.a_ms, timing.b_ms) * 1000
    if times < thresholds["E1.times"] or slower_us < thresholds["E1.execution_us"]:
        return None
    plain = asked.plain_ratio or 1.0
    plain_times = plain if b_slower else 1 / plain
    two_families = asked.plan.family != other.family
    if two_families and plain_times < thresholds["E1.times"]:
        return None
    rows = rows_examined(asked.plan.tree)
    examined = "" if rows is None else f" and {rows:,.0f} rows examined"
    slow, fast = ("B", "A") if b_slower else ("A", "B")
    spread = f"{low:.2f}x to {high:.2f}x"
    said = f"{slow} takes {times:.2f}x the time of {fast} for the same plan{examined}, {spread}"
    plainly = figure("plain_times", plain_times, "times", "E1.times" if two_families else None)
    figures = (
        figure("times", times, "times", "E1.times"),
        figure("ci_low", low, "times"),
        figure("ci_high", high, "times"),
        figure("a_us", timing.a_ms * 1000, "us", None if b_slower else "E1.execution_us"),
        figure("b_us", timing.b_ms * 1000, "us", "E1.execution_us" if b_slower else None),
        figure("rounds", timing.rounds, ""),
        *((plainly,) if asked.plain_ratio is not None else ()),
    )
    return Seen(said, figures, timing.clock == "server", 1 - 1 / (min(times, plain_times) if two_families else times))
