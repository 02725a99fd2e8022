"""How a suspect becomes an experiment: what is sent as the application did, what is changed, and what cannot be proven."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from prove_examples import EQUAL, chatting, experiment, finding, scanning, slices
from story import Story

from upshift.errors import UsageError
from upshift.measure.model import Comparison, Verdict
from upshift.options import Options
from upshift.server.kind import Program
from upshift.stack.change import Given, described, read_given, refuse_unprovable, variants_of
from upshift.stack.evidence import Evidence
from upshift.stack.laboratory import MYSQL, laboratory_of
from upshift.stack.proof import Change, NotProvableError, change_of, proof_of
from upshift.stack.prove import (
    experiment_of,
    failed,
    find_finding,
    measuring,
    of_suspect,
    open_at_once,
    refuse_forged,
    refuse_uncounted,
    sent_by,
    told,
    workload_text,
)
from upshift.stack.read import read_evidence
from upshift.stack.suspects.rules import judge
from upshift.stack.suspects.thresholds import Thresholds
from upshift.workload.model import Workload

PRICE = "SELECT price FROM item WHERE id = ?"
BINARY = Path("/usr/sbin/mysqld")
PROGRAM = Program(kind="mysql", binary=BINARY)


def evidence(folder: Path, fault: str, *, commits: bool = True) -> Evidence:
    """Of one connection that sends one statement 300 times, with one fault or none."""
    story = Story()
    app = story.connection()
    app.prepares(PRICE)
    for number in range(300):
        if commits:
            with app.transaction():
                _send(app, number, fault)
        else:
            _send(app, number, fault)
    return read_evidence(story.export(folder))


def _send(app, number: int, fault: str) -> None:  # type: ignore[no-untyped-def]
    if fault == "C2":
        app.asks(PRICE.replace("?", str(number)), rows=1, wait_us=300)
        return
    if fault == "C1":
        app.prepares(PRICE)
    app.executes(PRICE, number, rows=0 if fault == "C3" else 1, cursor=fault == "C3")
    for _ in range(10 if fault == "C3" else 0):
        app.fetches(PRICE, rows=2, size=2)


@pytest.mark.parametrize(
    ("fault", "sent", "change"),
    [
        ("C1", (), ("--protocol", "recorded-kept")),
        ("C2", (), ("--protocol", "prepared")),
        ("C3", (), ("--fetch-size", "0")),
    ],
)
def test_the_fault_is_sent_and_then_not(tmp_path: Path, fault: str, sent: tuple[str, ...], change: tuple[str, ...]) -> None:
    seen = evidence(tmp_path, fault)
    assert sent_by(seen) == sent
    refuse_unprovable(fault, Given(), MYSQL)
    refuse_forged(finding(seen, fault), seen)
    now, then = variants_of(finding(seen, fault), sent, PROGRAM, Given(), MYSQL)
    assert (now.client, then.client) == (sent, sent + change)
    assert change_of(now, then) == Change(client=change)
    assert now.program == then.program


def test_commits_are_proven_by_the_servers_settings(tmp_path: Path) -> None:
    story = Story()
    app = story.connection()
    for number in range(300):
        with app.transaction(commit_us=900):
            app.asks(f"UPDATE item SET price = {number} WHERE id = 1")
    seen = read_evidence(story.export(tmp_path))
    sent = sent_by(seen)
    refuse_unprovable("E3", Given(), MYSQL)
    now, then = variants_of(finding(seen, "E3"), sent, PROGRAM, Given(), MYSQL)
    assert now.client == then.client == sent and now.program == then.program
    assert now.settings == {"innodb_flush_log_at_trx_commit": "1", "sync_binlog": "1"}
    assert then.settings == {"innodb_flush_log_at_trx_commit": "2", "sync_binlog": "0"}
    # What a user names takes the place of the change, not of what it is changed from.
    given = Given(settings={"binlog_order_commits": "OFF"}, settings_now={"sync_binlog": "10"})
    now, then = variants_of(finding(seen, "E3"), sent, PROGRAM, given, MYSQL)
    assert now.settings == {"innodb_flush_log_at_trx_commit": "1", "sync_binlog": "10"}
    assert then.settings == {**now.settings, "binlog_order_commits": "OFF"}


def test_a_tuned_application_has_nothing_to_prove(tmp_path: Path) -> None:
    outcomes = judge(evidence(tmp_path, ""), Thresholds())
    with pytest.raises(UsageError, match="no finding C1"):
        find_finding(outcomes, "C1")
    with pytest.raises(UsageError, match="no suspect 'X1'"):
        find_finding(outcomes, "X1")


def test_what_a_replay_cannot_change_is_not_provable(tmp_path: Path) -> None:
    story = Story()
    app = story.connection()
    app.prepares(PRICE)
    for number in range(100):
        with app.transaction():
            for item in range(20):
                app.executes(PRICE, number + item, rows=1)
    outcomes = judge(read_evidence(story.export(tmp_path)), Thresholds())
    assert find_finding(outcomes, "C6").suspect == "C6"
    with pytest.raises(NotProvableError, match="C6 cannot be proven here"):
        refuse_unprovable("C6", Given(), MYSQL)


@pytest.mark.parametrize("suspect", ["C1", "C2", "C3", "C5", "C11", "C13"])
def test_forged_evidence_of_what_the_trace_does_not_have_is_refused(tmp_path: Path, suspect: str) -> None:
    """A report may say that a tuned application chats or logs in all the time: a replay of its trace does not."""
    seen = evidence(tmp_path / "tuned", "")
    forged = finding(evidence(tmp_path / "guilty", "C1"), "C1").model_copy(update={"suspect": suspect, "share": 0.9})
    with pytest.raises(NotProvableError, match=f"does not show {suspect}"):
        experiment_of(seen, (forged,), suspect, Given(), BINARY)


def test_a_missing_index_is_proven_by_data_with_it(tmp_path: Path) -> None:
    seen = scanning(tmp_path / "export")
    file = tmp_path / "fix.sql"
    file.write_text("CREATE INDEX by_name ON item (name)")
    given = read_given([file], (), ("innodb-buffer-pool-size=64M",))
    refuse_unprovable("P2", given, MYSQL)
    now, then = variants_of(finding(seen, "P2"), ("--protocol", "text"), PROGRAM, given, MYSQL)
    assert (now.sql, then.sql) == ((), (file,))
    assert now.settings == then.settings == {"innodb_buffer_pool_size": "64M"} and now.client == then.client
    assert change_of(now, then) == Change(sql={"fix.sql": "CREATE INDEX by_name ON item (name)"})
    assert "data changed by fix.sql" in described(then) and "fix.sql" not in described(now)


def test_what_the_server_does_is_proven_by_a_setting(tmp_path: Path) -> None:
    found = finding(scanning(tmp_path), "P2")
    now, then = variants_of(found, (), PROGRAM, read_given((), ("read_rnd_buffer_size=8M",), ("sync_binlog=1",)), MYSQL)
    assert now.settings == {"sync_binlog": "1"}
    assert then.settings == {"sync_binlog": "1", "read_rnd_buffer_size": "8M"}
    # The laboratory's own settings count.
    with pytest.raises(UsageError, match="both servers have innodb_buffer_pool_size=1G: nothing is changed"):
        variants_of(found, (), PROGRAM, read_given((), ("innodb_buffer_pool_size=1G",), ()), MYSQL)
    same = read_given((), ("innodb_buffer_pool_size=1G",), ("innodb_buffer_pool_size=64M",))
    assert variants_of(found, (), PROGRAM, same, MYSQL)[1].settings == {"innodb_buffer_pool_size": "1G"}


def test_a_change_must_be_named_and_be_the_suspects(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"P2 .no index. is proven by a change that you name") as asked:
        refuse_unprovable("P2", read_given((), (), ("sync_binlog=1",)), MYSQL)
    assert "--sql" in asked.value.hint and not isinstance(asked.value, NotProvableError)
    with pytest.raises(UsageError, match="neither SQL nor a setting"):
        refuse_unprovable("C1", Given(settings={"a": "1"}), MYSQL)
    refuse_unprovable("C1", Given(settings_now={"a": "1"}), MYSQL)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (("sync_binlog",), "--setting sync_binlog is not NAME=VALUE"),
        (("=1",), "is not NAME=VALUE"),
        (("a-b=1", "a_b=2"), "a_b twice"),
    ],
)
def test_what_is_no_setting(settings: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_given((), settings, ())


def test_sql_that_is_not_there_is_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--sql: there is no file of SQL .*absent\.sql"):
        read_given([tmp_path / "absent.sql"], (), ())


def test_a_server_that_the_laboratory_does_not_start_is_refused(tmp_path: Path) -> None:
    assert laboratory_of(evidence(tmp_path / "mysql", "C1").trace).kind_name == "mysql"
    story = Story("mysql", "10.11.19-MariaDB")
    story.connection().asks("SELECT 1", rows=1)
    with pytest.raises(NotProvableError, match="this trace is of a MariaDB") as refused:
        laboratory_of(read_evidence(story.export(tmp_path / "other")).trace)
    assert "stack compare" in refused.value.hint


def unit(folder: Path, suspect: str, seen: Evidence) -> str:
    """What is counted while ``suspect`` is proven."""
    text = workload_text(suspect, Path("app.trace"), folder / "before.sql", seen, 4, loop="reads")
    return str(tomllib.loads(text)["unit"])


def test_both_ways_are_compared_by_what_both_have_the_same_number_of(tmp_path: Path) -> None:
    with_commits, without = evidence(tmp_path / "a", "C3"), evidence(tmp_path / "b", "C3", commits=False)
    units = [unit(tmp_path, suspect, seen) for seen in (with_commits, without) for suspect in ("C1", "C3", "C5", "C11")]
    assert units == ["transaction"] * 4 + ["query"] + ["statement"] * 3


@pytest.mark.parametrize(
    ("text", "commits", "said"),
    [
        (None, False, None),
        ("SET NAMES utf8mb4", False, None),
        ("SELECT @@session.tx_read_only", True, None),
        ("SELECT @@session.tx_read_only", False, "a SELECT that asks the session counts as one"),
        ("USE shop", True, "a replay sends no USE"),
    ],
)
def test_chatter_is_sent_and_then_not(tmp_path: Path, text: str | None, commits: bool, said: str | None) -> None:
    seen = chatting(tmp_path, text, commits=commits)
    found = finding(seen, "C5")
    if said:
        with pytest.raises(NotProvableError, match=said):
            refuse_uncounted(found, seen, MYSQL)
        return
    refuse_uncounted(found, seen, MYSQL)
    refuse_unprovable("C5", Given(), MYSQL)
    now, then = variants_of(found, (), PROGRAM, Given(), MYSQL)
    assert (now.client, then.client) == ((), ("--no-chatter",))


def test_logins_are_sent_and_then_not(tmp_path: Path) -> None:
    story = Story()
    for number in range(100):
        app = story.connection()
        app.asks(f"SELECT price FROM item WHERE id = {number}", rows=1)
        app.ends()
    seen = read_evidence(story.export(tmp_path))
    sent = sent_by(seen)
    assert sent == ("--reconnect",) and open_at_once(seen) == 1
    refuse_forged(finding(seen, "C11"), seen)
    now, then = variants_of(finding(seen, "C11"), sent, PROGRAM, Given(), MYSQL)
    assert (now.client, then.client) == (sent, (*sent, "--no-reconnect"))
    # Whatever the trace, a proof of literals sends what they are about.
    now, then = variants_of(finding(seen, "C11").model_copy(update={"suspect": "C13"}), (), PROGRAM, Given(), MYSQL)
    assert now.client == ("--protocol", "prepare-per-request")
    assert then.client == (*now.client, "--protocol", "prepared")


def test_the_workload_restores_the_dump_and_replays_the_trace(tmp_path: Path) -> None:
    dump = tmp_path / "be{fore}\U0001f600.sql"
    dump.write_text("SELECT 1;")
    seen = evidence(tmp_path / "export", "C1")
    read = tomllib.loads(workload_text("C1", tmp_path / "app.trace", dump, seen, 4, loop="reads"))
    workload = Workload.model_validate({"name": "app", **read})
    assert workload.unit == "transaction"
    assert str(dump) in [part.format() for part in workload.fill.command if "be{{" in part]
    assert workload.load.command[-1] == str(tmp_path / "app.trace")
    assert "--loop=reads" in workload.load.command


def compared(verdict: Verdict, connections: int = 4) -> Comparison:
    return Comparison(
        workload="app",
        held_out=False,
        connections=connections,
        metric="qps",
        arm="changed",
        baseline="as-sent",
        ratio=1.3,
        ci_low=1.2,
        ci_high=1.4,
        confidence=0.95,
        trials=6,
        verdict=verdict,
        trials_needed=None,
    )


@pytest.mark.parametrize(
    ("verdict", "word"),
    [("faster", "proven"), ("slower", "refuted"), ("equivalent", "refuted"), ("inconclusive", "not settled")],
)
def test_what_is_said_depends_on_the_interval(tmp_path: Path, verdict: Verdict, word: str) -> None:
    found = finding(evidence(tmp_path, "C1"), "C1")
    comparison = compared(verdict)
    (line,) = told(found, (comparison, comparison.model_copy(update={"metric": "user_cpu_us_per_query"})), EQUAL)
    assert line.startswith(f"C1 (prepares each time): {word}: ") and "1.30x" in line
    proof = proof_of(found, of_suspect((comparison,)), None, Change(sql={"fix.sql": "ANALYZE TABLE item"}), EQUAL)
    assert proof.change and proof.change.sql == {"fix.sql": "ANALYZE TABLE item"}
    assert proof.verdict == word and [each.verdict for each in proof.measured] == [word]
    assert (proof.measured[0].ci_low, proof.measured[0].ci_high) == (1.2, 1.4)
    assert proof.finding and proof.finding.status == (found.status if word == "not settled" else word)


@pytest.mark.parametrize(("gain", "word"), [(1.0, "refuted"), (0.7, "refuted"), (1.4, "proven")])
def test_an_index_that_does_not_help_refutes_what_the_evidence_says(tmp_path: Path, gain: float, word: str) -> None:
    """The flag of a missing index and its time may mislead, or be forged: the experiment alone decides."""
    found = finding(scanning(tmp_path), "P2")
    assert found.share > 0.5
    (line,) = told(found, experiment(gain), EQUAL)
    assert line.startswith(f"P2 (no index): {word}: ")
    proof = proof_of(found, experiment(gain), None, Change(sql={"fix.sql": "CREATE INDEX by_id ON item (id)"}), EQUAL)
    assert proof.verdict == word and proof.finding and proof.finding.status == word
    assert proof.expected_ratio and proof.expected_ratio > 2


@pytest.mark.parametrize(
    ("share", "ci_high", "word"),
    [
        (0.9, 1.25, "refuted"),
        (0.9, 1.27, "not settled"),
        (0.2, 1.02, "refuted"),
        (0.2, 1.03, "not settled"),
        (1.0, 1.57, "refuted"),
        (1.0, 1.6, "not settled"),
    ],
)
def test_next_to_nothing_of_what_was_expected_is_a_refutation(tmp_path: Path, share: float, ci_high: float, word: str) -> None:
    """Nine tenths of the time are expected to bring 10x, and a tenth of that is 1.26x; a fifth of it 1.25x, and 1.0226x."""
    found = finding(scanning(tmp_path), "P2").model_copy(update={"share": share})
    wide = {"ratio": 1.0, "ci_low": 0.98, "ci_high": ci_high, "trials_needed": 40}
    comparison = compared("inconclusive").model_copy(update=wide)
    assert told(found, (comparison,), EQUAL)[0].startswith(f"P2 (no index): {word}: ")
    proof = proof_of(found, (comparison,), None, Change(), EQUAL)
    assert proof.verdict == word and proof.measured[0].trials_needed == (40 if word == "not settled" else None)


def test_a_share_of_which_a_part_stays_is_no_measure_of_a_gain(tmp_path: Path) -> None:
    """PostgreSQL answers a prepare together with its execution, which no fix takes away."""
    found = finding(scanning(tmp_path), "P2").model_copy(update={"share": 0.9, "keeps_a_part": True})
    wide = {"ratio": 1.1, "ci_low": 0.98, "ci_high": 1.22, "trials_needed": 40}
    assert "not settled" in told(found, (compared("inconclusive").model_copy(update=wide),), EQUAL)[0]


def test_a_trace_that_writes_has_no_warm_up_that_takes_its_keys(tmp_path: Path) -> None:
    story = Story()
    with (app := story.connection()).transaction():
        app.asks("INSERT INTO item VALUES (1)", rows=0)
    of_writes = measuring(read_evidence(story.export(tmp_path / "writes")), Options(until=0.01))
    assert (of_writes.warmup_s, of_writes.rounds) == (0, 2)
    assert measuring(scanning(tmp_path / "reads"), Options()) == Options()


def test_a_replay_that_fails_proves_nothing(tmp_path: Path) -> None:
    found = finding(scanning(tmp_path), "P2")
    assert failed("P2", slices(2.0)) is None and failed("P2", slices(2.0, errors=10_000)) is None
    spoilt = failed("P2", slices(2.0, errors=30_000))
    assert spoilt and "P2 cannot be proven with this trace" in spoilt.message and "capture so long" in spoilt.hint
    proof = proof_of(found, experiment(2.0), None, Change(), EQUAL, spoilt)
    assert (proof.verdict, proof.measured, proof.why, proof.hint) == ("not provable here", (), spoilt.message, spoilt.hint)
    # Nothing that was counted: every transaction failed.
    none = [each.model_copy(update={"queries": 0}) for each in slices(1.0, errors=1)]
    assert failed("P2", none)


def test_a_proof_needs_all_numbers_of_connections_to_agree(tmp_path: Path) -> None:
    found = finding(evidence(tmp_path, "C1"), "C1")
    both = (compared("faster", 1), compared("equivalent", 8))
    proof = proof_of(found, both, None, Change(), EQUAL)
    assert proof.verdict == "not settled" and [each.verdict for each in proof.measured] == ["proven", "refuted"]
    assert proof_of(found, both[:1] * 2, None, Change(), EQUAL).verdict == "proven"
    assert proof_of(found, (), None, Change(), EQUAL).verdict == "not settled"
