"""Tables of an explanation: what changed, where CPU time goes, what was inlined, system calls and layout."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import table_rows as table

from upshift.card import rows as card_rows
from upshift.explain.model import Explanation
from upshift.report import explained as told
from upshift.report import explained_kernel as in_kernel
from upshift.report import words

_SHOWN = 15
"""Rows of a long table."""


def explained(result: dict[str, Any]) -> Iterator[str]:
    """The machine, and a row a figure of CPU time: both servers of an explanation."""
    explanation = Explanation.model_validate(result)
    (load,) = explanation.loads
    yield from table.on_machine(result)
    yield from table.head("a query", load.before.server, load.after.server, "after / before", "95 % interval")
    for each in load.changes:
        figures = (told.figure(each, each.before), told.figure(each, each.after))
        yield table.row(told.METRICS[each.metric], *figures, told.ratio(each), told.interval(each))
    switches = (f"{side.switches_per_query:.2f}" for side in (load.before, load.after))
    yield table.row("switches of threads", *switches, "", "")
    yield table.row("samples", *(f"{side.samples:,}" for side in (load.before, load.after)), "", "")


def where(result: dict[str, Any]) -> Iterator[str]:
    """The rows with the largest differences, the rows of others, and the rest in one."""
    (load,) = Explanation.model_validate(result).loads
    shown = [row for number, row in enumerate(load.rows) if number < _SHOWN or row.is_rest]
    rest = [row for row in load.rows if row not in shown]
    yield from table.head(
        "function or system call", "µs before", "after", "difference", "% before", "% after", "ratio", "", "why"
    )
    for row in shown:
        times = (f"{row.before_us:.2f}", f"{row.after_us:.2f}", f"{row.difference_us:+.2f}")
        shares = (f"{100 * row.before_share:.1f}", f"{100 * row.after_share:.1f}")
        yield table.row(f"`{told.short(row.name)}`", *times, *shares, told.row_interval(row), row.verdict, told.cause(row))
    for name, rows_of in ((f"{len(rest)} further rows", rest), ("all", load.rows)):
        before, after = (sum(getattr(row, key) for row in rows_of) for key in ("before_us", "after_us"))
        parts = [f"{100 * sum(getattr(row, key) for row in rows_of):.1f}" for key in ("before_share", "after_share")]
        yield table.row(name, f"{before:.2f}", f"{after:.2f}", f"{after - before:+.2f}", *parts, "", "", "")


def kernel(result: dict[str, Any]) -> Iterator[str]:
    """A row a reason for entering the kernel: its time, how often it is entered, what that costs, and what follows."""
    (load,) = Explanation.model_validate(result).loads
    assert load.kernel is not None
    yield from table.head(
        "reason", "µs a query", "after / before", "calls a query", "after / before", "µs a call", "after / before", "so"
    )
    for group in load.kernel.groups:
        figures = (group.us, group.calls, group.us_a_call)
        pairs = (text for each in figures for text in (in_kernel.two_of(each), in_kernel.ratio_of(each)))
        yield table.row(in_kernel.GROUPS[group.name], *pairs, in_kernel.why_kernel(group))


def waking(result: dict[str, Any]) -> Iterator[str]:
    """How the kernel's time divides into waking other threads and the rest, with the interrupts that the waking takes."""
    explanation = Explanation.model_validate(result)
    (load,) = explanation.loads
    assert load.kernel is not None and explanation.card is not None
    poll_us = (explanation.card.idle_poll_ns or 0) / 1000
    idle = f"idle CPUs poll {poll_us:g} µs before they halt" if poll_us else "idle CPUs halt at once"
    yield from table.on_machine(result, f"; {load.workload}, {load.connections} connections, {idle}")
    confidence = words.percent(load.kernel.confidence)
    intervals = f"after / before (first two rows: 95 %, others: {confidence})"
    yield from table.head("a query", load.before.server, load.after.server, intervals)
    for each in load.changes:
        if each.metric in ("cpu", "system"):
            figures = (told.figure(each, each.before), told.figure(each, each.after))
            yield table.row(told.METRICS[each.metric], *figures, f"{told.ratio(each)} ({told.interval(each)})")
    for row in in_kernel.waking_rows(load.kernel):
        yield table.row(*row)


def families(result: dict[str, Any]) -> Iterator[str]:
    """The functions with the most time that took others in."""
    (load,) = Explanation.model_validate(result).loads
    yield from table.head("function", "took in", "own µs before", "with them", "after")
    for each in load.families[:_SHOWN]:
        names = ", ".join(f"`{told.short(name, 40)}`" for name in each.members[:4])
        more = f" and {len(each.members) - 4} more" if len(each.members) > 4 else ""
        times = (f"{us:.2f}" for us in (each.own_before_us, each.before_us, each.after_us))
        yield table.row(f"`{told.short(each.name)}`", names + more, *times)


def calls(result: dict[str, Any]) -> Iterator[str]:
    """The system calls with the most time: how often a query makes them, and what each takes."""
    (load,) = Explanation.model_validate(result).loads
    yield from table.head("system call", "a query, before", "after", "µs a call, before", "after")
    for each in load.system_calls:
        yield table.row(f"`{each.name}`", f"{each.calls_before:.3f}", f"{each.calls_after:.3f}", *in_kernel.us_a_call(each))
    yield ""
    yield in_kernel.about_calls(load)


def layout(result: dict[str, Any]) -> Iterator[str]:
    """Pages and lines that hold the samples, before and after."""
    (load,) = Explanation.model_validate(result).loads
    samples = f"of {load.layout[0].samples:,} samples in the server's code"
    yield from table.head(samples, "4K pages for 90 %", "for 99 %", "64-byte lines for 90 %", "for 99 %")
    for side, spread in zip((load.before, load.after), load.layout, strict=True):
        yield table.row(side.server, spread.pages_90, spread.pages_99, spread.lines_90, spread.lines_99)


def exchanges(result: dict[str, Any]) -> Iterator[str]:
    """The card's rows of a request and an answer in the kernel, by the code that ran before."""
    card = Explanation.model_validate(result).card
    assert card is not None
    named = {card_rows.exchange_name(each) for each in card.exchanges}
    yield from table.head(*card_rows.OTHER_HEAD)
    yield from (table.row(*row) for row in card_rows.other_rows(card) if row[0] in named)


def about_kernel(result: dict[str, Any]) -> Iterator[str]:
    """What the explanation says of the kernel's time."""
    explanation = Explanation.model_validate(result)
    (load,) = explanation.loads
    yield in_kernel.about_kernel(load, explanation.card)


def focus(result: dict[str, Any]) -> Iterator[str]:
    """A row a server of each function that was asked for: its time, who holds most of it, and the line with most time."""
    (load,) = Explanation.model_validate(result).loads
    yield from table.head(
        "function",
        "server",
        "a function of its own",
        "samples",
        "µs a query",
        "of it inlined",
        "most under",
        "at",
        "its line with most",
    )
    for each in load.focus:
        for server, side in ((load.before.server, each.before), (load.after.server, each.after)):
            own = "yes" if side.own_function else "no"
            inlined = f"{side.inlined_us / side.us:.0%}" if side.us else ""
            caller = side.callers[0] if side.callers else None
            under, at = (f"`{told.short(caller.name, 40)}`", told.place(caller.line)) if caller else ("", "")
            line = told.place(side.lines[0].line) if side.lines else ""
            yield table.row(f"`{each.name}`", server, own, f"{side.samples:,}", f"{side.us:.2f}", inlined, under, at, line)


KINDS = (kernel, waking, explained, where, families, focus, calls, layout, exchanges, about_kernel)
