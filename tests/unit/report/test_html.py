"""The page: what it must say, in which order, and that it needs nothing but itself."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import pytest
from cards import MIB, card, loads, steady
from example import comparison, counted, example, in_a_duet, in_transactions, measured_only
from explained_example import explanation
from plotly.offline import get_plotlyjs

from upshift.instructions.experiment import nothing_counted
from upshift.instructions.tools import NOTHING_COUNTS
from upshift.measure.model import Load
from upshift.measure.variant import Variant
from upshift.report import words
from upshift.report.html import render, write_html
from upshift.report.result import Result
from upshift.server.kind import Program


def page_of(result: Result) -> str:
    """The page without the drawing library, which would drown every search."""
    return render(result).replace(get_plotlyjs(), "")


def text_of(page: str) -> str:
    """What a reader sees, in one line."""
    body = re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.S)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", "", body)))


def figures_of(page: str) -> dict[str, dict[str, object]]:
    found = re.search(r'<script type="application/json" id="figures">(.*?)</script>', page, re.S)
    assert found
    loaded = json.loads(found[1])
    assert isinstance(loaded, dict)
    return loaded


def test_it_holds_each_comparisons_figures() -> None:
    result = example(loss=True, third_arm=True)
    page = page_of(result)
    for each in result.experiment.comparisons:
        cells = f'<td class="n"><b>{words.ratio(each)}</b></td><td class="n">{words.interval(each)}</td>'
        assert cells in page, each


def test_every_comparison_has_its_own_row() -> None:
    result = example(third_arm=True)
    assert page_of(result).count('<td class="n"><b>') == len(result.experiment.comparisons)


def test_a_loss_on_a_held_out_workload_stands_before_everything() -> None:
    text = text_of(page_of(example(loss=True)))
    loss = text.index("oltp_delete: 0.94x the throughput, slower (0.92 to 0.96 at 95 %) at 16 connections")
    assert loss < text.index("Upshift report")
    assert loss < text.index("oltp_read_write: ")


def test_without_a_loss_there_is_no_such_section() -> None:
    assert "What got worse" not in text_of(page_of(example()))


def test_the_verdict_comes_before_flags_machine_and_charts() -> None:
    text = text_of(page_of(example()))
    parts = (
        "oltp_read_write: 1.34x the throughput (1.31 to 1.37 at 95 %)",
        "Other programs used 0.14 CPUs",
        "Invented CPU 9000",
        "-O3 -flto=thin -fprofile-use=train.profdata",
        "Throughput, compared",
        "Queries per second",
        "99th percentile of latency",
        "Server CPU per query",
        "User CPU per query",
        "252 of 1,442 object files",
        "8123 of 25595 functions have counts",
        "11 of 11 tests",
        "0.75 times the CPU of the plain build",
        "The server ran on CPU 0, the load on CPU 1: the server has 1 core and the load 1 core of its own.",
        "cp /opt/mysql-9.7.4-upshift/upshift.conf /etc/systemd/system/mysql.service.d/upshift.conf",
        "rm /etc/systemd/system/mysql.service.d/upshift.conf",
    )
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    # It would remove the user's own drop-ins, too.
    assert "systemctl revert" not in text


def test_what_is_counted_in_transactions_is_said() -> None:
    assert "For tpcc, commit, committed transactions are counted in place of queries." in text_of(page_of(in_transactions()))


def test_figures_of_a_workload_that_counts_transactions_have_their_unit() -> None:
    result = example()
    headline = result.experiment.loads[0].workload
    counted = result.experiment.model_copy(update={"transactions": (headline,)})
    page = page_of(result.model_copy(update={"experiment": counted}))
    assert "server CPU per transaction" in page and "transactions/s" in page
    assert "transactions/s" not in page_of(result)


def test_a_duet_is_said_with_the_cpus_of_each_half() -> None:
    text = text_of(page_of(in_a_duet()))
    assert (
        "A duet: both servers are loaded at the same time, in one half of the turns one on CPUs 0–2 with its load on CPU 3 and "
        "the other on CPUs 4–6 with its load on CPU 7, in the other half the other way round. For each of the two, the server "
        "has 3 cores and the load 1 core of its own."
    ) in text
    assert "worked at the same time, each on either set of CPUs in half of the turns" in text
    assert "took turns" not in text and "They share CPUs" not in text
    assert "the mean of the ratios of slices of the same time" in text
    in_turns = text_of(page_of(example()))
    assert "A duet" not in in_turns and "took turns" in in_turns and "slices of the same time" not in in_turns


def test_nothing_is_fetched() -> None:
    page = page_of(example(loss=True))
    assert not re.search(r"https?:", page)
    assert not re.search(r"<link|<img|<iframe|@import|url\(|\ssrc=", page)
    assert "default-src 'none'" in page


def test_the_drawing_library_is_in_it_once() -> None:
    page = render(example())
    assert page.count(get_plotlyjs()) == 1


def test_every_chart_has_its_place_and_every_place_its_chart() -> None:
    page = page_of(example(loss=True, third_arm=True))
    places = re.findall(r'data-figure="([^"]+)"', page)
    assert sorted(places) == sorted(figures_of(page))
    assert "qps-oltp_read_write" in places


def test_training_and_held_out_are_apart_on_one_axis() -> None:
    figures = figures_of(page_of(example()))
    trained, held_out = figures["forest-trained"]["layout"], figures["forest-held-out"]["layout"]
    assert isinstance(trained, dict) and isinstance(held_out, dict)
    assert "oltp_read_write ×1  " in trained["yaxis"]["ticktext"]
    assert "oltp_insert ×16  " in held_out["yaxis"]["ticktext"]
    assert not set(trained["yaxis"]["ticktext"]) & set(held_out["yaxis"]["ticktext"])
    assert trained["xaxis"]["range"] == held_out["xaxis"]["range"]


@pytest.mark.parametrize(("factor", "ticks"), [(1, "~s"), (1e-4, "~g")])
def test_few_queries_a_second_are_no_thousandths_on_the_axis(factor: float, ticks: str) -> None:
    """plotly writes 0.5 as 500m with the format that writes 5000 as 5k."""
    result = example()
    levels = tuple(each.model_copy(update={"value": each.value * factor}) for each in result.experiment.levels)
    experiment = result.experiment.model_copy(update={"levels": levels})
    layout = figures_of(page_of(result.model_copy(update={"experiment": experiment})))["qps-oltp_read_write"]["layout"]
    assert isinstance(layout, dict) and layout["yaxis"]["tickformat"] == ticks


def test_intervals_without_limits_are_said_and_do_not_stretch_the_charts() -> None:
    page = page_of(example(trials=1))
    assert "oltp_read_write: 1.34x the throughput, inconclusive (one trial gives no interval)" in text_of(page)
    assert "0 to ∞" in page
    assert "1000000000" not in page and "1e9" not in page and "1,000,000,000" not in page


def test_names_are_shown_as_they_are_and_never_run() -> None:
    result = example(command="upshift optimize --workload '<script>alert(1)</script>'")
    evil = comparison(workload="<b>w</b>", connections=16)
    load = result.experiment.loads[0].model_copy(update={"workload": "<b>w</b>", "connections": 16})
    experiment = result.experiment.model_copy(update={"loads": (load,), "comparisons": (evil,), "levels": ()})
    page = page_of(result.model_copy(update={"experiment": experiment}))
    assert "<script>alert" not in page and "<b>w</b>" not in page
    assert "<b>w</b>: 1.34x the throughput" in unescape(page)


def test_what_a_sentence_quotes_is_code_and_still_escaped() -> None:
    page = page_of(example(warnings=("`upshift card <b>` measures it",)))
    assert "<dd><code>upshift card &lt;b&gt;</code> measures it.</dd>" in page


def test_servers_that_were_only_measured_make_a_page_too() -> None:
    text = text_of(page_of(measured_only()))
    assert "oltp_read_write: 1.34x the throughput" in text
    assert "/var/cache/upshift/stages/optimised/bin/mysqld" in text
    for absent in ("The hot set", "Is it the same server?", "Install it", "The profile gate"):
        assert absent not in text


def test_a_load_without_latencies_says_so() -> None:
    result = example()
    experiment = result.experiment.model_copy(
        update={
            "levels": tuple(each for each in result.experiment.levels if each.metric != "latency_ms_p99"),
            "comparisons": tuple(each for each in result.experiment.comparisons if each.metric != "latency_ms_p99"),
        }
    )
    assert "reports no latencies" in text_of(page_of(result.model_copy(update={"experiment": experiment})))


def test_nothing_compared_is_not_a_blank_page() -> None:
    result = example()
    empty = result.experiment.model_copy(update={"comparisons": (), "levels": (), "loads": ()})
    assert "Nothing was compared" in text_of(page_of(result.model_copy(update={"experiment": empty})))


def test_a_load_that_was_not_compared_is_named_in_the_verdict() -> None:
    result = example()
    assert "no figures for both" not in text_of(page_of(result))
    slow = Load(workload="slow", connections=1, held_out=False)
    more = result.experiment.model_copy(update={"loads": (*result.experiment.loads, slow)})
    text = text_of(page_of(result.model_copy(update={"experiment": more})))
    assert "slow at 1 connection gave no figures for both optimised and plain" in text


def test_lost_hardening_is_said() -> None:
    result = example()
    assert result.verify
    worse = result.verify.model_copy(update={"hardening": (("RELRO", "full", "partial"),)})
    assert "Hardening was lost" in text_of(page_of(result.model_copy(update={"verify": worse})))


def test_an_arms_environment_is_shown() -> None:
    result = example()
    program = Program(kind="mysql", binary=Path("/x/mysqld"))
    arms = (*result.experiment.arms, Variant(name="tier", program=program, environment={"LD_PRELOAD": "/x/libtier.so"}))
    experiment = result.experiment.model_copy(update={"arms": arms})
    assert "LD_PRELOAD=/x/libtier.so" in text_of(page_of(result.model_copy(update={"experiment": experiment})))


def test_the_file_is_written_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "report.html"
    page.write_text("the old one")
    monkeypatch.setattr("upshift.report.html.render", lambda result: (_ for _ in ()).throw(RuntimeError("killed")))
    with pytest.raises(RuntimeError):
        write_html(example(), page)
    assert page.read_text() == "the old one"
    monkeypatch.undo()
    write_html(example(), page)
    assert page.read_text().startswith("<!doctype html>")
    assert list(tmp_path.iterdir()) == [page]


def test_the_optimised_server_is_compared_with_the_one_that_runs_today() -> None:
    assert 'id="current"' not in render(example())
    page = render(example(third_arm=True))
    assert "oltp_read_write: 1.44x the throughput" in page[page.index('id="current"') :]


def test_a_loads_flags_stand_in_its_rows() -> None:
    page = page_of(example())
    flagged = re.findall(r'<a href="#flag-([^"]+)"', page)
    metrics = {each.metric for each in example().experiment.levels}
    assert flagged == ["server-idle"] * len(metrics)
    assert 'id="flag-server-idle"' in page


def test_level_and_steal_are_said() -> None:
    result = example()
    experiment = result.experiment.model_copy(update={"confidence": 0.9625})
    text = text_of(page_of(result.model_copy(update={"experiment": experiment})))
    assert "96.2 % interval" in text
    assert "Intervals and verdicts have one level, 96.2 %" in text
    assert "The hypervisor gave 0.4% of the CPUs' time to other machines" in text


def test_a_plain_build_of_a_patched_source_is_counted_as_rebuilding() -> None:
    """Where patches need a whole build, there are two; the plain build's time is that of the first."""
    result = example()
    plain = next(each for each in result.stages if each.name == "plain build")
    again = plain.model_copy(update={"wall_s": 3600.0, "folder": "plain-build-2"})
    alone = text_of(page_of(result))
    both = text_of(page_of(result.model_copy(update={"stages": (*result.stages, again)})))
    assert "and rebuilding took 1 h 09 min" in both and "1 h 09 min" not in alone
    found = re.search(r"CPU of the plain build \([^)]*\)", alone)
    assert found and found[0] in both


def test_a_second_training_is_counted_as_rebuilding() -> None:
    result = example()
    again = result.stages[5].model_copy(update={"name": "second train", "wall_s": 3600.0})
    assert "and rebuilding took 1 h 09 min" in text_of(page_of(result.model_copy(update={"stages": (*result.stages, again)})))


def test_the_machine_card_is_a_section_of_its_own_with_sentences_and_figures() -> None:
    refused = card(loads=loads(64 * MIB, steady(258), steady(171), had=False), notes=("no <b>room</b> was left",))
    page = page_of(example(card=refused))
    text = text_of(page)
    assert 'id="machine-card"' in page and "<b>room</b>" not in page
    assert "A load in 64 MiB costs 258 ns. The kernel gave no huge pages" in text
    assert "load in 64 MiB258 ns (255 to 261)not had" in text
    assert "system call140 ns139 to 141" in text
    assert "No <b>room</b> was left." in text


def test_without_a_card_there_is_no_such_section() -> None:
    assert 'id="machine-card"' not in page_of(example(card=None))


def test_what_was_counted_has_a_section_of_its_own() -> None:
    page = page_of(example(instructions=counted()))
    text = text_of(page[page.index('<section id="instructions">') :])
    assert "by callgrind 3.19.0. A ratio below 1 is less work than plain does" in text
    assert "oltp_point_selectoptimised45,000360.00.7500" in text.replace(" ", "")
    assert "Workload 'mine' has no [fixed] command." in text
    assert '<section id="instructions">' not in page_of(example())


def test_without_valgrind_the_section_is_a_sentence() -> None:
    page = page_of(example(instructions=nothing_counted("plain", NOTHING_COUNTS)))
    section = page[page.index('<section id="instructions">') :]
    assert (
        "Valgrind is not installed, and no hardware counters are to be read." in text_of(section)
        and "<table" not in section[: section.index("</section>")]
    )


def test_a_report_says_why_in_brief_and_links_the_explanation(tmp_path: Path) -> None:
    page = page_of(example(explanation=explanation(tmp_path)))
    text = text_of(page[page.index('<section id="why">') :])
    assert "CPU time a query of new, to that of plain: 0.50x under mix." in text
    assert "instructions a query, in user mode 58 % of the change" in text
    assert "inlined into its callers" in text and "walk<…>" in text
    assert "waking other threads6.00 µs5.50 µs" in text and "interrupts to the CPUs of the load0.500.45" in text
    assert 'href="explanation.html"' in page
    assert '<section id="why">' not in page_of(example())


def test_a_report_of_a_server_that_did_not_change_says_so(tmp_path: Path) -> None:
    text = text_of(page_of(example(explanation=explanation(tmp_path, nothing_differs=True))))
    assert "Nothing differs: plain and new are the same program" in text and "was sampled" not in text
