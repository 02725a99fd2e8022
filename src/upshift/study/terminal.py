"""A study's result on the terminal."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from upshift.report import words
from upshift.report.card import show_card
from upshift.report.terminal import STYLES
from upshift.study import wording
from upshift.study.attribution import judged_effect
from upshift.study.losses import losses
from upshift.study.page import base_value, crossed_cells, row_cells
from upshift.study.result import StudyResult


def show(result: StudyResult, console: Console) -> None:
    """Print the result on ``console``, at its width."""
    for loss in losses(result):
        console.print(Text.assemble(("worse: ", "bold red"), f"{loss.sentence}{', held out' if loss.held_out else ''}"))
    console.print(Text(wording.verdict(result), style="bold"))
    for sentence in wording.gain_sentences(result.confirmed, result.metric) if result.recommended else ():
        console.print(Text(f"  in trials of its own: {sentence}" if result.confirmed else f"  {sentence}"))
    for flag in result.flags:
        console.print(Text.assemble(("FLAG ", "bold yellow"), f"{flag.name}: {flag.message}"))
    for warning in result.warnings:
        console.print(Text.assemble(("WARNING ", "bold yellow"), warning))
    for note in wording.notes(result):
        console.print(Text(note, style="dim"))
    console.print()
    console.print(_factors(result))
    if result.by_instructions:
        for each in result.by_instructions.factors:
            effect = judged_effect(result.design, each)
            said = f"instructions of a query, {each.factor} {each.level}: {wording.change(effect)}"
            console.print(Text(said, style=STYLES[each.verdict]))
    for pair in result.effects.does_not_add_up():
        console.print(Text.assemble(("does not add up: ", "bold"), wording.together(pair)))
    for alias in result.design.aliases:
        console.print(Text(alias, style="dim"))
    for table in (_rows(result), *((_crossed(result),) if result.crossed else ())):
        console.print()
        console.print(table)
    if result.card:
        console.print()
        show_card(result.card, console)
    if result.recommended_file:
        console.print(Text.assemble(("file of the set  ", "bold"), result.recommended_file), soft_wrap=True)


def _factors(result: StudyResult) -> Table:
    table = Table(
        title=f"{wording.judged_by(result)}; intervals of {words.percent(result.effects.confidence)}",
        title_justify="left",
        title_style="dim",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for name in ("factor", "alone", "last", "share", "verdict"):
        table.add_column(name, overflow="fold")
    for each in result.effects.factors:
        name = each.factor if each.level == "on" else f"{each.factor} {each.level}"
        said = each.verdict if result.metric == "qps" else words.VERDICT_NAMES[each.verdict]
        figures = (wording.change(effect) for effect in (each.alone, each.last, each.share))
        table.add_row(name, *figures, Text(said, style=STYLES[each.verdict]))
    if result.effects.total:
        table.add_row("all together", "", "", wording.change(result.effects.total), "")
    return table


def _by_load(result: StudyResult, first: str, title: str | None = None) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="dim", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0)
    )
    table.add_column(first, overflow="fold")
    for load in result.loads:
        table.add_column(f"{load.workload} x{load.connections}{', held out' if load.held_out else ''}", overflow="fold")
    return table


def _crossed(result: StudyResult) -> Table:
    said = f"{wording.judged_by(result)} beside the server trained on that workload"
    table = _by_load(result, "trained as", f"{said}; intervals of {words.percent(result.crossed_confidence)}")
    table.caption, table.caption_style = wording.luck_of_training(result) or None, "dim"
    for row, cells in crossed_cells(result).items():
        table.add_row(row, *(each if isinstance(each, str) else wording.change(each.effect) for each in cells))
    return table


def _rows(result: StudyResult) -> Table:
    level = words.percent(result.cells_confidence)
    table = _by_load(result, "row", f"each row beside {result.rows[0].name}; intervals of {level}")
    for row in result.rows:
        if row.died:
            table.add_row(row.name, Text(f"left out: {row.died.splitlines()[0]}", style="yellow"))
        elif row.same_as:
            table.add_row(row.name, Text(f"the same server as {row.same_as}", style="dim"))
        elif row is result.rows[0]:
            table.add_row(row.name, *(base_value(result, load) for load in result.loads))
        else:
            cells = row_cells(result, row.name)
            told = (f"{words.figure(each.value)}  {wording.change(each.effect)}" if each else "–" for each in cells)
            table.add_row(row.name, *told)
    return table
