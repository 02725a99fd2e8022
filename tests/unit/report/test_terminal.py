"""The report on a terminal."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from cards import card
from example import counted, example, in_a_duet, in_transactions, measured_only
from explained_example import explanation
from rich.console import Console

from upshift.instructions.experiment import nothing_counted
from upshift.instructions.tools import NOTHING_COUNTS
from upshift.measure.model import Load
from upshift.report.result import Result
from upshift.report.terminal import show


def shown(result: Result, width: int = 80, *, terminal: bool = False) -> str:
    out = io.StringIO()
    show(result, Console(file=out, width=width, force_terminal=terminal, color_system="standard" if terminal else None))
    return out.getvalue()


def joined(text: str) -> str:
    return " ".join(text.split())


def test_the_loss_comes_first_then_the_verdict() -> None:
    text = joined(shown(example(loss=True)))
    assert text.startswith("LOSS, held out: oltp_delete: 0.94x the throughput, slower")
    assert text.index("LOSS") < text.index("oltp_read_write: 1.34x the throughput") < text.index("Compared with plain")


def test_a_duet_is_said() -> None:
    assert "one on CPUs 0–2 with its load on CPU 3 and the other on CPUs 4–6" in joined(shown(in_a_duet()))
    assert "A duet" not in joined(shown(example()))


def test_what_is_counted_in_transactions_is_said() -> None:
    assert "transactions are counted" not in joined(shown(example()))
    assert "For tpcc, commit, committed transactions are counted in place of queries" in joined(shown(in_transactions()))


def test_a_loss_is_in_the_unit_of_its_workload() -> None:
    made = example(loss=True)
    loss = made.experiment.comparisons[-1].model_copy(update={"metric": "total_cpu_us_per_query"})
    experiment = made.experiment.model_copy(
        update={"comparisons": (*made.experiment.comparisons[:-1], loss), "transactions": (loss.workload,)}
    )
    said = joined(shown(made.model_copy(update={"experiment": experiment})))
    assert "oltp_delete: 0.94x the CPU per transaction" in said


def test_a_verdict_in_cpu_time_does_not_stand_on_a_ratio_of_one() -> None:
    made = example()
    changed = [
        each.model_copy(update={"ratio": 0.9968, "ci_low": 0.9948, "ci_high": 0.9988, "verdict": "faster"})
        if each.metric == "total_cpu_us_per_query"
        else each
        for each in made.experiment.comparisons
    ]
    experiment = made.experiment.model_copy(update={"comparisons": tuple(changed)})
    said = shown(made.model_copy(update={"experiment": experiment}))
    assert "0.997" in said and " 1.00 " not in said.partition("stage")[0]


def test_stages_and_package_are_named() -> None:
    text = joined(shown(example()))
    assert "plain build 10 min 43 s 20 min 40 s 1.4 GB cached" in text
    assert "/package/mysql-9.7.4-upshift.tar.gz" in text


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_it_fits_the_width_except_for_paths(width: int) -> None:
    text = shown(example(loss=True, third_arm=True), width)
    lines = [line for line in text.splitlines() if not line.startswith("package")]
    assert max(len(line.rstrip()) for line in lines) <= width


def test_at_80_columns_every_load_is_one_line() -> None:
    rows = [line for line in shown(example()).splitlines() if line.startswith(" oltp_") or line.startswith(" select_")]
    assert len(rows) == len(example().experiment.loads)


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[32m" in shown(example(), terminal=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[32m" not in shown(example(), terminal=True)


def test_no_interval_is_said_and_not_printed_as_a_number() -> None:
    text = shown(example(trials=1))
    assert "(0–∞)" in text and "1000000000" not in text


def test_brackets_in_names_are_no_markup() -> None:
    assert "[bold]x[/bold]" in shown(example(warnings=("[bold]x[/bold]",)))


def test_servers_that_were_only_measured() -> None:
    assert "package " not in shown(measured_only().model_copy(update={"stages": ()}))


def test_the_optimised_server_is_compared_with_the_one_that_runs_today() -> None:
    assert "that runs today" not in shown(example(), 100)
    text = shown(example(third_arm=True), 100)
    after = text[text.index("that runs today") :]
    assert "oltp_read_write: 1.44x the throughput" in after


def test_a_loads_flags_stand_in_its_row_by_number() -> None:
    text = shown(example())
    assert "FLAG 2 server-idle: the server mostly waited" in joined(text)
    rows = [line.split() for line in text.splitlines() if line.startswith(" oltp_point_select")]
    assert [row[-1] == "2" for row in rows] == [True, False, False]


def test_level_steal_and_total_cpu_are_shown() -> None:
    text = joined(shown(example()))
    assert "Compared with plain at 95 %" in text and "steal 0.4%" in text
    assert "oltp_read_write 1 1.27 (1.24–1.30) faster 0.82 0.74" in text


def test_the_machine_card_has_its_sentences_notes_and_figures() -> None:
    text = joined(shown(example(card=card(notes=("no room",))), 100))
    assert "An empty system call costs 140 ns." in text
    assert "NOTE no room" in text
    assert "load in 64 MiB 120 ns (119 to 121) 80.0 ns (79.2 to 80.8)" in text
    assert "A system call" not in shown(example(card=None))


def test_what_was_counted_is_shown_and_what_was_not() -> None:
    text = joined(shown(example(instructions=counted())))
    assert "Instructions a query, compared with plain; counted by callgrind 3.19.0" in text
    assert "oltp_point_select plain 60,000 1,800.4 oltp_point_select optimised 45,000 360.0 0.7500" in text
    assert "instructions: workload 'mine' has no [fixed] command" in text


def test_what_was_counted_of_transactions_is_said() -> None:
    found = counted().model_copy(update={"transactions": ("tpcc",)})
    said = "For tpcc, committed transactions are counted in place of queries."
    assert said in joined(shown(example(instructions=found))) and said not in joined(shown(example(instructions=counted())))


def test_without_valgrind_one_line_says_so() -> None:
    text = joined(shown(example(instructions=nothing_counted("plain", NOTHING_COUNTS))))
    assert "instructions: valgrind is not installed" in text and "Instructions a query" not in text


def test_the_largest_differences_of_an_explanation_are_shown(tmp_path: Path) -> None:
    text = joined(shown(example(explanation=explanation(tmp_path)), 100))
    assert "CPU time a query of new, to that of plain: 0.50x under mix." in text
    assert "step 30.00 0.00 -30.00 inlined into its callers" in text
    assert "calls that are gone" not in text
    assert "CPU time a query of new" not in shown(example())


def test_a_load_that_was_not_compared_is_named_in_the_verdict() -> None:
    result = example()
    assert "NOT COMPARED" not in shown(result)
    slow = Load(workload="slow", connections=1, held_out=False)
    more = result.experiment.model_copy(update={"loads": (*result.experiment.loads, slow)})
    text = joined(shown(result.model_copy(update={"experiment": more})))
    assert "NOT COMPARED: slow at 1 connection gave no figures for both optimised and plain" in text
    none = more.model_copy(update={"comparisons": ()})
    text = joined(shown(result.model_copy(update={"experiment": none})))
    assert "nothing was compared" in text and "NOT COMPARED" not in text
