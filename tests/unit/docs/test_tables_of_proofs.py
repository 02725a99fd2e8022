"""What a proof came to is drawn as it is: what was not counted, what was wrong, what differs on purpose."""

from __future__ import annotations

from typing import Any

from test_tables import lines

MACHINE = {"cpus": 2, "cpu": "a CPU", "memory_bytes": 2**34, "os": "Debian"}
STEADY = {"what": "packet 3\n  stock: 1", "statement": "SELECT a FROM t", "steady": True}
ONCE = {"what": "packet 13", "statement": "-- COM_STMT_EXECUTE s1", "steady": False}


def old() -> dict[str, Any]:
    mix = {"part": "mix", "statements": 10, "differences": [], "allowed": 0}
    random = {"part": "random", "statements": 2000, "differences": [STEADY, ONCE], "allowed": 3}
    storm = {"part": "storm", "statements": 500, "wrong": ["a row"]}
    return {"schema_version": 1, "short_paths": {"Ps_trim_spaces_used": 7}, "parts": [mix, random, storm]}


def new() -> dict[str, Any]:
    mix = {"name": "mix", "statements": 10, "wrong": [], "short_paths": {"Ps_trim_spaces_used": 1}}
    random = {"name": "random", "statements": 2000, "wrong": ["packet 3"], "short_paths": {"Ps_trim_spaces_used": 6}}
    storm = {"name": "storm", "statements": 500, "wrong": ["a row"], "short_paths": {"Ps_trim_spaces_used": 0}, "detail": {}}
    mtr = {
        "name": "mtr",
        "statements": 900,
        "wrong": [],
        "unsteady": ["main.slow"],
        "failed_on_both": ["main.old"],
        "differ_on_purpose": ["main.help"],
        "detail": {"tests": "main with all switches ON"},
    }
    details = ({"differences": [], "allowed": 0}, {"differences": [STEADY, ONCE], "allowed": 3})
    return {
        "schema_version": 2,
        "parts": [*({**one, "detail": it} for one, it in zip((mix, random), details, strict=True)), storm, mtr],
    }


def test_a_proof_has_the_same_rows_in_either_form() -> None:
    for result in (old(), new()):
        assert lines("proof", result)[2:] == [
            "| mix | 10 | 0 | 0 | 0 |",
            "| random | 2,000 | 1 | 3 | 0 |",
            "| storm | 500 | 0 | 0 | 1 |",
        ]
        assert lines("unsteady", result)[2:] == ["| packet 13 | `-- COM_STMT_EXECUTE` | 1 |"]


def test_what_was_not_counted_is_no_zero() -> None:
    of = {"of": "trim_spaces"}
    assert lines("proven", old() | of)[2:] == ["| mix and random | 2,010 | 1 | 7 |", "| storm | 500 | 1 | not counted |"]
    assert lines("proven", new() | of)[2:] == ["| mix | 10 | 0 | 1 |", "| random | 2,000 | 1 | 6 |", "| storm | 500 | 1 | 0 |"]
    (key,) = lines("proven_key", old() | of)
    assert (
        key.startswith('proven = "Its MTR tests.') and "storm: 500 statements, 1 wrong, short paths taken: not counted." in key
    )


def test_counters_have_a_column_for_each_part_that_counted() -> None:
    assert lines("short_paths", old())[0] == "| counter | short paths taken |"
    assert lines("short_paths", new())[-1] == "| `Ps_trim_spaces_used` | 1 | 6 | 0 |"


def test_tests_that_differ_on_purpose_and_the_baselines_own_failures_are_named() -> None:
    assert lines("proof_tests", new())[2:] == [
        "| main with all switches ON | 900 | none | `main.help` | `main.old` | `main.slow` |"
    ]


def test_each_patch_has_a_row_with_what_else_was_taken() -> None:
    part = {"name": "mix", "statements": 900, "allowed": 2, "wrong": [], "unsteady": ["packet 1"]}
    taken = {"Ps_trim_spaces_used": 5, "Ps_idle_events_used": 3}
    row = {"patch": "trim_spaces", "short_paths": taken, "others_taken": ["Ps_idle_events_used"], "parts": [part, part]}
    result = {"schema_version": 1, "machine": MACHINE, "seed": 4, "rows": [row]}
    assert lines("each_patch", result)[-1] == "| trim_spaces | 1,800 | 0 | 4 | 2 | 5 | 3 |"


def test_system_calls_have_a_column_a_call_and_noise_has_none() -> None:
    stock = {
        "server": "stock",
        "calls_per_statement": {"recvfrom": 3.0, "ppoll": 1.0, "futex": 0.001},
        "all_per_statement": 4.0,
    }
    patched = {"server": "patched", "calls_per_statement": {"recvfrom": 1.0}, "all_per_statement": 1.0}
    drawn = lines("system_calls", {"machine": MACHINE, "workload": "point_select", "rows": [stock, patched]})
    assert drawn[2] == "| server | `ppoll` | `recvfrom` | all system calls a statement |"
    assert drawn[-2:] == ["| stock | 1.00 | 3.00 | 4.00 |", "| patched | 0.00 | 1.00 | 1.00 |"]


def test_an_idea_without_a_patch_says_why_and_where_it_was_measured() -> None:
    one = {"name": "once", "what": "One commit.", "why": "It saved nothing.", "result": "docs/measurements/x/README.md"}
    drawn = lines("dropped", {"dropped": [one, {"name": "blocks", "what": "Blocks.", "why": "Not written."}]})
    assert drawn == [
        "- `once`: One commit. It saved nothing. ([measured](../measurements/x/README.md))",
        "- `blocks`: Blocks. Not written.",
    ]
