"""The result on a terminal: the verdict first, then what stands behind it. Colours follow the console, and so NO_COLOR."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from upshift.check.model import Checked
from upshift.measure.model import Comparison, Experiment, Metric, Verdict
from upshift.report import explanation_terminal, instructions, words
from upshift.report.card import show_card
from upshift.report.findings import Findings
from upshift.report.result import Result

STYLES: dict[Verdict, str] = {"faster": "green", "slower": "red", "equivalent": "cyan", "inconclusive": "yellow"}
_SECONDARY: tuple[tuple[Metric, str], ...] = (
    ("latency_ms_p99", "p99"),
    ("total_cpu_us_per_query", "CPU"),
)


def show(result: Result, console: Console) -> None:
    """Print the report on ``console``, at its width."""
    findings = Findings(result.experiment, rebuilt=bool(result.builds))
    for text in _verdict(result, findings):
        console.print(text, soft_wrap=False)
    for table in (_comparisons(findings, result.experiment), _stages(result)):
        if table.row_count:
            console.print()
            console.print(table, soft_wrap=False)
    if result.check:
        console.print()
        _check(result.check, console)
    if result.card:
        console.print()
        console.print(Text("The machine", style="bold"))
        show_card(result.card, console)
    if result.instructions:
        console.print()
        instructions.show(result.instructions, console)
    if result.explanation:
        console.print()
        explanation_terminal.show_briefly(result.explanation, console)
    if result.package:
        console.print()
        console.print(Text.assemble(("package  ", "bold"), result.package), soft_wrap=True)
        console.print(Text("ROLLBACK.md in the package says how to roll back", style="dim"))


def _check(checked: Checked, console: Console) -> None:
    """Each finding in a line: the page and ``upshift check`` have the rest."""
    if checked.report is None:
        console.print(Text(f"configuration: {checked.why_none}", style="dim"), soft_wrap=False)
        return
    found = words.count(len(checked.report.findings), "finding")
    console.print(Text(f"Configuration of {checked.report.server}: {found}", style="bold"), soft_wrap=False)
    for each in checked.report.findings:
        fix = "; ".join((*each.my_cnf, *each.sql, *each.shell)[:2])
        told = Text.assemble((f"{each.severity} ", "yellow"), each.title, (f"  {fix}" if fix else "", "dim"))
        console.print(Padding(told, (0, 0, 0, 2)), soft_wrap=False)


def _verdict(result: Result, findings: Findings) -> list[Text | Padding]:
    several = len(findings.subjects) > 1
    lines: list[Text | Padding] = []
    for each in findings.losses():
        counted = result.experiment.transactions
        said = words.loss_sentence(each, findings.baseline, name_arm=several, transactions=counted)
        lines.append(Text.assemble((f"{_loss_word(each)} ", "bold red"), said))
    for held_out in (False, True):
        for each in findings.headlines(held_out=held_out):
            if each.verdict == "slower":
                continue
            text = Text(words.sentence(each, name_arm=several), style="" if held_out else "bold")
            text.append(f" at {words.count(each.connections, 'connection')}", style="dim")
            if held_out:
                text.append(", held out", style="dim")
            if more := words.still_needed(each):
                text.append(f"; {more}", style="yellow")
            lines.append(text)
    current = ("Compared with the server that runs today (--baseline):", findings.against_current("qps"))
    for heading, compared in (*findings.levers(), current):
        lines += [Text(heading, style="bold")] if compared else []
        for each in compared:
            text = Text(f"  {words.sentence(each, name_arm=several)}", style=STYLES[each.verdict])
            lines.append(text.append(f" at {words.count(each.connections, 'connection')}", style="dim"))
    if not result.experiment.comparisons:
        lines.append(Text("nothing was compared: no load gave figures for two servers", style="bold yellow"))
    else:
        silent = (words.without_figures(arm, findings.baseline, load) for arm, load in findings.without_figures())
        lines += [Text.assemble(("NOT COMPARED: ", "bold yellow"), said) for said in silent]
    duet = (words.duet_sentence(result.experiment.plan.duet),) if result.experiment.plan.duet else ()
    lines += [Text(remark, style="dim") for remark in (*duet, *words.remarks(result.experiment))]
    for number, flag in enumerate(result.experiment.flags, 1):
        lines.append(Text.assemble((f"FLAG {number} ", "bold yellow"), f"{flag.name}: {flag.message}"))
        lines.append(Padding(Text(flag.hint, style="dim"), (0, 0, 0, 5)))
    lines += [Text.assemble(("WARNING ", "bold yellow"), warning) for warning in result.warnings]
    return lines


def _loss_word(each: Comparison) -> str:
    return "LOSS, held out:" if each.held_out else "LOSS:"


def _comparisons(findings: Findings, experiment: Experiment) -> Table:
    secondary = [(metric, name) for metric, name in _SECONDARY if findings.has(metric)]
    several = len(findings.contenders) > 1
    table = Table(
        title=f"Compared with {findings.baseline} at {words.percent(experiment.confidence)}; "
        f"p99 and CPU per query: less is better; steal {experiment.steal_share:.1%}",
        title_justify="left",
        title_style="dim",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    table.add_column("workload", overflow="fold")
    if several:
        table.add_column("server", overflow="fold")
    table.add_column("conn", justify="right")
    table.add_column("QPS ratio")
    table.add_column("verdict", min_width=max(map(len, STYLES)))
    for _metric, name in secondary:
        table.add_column(name, justify="right")
    flags = [flag.name for flag in experiment.flags]
    if flags:
        table.add_column("flag", justify="right")
    for held_out in (False, True):
        loads = [load for load in findings.loads if load.held_out == held_out]
        if held_out and loads:
            table.add_section()
            table.add_row(Text("held out:", style="dim"))
        for load, arm in itertools.product(loads, findings.contenders):
            qps = findings.comparison(arm, load, "qps")
            if qps is None:
                continue
            table.add_row(
                load.workload,
                *([arm] if several else []),
                str(load.connections),
                f"{words.ratio(qps)} ({words.interval(qps, '–')})",
                Text(qps.verdict, style=STYLES[qps.verdict]),
                *(_cell(findings.comparison(arm, load, metric)) for metric, _name in secondary),
                *([_marks(flags, findings.flags_of((arm, findings.baseline), load))] if flags else []),
            )
    return table


def _marks(flags: Sequence[str], raised: Sequence[str]) -> Text:
    """The numbers under which the flags stand above the table."""
    return Text(",".join(str(flags.index(name) + 1) for name in raised), style="yellow")


def _cell(each: Comparison | None) -> Text:
    if each is None:
        return Text("–", style="dim")
    return Text(words.ratio(each), style=STYLES[each.verdict] if each.verdict in ("faster", "slower") else "")


def _stages(result: Result) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("stage", overflow="fold")
    for name in ("wall", "CPU", "memory"):
        table.add_column(name, justify="right")
    table.add_column("")
    for each in result.stages:
        table.add_row(
            each.name,
            words.duration(each.wall_s),
            words.duration(each.cpu_s),
            words.size(each.peak_memory_bytes),
            Text("cached", style="dim") if each.cached else "",
        )
    return table
