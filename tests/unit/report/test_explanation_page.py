"""An explanation as a page, on the terminal, and as JSON."""

from __future__ import annotations

import io
import json
import re
from html import unescape
from pathlib import Path

import pytest
from cards import KIB, calls, card, exchanges, steady, wild
from explained_example import explanation, figure, row
from rich.console import Console

from upshift.card.model import Card
from upshift.explain.model import Explanation, Slots, SystemCall, Verdict
from upshift.explain.origin import Origin
from upshift.instructions.model import MissCount
from upshift.report import explained
from upshift.report.explained import PAGE_FILE, about_pages, about_sources, row_interval, short, unsure
from upshift.report.explained_focus import about, about_side
from upshift.report.explained_kernel import about_calls, about_kernel, ratio_of, us_a_call, waking_rows, why_kernel
from upshift.report.explanation import EXPLANATION_FILE, publish, render
from upshift.report.explanation_terminal import show


def text_of(page: str) -> str:
    body = re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.S)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", body)))


def test_a_confidence_is_never_rounded_up_to_certainty(tmp_path: Path) -> None:
    found = explanation(tmp_path)
    load = found.loads[0]
    assert load.kernel
    sure = load.model_copy(update={"confidence": 0.99967, "kernel": load.kernel.model_copy(update={"confidence": 0.99967})})
    text = text_of(render(found.model_copy(update={"loads": (sure,)}), tmp_path))
    assert "ratio (99.96 %)" in text and "intervals of 99.96 % confidence" in text
    assert "intervals are of 99.96 % confidence" in text and "100.0 %" not in text


def test_the_page_answers_in_order(tmp_path: Path) -> None:
    text = text_of(render(explanation(tmp_path), tmp_path))
    answers = [
        "CPU time a query of new, to that of plain: 0.50x under mix.",
        "How much",
        "0.45 to 0.55",
        "58 % of the change, in logarithms",
        "of these to wait: for a statement, a lock, a disk 0.38 0.38",
        "ready to run, and waiting for a CPU, a query 12.5 µs 6.2 µs",
        "Where",
        "walk.cc:12",
        "100.0 100.0",
        "With it on the stack a query spends 30.00 µs before and 5.00 µs after, a ratio of 0.17 (0.12 to 0.22 with 95 % "
        "confidence). Inlined: 0% of that time before, 100% after.",
        "plain : it is a separate function; 30.00 µs a query in 300 samples, 25.00 in itself",
        "walk<…> core/walk.cc:12 called 30.00",
        "core/walk.cc:7 30.00",
        "new : it is not a separate function",
        "walk<…> core/walk.cc:12 inlined 5.00",
        "What is executed",
        "60,000 0 -60,000 19.5 0.00",
        "90,000 60,000 20.5 1.00",
        "Why: time in the kernel",
        "intervals are of 97.5 % confidence. Both servers have the same kernel",
        "network sendto, ppoll 20.00 → 14.00 0.70 (0.63 to 0.77) 1.00 → 1.00 1.00 (0.90 to 1.10)",
        "10.00 → 7.00 0.70 (0.63 to 0.77) cheaper calls wake-ups",
        "fewer calls, costlier calls other",
        "calls were not counted",
        "System calls, one by one",
        "spends 20.0 µs before and 12.0 µs after, 0.60x",
        "0.75x for how often they are made, times 0.80x for what each takes",
        "0.500 0.250 20.00 16.00",
        "Why: functions with what was inlined into them",
        "80.00",
        "Calls that are gone",
        "1 → 0 and 2 in its cold part 19.5 → 0.00",
        "the caller now makes its calls: leap",
        "4K pages",
        "What did not change, or not by more than chance futex 10.00 → 9.00",
        "What is not sure",
        "plain has no debug information.",
        "Flame graphs",
    ]
    places = [text.find(answer) for answer in answers]
    assert -1 not in places, answers[places.index(-1)]
    assert places == sorted(places)


def test_flame_graphs_are_of_one_scale_and_names_cannot_end_the_script(tmp_path: Path) -> None:
    page = render(explanation(tmp_path), tmp_path)
    found = re.search(r'<script type="application/json" id="graphs">(.*?)</script>', page, re.S)
    assert found
    before, after = json.loads(found[1])["mix"]
    # Microseconds a query over all samples, and no frame that would be too narrow to see.
    assert (before[1], after[1]) == (100.0, 50.0)
    assert [child[0] for child in after[2][0][2]] == ["new</script>_[i]", "rare", "walk"]
    assert "https://" not in page.replace("http://www.w3.org/2000/svg", "")


def test_a_name_in_a_table_cannot_become_part_of_the_page(tmp_path: Path) -> None:
    assert "walk<int>" not in re.sub(r"<script.*?</script>", "", render(explanation(tmp_path), tmp_path), flags=re.S)


def test_all_is_written_and_read_back(tmp_path: Path) -> None:
    made = explanation(tmp_path)
    publish(made, tmp_path)
    assert Explanation.model_validate_json((tmp_path / EXPLANATION_FILE).read_text()) == made
    assert (tmp_path / PAGE_FILE).read_text() == render(made, tmp_path)


def test_nothing_differs_is_said_and_nothing_else(tmp_path: Path) -> None:
    made = explanation(tmp_path, nothing_differs=True)
    assert "Nothing differs: plain and new are the same program" in text_of(render(made, tmp_path))
    assert "How much" not in text_of(render(made, tmp_path)) and "sampled" not in text_of(render(made, tmp_path))
    assert "Nothing differs" in terminal_of(made)


def terminal_of(made: Explanation) -> str:
    out = io.StringIO()
    show(made, Console(file=out, width=200))
    return out.getvalue()


def test_the_terminal_says_how_much_where_and_why(tmp_path: Path) -> None:
    made = explanation(tmp_path)
    alone = made.loads[0].model_copy(update={"connections": 1})
    assert "mix, 1 connection\n" in re.sub(" +\n", "\n", terminal_of(made.model_copy(update={"loads": (alone,)})))
    said = terminal_of(made)
    for part in (
        "0.50x under mix",
        "walk<…>",
        "inlined into its callers",
        "futex",
        "1 → 0",
        "19.5 → 0.00",
        "-60,000",
        "the code",
        "-1.00 ?",
        "0.250",
        "1.5 times",
    ):
        assert part in said, part


def test_what_is_counted_in_transactions_is_said(tmp_path: Path) -> None:
    made = explanation(tmp_path)
    load = made.loads[0].model_copy(update={"unit": "transaction"})
    said = "For mix, committed transactions are counted in place of queries."
    for of, shown in ((made, False), (made.model_copy(update={"loads": (load,)}), True)):
        assert (said in text_of(render(of, tmp_path))) == (said in " ".join(terminal_of(of).split())) == shown


def test_calls_that_nobody_counted_have_no_column(tmp_path: Path) -> None:
    made = explanation(tmp_path)
    uncounted = made.loads[0].inlined[0].model_copy(update=dict.fromkeys(("calls_per_query_before", "calls_per_query_after")))
    bare = made.model_copy(
        update={"loads": (made.loads[0].model_copy(update={"executed": (), "inlined": (uncounted,)}),)},
    )
    assert "calls of the callee a query" in text_of(render(made, tmp_path))
    assert "calls of the callee a query" not in text_of(render(bare, tmp_path)) and "--counts" in text_of(
        render(bare, tmp_path)
    )
    assert "19.5 → 0.00" not in terminal_of(bare)


STOCK, PATCHED = Origin(sha256="a" * 64), Origin(sha256="b" * 64, patches=("one", "two"))


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (
            STOCK,
            PATCHED,
            "plain is built from aaaaaaaaaaaa, without patches; new is built from bbbbbbbbbbbb, with the patches one",
        ),
        (PATCHED, PATCHED, "Both servers have the patches one, two: their effect is not among the differences."),
        (STOCK, STOCK, ""),
        (None, PATCHED, ""),
    ],
)
def test_it_is_said_where_the_sources_differ(tmp_path: Path, before: Origin | None, after: Origin | None, said: str) -> None:
    made = explanation(tmp_path).model_copy(update={"before_source": before, "after_source": after})
    assert said in about_sources(made) and bool(said) == bool(about_sources(made))
    for shown in (text_of(render(made, tmp_path)), " ".join(terminal_of(made).split())):
        assert about_sources(made) in shown


@pytest.mark.parametrize(
    ("ratio", "low", "high", "verdict", "shown"),
    [
        (0.9866, 0.9755, 0.9979, "less", "0.987 (0.976 to 0.998)"),
        (0.9866, 0.9655, 0.9979, "less", "0.987 (0.966 to 0.998)"),
        (0.9866, 0.9655, 1.0019, "not told apart", "0.99 (0.97 to 1.00)"),
        (1.5, 1.004, None, "more", "1.500 (1.004 to any)"),
        (0, 0, 0.08, "less", "0 (0 to 0.08)"),
        (None, 2.0, None, "more", "not sampled before"),
    ],
)
def test_a_row_shows_on_which_side_of_one_its_interval_lies(
    ratio: float | None, low: float, high: float | None, verdict: Verdict, shown: str
) -> None:
    assert row_interval(row("run", 10, 10, ratio=ratio, ci_low=low, ci_high=high, verdict=verdict)) == shown


def test_a_change_shows_on_which_side_of_one_its_interval_lies(tmp_path: Path) -> None:
    made = explanation(tmp_path)
    change = made.loads[0].changes[0].model_copy(update={"ratio": 0.9866, "ci_low": 0.9655, "ci_high": 0.9979})
    assert (explained.ratio(change), explained.interval(change)) == ("0.987", "0.966 to 0.998")
    load = made.loads[0].model_copy(update={"changes": (change, *made.loads[0].changes[1:])})
    shown = made.model_copy(update={"loads": (load,)})
    assert "0.987x under mix" in explained.headline(shown)
    for page in (text_of(render(shown, tmp_path)), terminal_of(shown)):
        assert "0.966 to 0.998" in page


def test_figures_of_the_kernel_and_of_one_function_show_it_too(tmp_path: Path) -> None:
    limits = {"ratio": 0.9866, "ci_low": 0.9655, "ci_high": 0.9979}
    assert ratio_of(figure(1, 1, "less").model_copy(update=limits)) == "0.987 (0.966 to 0.998)"
    (load,) = explanation(tmp_path).loads
    assert "a ratio of 0.987 (0.966 to 0.998 with" in about(load.focus[0].model_copy(update=limits), load)
    open_end = {"ratio": 2.0, "ci_low": 1.002, "ci_high": None}
    assert "a ratio of 2.000 (1.002 and more with" in about(load.focus[0].model_copy(update=open_end), load)


def test_a_rest_of_one_function_stands_among_the_rests(tmp_path: Path) -> None:
    made = explanation(tmp_path)
    rest = row("other functions of libraries", 1, 1, functions=1, rest=True, symbol="", home="library")
    many = [row(f"function{number}", 1000 - number, 0) for number in range(50)]
    load = made.loads[0].model_copy(update={"rows": (*many, rest)})
    shown = made.model_copy(update={"loads": (load,)})
    page, terminal = text_of(render(shown, tmp_path)), " ".join(terminal_of(shown).split())
    assert "10 further rows, below" in page and "other functions of libraries (1)" in page
    assert "30 further rows" in terminal and "other functions of libraries" in terminal


def test_what_is_not_divided_is_a_count_all_the_same(tmp_path: Path) -> None:
    instructions, times = (each.model_copy(update={"log_share": None}) for each in explanation(tmp_path).loads[0].changes[1:])
    assert (explained.interval(instructions), explained.interval(times)) == ("a count", "follows from both")


def test_what_is_not_sure_counts_what_has_no_row(tmp_path: Path) -> None:
    (load,) = explanation(tmp_path).loads
    assert unsure(load)[0].startswith("31 functions and ways into the kernel")
    one = load.model_copy(update={"rows": (*load.rows[:-1], load.rows[-1].model_copy(update={"functions": 1, "rest": True}))})
    assert unsure(one)[0].startswith("1 function or way into the kernel had too few samples for a row of its own")
    assert unsure(load.model_copy(update={"rows": load.rows[:-1]}))[0].startswith("Rows have intervals")
    lossy = load.model_copy(update={"before": load.before.model_copy(update={"lost": 7})})
    assert "The kernel dropped 7 samples." in unsure(lossy)
    assert any("stood in its queue, is counted" in each for each in unsure(load))
    earlier = load.model_copy(update={"before": load.before.model_copy(update={"voluntary_switches_per_query": None})})
    assert "Time off the CPU (waits for locks, disks, the network) is not sampled." in unsure(earlier)


@pytest.mark.parametrize(
    ("pages", "of", "said"),
    [
        (64, None, "64 pages of 4 KiB, no more than a processor finds at once: huge pages under the code promise little."),
        (300, None, "What that costs here `upshift card` says"),
        (300, card(), "on huge pages: huge pages under the code promise little."),
        (300, card(calls=calls(steady(12), steady(31), steady(15))), "31.0 ns here, and 15.0 ns on huge pages: huge pages"),
        (300, card(calls=calls(steady(12), wild(31), steady(20))), "in repetitions that do not agree"),
        (300, card(calls=calls(steady(12), steady(31), steady(15), had=False)), "What that costs here `upshift card` says"),
    ],
)
def test_whether_huge_pages_would_pay(tmp_path: Path, pages: int, of: Card | None, said: str) -> None:
    (load,) = explanation(tmp_path).loads
    spread = load.layout[1].model_copy(update={"pages_99": pages})
    load = load.model_copy(update={"layout": (load.layout[0], spread)})
    assert said in about_pages(load, of)


def test_the_page_and_the_terminal_say_whether_huge_pages_would_pay(tmp_path: Path) -> None:
    shown = explanation(tmp_path)
    said = about_pages(shown.loads[0])
    assert said in text_of(render(shown, tmp_path)) and said in " ".join(terminal_of(shown).split())


def test_the_machines_card_is_in_the_explanation_and_answers_its_question(tmp_path: Path) -> None:
    measured = card(calls=calls(steady(12), steady(31), steady(15)))
    (load,) = explanation(tmp_path).loads
    load = load.model_copy(update={"layout": (load.layout[0], load.layout[1].model_copy(update={"pages_99": 300}))})
    made = explanation(tmp_path).model_copy(update={"loads": (load,), "card": measured})
    for said in (text_of(render(made, tmp_path)), " ".join(terminal_of(made).split())):
        assert "31.0 ns here, and 15.0 ns on huge pages: huge pages under the code are worth a measurement" in said
        assert "An empty system call costs 140 ns" in said and "`upshift card` says" not in said


def test_a_card_that_could_not_be_measured_is_said(tmp_path: Path) -> None:
    made = explanation(tmp_path).model_copy(update={"card_lacking": "the machine card was not measured: no cargo"})
    for said in (text_of(render(made, tmp_path)), " ".join(terminal_of(made).split())):
        assert "The machine card was not measured: no cargo." in said


def test_the_processors_slots_are_told_or_why_they_are_not(tmp_path: Path) -> None:
    made = explanation(tmp_path)
    (load,) = made.loads
    lacking = made.model_copy(update={"loads": (load.model_copy(update={"slots_lacking": "perf counts no instructions"}),)})
    slots = Slots(retiring=0.2, bad_speculation=0.05, frontend_bound=0.503, backend_bound=0.247)
    sides = {name: getattr(load, name).model_copy(update={"slots": slots}) for name in ("before", "after")}
    counted = made.model_copy(update={"loads": (load.model_copy(update=sides),)})

    def both(each: Explanation) -> tuple[str, str]:
        return text_of(render(each, tmp_path)), " ".join(terminal_of(each).split())

    assert all("Top-down figures are not available here: perf counts no instructions." in each for each in both(lacking))
    for told in both(counted):
        assert "fetching was too slow 50.3% 50.3%" in told and "not available" not in told and "core's other thread" not in told
    assert not any("op-down" in each for each in both(made))


def test_of_the_kernel_only_what_is_shown_is_said(tmp_path: Path) -> None:
    (load,) = explanation(tmp_path).loads
    assert load.kernel
    network, wake_ups, other = load.kernel.groups
    assert [why_kernel(each) for each in load.kernel.groups] == [
        "cheaper calls",
        "fewer calls, costlier calls",
        "more time; calls were not counted",
    ]
    vague = network.model_copy(update={"us_a_call": network.calls})
    assert why_kernel(vague) == "less time; calls or their cost: not told apart"
    assert why_kernel(vague.model_copy(update={"us": network.calls})) == "not told apart"
    told_by_cost, unclear, uncounted = (
        about_kernel(load.model_copy(update={"kernel": load.kernel.model_copy(update={"groups": groups})}))
        for groups in ((network,), (vague,), (other,))
    )
    assert "found more or less of what it needs in the caches" in told_by_cost
    assert "caches" not in unclear and "counted in turns" in unclear
    assert "counted" not in uncounted
    assert "fewer calls, costlier calls" in terminal_of(explanation(tmp_path)) and "wake-ups" in wake_ups.name


def test_the_card_tells_what_the_caches_do_to_a_call(tmp_path: Path) -> None:
    (load,) = explanation(tmp_path).loads
    sizes = ({"lines_99": 2560, "pages_99": 64}, {"lines_99": 1024, "pages_99": 40})
    before, after = (spread.model_copy(update=size) for spread, size in zip(load.layout, sizes, strict=True))
    load = load.model_copy(update={"layout": (before, after)})
    measured = card(exchanges=exchanges({0: 2000, 64 * KIB: 2400, 256 * KIB: 3600}))
    said = about_kernel(load, measured)
    assert "in 164 kB and 66 kB of cache lines, before and after, on 262 kB and 164 kB of pages" in said
    assert "3,000 and 2,400 ns (0.80x) after as much other code as these lines" in said
    assert "3,600 and 3,000 ns (0.83x) after as much as these pages" in said and "do not tell" not in said
    # Fewer lines than the card reaches, and more pages.
    near = about_kernel(load, card(exchanges=exchanges({0: 2000, 192 * KIB: 3600})))
    assert "as these lines. Data" in near and "these pages" not in near
    # A card of an earlier Upshift, and more code than was measured.
    for lacking in (card(exchanges=()), card(exchanges=exchanges({0: 2000, 64 * KIB: 2400})), None):
        assert about_kernel(load, lacking).endswith("Which of the two, these figures do not tell.")
    made = explanation(tmp_path).model_copy(update={"loads": (load,), "card": measured})
    for told in (text_of(render(made, tmp_path)), " ".join(terminal_of(made).split())):
        assert "(0.80x) after as much other code" in told


def test_less_waking_is_told_with_the_interrupts_that_it_takes(tmp_path: Path) -> None:
    (load,) = explanation(tmp_path).loads
    assert load.kernel
    network, wake_ups, _other = load.kernel.groups
    kernel = load.kernel.model_copy(
        update={"groups": (network, wake_ups), "waking": figure(16.0, 10.0, "less"), "interrupts": figure(0.9, 0.6, "less")}
    )

    def said(**changes: object) -> str:
        return about_kernel(load.model_copy(update={"kernel": kernel.model_copy(update=changes)}))

    assert waking_rows(kernel)[0][:3] == ("waking other threads", "16.00 µs", "10.00 µs")
    assert waking_rows(kernel)[1] == ("the rest of the time in the kernel", "14.00 µs", "13.00 µs", "0.93")
    assert waking_rows(kernel)[2][:3] == ("interrupts to the CPUs of the load", "0.90", "0.60")
    assert [row[3].split(" (")[0] for row in waking_rows(kernel)] == ["0.62", "0.93", "0.67"]
    assert "less often idle" in said() and "do not tell" not in said()
    assert "less often idle" not in said(interrupts=figure(0.9, 0.9, "not told apart"))
    # Nearly all of what the kernel takes less is elsewhere.
    assert "less often idle" not in said(waking=figure(0.8, 0.6, "less"), interrupts=figure(0.06, 0.04, "less"))
    assert "less often idle" not in said(interrupts=None)
    assert len(waking_rows(kernel.model_copy(update={"interrupts": None}))) == 2
    assert said(waking=figure(16.0, 15.9, "not told apart")).endswith("Which of the two, these figures do not tell.")
    assert "less often idle" not in said(waking=None) and not waking_rows(kernel.model_copy(update={"waking": None}))
    made = explanation(tmp_path).model_copy(update={"loads": (load.model_copy(update={"kernel": kernel}),)})
    for told in (text_of(render(made, tmp_path)), " ".join(terminal_of(made).split())):
        assert "less often idle" in told and "16.00 µs" in told and "interrupts to the CPUs of the load" in told


def test_a_call_that_was_sampled_and_not_counted_makes_others_no_dearer(tmp_path: Path) -> None:
    """What is sampled for many seconds and counted for few may not have been made while it was counted."""
    (load,) = explanation(tmp_path).loads

    def call(name: str, calls: tuple[float, float], us: tuple[float, float]) -> SystemCall:
        return SystemCall(name=name, calls_before=calls[0], calls_after=calls[1], us_before=us[0], us_after=us[1])

    often, rare = call("sendto", (1.0, 1.0), (10.0, 8.0)), call("pread64", (0.0, 0.001), (3.0, 2.0))
    rarer, gone = call("fsync", (0.001, 0.0), (3.0, 2.0)), call("ppoll", (1.0, 0.0), (10.0, 0.0))
    for counted in ((often,), (often, rare), (often, rarer)):
        said = about_calls(load.model_copy(update={"system_calls": counted}))
        assert "1.00x for how often they are made, times 0.80x for what each takes" in said
        assert ("Without" in said) == (counted != (often,))
    said = about_calls(load.model_copy(update={"system_calls": (often, gone)}))
    assert "0.50x for how often they are made, times 0.80x for what each takes" in said
    assert [us_a_call(each) for each in (often, rare, gone)] == [("10.00", "8.00"), ("", ""), ("", "")]


def test_a_function_that_ran_nowhere_is_said_to_be_there_or_not(tmp_path: Path) -> None:
    (load,) = explanation(tmp_path).loads
    (asked,) = load.focus
    idle = asked.after.model_copy(update={"samples": 0, "lines": (), "callers": ()})
    absent = asked.model_copy(update={"before": idle, "after": idle})
    assert about(absent, load).startswith("Neither server has a function of this name")
    there = absent.model_copy(update={"before": idle.model_copy(update={"own_function": True})})
    assert about(there, load).startswith("It was on no stack in either server")
    alone = asked.model_copy(update={"before": asked.before.model_copy(update={"callers_known": False})})
    assert "not to be compared" in about(alone, load) and "not to be compared" not in about(asked, load)
    assert "30.00 µs a query in 300 samples, without what it called" in about_side(alone.before)
    said = " ".join(terminal_of(explanation(tmp_path)).split())
    assert "step. With it on the stack" in said and "walk<…> core/walk.cc:12 inlined 5.00" in said


def test_a_function_is_not_compared_where_inlined_copies_have_no_names(tmp_path: Path) -> None:
    (load,) = explanation(tmp_path).loads
    (asked,) = load.focus
    sides = {"before": asked.before, "after": asked.after}
    nameless = {name: side.model_copy(update={"inlined_known": False}) for name, side in sides.items()}
    none = asked.model_copy(update={**nameless, "ratio": None, "ci_low": None, "ci_high": None})
    said = about(none, load)
    assert said.startswith("With it on the stack a query spends 30.00 µs before and 5.00 µs after. Copies that were inlined")
    assert "in the figures of plain and new" in said and "not to be compared" in said and "Inlined:" not in said
    after_alone = asked.model_copy(update={"after": nameless["after"]})
    assert "in the figures of new, and the two times are not to be compared" in about(after_alone, load)
    idle = nameless["before"].model_copy(update={"samples": 0, "lines": (), "callers": ()})
    absent = asked.model_copy(update={"before": idle, "after": idle})
    assert about(absent, load).endswith("Copies that were inlined have no names in plain and new, without line tables.")


def test_whose_time_a_function_has_that_shares_its_code_is_said(tmp_path: Path) -> None:
    (load,) = explanation(tmp_path).loads
    (asked,) = load.focus
    assert "same code" not in about(asked, load)
    shared = asked.model_copy(update={"same_code": ("end<int>", "stop"), "same_code_more": 0})
    assert "One of the servers has the same code for it and end<…>, stop: in both" in about(shared, load)
    many = shared.model_copy(update={"same_code": tuple("abcde"), "same_code_more": 1200})
    assert "for it and a, b, c and 1,202 more: in both, the figures are of all of them." in about(many, load)


def test_taken_branches_and_simulated_misses_are_shown_as_indications(tmp_path: Path) -> None:
    made = explanation(tmp_path)
    (load,) = made.loads
    misses = MissCount(caches="I1 32 KiB, LL 1024 KiB", code=1234.5, data=20, last_level=3, branches=40)
    sides = {
        name: getattr(load, name).model_copy(update={"misses": misses, "taken_branches_per_query": 6479.3})
        for name in ("before", "after")
    }
    counted = made.model_copy(update={"loads": (load.model_copy(update=sides),)})
    for told in (text_of(render(counted, tmp_path)), " ".join(terminal_of(counted).split())):
        assert "taken branches a query, in user mode 6,479 6,479" in told
        assert "misses of the first cache for code a query, simulated 1,234.5 1,234.5" in told
        assert "(I1 32 KiB, LL 1024 KiB)" in told and "no verdict on speed" in told
    assert "simulate" not in text_of(render(made, tmp_path))


def test_long_names_are_cut_where_least_is_lost() -> None:
    assert short("std::map<int, std::set<long>>::find") == "std::map<…>::find"
    assert short("(anonymous namespace)::run") == "run"
    assert short("operator<<") == "operator<<"
    assert len(short("x" * 200)) == 70
