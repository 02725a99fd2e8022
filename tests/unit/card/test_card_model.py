from __future__ import annotations

import pytest
from cards import KIB, MACHINE, MIB, calls, card, exchanges, loads, steady
from pydantic import ValidationError

from upshift.card import rows
from upshift.card.model import Card, MachineCard, apart, middle


def test_a_card_survives_as_json_and_takes_no_key_that_it_does_not_know() -> None:
    whole = MachineCard(machine=MACHINE, card=card())
    assert MachineCard.model_validate_json(whole.model_dump_json()) == whole
    with pytest.raises(ValidationError):
        card(invented=1)
    with pytest.raises(ValidationError):
        Card.model_validate({})


def test_what_was_not_had_is_no_figure() -> None:
    had, refused = loads(64 * MIB, steady(2), steady(1)), loads(64 * MIB, steady(2), steady(1), had=False)
    assert card(loads=had).load_ns(64 * MIB, "huge") == steady(1)
    assert card(loads=refused).load_ns(64 * MIB, "huge") == ()
    assert card(loads=refused).load_ns(64 * MIB, "small") == steady(2)
    assert card(loads=had).load_ns(MIB, "small") == ()
    assert card(calls=calls(steady(1), steady(3), steady(2), had=False)).call_ns(4096, "spread", "huge") == ()
    assert card().call_ns(4096, "packed", "small") == steady(12)
    partly = [{**each, "huge_bytes": min(14 * MIB, each["huge_bytes"])} for each in calls(steady(1), steady(3), steady(2))]
    assert card(calls=partly).call_ns(4096, "spread", "huge") == (), "a part on small pages costs what they cost"


def test_figures_are_apart_when_no_repetition_of_one_lies_among_the_others() -> None:
    assert apart((1, 2, 3), (4, 5)) and apart((4, 5), (1, 2, 3))
    assert not apart((1, 2, 4), (3, 5))
    assert not apart((1, 2), (2, 3))
    assert not apart((), (2, 3))
    assert middle((9, 1, 5, 7, 2)) == 5


def test_rows_have_both_kinds_of_pages_and_the_range() -> None:
    found = {name: (small, huge) for name, small, huge in rows.memory_rows(card())}
    assert found["load in 64 MiB"] == ("120 ns (119 to 121)", "80.0 ns (79.2 to 80.8)")
    assert found["call of 4,096 functions, packed"] == ("12.0 ns (11.9 to 12.1)", "")
    refused = card(loads=loads(64 * MIB, steady(120), steady(80), had=False))
    assert rows.memory_rows(refused)[0] == ("load in 64 MiB", "120 ns (119 to 121)", "not had")


def test_what_was_not_measured_says_so_in_its_row() -> None:
    found = {name: rest for name, *rest in rows.other_rows(card(two_cpus_round_trip_us=()))}
    assert found["wake-up and back, two CPUs"] == ["not measured", ""]
    assert found["system call"] == ["140 ns", "139 to 141"]


def test_how_long_idle_cpus_poll_is_a_fact_where_it_is_known() -> None:
    assert dict(rows.facts(card(idle_poll_ns=0)))["idle CPUs"] == "poll 0 µs before they halt"
    assert dict(rows.facts(card(idle_poll_ns=200_000)))["idle CPUs"] == "poll 200 µs before they halt"
    assert "idle CPUs" not in dict(rows.facts(card()))


def test_machine_facts_name_the_machine() -> None:
    found = dict(rows.machine_facts(MACHINE))
    assert found == {
        "CPU": "2 x Invented CPU",
        "memory": "17.2 GB",
        "system": "Some Linux, kernel 6.1.0, virtualised by kvm",
    }


def test_facts_name_the_machine_its_caches_and_what_went_on() -> None:
    found = dict(rows.facts(card(direct_io=False, steal_share=0.031, other_cpu_share=0.5)))
    assert found["product"] == "Some Cloud m1.large"
    assert found["cores"] == "1 thread per core, 1 NUMA node"
    assert "L3 unified 32 MiB" in found["caches"]
    assert found["disk"] == "/srv/data, ext4, no direct I/O"
    assert found["meanwhile"] == "steal 3.1%, other programs 50.0% of the CPUs"
    assert found["counts instructions"] == "no: No such file or directory (os error 2)"
    assert dict(rows.facts(card(instruction_counter=True)))["counts instructions"] == "yes"


def test_an_exchange_lies_on_straight_lines_between_what_was_measured() -> None:
    measured = card(exchanges=exchanges({0: 2000, 64 * KIB: 2400, 256 * KIB: 3600}))
    assert [measured.exchange_ns(each * KIB) for each in (0, 32, 64, 160, 256)] == [2000, 2200, 2400, 3000, 3600]
    assert measured.exchange_ns(257 * KIB) is None
    assert card(exchanges=()).exchange_ns(0) is None


def test_exchanges_have_rows_by_their_code() -> None:
    found = {name: rest for name, *rest in rows.other_rows(card(exchanges=exchanges({0: 2000, MIB: 5600})))}
    assert found["request and answer, no code between"] == ["2,000 ns", "1,980 to 2,020"]
    assert found["request and answer, after 1 MiB of code"] == ["5,600 ns", "5,544 to 5,656"]
