"""E1, the engine: when it speaks, when it says why not, and the times that a comparison takes for it."""

from __future__ import annotations

import json
from typing import Any

import pytest
import shop
from test_plan_asking import Recorded, silent, source
from test_plan_rules import asked, fires, found, scan
from test_plan_rules import silent as says_nothing

from upshift.errors import ServerFailed
from upshift.stack.plans.ask import Asker
from upshift.stack.plans.asked import Asked, Timing
from upshift.stack.plans.comparing import compared
from upshift.stack.plans.engine import incomparable
from upshift.stack.plans.model import Family, Plan
from upshift.stack.plans.report import show_comparison
from upshift.stack.plans.session import Refused
from upshift.stack.plans.statements import NotExplained
from upshift.stack.suspects.model import Finding, Unseen
from upshift.stack.suspects.thresholds import Thresholds

LIMITS = Thresholds()


def timing(ratio: float, low: float, high: float, *, slower_ms: float = 5.0, rounds: int = 5, clock: str = "server") -> Timing:
    slower_is_b = ratio >= 1
    faster_ms = slower_ms / max(ratio, 1 / ratio)
    a_ms, b_ms = (faster_ms, slower_ms) if slower_is_b else (slower_ms, faster_ms)
    known = {"clock": clock, "rounds": rounds, "ratio": ratio, "ci_low": low, "ci_high": high, "confidence": 0.95}
    return Timing.model_validate({**known, "a_ms": a_ms, "b_ms": b_ms})


def timed(taken: Timing | None, other: Family = "mysql", **known: Any) -> Asked:
    both = asked(scan(actual_read=1000, actual_rows=1000, loops=1), scan(actual_read=1000, actual_rows=1000, loops=1))
    assert both.other
    beside = both.other.model_copy(update={"family": other})
    return both.model_copy(update={"other": beside, "timing": taken, **known})


@pytest.mark.parametrize(
    ("ratio", "low", "high", "fire"),
    [
        (1.3, 1.01, 1.6, True),
        (1.29, 1.2, 1.4, False),
        (1.5, 0.99, 2.0, False),
        (1 / 1.3, 0.6, 0.99, True),
        (1 / 1.29, 0.7, 0.8, False),
        (0.5, 0.3, 1.01, False),
        (1.0, 1.0, 1.0, False),
    ],
)
def test_e1_at_its_thresholds(ratio: float, low: float, high: float, fire: bool) -> None:
    assert isinstance(found("E1", timed(timing(ratio, low, high))), Finding) == fire


@pytest.mark.parametrize(("slower_ms", "fire"), [(0.1, True), (0.099, False)])
def test_e1_is_silent_of_what_takes_no_time(slower_ms: float, fire: bool) -> None:
    assert isinstance(found("E1", timed(timing(2.0, 1.9, 2.1, slower_ms=slower_ms))), Finding) == fire
    assert isinstance(found("E1", timed(timing(0.5, 0.4, 0.6, slower_ms=slower_ms))), Finding) == fire


def test_e1_names_the_slower_server_and_the_part_that_it_takes_more() -> None:
    on_b = found("E1", timed(timing(2.0, 1.9, 2.1)))
    assert isinstance(on_b, Finding) and on_b.status == "measured"
    assert on_b.said == "B takes 2.00x the time of A for the same plan and 1,000 rows examined, 1.90x to 2.10x"
    # The statement's share is half of the time, and half of that is what B takes more.
    assert on_b.share == pytest.approx(0.25)
    assert {each.name: each.threshold for each in on_b.evidence if each.threshold} == {
        "times": "E1.times",
        "b_us": "E1.execution_us",
    }
    assert fires("E1", timed(timing(0.5, 0.4, 0.8)), "measured").endswith("1.25x to 2.50x")
    assert fires("E1", timed(timing(0.5, 0.4, 0.8)), "measured").startswith("A takes 2.00x the time of B")


def test_e1_by_the_clients_clock_is_inferred() -> None:
    fires("E1", timed(timing(2.0, 1.9, 2.1, clock="client")), "inferred")


@pytest.mark.parametrize(
    ("ratio", "plain", "fire"),
    [(2.0, 1.3, True), (2.0, 1.2, False), (2.0, None, False), (0.5, 0.7, True), (0.5, 0.8, False), (0.5, 2.0, False)],
)
def test_e1_beside_another_family_needs_the_plain_executions(ratio: float, plain: float | None, fire: bool) -> None:
    taken = timing(ratio, ratio * 0.9, ratio * 1.1)
    assert isinstance(found("E1", timed(taken, "postgres", plain_ratio=plain)), Finding) == fire
    fires("E1", timed(taken, plain_ratio=plain), "measured")


def test_e1_beside_another_family_has_the_share_of_the_smaller_ratio() -> None:
    """Half of the time is the statement's: of 3 by the servers' clocks and 2 of plain executions, half of that is more."""
    taken = timing(3.0, 2.9, 3.1)
    shares = [found("E1", timed(taken, family, plain_ratio=2.0)) for family in ("postgres", "mysql")]
    assert [each.share for each in shares if isinstance(each, Finding)] == pytest.approx([0.5 / 2, 0.5 * 2 / 3])


def test_e1_says_why_it_sees_nothing() -> None:
    for each, why in (
        (timed(None), "stack compare --execute"),
        (timed(None, why_untimed="its plans differ"), "its plans differ"),
        (timed(timing(9, 0, 1e9, rounds=1)), "--rounds 2"),
    ):
        outcome = found("E1", each)
        assert isinstance(outcome, Unseen) and why in outcome.why
    says_nothing("E1", timed(timing(1.0, 0.9, 1.1)))


def plan(rows: float | None = 1000.0, index: str = "i") -> Plan:
    loops = None if rows is None else 1
    return Plan(
        family="mysql",
        tree=scan("range", index=index, actual_read=rows, actual_rows=rows, loops=loops),
        executed=rows is not None,
    )


@pytest.mark.parametrize(
    ("a", "b", "same", "why"),
    [
        (plan(), plan(), True, None),
        (plan(), plan(), None, None),
        (plan(), plan(1100), True, None),
        (plan(1100), plan(), True, None),
        (plan(0), plan(1), True, None),
        (plan(), plan(1101), True, "A examines 1,000 rows, B 1,101"),
        (plan(1101), plan(), True, "A examines 1,101 rows, B 1,000"),
        (plan(), plan(index="j"), True, "its plans differ"),
        (plan(), plan(), False, "its answers differ"),
        (plan(), None, None, "not executed for its plan"),
        (plan(), plan(None), None, "not executed for its plan"),
    ],
)
def test_only_what_both_execute_alike_is_timed(a: Plan, b: Plan | None, same: bool | None, why: str | None) -> None:
    said = incomparable(a, b, same, LIMITS)
    assert said is None if why is None else said and why in said


class Clocked(Recorded):
    """A server whose own clock shows these milliseconds, and that notes each execution in a log of both servers."""

    def __init__(self, family: shop.Family, own_ms: list[float], log: list[str], name: str, fails_at: int = 99) -> None:
        super().__init__(family)
        self._own_ms, self._log, self._name, self._fails_at, self._executed = own_ms, log, name, fails_at, 0

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        answer = super().ask(sql)
        if "ANALYZE" not in sql:
            return answer
        self._executed += 1
        if self._executed == self._fails_at:
            raise Refused("1969", "max_statement_time exceeded")
        self._log.append(self._name)
        ms = self._own_ms[self._executed % len(self._own_ms)]
        if self.family == "postgres":
            whole = answer[0][0]
            return [([{**whole[0], "Execution Time": ms}],)]
        if self.family == "mysql":
            given = json.loads(answer[0][0])
            return [(json.dumps({**given, "query_plan": {**given["query_plan"], "actual_last_row_ms": ms}}),)]
        given = json.loads(answer[0][0])
        return [(json.dumps({**given, "query_block": {**given["query_block"], "r_total_time_ms": ms}}),)]

    def stream(self, sql: str) -> Any:
        self._log.append(self._name.lower())
        return super().stream(sql)


FAMILIES: tuple[shop.Family, ...] = ("mysql", "mariadb", "postgres")


@pytest.mark.parametrize("family", FAMILIES)
def test_two_servers_of_which_one_is_slower(family: shop.Family, capsys: pytest.CaptureFixture[str]) -> None:
    log: list[str] = []
    askers = Asker(Clocked(family, [30.0, 30.6], log, "A")), Asker(Clocked(family, [48.0, 49.5, 48.9], log, "B"))
    report = compared(source("full"), askers, ("a", "b"), LIMITS, execute=True, rounds=3, progress=silent)
    (each,) = report.statements
    assert "".join(log) == "AB" + "abba" + "ABBA" * 3
    assert each.timing and each.timing.clock == "server" and each.timing.rounds == 3
    assert each.timing.ratio == pytest.approx(1.61, abs=0.03) and each.timing.a_ms == pytest.approx(30.3, abs=0.6)
    (engine,) = [one for one in report.judgement.findings if one.suspect == "E1"]
    assert engine.said.startswith("B takes 1.6") and engine.statements[0].statement == each.statement
    show_comparison(report)
    said = capsys.readouterr().out
    assert "in turns: A 30.3 ms, B 4" in said and "in the server: B takes 1.6" in said and "at 95.0%" in said
    assert "E1 engine: at most" in said and "evidence: times 1.6" in said


@pytest.mark.parametrize("family", FAMILIES)
def test_each_server_says_how_long_it_executed(family: shop.Family) -> None:
    asker = Asker(session := Clocked(family, [1.5], [], "A"))
    assert asker.plan(shop.STATEMENTS["full"], execute=True).execution_ms == 1.5
    session.sent.clear()
    assert asker.execution_ms(shop.STATEMENTS["full"]) == 1.5
    assert session.sent[0] == "BEGIN READ ONLY" and session.sent[-1] == "ROLLBACK" and len(session.sent) == 3
    with pytest.raises(NotExplained, match="only a SELECT"):
        asker.execution_ms(shop.STATEMENTS["update"])
    assert len(session.sent) == 3


def test_mysql_without_versions_of_its_json_says_it_too() -> None:
    asker = Asker(Recorded("mysql", versions=False))
    assert asker.plan(shop.STATEMENTS["full"], execute=True).execution_ms == asker.execution_ms(shop.STATEMENTS["full"]) == 2.35


def test_a_union_of_mariadb_has_the_clients_clock() -> None:
    askers = Asker(Recorded("mariadb")), Asker(Recorded("mariadb"))
    with pytest.raises(NotExplained, match="does not say how long"):
        askers[0].execution_ms(shop.STATEMENTS["union"])
    report = compared(source("union"), askers, ("a", "b"), LIMITS, execute=True, rounds=2, progress=silent)
    taken = report.statements[0].timing
    assert taken and taken.clock == "client" and taken.a_ms > 0


def test_what_says_nothing_of_the_engines_is_not_executed_again(capsys: pytest.CaptureFixture[str]) -> None:
    log: list[str] = []
    askers = Asker(Clocked("mariadb", [1.0], log, "A")), Asker(Clocked("postgres", [9.0], log, "B"))
    report = compared(source("join_left"), askers, ("a", "b"), LIMITS, execute=True, rounds=3, progress=silent)
    assert "".join(log) == "ABabba" and report.statements[0].timing is None
    assert [each.why for each in report.judgement.unseen if each.suspect == "E1"] == ["its plans differ"]
    show_comparison(report)
    assert "says nothing of the engines: its plans differ" in capsys.readouterr().out


def test_a_round_that_fails_leaves_the_rest_of_the_comparison() -> None:
    log: list[str] = []
    askers = Asker(Clocked("mariadb", [1.0], log, "A")), Asker(Clocked("mariadb", [9.0], log, "B", fails_at=4))
    report = compared(source("full"), askers, ("a", "b"), LIMITS, execute=True, rounds=3, progress=silent)
    (each,) = report.statements
    assert each.same_answer and each.timing is None and each.why_untimed and "max_statement_time" in each.why_untimed


def test_a_server_that_goes_away_between_rounds_ends_the_command() -> None:
    class Gone(Clocked):
        def stream(self, sql: str) -> Any:
            raise ServerFailed("the server is gone", "look at its log")

    askers = Asker(Clocked("mariadb", [1.0], [], "A")), Asker(Gone("mariadb", [1.0], [], "B"))
    with pytest.raises(ServerFailed):
        compared(source("full"), askers, ("a", "b"), LIMITS, execute=True, rounds=3, progress=silent)


def test_without_an_execution_there_are_no_times() -> None:
    askers = Asker(Recorded("mysql")), Asker(Recorded("mysql"))
    report = compared(source("full"), askers, ("a", "b"), LIMITS, execute=False, rounds=3, progress=silent)
    (each,) = report.statements
    assert each.timing is None and each.why_untimed is None
    (unseen,) = [one for one in report.judgement.unseen if one.suspect == "E1"]
    assert "--execute" in unseen.why
