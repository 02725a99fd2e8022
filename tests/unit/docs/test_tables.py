"""The documents' tables are those that their results give."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import example_study
import pytest
from example_study import part, two_factors
from explained_example import explanation
from script_module import script_module

from upshift.paths import CHECKOUT
from upshift.study.crossing import Crossing

SCRIPT = CHECKOUT / "docs" / "tables.py"
KEPT = sorted((CHECKOUT / "docs" / "measurements").rglob("result.json"))


def tables() -> Any:
    return script_module(SCRIPT)


def lines(kind: str, result: dict[str, Any]) -> list[str]:
    return list(tables().KINDS[kind](result))


@pytest.fixture
def result() -> dict[str, Any]:
    """One of a run that measured."""
    kept: list[dict[str, Any]] = [json.loads(file.read_text()) for file in KEPT]
    return next(each for each in kept if "lead_s" in each.get("experiment", {}).get("plan", {}))


def test_no_figure_of_a_table_was_typed() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_every_result_that_is_kept_is_drawn_somewhere() -> None:
    text = "".join(file.read_text() for file in CHECKOUT.rglob("*.md") if ".venv" not in file.parts)
    for result in KEPT:
        assert json.loads(result.read_text())["schema_version"] >= 1
        assert str(result.relative_to(CHECKOUT)) in text


def test_the_readme_s_figures_are_drawn_the_worst_ones_too() -> None:
    text = (CHECKOUT / "README.md").read_text()
    drawn = tables().MARKED
    typed = [line for line in drawn.sub("", text).splitlines() if line.startswith("|") and re.search(r"\d\.\d", line)]
    assert typed == []
    kinds = ["wall", "overview", "worst", "conditions", "overview_baseline", "conditions_in_brief"]
    assert [found[2] for found in drawn.finditer(text)] == kinds
    # The worst held-out workload and the conditions are those of the figures that stand first.
    assert len({found[3] for found in drawn.finditer(text) if found[2] in ("overview", "worst", "conditions")}) == 1
    assert len(text.splitlines()) <= 120


def test_conditions_have_the_settings(result: dict[str, Any]) -> None:
    settings = {"innodb_buffer_pool_size": "1G", "innodb_flush_log_at_trx_commit": "2", "sync_binlog": "0"}
    result["experiment"]["arms"][0]["settings"] = settings
    shown = "`innodb_buffer_pool_size=1G`, `innodb_flush_log_at_trx_commit=2`, `sync_binlog=0`"
    assert f"- settings: {shown}" in lines("conditions", result)


def test_the_tests_outcome_is_drawn(result: dict[str, Any]) -> None:
    verify = {"suite": "main", "tests_run": 40, "tests_passed": 37, "failed_on_both": ["main.a", "main.b 'ps'"]}
    result["verify"] = {**verify, "passed_again": ["main.c"]}
    assert lines("tests", result) == [
        "- suite `main`: 40 tests run on the optimised server, 37 passed",
        "- failed on both servers: `main.a`, `main.b 'ps'`",
        "- failed, and passed when run again: `main.c`",
        "- failed on the optimised server alone: none",
    ]
    # As runs of before the second chance have it.
    result["verify"] = {**verify, "failed_on_both": []}
    assert lines("tests", result)[1:3] == ["- failed on both servers: none", "- failed, and passed when run again: none"]


def test_the_worst_held_out_gain_is_the_smallest(result: dict[str, Any]) -> None:
    one = next(one for one in result["comparisons"] if one["metric"] == "qps" and one["arm"] == "optimised")
    one = {**one, "held_out": True, "baseline": "plain", "connections": 1}
    result["comparisons"] = [
        {**one, "workload": "a", "ratio": 1.5, "ci_low": 1.4, "ci_high": 1.6},
        {**one, "workload": "b", "ratio": 0.98, "ci_low": 0.9, "ci_high": 1.07},
        {**one, "workload": "c", "ratio": 0.5, "held_out": False},
        {**one, "workload": "d", "ratio": 0.5, "baseline": "baseline"},
        {**one, "workload": "e", "ratio": 0.5, "metric": "total_cpu_us_per_query"},
    ]
    said = "The worst workload held out of training is b: 0.98x the throughput (0.90 to 1.07) at 1 connection."
    assert lines("worst", result) == [said]


def test_the_overview_has_a_row_a_workload(result: dict[str, Any]) -> None:
    loads = result["experiment"]["loads"]
    head, _rule, *rows = lines("overview", result)
    assert len(rows) == len({load["workload"] for load in loads})
    assert all(row.count("|") == head.count("|") for row in rows)
    assert rows[0].startswith(f"| {loads[0]['workload']} | ")


def test_counts_say_how_far_runs_agree() -> None:
    def run(plain: float, new: float) -> dict[str, Any]:
        figures = {"workload": "w", "calls_per_query": 7.0}
        counts = [{**figures, "arm": arm, "instructions_per_query": one} for arm, one in (("plain", plain), ("new", new))]
        return {"counts": counts, "ratios": [{"workload": "w", "arm": "new", "ratio": new / plain}]}

    machine = {"cpus": 2, "cpu": "X", "memory_bytes": 2**30, "os": "Y"}
    runs = [run(1000.0, 800.0), run(1001.0, 800.0), run(1000.5, 840.0)]
    drawn = lines("counts", {"machine": machine, "runs": runs, "stages": [{"cpu_s": 50.0}, {"cpu_s": 60.4}]})
    assert drawn[0].startswith("2 x X, 1 GiB, Y")
    assert "| w | plain | 1,000 | 0.100 % | 7 |  |  |" in drawn
    assert "| w | new | 800 | 5.000 % | 7 | 0.8000 | 5.052 % |" in drawn
    assert drawn[-1].endswith("A run took 50 to 60 s of CPU.")


def test_an_explanation_is_drawn_with_rows_that_add_up(tmp_path: Path) -> None:
    result = explanation(tmp_path).model_dump(mode="json")
    assert "| CPU time a query | 100.0 µs | 50.0 µs | 0.50 | 0.45 to 0.55 |" in lines("explained", result)
    assert lines("where", result)[-1].startswith("| all | 100.00 | 50.00 | -50.00 | 100.0 | 100.0 |")
    assert lines("families", result)[-1] == "| `walk<…>` | `step` | 50.00 | 80.00 | 15.00 |"
    assert "| `futex` | 0.500 | 0.250 | 20.00 | 16.00 |" in lines("calls", result)
    assert lines("layout", result)[-1] == "| new | 9 | 40 | 100 | 200 |"


def study_result(**changes: Any) -> dict[str, Any]:
    arms = {"off": 20.0, "a": 19.0, "b": 22.0, "a+b": 20.9}
    found: dict[str, Any] = json.loads(example_study.result(two_factors(), (part(arms),), **changes).model_dump_json())
    return found


def test_a_studys_factors_have_their_effects_and_all_of_them_the_total() -> None:
    table = lines("factors", study_result())
    assert table[0] == "| factor | CPU a query, alone | CPU a query, last | CPU a query, share | verdict |"
    assert table[2].startswith("| a | -5.0 %") and table[2].endswith("| better |")
    assert table[-3].startswith("| all |  |  | +4.") and table[-1] == "Intervals of 99 %."


def test_a_studys_rows_have_the_base_s_figures_and_changes_of_them() -> None:
    table = lines("rows", study_result())
    assert table[0] == "| row | reads, 1 connection | reads, 8 connections | writes, 8 connections, held out |"
    assert table[2].startswith("| off | ") and " µs |" in table[2]
    assert [line.split(" | ")[0] for line in table[3:-2]] == ["| b", "| a", "| a+b"]
    assert table[-1] == "Intervals of 99 %."


def test_a_row_that_died_or_is_the_same_says_so() -> None:
    found = study_result()
    found["rows"][1]["died"], found["rows"][2]["same_as"] = "it ended\nlog", "off"
    table = lines("rows", found)
    assert "| b | it ended |" in table[3] and "| the same server as off |" in table[4]


def test_what_a_study_recommends_is_what_was_confirmed() -> None:
    assert lines("confirmed", study_result()) == [
        "Nothing to recommend: some factors made the figure better, but no set of them beyond what chance does."
    ]
    recommended = {"recommended": ("a",), "confirmed": example_study.confirmed()}
    told = lines("confirmed", study_result(**recommended))
    assert told[0] == "a was not confirmed: something was worse in trials of its own."
    assert any("held out" in line and "worse" in line for line in told)


def test_a_factor_under_each_load_is_bold_where_something_was_found() -> None:
    table = lines("heat", study_result())
    assert table[0].startswith(
        "| factor, CPU a query | reads, 1 connection | reads, 8 connections | writes, 8 connections, held out |"
    )
    assert [line.split(" | ")[0] for line in table[2:-2]] == ["| a", "| b"]
    assert table[2].count("**-") == 3 and table[3].count("**+") == 3
    assert table[-1] == "Intervals of 99 %."


def test_loads_that_an_earlier_version_judged_apart_have_a_level_each() -> None:
    found = study_result()
    for each, confidence in zip(found["by_load"], (0.995, 0.995, 0.99), strict=True):
        each["effects"]["confidence"] = confidence
    assert lines("heat", found)[-1] == "Intervals of 99.5 %, 99.5 % and 99 %, in the order of the loads."


def test_what_does_not_add_up_says_so_of_each_pair() -> None:
    found = study_result()
    [told] = lines("together", found)
    assert told.startswith("No two factors were seen to do more or less together than apart; the intervals leave room for ")
    widest = max(max(each["effect"]["ci_high"] - 1, 1 - each["effect"]["ci_low"]) for each in found["effects"]["together"])
    assert told.endswith(f" {widest * 100:,.1f} % either way.")
    found["effects"]["together"][0] |= {"verdict": "slower", "shared": True}
    assert lines("together", found)[0].endswith("an equal part of a figure that several pairs share")
    found["effects"]["together"] = []
    assert lines("together", found) == ["The rows do not tell."]


def test_a_studys_losses_come_with_the_greatest_first() -> None:
    told = lines("losses", study_result())
    assert [line.split(" ")[1] for line in told] == ["b"] * 3 + ["a+b"] * 3
    assert all(line.startswith("- ") and "CPU per query beside off" in line for line in told)
    assert sum(line.endswith(", held out") for line in told) == 2
    recommended = {"recommended": ("a",), "confirmed": None}
    assert lines("losses", study_result(**recommended)) == told


def test_what_training_on_another_workload_costs_has_its_own_row_as_the_measure() -> None:
    crossing = Crossing(row=(0, 1), own=(1, 0), workload="reads")
    table = lines("crossed", study_result(crossings=(crossing,)))
    assert (
        table[0]
        == "| trained as | run on reads, 1 connection | run on reads, 8 connections | run on writes, 8 connections, held out |"
    )
    assert table[2].startswith("| b | +15.") and table[2].endswith("| – |")
    assert table[3] == "| a | its own | its own | – |"
    assert "trained once" in table[-1]
    assert "trained once" not in lines("crossed", study_result(crossings=(crossing,), trainings=2))[-1]


def test_a_study_says_how_it_was_measured() -> None:
    told = lines("study", study_result(transactions=("writes",)))
    assert "- full design, 4 rows; 6 trials, 2 slices of 1 s a load" in told
    assert "- For writes, committed transactions are counted in place of queries" in told


def test_half_widths_are_of_the_intervals(result: dict[str, Any]) -> None:
    one = next(each for each in result["comparisons"] if each["metric"] == "qps")
    one.update(ci_low=1.0, ci_high=1.21)
    assert any(line.endswith("| 10.0 % |") for line in lines("widths", result))


def test_what_was_called_is_counted_by_figure() -> None:
    one = {"run": 0, "wall_s": 60.0, "metric": "qps", "ratio": 1.01, "ci_low": 1.0, "ci_high": 1.0404, "called": True}
    other = {**one, "run": 1, "wall_s": 120.0, "ratio": 0.99, "called": False}
    result = {"machine": study_result()["machine"], "comparisons": [one, other]}
    table = lines("called", result)
    assert table[0].endswith("2 runs of 60 s to 2.0 min of measuring:")
    assert table[-1] == "| QPS | 2 | 1 | 1.000 (0.881 to 1.135) | 0.990 to 1.010 | 2.0 % |"
    result["comparisons"] = [{**one, "called_at_99": True}]
    assert lines("called", result)[-1] == "| QPS | 1 | 1 | 1 | 1.010 to 1.010 | 2.0 % |"


def test_proofs_of_findings_are_drawn_with_those_that_failed() -> None:
    machine = {"cpus": 2, "cpu": "a CPU", "memory_bytes": 2**34, "os": "Debian"}
    one = {"id": "general-log-on", "workload": "oltp_point_select", "connections": 8}
    settled = {**one, "verdict": "faster", "ratio": 1.25, "ci_low": 1.2, "ci_high": 1.3, "trials": 6}
    proofs = [{**settled, "changed": {"general_log": ["ON", "OFF"]}}, {**one, "failed": ["ERROR"]}]
    drawn = lines("proofs", {"machine": machine, "server": "9.7.4", "proofs": proofs})
    assert drawn[0] == "2 x a CPU, 16 GiB, Debian; 9.7.4; 1 of 2 findings settled:"
    assert (
        "| general-log-on | `general_log` ON -> OFF | oltp_point_select, 8 connections | 1.25 (1.20 to 1.30) | faster | 6 |"
        in drawn
    )
    assert "| general-log-on |  | oltp_point_select, 8 connections |  | failed |  |" in drawn
