"""Evidence and budget: every microsecond is in one place."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from faulty_shop import shop
from story import Story

from upshift.stack.evidence import Statement
from upshift.stack.proof import NotProvableError
from upshift.stack.prove import refuse_forged
from upshift.stack.read import read_evidence
from upshift.stack.suspects.model import Finding, Unseen
from upshift.stack.suspects.rules import judge
from upshift.stack.suspects.thresholds import Thresholds
from upshift.stack.timeline import open_timeline

SELECT = "SELECT a FROM t WHERE id = ?"


def statement(story: Story, folder: Path, text: str = SELECT) -> Statement:
    return next(each for each in read_evidence(story.export(folder)).statements if each.text == text)


def test_a_transactions_time_is_divided_by_what_happens_in_it(tmp_path: Path) -> None:
    story = Story()
    app = story.connection()
    app.gap_us = 7
    for _ in range(30):
        app.pings(gap_us=100)
    with app.transaction(commit_us=90):
        app.executes(SELECT, 1, wait_us=140)
        app.executes(SELECT, 2, wait_us=240, sending_us=11, receiving_us=60)
    budget = read_evidence(story.export(tmp_path)).budget
    # BEGIN 40, two selects, COMMIT 90, each after a gap of 7; the gap before BEGIN is none of the transaction's.
    assert budget.client_gap_us == 3 * 7
    assert budget.network_us == 30 * 40 + 4 * 40
    assert budget.server_us == (140 - 40) + (240 + 60 - 40)
    assert budget.commit_us == 90 - 40
    assert budget.untold_us == 11
    assert budget.lock_us is None
    assert budget.idle_us == 29 * 100 + 7
    assert (budget.transactions, budget.round_trips, budget.round_trip_us) == (1, 34, 40)
    assert budget.total_us == 30 * 40 + 21 + 40 + 140 + 11 + 240 + 60 + 90


def test_locks_come_out_of_the_servers_time(tmp_path: Path) -> None:
    budget = read_evidence(shop().export(tmp_path)).budget
    waited = budget.with_locks(1000)
    assert (waited.lock_us, waited.server_us, waited.total_us) == (1000, budget.server_us - 1000, budget.total_us)
    assert budget.with_locks(10 * budget.total_us).total_us == budget.total_us


@pytest.mark.parametrize("seed", range(5))
def test_the_parts_add_up_whatever_overlaps(tmp_path: Path, seed: int) -> None:
    """Requests that are sent before the answer to the one before, and those without an answer."""
    chance = random.Random(seed)
    story = Story()
    for _ in range(3):
        app = story.connection()
        for _ in range(chance.randrange(1, 30)):
            app.idles(chance.randrange(500))
            with app.transaction():
                for _ in range(chance.randrange(4)):
                    told = {"gap_us": -chance.randrange(100)} if chance.random() < 0.4 else {"gap_us": chance.randrange(100)}
                    if chance.random() < 0.3:
                        app.closes(SELECT, gap_us=0)
                    else:
                        app.executes(SELECT, 1, wait_us=chance.randrange(40, 900), receiving_us=chance.randrange(50), **told)
    folder = story.export(tmp_path)
    with open_timeline(folder) as timeline:
        row = timeline.execute(
            "SELECT sum(span) FROM (SELECT max(coalesce(last_byte_us, request_end_us)) - min(request_us) AS span "
            "FROM exchanges WHERE transaction IS NOT NULL GROUP BY connection, transaction)"
        ).fetchone()
    assert row is not None and read_evidence(folder).budget.total_us == row[0]


def test_a_connection_with_few_round_trips_takes_the_traces_smallest(tmp_path: Path) -> None:
    story = Story()
    busy, short = story.connection(), story.connection()
    for _ in range(25):
        busy.pings()
    busy.asks("SELECT 1 FROM t", wait_us=45)
    short.asks(SELECT, wait_us=500)
    budget = read_evidence(story.export(tmp_path)).budget
    assert (budget.round_trip_us, budget.server_us) == (40, 460 + 5)


@pytest.mark.parametrize(("times", "statements"), [(100, (SELECT,)), (4, (SELECT, "SELECT 1 FROM t"))])
def test_one_slow_statement_and_a_few_round_trips_tell_of_no_distance(
    tmp_path: Path, times: int, statements: tuple[str, ...]
) -> None:
    story = Story()
    app = story.connection()
    for sql in statements * times:
        app.asks(sql, wait_us=90_000)
    budget = read_evidence(story.export(tmp_path)).budget
    assert (budget.network_us, budget.round_trip_us, budget.server_us) == (0, 0, times * len(statements) * 90_000)


def test_what_is_sent_within_a_transaction_belongs_to_it_whatever_its_answer_tells(tmp_path: Path) -> None:
    story = Story()
    app = story.connection()
    with app.transaction():
        app.prepares(SELECT, gap_us=30, transaction=None)
        app.executes(SELECT, 1, gap_us=50)
    budget = read_evidence(story.export(tmp_path)).budget
    assert budget.client_gap_us == 30 + 50 + 10


def test_prepares_again_are_of_the_same_text_on_the_same_connection(tmp_path: Path) -> None:
    story = Story()
    for _ in range(2):
        app = story.connection()
        for _ in range(3):
            app.prepares(SELECT)
            app.executes(SELECT, 1)
    seen = statement(story, tmp_path)
    assert (seen.prepares, seen.prepares_again, seen.executes, seen.prepared_literals) == (6, 4, 6, 0)
    assert (seen.prepare_us, seen.prepare_again_us, seen.close_us) == (6 * 120, 4 * 120, 0)


def test_what_is_sent_for_nothing_takes_the_gaps_before_it_along(tmp_path: Path) -> None:
    story = Story()
    app = story.connection()
    app.prepares(SELECT)
    with app.transaction():
        app.prepares(SELECT, gap_us=30)
        app.executes(SELECT, 1, rows=0, cursor=True, gap_us=5)
        app.fetches(SELECT, rows=1, size=1, gap_us=20)
        app.closes(SELECT, gap_us=7)
        app.pings(gap_us=11)
    evidence = read_evidence(story.export(tmp_path))
    seen = next(each for each in evidence.statements if each.text == SELECT)
    assert (seen.prepare_us, seen.prepare_again_us, seen.close_us) == (120 + 150, 150, 7)
    assert (seen.fetch_us, seen.cursor_us, evidence.chatter[0].time_us) == (65, 65 + 205, 51)
    assert seen.time_us == 120 + 120 + 200 + 45


def test_lists_of_placeholders_are_no_literals(tmp_path: Path) -> None:
    story = Story("postgres", "15.18")
    app = story.connection()
    app.prepares("SELECT a FROM t WHERE id IN ($1, $2)")
    app.prepares("SELECT a FROM t WHERE id IN ($1, $2, $3)")
    assert {each.prepared_literals for each in read_evidence(story.export(tmp_path)).statements} == {0}


def test_rows_of_a_result_are_those_of_all_its_fetches(tmp_path: Path) -> None:
    story = Story()
    app = story.connection()
    for _ in range(2):
        app.executes(SELECT, 1, rows=0, cursor=True)
        # The statement of a fetch may be unknown.
        app.fetches(SELECT, rows=10, size=10, statement=None, digest_text=None)
        app.fetches(SELECT, rows=3, size=10)
    seen = statement(story, tmp_path)
    assert (seen.rows, seen.rows_median, seen.fetches, seen.cursors, seen.fetch_size) == (26, 13, 4, 2, 10)


def test_runs_of_one_statement_end_with_the_transaction(tmp_path: Path) -> None:
    story = Story()
    app = story.connection()
    for _ in range(2):
        with app.transaction():
            app.executes("DELETE FROM t WHERE id = ?", 1)
            app.executes(SELECT, 1, "x", gap_us=5)
            app.executes(SELECT, 2, "x", gap_us=6)
            app.closes(SELECT)
            app.executes(SELECT, 3, "x", gap_us=7)
    (loop,) = read_evidence(story.export(tmp_path)).loops
    assert (loop.length, loop.body, loop.runs, loop.changed_median, loop.gap_us_median) == (3, 1, 2, 1, 6.5)
    assert loop.again_us == 2 * (2 * 200 + 6 + 7)


def test_a_loop_of_several_statements_is_a_run_of_each(tmp_path: Path) -> None:
    """As TPC-C's orders have it: the item, its stock, and so on; a statement that some turns leave out ends nothing."""
    story = Story()
    app = story.connection()
    with app.transaction():
        for item in range(6):
            app.executes(SELECT, item, "x", gap_us=5)
            app.executes("SELECT s FROM stock WHERE i = ?", item, gap_us=7)
            if item % 2:
                app.executes("DELETE FROM t WHERE id = ?", item, gap_us=9)
    found = {each.gap_us_median: each for each in read_evidence(story.export(tmp_path)).loops}
    assert {gap: (each.length, each.body, each.changed_median) for gap, each in found.items()} == {
        5: (6, 3, 1),
        7: (6, 3, 1),
        9: (3, 5, 1),
    }
    assert found[7].again_us == 5 * 200 + 5 * 7


@pytest.mark.parametrize("family", ["mysql", "postgres"])
def test_a_gap_is_between_an_answer_and_what_is_sent_after_it(family: str, tmp_path: Path) -> None:
    """PostgreSQL's drivers prepare and execute in one flight, and MySQL's close a statement without an answer."""
    story = Story(family)
    app = story.connection()
    app.gap_us = 400
    with app.transaction():
        app.prepares(SELECT)
        if family == "postgres":
            app.executes(SELECT, 1, gap_us=-120, wait_us=120, round_trips=0)
        else:
            app.closes(SELECT)
    (kind,) = read_evidence(story.export(tmp_path)).kinds
    assert (kind.requests, kind.gap_us_typical) == (4, 400)


def test_what_is_far_apart_is_no_loop(tmp_path: Path) -> None:
    story = Story()
    app = story.connection()
    with app.transaction():
        for turn in range(6):
            for other in range(16):
                app.executes(f"SELECT a FROM t{turn}_{other} WHERE id = ?", 1)
            app.executes(SELECT, turn)
    assert read_evidence(story.export(tmp_path)).loops == ()


def test_a_pipeline_is_no_loop(tmp_path: Path) -> None:
    story = Story("postgres", "15.18")
    app = story.connection()
    with app.transaction():
        app.executes(SELECT, 1)
        for number in range(20):
            app.executes(SELECT, number, gap_us=-150, round_trips=0)
    assert read_evidence(story.export(tmp_path)).loops == ()


def test_what_leads_a_flight_has_its_round_trip_and_hides_no_loop(tmp_path: Path) -> None:
    """As pgjdbc sends it with a fetch size: the portal of the select before is closed together with the next one."""
    story = Story("postgres", "15.18")
    app = story.connection()
    with app.transaction():
        app.executes(SELECT, 0)
        for number in range(1, 6):
            app.closes_portal(SELECT, gap_us=5)
            app.executes(SELECT, number, gap_us=-200, round_trips=0)
    (loop,) = read_evidence(story.export(tmp_path)).loops
    assert (loop.length, loop.body, loop.changed_median, loop.gap_us_median) == (6, 1, 1, 5)
    assert loop.again_us == 5 * 200 + 5 * 5


def test_independent_statements_are_no_loop(tmp_path: Path) -> None:
    story = Story()
    app = story.connection()
    for number in range(20):
        app.executes(SELECT, number)
    assert read_evidence(story.export(tmp_path)).loops == ()


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("SET autocommit = 0", "SET"),
        ("SELECT @@session.sql_mode, 1", "session variables"),
        ("SELECT LAST_INSERT_ID()", "session variables"),
        ("SELECT 1", "test query"),
        ("SHOW WARNINGS", "SHOW"),
        ("DISCARD ALL", "reset"),
        ("SAVEPOINT a", "SAVEPOINT"),
        ("SELECT @@version FROM t", None),
        ("SELECT 1 FROM t", None),
        ("SELECT a FROM version WHERE id = 1", None),
    ],
)
def test_chatter_touches_no_row(tmp_path: Path, sql: str, what: str | None) -> None:
    story = Story()
    story.connection().asks(sql)
    assert [each.what for each in read_evidence(story.export(tmp_path)).chatter] == [what] * (what is not None)


def test_a_connection_without_a_request_has_no_time_of_a_login(tmp_path: Path) -> None:
    story = Story()
    for number in range(9):
        app = story.connection(login_us=3000)
        if number % 3 == 0:
            app.asks(SELECT)
    logins = read_evidence(story.export(tmp_path)).logins
    assert (logins.logins, logins.login_us_median) == (9, 3010)


@pytest.mark.parametrize(("family", "charged"), [("postgres", True), ("mysql", False)])
def test_a_flight_of_postgresqls_is_charged_to_the_statement_that_it_is_sent_for(
    tmp_path: Path, family: str, charged: bool
) -> None:
    """As pgjdbc sends it: BEGIN leads the first statement, and both are prepared in their flight. So is COMMIT in its own."""
    story = Story(family)
    app = story.connection()
    for _ in range(10):
        app.prepares("BEGIN", wait_us=900)
        together = {"gap_us": -900, "wait_us": 900, "round_trips": 0}
        app.executes("BEGIN", **together)
        app.prepares(SELECT, **together)
        app.executes(SELECT, 1, **together)
        app.prepares("COMMIT", wait_us=300)
        app.executes("COMMIT", gap_us=-300, wait_us=300, round_trips=0)
    evidence = read_evidence(story.export(tmp_path))
    seen = {each.text: each for each in evidence.statements}
    assert sum(each.time_us for each in evidence.statements) == evidence.budget.total_us
    times = {text: (each.time_us, each.server_us, each.server_us_median) for text, each in seen.items()}
    assert times == (
        {"BEGIN": (0, 0, 0), SELECT: (9000, 9000, 900), "COMMIT": (3000, 3000, 300)}
        if charged
        else {"BEGIN": (9000, 0, 0), SELECT: (0, 0, 0), "COMMIT": (3000, 0, 0)}
    )
    assert (evidence.commits, evidence.commit_us_median) == (10, 300 if charged else 0)
    # Nor is it known what preparing took of it: all of it is the upper bound.
    assert (seen["BEGIN"].prepare_us, seen[SELECT].prepare_us) == ((0, 9000) if charged else (9000, 0))
    assert seen["COMMIT"].prepare_again_us == 9 * 300


def test_a_savepoint_that_goes_with_its_statement_costs_no_round_trip(tmp_path: Path) -> None:
    """As pgjdbc sends it with autosave=always."""
    story = Story("postgres", "15.18")
    app = story.connection()
    with app.transaction():
        app.executes("SAVEPOINT a", wait_us=900)
        app.executes(SELECT, 1, gap_us=-900, wait_us=900, round_trips=0)
        app.executes("SAVEPOINT b", wait_us=200)
    (chatter,) = read_evidence(story.export(tmp_path)).chatter
    assert (chatter.requests, chatter.round_trips, chatter.time_us) == (2, 1, 200 + 10)


@pytest.mark.parametrize(("kept", "again"), [(True, 0), (False, 26)])
def test_a_pool_that_opens_its_connections_does_not_reconnect(tmp_path: Path, kept: bool, again: int) -> None:
    """Thirty connections, kept for the whole capture; or four at once, each for one request."""
    story = Story()
    for number in range(30):
        app = story.connection(began_us=1000 * number)
        app.asks(SELECT, wait_us=2500)
        if not kept:
            app.ends()
    logins = read_evidence(story.export(tmp_path)).logins
    assert (logins.logins, logins.again) == (30, again)


def test_connections_from_before_the_capture_excuse_no_reconnects(tmp_path: Path) -> None:
    """A hundred that somebody keeps open beside thirty logins, one after the other."""
    story = Story()
    for _ in range(100):
        story.connection(joined_late=True).asks(SELECT)
    for _ in range(30):
        app = story.connection()
        app.asks(SELECT, wait_us=100)
        app.ends()
    logins = read_evidence(story.export(tmp_path)).logins
    assert (logins.logins, logins.again) == (30, 29)


def test_a_cursor_of_sql_is_fetched_from_as_one_of_the_protocol(tmp_path: Path) -> None:
    """As psycopg's on the server's side sends it."""
    story = Story("postgres", "15.18")
    app = story.connection()
    declares = "DECLARE c CURSOR FOR SELECT a FROM t"
    for _ in range(100):
        with app.transaction():
            app.executes(declares)
            for _ in range(6):
                app.asks("FETCH FORWARD 10 FROM c", rows=10)
            app.asks("CLOSE c")
    evidence = read_evidence(story.export(tmp_path))
    seen = next(each for each in evidence.statements if each.text.startswith("DECLARE"))
    assert (seen.cursors, seen.fetches, seen.fetch_size, seen.rows_median, seen.fetch_us) == (100, 600, 10, 60, 600 * 210)
    (finding,) = (each for each in judge(evidence, Thresholds()) if each.suspect == "C3")
    assert isinstance(finding, Finding) and finding.share > 0.5
    # A replay's option for the size of fetches does not change a statement of SQL.
    with pytest.raises(NotProvableError, match="does not show C3"):
        refuse_forged(finding, evidence)


def test_a_copy_is_an_execution(tmp_path: Path) -> None:
    story = Story("postgres", "15.18")
    story.connection().copies("COPY t FROM STDIN", wait_us=5000, sending_us=9000)
    (seen,) = read_evidence(story.export(tmp_path)).statements
    assert (seen.executions, seen.time_us, seen.server_us, seen.server_us_median) == (1, 14_000, 5000, 5000)


def test_what_postgresql_skips_after_a_deadlock_is_no_deadlock_of_its_own(tmp_path: Path) -> None:
    story = Story("postgres", "15.18")
    app = story.connection()
    deadlock = {"error_code": 0, "sqlstate": "40P01"}
    for _ in range(2):
        with app.transaction():
            app.executes("UPDATE t SET a = 1 WHERE id = $1", 1, **deadlock)
            for number in range(5):
                app.executes("UPDATE t SET a = 1 WHERE id = $1", number, gap_us=-200, round_trips=0, **deadlock)
    errors = read_evidence(story.export(tmp_path)).lock_errors
    assert (errors.deadlocks, errors.transactions) == (2, 2)


def test_each_lock_wait_that_mysql_gives_up_counts(tmp_path: Path) -> None:
    story = Story()
    app = story.connection()
    with app.transaction():
        for _ in range(3):
            app.executes(SELECT, 1, error_code=1205, sqlstate="HY000")
    assert read_evidence(story.export(tmp_path)).lock_errors.timeouts == 3


def test_what_the_server_asks_for_in_between_is_no_split_request(tmp_path: Path) -> None:
    """The file of LOAD DATA LOCAL, and the passwords of COM_CHANGE_USER."""
    story = Story()
    app = story.connection()
    app.asks(SELECT)
    app.asks("LOAD DATA LOCAL INFILE 'a' INTO TABLE t", sending_us=40_000, round_trips=2)
    small = read_evidence(story.export(tmp_path)).small
    assert (small.requests, small.split, small.stalls) == (1, 0, 0)


def test_the_smallest_round_trip_is_one_that_was_seen(tmp_path: Path) -> None:
    """The near connection has no smallest of its own, nor has the trace: one statement alone came near it."""
    story = Story()
    far, near = story.connection(), story.connection()
    far.far_us = 1000
    for _ in range(30):
        far.pings()
        far.asks(SELECT)
    for _ in range(3):
        near.asks("SELECT 7 FROM u", wait_us=100)
    budget = read_evidence(story.export(tmp_path)).budget
    assert (budget.network_us, budget.round_trip_us) == (60 * 1040, 1040)


def test_an_empty_trace_has_no_time(tmp_path: Path) -> None:
    story = Story()
    story.connection()
    evidence = read_evidence(story.export(tmp_path))
    assert (evidence.budget.total_us, evidence.budget.share(5), evidence.statements) == (0, 0.0, ())


@pytest.mark.parametrize("masked", [False, True])
def test_in_a_masked_trace_texts_with_literals_are_not_taken_for_repeated(masked: bool, tmp_path: Path) -> None:
    """A literal of one length looks like another: C13 would be reported as C1."""
    story = Story(masked=masked) if masked else Story()
    app = story.connection()
    for number in range(100, 150):
        text = "SELECT a FROM t WHERE id = 999" if masked else f"SELECT a FROM t WHERE id = {number}"
        app.prepares(text, wait_us=100)
        app.executes(text)
    seen = read_evidence(story.export(tmp_path))
    judged = {each.suspect: each for each in judge(seen, Thresholds()) if each.suspect in ("C1", "C13")}
    if masked:
        assert isinstance(judged["C1"], Unseen) and isinstance(judged["C13"], Unseen)
    else:
        assert isinstance(judged["C13"], Finding) and not isinstance(judged["C1"], Finding)
