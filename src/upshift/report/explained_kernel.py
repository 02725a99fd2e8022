"""What an explanation says of time in the kernel, in words: how often it is entered, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping

from upshift.card.model import Card
from upshift.explain.layout import LINE_BYTES, PAGE_BYTES
from upshift.explain.model import Explained, Figure, Group, KernelGroup, KernelTime, SystemCall
from upshift.report import words

GROUPS: Mapping[Group, str] = {
    "wake-ups": "wake-ups and waits of threads",
    "network": "network",
    "disk": "disk",
    "other": "other",
}
_CALLS: Mapping[str, str] = {"less": "fewer calls", "more": "more calls"}
_COST: Mapping[str, str] = {"less": "cheaper calls", "more": "costlier calls"}

_WORTH_A_REASON = 0.25
"""Of what the kernel takes less, the share of waking from which on a reason is given for it."""


def us_a_call(each: SystemCall) -> tuple[str, str]:
    """Before and after; empty where a server made none while calls were counted: what is that rare has no cost of its own."""
    if not each.calls_before or not each.calls_after:
        return "", ""
    return f"{each.us_before / each.calls_before:.2f}", f"{each.us_after / each.calls_after:.2f}"


def about_calls(load: Explained) -> str:
    """How the kernel's time divides into more or fewer calls and into time for each, without intervals."""
    # Sampled for many seconds and counted for few: time of calls that were not made while they were counted is nobody's.
    counted = [each for each in load.system_calls if each.calls_before and (each.calls_after or not each.us_after)]
    left_out = ", ".join(each.name for each in load.system_calls if each not in counted)
    before, after = sum(each.us_before for each in counted), sum(each.us_after for each in counted)
    as_often = sum(each.us_before * each.calls_after / each.calls_before for each in counted)
    if not before or not as_often:
        return "Counted by perf in turns of their own."
    return (
        f"In these calls a query spends {before:.1f} µs before and {after:.1f} µs after, {after / before:.2f}x. That is "
        f"{as_often / before:.2f}x for how often they are made, times {after / as_often:.2f}x for what each takes."
        + (f" Without {left_out}: sampled, but not made on both servers while calls were counted." if left_out else "")
    )


def ratio_of(each: Figure | None) -> str:
    """A figure's ratio with its interval; empty for none."""
    if each is None:
        return ""
    if each.ratio is None:
        return "none before"
    return words.ratio_and_limits(each.ratio, each.ci_low, each.ci_high, differs=each.verdict != "not told apart")


def two_of(each: Figure | None) -> str:
    """A figure of both servers; empty for none."""
    return f"{each.before:.2f} → {each.after:.2f}" if each else ""


def why_kernel(group: KernelGroup) -> str:
    """What of its time's change is shown: only what an interval tells from chance."""
    shown = [
        said[each.verdict]
        for each, said in ((group.calls, _CALLS), (group.us_a_call, _COST))
        if each is not None and each.verdict in said
    ]
    if shown:
        return ", ".join(shown)
    if group.us.verdict == "not told apart":
        return "not told apart"
    return f"{group.us.verdict} time; {'calls or their cost: not told apart' if group.calls else 'calls were not counted'}"


def about_kernel(load: Explained, card: Card | None = None) -> str:
    """How the kernel's time is explained, and what its figures do not tell."""
    kernel = load.kernel
    if kernel is None:
        return ""
    wakes = _wakes(kernel)
    intervals = f"intervals are of {words.percent(kernel.confidence)} confidence."
    if not any(group.calls for group in kernel.groups):
        return f"Time is by samples; {intervals}{wakes}"
    said = f"Time is by samples, calls are counted in turns of their own; {intervals}"
    if any(each.us_a_call and each.us_a_call.verdict != "not told apart" for each in kernel.groups):
        said += (
            " Both servers have the same kernel: a call that takes another time did more or less in it, or found more or less "
            f"of what it needs in the caches.{wakes}{_by_caches(load, card)}"
        )
        shown = kernel.waking is not None and kernel.waking.verdict != "not told apart"
        return said if shown or _by_caches(load, card) else f"{said} Which of the two, these figures do not tell."
    return said + wakes


def waking_rows(kernel: KernelTime) -> list[tuple[str, str, str, str]]:
    """How the kernel's time divides into waking other threads and the rest, with the interrupts that the waking takes: what it
    is, before, after, and the ratio with its interval. Empty where no sample shows a thread that wakes another.
    """
    waking = kernel.waking
    if waking is None:
        return []
    before, after = _besides(kernel, waking)
    ratio = f"{after / before:.2f}" if before else ""
    rows = [
        ("waking other threads", f"{waking.before:.2f} µs", f"{waking.after:.2f} µs", ratio_of(waking)),
        ("the rest of the time in the kernel", f"{before:.2f} µs", f"{after:.2f} µs", ratio),
    ]
    if found := kernel.interrupts:
        rows.append(("interrupts to the CPUs of the load", f"{found.before:.2f}", f"{found.after:.2f}", ratio_of(found)))
    return rows


def _besides(kernel: KernelTime, waking: Figure) -> tuple[float, float]:
    """CPU microseconds a query in the kernel of both servers, without those of ``waking``."""
    return (
        sum(each.us.before for each in kernel.groups) - waking.before,
        sum(each.us.after for each in kernel.groups) - waking.after,
    )


def _wakes(kernel: KernelTime) -> str:
    """Why waking other threads takes less, where it is a good part of what the kernel takes less."""
    waking, interrupts = kernel.waking, kernel.interrupts
    if waking is None or interrupts is None or not waking.verdict == interrupts.verdict == "less":
        return ""
    before, after = _besides(kernel, waking)
    saved = waking.before - waking.after
    if saved < _WORTH_A_REASON * (saved + before - after):
        return ""
    return (
        " Waking another thread takes less, with fewer interrupts: it takes one where that thread's CPU has halted, and in a "
        "virtual machine the host's help. Most likely, the faster server leaves the CPUs of its load less often idle."
    )


def _by_caches(load: Explained, card: Card | None) -> str:
    """What the caches alone make of an exchange over a socket, by the card: after as much code as the samples' cache lines
    (less than what ran), and after as much as their pages (more).
    """
    if card is None:
        return ""
    lines = [each.lines_99 * LINE_BYTES for each in load.layout]
    pages = [each.pages_99 * PAGE_BYTES for each in load.layout]
    least, most = _after_code(card, lines), _after_code(card, pages)
    if not least:
        return ""
    return (
        f" 99 % of the samples in the servers' own code lie in {_both(lines)} of cache lines, before and after, on "
        f"{_both(pages)} of pages. By the machine card, the kernel hands over a request and sends an answer in {least} after "
        f"as much other code as these lines{f', and in {most} after as much as these pages' if most else ''}. Data come on top."
    )


def _both(sizes_bytes: list[int]) -> str:
    return " and ".join(words.size(each) for each in sizes_bytes)


def _after_code(card: Card, code_bytes: list[int]) -> str:
    """Both times and their ratio; empty where the card does not reach so far."""
    match [card.exchange_ns(each) for each in code_bytes]:
        case [float() as before, float() as after]:
            return f"{words.figure(before)} and {words.figure(after)} ns ({after / before:.2f}x)"
        case _:
            return ""
