"""An explanation on a terminal: how much, where, why, and what is not sure."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from upshift.explain.model import Explained, Explanation, Focus
from upshift.report import explained as told
from upshift.report import explained_focus as in_focus
from upshift.report import explained_kernel as in_kernel
from upshift.report import words
from upshift.report.card import show_card

_ROWS, _CALLS, _BRIEF_ROWS, _FOCUS_ROWS = 20, 12, 8, 5
_STYLES = {"less": "green", "more": "red", "not told apart": "dim"}


def show(explanation: Explanation, console: Console) -> None:
    """Print the explanation on ``console``, at its width."""
    _headline(explanation, console)
    for load in explanation.loads:
        for table in (
            _changes(load),
            _rows(load),
            _executed(load),
            _kernel(load),
            _waking(load),
            _calls(load),
            _families(load),
            _inlined(load),
            _layout(load),
        ):
            if table.row_count:
                console.print()
                console.print(table, soft_wrap=False)
        for each in load.focus:
            _show_focus(each, load, console)
        if load.kernel:
            console.print(Text(in_kernel.about_kernel(load, explanation.card)), soft_wrap=False)
        for said in filter(None, (told.about_unit(load), told.about_slots(load), told.about_misses(load))):
            console.print(Text(said), soft_wrap=False)
        console.print(Text(told.about_pages(load, explanation.card)), soft_wrap=False)
        for said in told.unsure(load):
            console.print(Text(said, style="dim"), soft_wrap=False)
    if explanation.card:
        console.print()
        console.print(Text("The machine", style="bold"))
        show_card(explanation.card, console)
    elif explanation.card_lacking:
        console.print(Text(f"{words.opened(explanation.card_lacking)}.", style="dim"), soft_wrap=False)


def show_briefly(explanation: Explanation, console: Console) -> None:
    """The answer with the largest differences, for a report that says more than why."""
    _headline(explanation, console)
    for load in explanation.loads:
        for table in (_families(load, _BRIEF_ROWS), _rows(load, _BRIEF_ROWS)):
            if table.row_count:
                console.print(table, soft_wrap=False)


def _show_focus(focus: Focus, load: Explained, console: Console) -> None:
    console.print()
    console.print(Text(f"{focus.name}. {in_focus.about(focus, load)}"), soft_wrap=False)
    for server, side in ((load.before.server, focus.before), (load.after.server, focus.after)):
        console.print(Text(f"{server}: {in_focus.about_side(side)}."), soft_wrap=False)
        table = _table("", "caller", "at", "", "µs a query")
        for each in side.callers[:_FOCUS_ROWS]:
            how = "inlined" if each.inlined else "called"
            table.add_row(told.short(each.name, 36), told.place(each.line), how, f"{each.us:.2f}")
        for line in side.lines[:_FOCUS_ROWS]:
            table.add_row("its own line", told.place(line.line), "", f"{line.us:.2f}")
        if table.row_count:
            console.print(table, soft_wrap=False)


def _headline(explanation: Explanation, console: Console) -> None:
    console.print(Text(told.headline(explanation), style="bold"), soft_wrap=False)
    if said := told.about_sources(explanation):
        console.print(Text(said), soft_wrap=False)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for number, column in enumerate(columns):
        right = number > 0 and column not in ("why", "took in", "caller", "in the code", "shown by")
        table.add_column(column, justify="right" if right else "left", overflow="fold", no_wrap=right)
    return table


def _changes(load: Explained) -> Table:
    table = _table(
        f"{load.workload}, {words.count(load.connections, 'connection')}",
        "a query",
        load.before.server,
        load.after.server,
        "ratio",
        "95 %",
    )
    for each in load.changes:
        figures = (told.figure(each, each.before), told.figure(each, each.after))
        table.add_row(told.METRICS[each.metric], *figures, told.ratio(each), told.interval(each))
    for name, before, after in told.further(load):
        table.add_row(name, before, after, "", "")
    return table


def _rows(load: Explained, most: int = _ROWS) -> Table:
    title = "where, in µs a query (?: chance alone could make the difference)"
    table = _table(title, "function or system call", "before", "after", "difference", "why")
    for row in (*load.rows[:most], *(row for row in load.rows[most:] if row.is_rest)):
        table.add_row(
            told.short(row.name, 36),
            f"{row.before_us:.2f}",
            f"{row.after_us:.2f}",
            Text(f"{row.difference_us:+.2f}{' ?' if row.verdict == 'not told apart' else ''}", style=_STYLES[row.verdict]),
            told.cause(row),
        )
    if hidden := [row for row in load.rows[most:] if not row.is_rest]:
        before, after = sum(row.before_us for row in hidden), sum(row.after_us for row in hidden)
        name = f"{len(hidden)} further rows, on the page"
        table.add_row(name, f"{before:.2f}", f"{after:.2f}", f"{after - before:+.2f}", "")
    return table


def _executed(load: Explained) -> Table:
    title = "instructions and calls a query, counted"
    table = _table(title, "function", "before", "after", "difference", "calls", "after")
    for each in (*load.executed[:_ROWS], *(each for each in load.executed[_ROWS:] if each.is_rest)):
        figures = (f"{value:,.0f}" for value in (each.instructions_before, each.instructions_after))
        difference = f"{each.instructions_after - each.instructions_before:+,.0f}"
        calls = (told.calls_a_query(value) for value in (each.calls_before, each.calls_after))
        table.add_row(told.short(each.name, 36), *figures, difference, *calls)
    return table


def _kernel(load: Explained) -> Table:
    table = _table("time in the kernel", "what for", "µs a query", "calls a query", "µs a call", "why")
    for each in load.kernel.groups if load.kernel else ():
        figures = (in_kernel.two_of(figure) for figure in (each.us, each.calls, each.us_a_call))
        table.add_row(in_kernel.GROUPS[each.name], *figures, in_kernel.why_kernel(each))
    return table


def _waking(load: Explained) -> Table:
    table = _table("waking other threads", "a query", "before", "after", "ratio")
    for row in in_kernel.waking_rows(load.kernel) if load.kernel else ():
        table.add_row(*row)
    return table


def _calls(load: Explained) -> Table:
    table = _table("system calls", "system call", "a query, before", "after", "µs a call, before", "after")
    for each in load.system_calls:
        table.add_row(each.name, f"{each.calls_before:.3f}", f"{each.calls_after:.3f}", *in_kernel.us_a_call(each))
    return table


def _families(load: Explained, most: int = _CALLS) -> Table:
    table = _table("with what was inlined into it", "function", "took in", "µs before", "after")
    for each in load.families[:most]:
        names = ", ".join(told.short(name, 30) for name in each.members[:4])
        more = f" and {len(each.members) - 4} more" if len(each.members) > 4 else ""
        table.add_row(told.short(each.name, 36), names + more, f"{each.before_us:.2f}", f"{each.after_us:.2f}")
    return table


def _inlined(load: Explained) -> Table:
    counted = ("a query",) if load.executed else ()
    table = _table("calls that are gone", "callee", "caller", "in the code", *counted, "shown by")
    for each in load.inlined[:_CALLS]:
        names = (told.short(each.callee, 30), told.short(each.caller, 30))
        calls = (told.calls(each), *((told.executed(each),) if load.executed else ()))
        table.add_row(*names, *calls, told.PROOFS[each.proof])
    return table


def _layout(load: Explained) -> Table:
    table = _table("the server's own code that holds the samples", "", "4K pages, 90 %", "99 %", "64-byte lines, 90 %", "99 %")
    for side, spread in zip((load.before, load.after), load.layout, strict=True):
        figures = (spread.pages_90, spread.pages_99, spread.lines_90, spread.lines_99)
        table.add_row(side.server, *(f"{each:,}" for each in figures))
    return table
