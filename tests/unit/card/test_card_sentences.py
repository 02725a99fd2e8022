"""What a card says, and that it says nothing of what was not measured."""

from __future__ import annotations

from typing import Any

import pytest
from cards import KIB, MIB, calls, card, exchanges, loads, steady, wild

from upshift.card import sentences as rules
from upshift.card.rows import size
from upshift.card.sentences import sentences


def test_a_quiet_machine_has_a_sentence_for_each_part_and_no_warning() -> None:
    said = sentences(card())
    assert len(said) == 9
    assert not any("meanwhile" in each or "care" in each for each in said)


def test_a_card_without_figures_claims_nothing() -> None:
    # How long idle CPUs poll is known without measuring: one number.
    units = ("_ns", "_us", "_ghz", "_p50", "_p99")
    lists = [name for name in card().model_dump() if name.endswith(units) and name != "idle_poll_ns"]
    assert len(lists) == 11
    empty = card(**dict.fromkeys(lists, ()), loads=(), calls=(), exchanges=(), direct_io=False)
    assert sentences(empty) == ("What a read from the disk costs is not known: ext4 refuses direct I/O.",)


def test_a_last_cache_that_works_is_said_with_its_latency() -> None:
    said = rules.caches(card())
    assert "1.30 ns in 16 KiB and 100 ns in 256 MiB" in said
    assert said.endswith("In 4 MiB, within the 32 MiB of the last cache, it costs 14.0 ns.")


def test_a_last_cache_that_is_as_slow_as_memory_is_named() -> None:
    slow = [
        *loads(16 * KIB, steady(1.3), steady(1.3)),
        *loads(4 * MIB, steady(95.0), steady(90.0)),
        *loads(256 * MIB, steady(160.0), steady(100.0)),
    ]
    said = rules.caches(card(loads=slow))
    assert "costs 90.0 ns, 90% of what memory costs. This machine has little of that cache" in said


@pytest.mark.parametrize(
    "changes",
    [
        {"caches": ()},
        # Nothing that was measured is far beyond the cache, or within it alone.
        {"loads": loads(16 * KIB, steady(1.3), steady(1.3)) + loads(64 * MIB, steady(90), steady(80))},
        {"loads": loads(16 * KIB, steady(1.3), steady(1.3)) + loads(256 * MIB, steady(90), steady(80))},
        {"loads": [row for size in (16 * KIB, 64 * MIB, 256 * MIB) for row in loads(size, steady(1.3), steady(1.3))]},
        {"loads": [row for size in (16 * KIB, 4 * MIB, 64 * MIB) for row in loads(size, steady(1.3), steady(1.3))]},
    ],
)
def test_nothing_is_said_of_a_cache_that_the_loads_do_not_show(changes: dict[str, Any]) -> None:
    said = rules.caches(card(**changes))
    assert said.startswith("A load costs 1.30 ns in 16 KiB") and "last cache" not in said


def test_a_cache_keeps_its_fraction_of_a_mebibyte() -> None:
    sizes = (48 * KIB, 1280 * KIB, 2 * MIB, 28160 * KIB, 1536 * MIB)
    assert [size(each) for each in sizes] == ["48 KiB", "1.25 MiB", "2 MiB", "27.5 MiB", "1,536 MiB"]


def test_one_footprint_is_no_comparison() -> None:
    assert rules.caches(card(loads=loads(16 * KIB, steady(1.3), steady(1.3)))) == ""


@pytest.mark.parametrize(
    ("small", "huge", "said"),
    [
        (steady(258), steady(171), "Huge pages make loads cheaper here: a load in 64 MiB costs 258 ns without and 171 ns"),
        (steady(178), steady(171), "Huge pages bring little for data here: a load in 64 MiB costs 178 ns without and 171 ns"),
        (steady(171), steady(178), "Huge pages bring little"),
        (wild(258), steady(171), "cannot be told"),
        (wild(178), steady(171), "cannot be told"),
    ],
)
def test_huge_pages_for_data(small: Any, huge: Any, said: str) -> None:
    assert said in rules.data_pages(card(loads=loads(64 * MIB, small, huge)))


def test_huge_pages_that_were_not_had_are_not_judged() -> None:
    said = rules.data_pages(card(loads=loads(64 * MIB, steady(258), steady(171), had=False)))
    assert "258 ns" in said and "171" not in said and "not known" in said
    code = rules.code_layout(card(calls=calls(steady(12), steady(31), steady(20), had=False)))
    assert "20.0" not in code and code.endswith("The kernel gave no huge pages for code.")


@pytest.mark.parametrize(
    ("packed", "spread", "huge", "said"),
    [
        (steady(12), steady(31), steady(20), ("Layout of code matters here", "make that 20.0 ns", "worth a measurement")),
        (steady(12), steady(31), steady(30), ("Layout of code matters here", "change little about that (30.0 ns)")),
        (steady(12), steady(13), steady(13), ("Layout of code matters little here", "change little")),
        (steady(12), wild(13), steady(13), ("Whether layout of code matters here cannot be told", "Whether huge pages change")),
    ],
)
def test_layout_of_code(packed: Any, spread: Any, huge: Any, said: tuple[str, ...]) -> None:
    found = rules.code_layout(card(calls=calls(packed, spread, huge)))
    assert all(part in found for part in said), found


def test_layout_is_judged_by_the_most_functions() -> None:
    few = [{**row, "functions": 512, "call_ns": steady(9)} for row in calls(steady(9), steady(9), steady(9))]
    assert "4,096 functions" in rules.code_layout(card(calls=few + calls(steady(12), steady(31), steady(20))))


@pytest.mark.parametrize(("idle_poll_ns", "said"), [(0, True), (200_000, False), (None, False)])
def test_a_dear_wake_up_of_cpus_that_halt_is_said_with_the_remedy(idle_poll_ns: int | None, said: bool) -> None:
    dear = card(same_cpu_round_trip_us=steady(4), two_cpus_round_trip_us=steady(40), idle_poll_ns=idle_poll_ns)
    assert ("guest_halt_poll_ns" in rules.wake_up(dear)) is said
    near = card(same_cpu_round_trip_us=steady(4), two_cpus_round_trip_us=steady(6), idle_poll_ns=idle_poll_ns)
    assert "guest_halt_poll_ns" not in rules.wake_up(near)


def test_a_dear_wake_up_is_said_with_what_it_does_to_one_connection() -> None:
    dear = rules.wake_up(card(same_cpu_round_trip_us=steady(4), two_cpus_round_trip_us=steady(152)))
    assert "4.00 µs on one CPU and 152 µs on two" in dear and "one connection" in dear
    assert "a thread pool, where the server has one, is worth a measurement" in dear
    near = rules.wake_up(card(same_cpu_round_trip_us=steady(4), two_cpus_round_trip_us=steady(6)))
    assert "one connection" not in near and "thread pool" not in near
    assert "one connection" not in rules.wake_up(
        card(same_cpu_round_trip_us=(1, 9, 4, 4, 4), two_cpus_round_trip_us=(8, 99, 30))
    )
    assert rules.wake_up(card(two_cpus_round_trip_us=())).endswith("there is no second CPU.")


def test_commits_a_second_follow_from_the_quicker_way_to_sync() -> None:
    said = rules.commits(card())
    assert "1,000 µs with fsync and 500 µs with fdatasync" in said
    assert "at most 2,000 times a second" in said
    assert rules.commits(card(fdatasync_us_p50=steady(0.0))), "a file system in memory syncs in no time"


def test_the_disk_and_the_system_call_are_said_with_their_figures() -> None:
    assert "90.0 µs from this disk, one in a hundred 400 µs or more" in rules.disk_reads(card())
    assert "An empty system call costs 140 ns" in rules.system_call(card())
    assert "A context switch costs 1.50 µs" in rules.context_switch(card())


def test_a_page_cache_is_named_where_the_disk_is_slow_in_every_repetition() -> None:
    assert "upshift cache" in rules.disk_reads(card(read_us_p50=steady(25)))
    assert "upshift cache" not in rules.disk_reads(card(read_us_p50=(25, 25, 19, 25, 25)))


def test_a_folder_in_memory_is_no_disk() -> None:
    memory = card(file_system="tmpfs", folder="/dev/shm/x")
    assert rules.disk_reads(memory) == "/dev/shm/x lies in memory (tmpfs): no disk was measured."
    assert rules.commits(memory) == ""


def test_a_busy_machine_is_named() -> None:
    assert rules.disturbed(card(steal_share=0.019, other_cpu_share=0.049)) == ""
    said = rules.disturbed(card(steal_share=0.03, other_cpu_share=0.77))
    assert "hypervisor gave 3%" in said and "other programs used 77%" in said
    assert "hypervisor" not in rules.disturbed(card(other_cpu_share=0.77))


def test_figures_that_do_not_repeat_are_named_and_no_others() -> None:
    said = rules.unsteady(card(fsync_us_p50=wild(900), loads=loads(64 * MIB, wild(200), steady(100))))
    assert said.endswith("25% apart: load in 64 MiB, 4 KiB pages; write of 512 B and fsync, p50.")


def test_what_was_not_had_and_the_slowest_of_a_hundred_are_not_said_to_disagree() -> None:
    refused = loads(64 * MIB, steady(200), wild(100), had=False)
    assert rules.unsteady(card(loads=refused, read_us_p99=wild(900), fsync_us_p99=wild(900), fdatasync_us_p99=wild(9))) == ""


@pytest.mark.parametrize(
    ("medians_ns", "said"),
    [
        (
            {0: 2000, 4 * MIB: 16000},
            "takes 2,000 ns when no other code ran before, and 16,000 ns after 4 MiB of it: the kernel's",
        ),
        ({0: 2000, 4 * MIB: 2100}, "after 4 MiB of it: code of the server changes little about it."),
        ({0: 2000}, ""),
        ({}, ""),
    ],
)
def test_what_a_servers_code_does_to_its_system_calls(medians_ns: dict[int, float], said: str) -> None:
    found = rules.exchanges(card(exchanges=exchanges(medians_ns)))
    assert said in found and bool(found) == bool(said)


def test_exchanges_that_do_not_agree_say_nothing_of_the_caches() -> None:
    vague = [{"code_bytes": 0, "exchange_ns": wild(2000)}, {"code_bytes": MIB, "exchange_ns": wild(3000)}]
    assert rules.exchanges(card(exchanges=vague)).endswith("in repetitions that do not agree.")
