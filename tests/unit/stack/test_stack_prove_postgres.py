"""What a proof starts of a PostgreSQL's trace: the server's kind and program, the dump, what is changed, what cannot be."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from prove_examples import finding, scanning
from story import Connection, Story

from upshift.errors import UsageError
from upshift.server.kind import Program
from upshift.stack.change import Given, refuse_unprovable, variants_of
from upshift.stack.evidence import Evidence
from upshift.stack.laboratory import MYSQL, POSTGRES, laboratory_of, program_of, refuse_dump
from upshift.stack.proof import NotProvableError
from upshift.stack.prove import experiment_of, prepared_at_once, refuse_forged, refuse_uncounted, workload_text
from upshift.stack.read import read_evidence
from upshift.stack.suspects.rules import judge
from upshift.stack.suspects.thresholds import Thresholds
from upshift.workload.model import Workload

PRICE = "SELECT price FROM item WHERE id = $1"
PROGRAM = Program(kind="postgres", binary=Path("/opt/bin/postgres"))


def told(folder: Path, send: str, *, texts: int = 0) -> Evidence:
    """Of one connection that sends one statement 300 times in a way, and another as text."""
    story = Story("postgres", "15.18")
    app = story.connection()
    app.prepares(PRICE)
    for number in range(300):
        with app.transaction():
            _send(app, number, send)
        if number < texts:
            app.asks(f"SELECT name FROM item WHERE id = {number}", rows=1)
    return read_evidence(story.export(folder))


def _send(app: Connection, number: int, send: str) -> None:
    if send == "text":
        app.asks(PRICE.replace("$1", str(number)), rows=1, wait_us=300)
        return
    if send != "kept":
        app.prepares(PRICE, wait_us=400)
    if send == "in parts":
        # The portal's first rows come with its execution, which shares the flight of the preparation.
        app.executes(PRICE, number, rows=2, round_trips=0, fetch_size=2)
        app.fetches(PRICE, rows=2, size=2)
    else:
        app.executes(PRICE, number, rows=1, round_trips=0 if send == "one flight" else 1)


def test_the_kind_comes_from_the_traces_family(tmp_path: Path) -> None:
    assert laboratory_of(told(tmp_path, "kept").trace) is POSTGRES
    assert (POSTGRES.kind.name, MYSQL.kind.name) == ("postgres", "mysql")


@pytest.mark.parametrize(("send", "change"), [("two flights", "recorded-kept"), ("one flight", "prepared")])
def test_what_is_prepared_each_time_is_then_prepared_once(tmp_path: Path, send: str, change: str) -> None:
    """A replay sends what is prepared and executed in one flight as text: another option keeps it prepared."""
    seen = told(tmp_path, send)
    found, (now, then) = experiment_of(seen, judge(seen, Thresholds()), "C1", Given(), _program(tmp_path))
    assert found.suspect == "C1" and (now.client, then.client) == ((), ("--protocol", change))
    assert now.program == then.program and now.program.kind == "postgres"


def test_one_flight_beside_texts_is_not_provable(tmp_path: Path) -> None:
    assert prepared_at_once(told(tmp_path / "few", "one flight", texts=10))
    with pytest.raises(NotProvableError, match="as text, and other statements came as text, too"):
        prepared_at_once(told(tmp_path / "many", "one flight", texts=100))
    assert not prepared_at_once(told(tmp_path / "two", "two flights", texts=100))


def test_one_flight_with_rows_in_parts_is_not_shown(tmp_path: Path) -> None:
    """A replay prepares it once: both ways would be the same."""
    seen = told(tmp_path, "in parts")
    with pytest.raises(NotProvableError, match="does not show C1"):
        refuse_forged(finding(seen, "C1"), seen)
    refuse_forged(finding(seen, "C3"), seen)


@pytest.mark.parametrize(("send", "suspect", "change"), [("text", "C2", "--protocol"), ("in parts", "C3", "--fetch-size")])
def test_texts_and_fetches_are_changed_as_on_mysql(tmp_path: Path, send: str, suspect: str, change: str) -> None:
    seen = told(tmp_path, send)
    _found, (now, then) = experiment_of(seen, judge(seen, Thresholds()), suspect, Given(), _program(tmp_path))
    assert now.client == () and then.client[0] == change


def test_commits_are_proven_by_postgres_own_setting(tmp_path: Path) -> None:
    story = Story("postgres", "15.18")
    app = story.connection()
    for number in range(300):
        with app.transaction(commit_us=900):
            app.asks(f"UPDATE item SET price = {number} WHERE id = 1")
    seen = read_evidence(story.export(tmp_path))
    refuse_unprovable("E3", Given(), POSTGRES)
    now, then = variants_of(finding(seen, "E3"), (), PROGRAM, Given(), POSTGRES)
    assert (now.settings, then.settings) == ({"synchronous_commit": "on"}, {"synchronous_commit": "off"})
    # Settings are held against those of the laboratory's PostgreSQL.
    with pytest.raises(UsageError, match="both servers have shared_buffers=1GB"):
        same = Given(settings={"shared_buffers": "1GB"})
        variants_of(finding(seen, "E3").model_copy(update={"suspect": "E2"}), (), PROGRAM, same, POSTGRES)


def test_descriptions_of_columns_cannot_be_left_out() -> None:
    with pytest.raises(NotProvableError, match=r"C12 .metadata. cannot be proven here: PostgreSQL describes"):
        refuse_unprovable("C12", Given(), POSTGRES)
    refuse_unprovable("C12", Given(), MYSQL)


def test_chatter_that_is_not_sent_is_not_provable(tmp_path: Path) -> None:
    story = Story("postgres", "15.18")
    app = story.connection()
    for number in range(300):
        app.pings()
        with app.transaction():
            app.asks(f"SELECT price FROM item WHERE id = {number}", rows=1)
    seen = read_evidence(story.export(tmp_path))
    with pytest.raises(NotProvableError, match="sends no empty Sync"):
        refuse_uncounted(finding(seen, "C5"), seen, POSTGRES)
    refuse_uncounted(finding(seen, "C5"), seen, MYSQL)


def test_the_dump_is_restored_by_psql_and_the_url_is_the_kinds(tmp_path: Path) -> None:
    (dump := tmp_path / "be{fore}.sql").write_text("SELECT 1;")
    seen = told(tmp_path / "export", "one flight")
    read = tomllib.loads(workload_text("C1", tmp_path / "app.trace", dump, seen, 4, loop="reads"))
    workload = Workload.model_validate({"name": "app", **read})
    assert workload.server == ("postgres",) and workload.unit == "transaction"
    shell, _c, script, client, *_places, restored = (
        part.format(tools="/bin", socket="/s/.s.PGSQL.5432", database="d") for part in workload.fill.command
    )
    assert (shell, client, restored) == ("sh", "/bin/psql", str(dump))
    assert "ON_ERROR_STOP=1" in script and '"${1%/*}"' in script
    assert "{url}" in workload.load.command and str(tmp_path / "app.trace") == workload.load.command[-1]


def test_a_dump_in_pg_dumps_own_format_is_refused(tmp_path: Path) -> None:
    (dump := tmp_path / "before.dump").write_bytes(b"PGDMP\x01\x0e")
    with pytest.raises(UsageError, match="in pg_dump's own format") as refused:
        refuse_dump(POSTGRES, dump)
    assert "plain text" in refused.value.hint
    dump.write_text("CREATE TABLE item (id INT);")
    refuse_dump(POSTGRES, dump)


def _program(folder: Path) -> Path:
    (binary := folder / "postgres").touch()
    return binary


def test_the_program_is_the_installed_packages_unless_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "psql").touch()
    named = program_of(POSTGRES, _program(tmp_path))
    assert (named.kind, named.binary, named.tools) == ("postgres", tmp_path / "postgres", tmp_path)
    monkeypatch.setattr("upshift.server.postgres.PostgreSQL.packaged", lambda _: tmp_path / "postgres")
    assert program_of(POSTGRES, None) == named
    monkeypatch.setattr("upshift.server.postgres.PostgreSQL.packaged", lambda _: None)
    with pytest.raises(UsageError, match="no package of PostgreSQL is installed") as missing:
        program_of(POSTGRES, None)
    assert "--binary" in missing.value.hint
    with pytest.raises(UsageError, match="the trace is of a MySQL, and --binary is a postgres"):
        program_of(MYSQL, tmp_path / "postgres")


def test_an_index_is_proven_on_postgres_too(tmp_path: Path) -> None:
    (fix := tmp_path / "fix.sql").write_text("CREATE INDEX by_name ON item (name)")
    found = finding(scanning(tmp_path / "export"), "P2")
    now, then = variants_of(found, (), PROGRAM, Given(sql=(fix,)), POSTGRES)
    assert (now.sql, then.sql, now.settings, then.settings) == ((), (fix,), {}, {})
