"""A machine card on a terminal."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from upshift.card import rows
from upshift.card.model import Card
from upshift.card.sentences import sentences


def show_card(card: Card, console: Console) -> None:
    """Print the card on ``console``, at its width: what it means, then the figures."""
    for said in sentences(card):
        console.print(Text(said), soft_wrap=False)
    for note in card.notes:
        console.print(Text.assemble(("NOTE ", "bold yellow"), note), soft_wrap=False)
    for head, body in ((rows.MEMORY_HEAD, rows.memory_rows(card)), (rows.OTHER_HEAD, rows.other_rows(card))):
        console.print()
        console.print(_table(head, body), soft_wrap=False)
    console.print()
    show_facts(rows.facts(card), console)


def show_facts(facts: tuple[tuple[str, str], ...], console: Console) -> None:
    for name, value in facts:
        console.print(Padding(Text.assemble((f"{name}  ", "dim"), value), (0, 0, 0, 1)), soft_wrap=False)


def _table(head: tuple[str, ...], body: tuple[tuple[str, ...], ...]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for number, name in enumerate(head):
        table.add_column(name, justify="right" if number else "left", overflow="fold")
    for row in body:
        table.add_row(*row)
    return table
