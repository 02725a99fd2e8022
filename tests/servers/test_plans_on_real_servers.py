"""Plans and answers asked of real servers: a MariaDB, a PostgreSQL and a MySQL with one shop, started once."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import plan_servers
import pytest
import shop
from plan_servers import Url
from story import Story

from upshift.check.address import PasswordWanted
from upshift.cli.app import _run
from upshift.errors import ServerFailed, UsageError
from upshift.stack.explaining import explained
from upshift.stack.plans.address import read_address
from upshift.stack.plans.answers import answer
from upshift.stack.plans.ask import Asker, transaction
from upshift.stack.plans.compare import compare
from upshift.stack.plans.looking import planned
from upshift.stack.plans.model import accesses, rows_examined
from upshift.stack.plans.session import Refused, opened
from upshift.stack.plans.source import Source, Wanted
from upshift.stack.plans.statements import NotExplained
from upshift.stack.read import read_evidence
from upshift.stack.suspects.model import Finding
from upshift.stack.suspects.thresholds import Thresholds

pytest_plugins = ("shops",)
FAMILIES: tuple[shop.Family, ...] = ("mariadb", "postgres", "mysql")
BOTH = pytest.mark.parametrize("family", FAMILIES)
Ask = Callable[[shop.Family], Asker]


@pytest.fixture
def ask(url: Url) -> Iterator[Ask]:
    with contextlib.ExitStack() as sessions:
        yield lambda family: Asker(sessions.enter_context(opened(read_address(url(family)), 10)))


def text(asker: Asker, sql: str, parameters: list[object] | None = None) -> str:
    return asker.text(sql, parameters, asker.session.family)


ALIKE = (
    "point",
    "email",
    "ref",
    "ref_covering",
    "range",
    "ref_range",
    "full",
    "in_list",
    "join_const",
    "join_unique",
    "sort_limit",
    "index_scan",
)


def test_two_servers_access_the_same_tables_in_the_same_way(ask: Ask) -> None:
    mariadb, postgres = ask("mariadb"), ask("postgres")
    for name in ALIKE:
        sql = shop.STATEMENTS[name]
        a, b = mariadb.plan(sql).tree, postgres.plan(sql).tree
        assert compare(a, b) == (), name
        assert [(each.name, each.access) for each in accesses(a)] == [(each.name, each.access) for each in accesses(b)], name


@BOTH
def test_every_statement_has_a_plan_or_a_reason(ask: Ask, family: shop.Family) -> None:
    asker = ask(family)
    for name, sql in shop.STATEMENTS.items():
        if name in shop.ONLY_MYSQLS and family == "postgres":
            with pytest.raises(NotExplained, match="operator does not exist") as refused:
                asker.plan(text(asker, sql))
            assert refused.value.hint
        else:
            plan = asker.plan(text(asker, sql))
            assert (plan.family, plan.executed, rows_examined(plan.tree)) == (family, False, None)


@BOTH
def test_an_execution_counts_rows(ask: Ask, family: shop.Family) -> None:
    plan = ask(family).plan(shop.STATEMENTS["full"], execute=True)
    assert plan.executed and rows_examined(plan.tree) == shop.ORDERS
    if family != "postgres":
        assert (plan.sort_merge_passes, plan.disk_tables) == (0, 0)
    assert plan.planning_ms and plan.whole_ms and 0 < plan.planning_ms < plan.whole_ms


@BOTH
def test_a_write_is_never_executed(ask: Ask, family: shop.Family) -> None:
    asker = ask(family)
    count = "SELECT count(*), sum(total) FROM orders, (SELECT count(*) AS n FROM items) AS other"
    before = asker.session.ask(count)
    writes = "UPDATE orders SET total = 0", "DELETE FROM items", "INSERT INTO items VALUES (0, 0, 0, 0)"
    for sql in (*writes, "SELECT id FROM orders WHERE id = 1 FOR UPDATE"):
        plan = asker.plan(text(asker, sql), execute=True)
        assert not plan.executed
    assert asker.session.ask(count) == before


@BOTH
def test_a_session_that_reads_cannot_write(ask: Ask, family: shop.Family) -> None:
    session = ask(family).session
    with pytest.raises(Refused), transaction(session, read_only=True):
        session.ask("DELETE FROM items")


@BOTH
def test_the_server_takes_one_statement_at_a_time(ask: Ask, family: shop.Family) -> None:
    session = ask(family).session
    with pytest.raises(Refused):
        session.ask("SELECT 1; SELECT 2")
    with pytest.raises(Refused):
        list(session.stream("SELECT 1; SELECT 2"))


@BOTH
def test_parameters_are_put_in_as_literals(ask: Ask, family: shop.Family) -> None:
    asker = ask(family)
    mark = "$1" if family == "postgres" else "?"
    plan = asker.plan(text(asker, f"SELECT total FROM orders WHERE id = {mark} AND '{mark}' <> 'x'", [77]))
    assert [each.access for each in accesses(plan.tree)] == ["const"]
    hostile = ["' OR '1'='1", "\\' OR 1=1 -- ", "'; DROP TABLE items; --", "é\\", "%s %d"]
    for value in hostile:
        assert answer(asker.session, text(asker, f"SELECT id FROM customers WHERE email = {mark}", [value])).rows == 0
        assert asker.session.ask(text(asker, f"SELECT {mark}", [value])) == [(value,)]
    minus = text(asker, f"SELECT 5-{mark}", [-1])
    assert asker.session.ask(minus) == [(6,)]
    ((number, nothing),) = asker.session.ask(f"SELECT {asker.session.literal(Decimal('1.50'))}, {asker.session.literal(None)}")
    assert (number, nothing) == (Decimal("1.50"), None)
    ((raw,),) = asker.session.ask(f"SELECT {asker.session.literal({'binary': '00ff27'})}")
    assert bytes(raw) == b"\x00\xff'"


@BOTH
def test_what_takes_too_long_is_given_up_by_the_server(url: Url, family: shop.Family) -> None:
    endless = "SELECT count(*) FROM orders a, orders b, orders c WHERE a.note > b.note AND b.note > c.note"
    with opened(read_address(url(family)), 0.2) as session:
        with pytest.raises(NotExplained) as refused:
            Asker(session).plan(endless, execute=True)
        assert "--wait-seconds" in refused.value.hint
        assert session.ask("SELECT 1") == [(1,)]
        wanted = Wanted(statement="0" * 16, text="endless", sql=endless)
        source = Source(family=None, statements=(wanted,))
        report = planned(source, Asker(session), "there", Thresholds(), execute=True, progress=lambda _number, _of: None)
        told = report.statements[0].told
        assert told.plan and len(accesses(told.plan.tree)) == 3 and told.rows_examined is None
        assert "--wait-seconds" in told.hint


@BOTH
def test_a_user_without_the_right_is_told_which(url: Url, ask: Ask, family: shop.Family) -> None:
    owner = ask(family).session
    owner.ask("CREATE USER poor" if family == "postgres" else "CREATE USER poor@localhost")
    if family != "postgres":
        owner.ask("GRANT SELECT ON shop.customers TO poor@localhost")
    with opened(read_address(url(family).replace("//postgres@", "//poor@").replace("//root@", "//poor@")), 10) as session:
        with pytest.raises(NotExplained) as refused:
            Asker(session).plan(shop.STATEMENTS["full"])
        assert "GRANT" in refused.value.hint


@BOTH
def test_a_server_that_goes_away_is_said_to_be_gone(ask: Ask, family: shop.Family) -> None:
    lost, other = ask(family), ask(family).session
    mine = lost.session.ask("SELECT pg_backend_pid()" if family == "postgres" else "SELECT connection_id()")[0][0]
    other.ask(f"SELECT pg_terminate_backend({mine})" if family == "postgres" else f"KILL {mine}")
    with pytest.raises(ServerFailed, match="gone"):
        for _each in range(20):
            lost.plan(shop.STATEMENTS["point"])


def test_a_login_that_is_refused_and_a_server_that_is_not_there(url: Url, tmp_path: Path) -> None:
    for known in (url("mariadb"), url("postgres")):
        wrong = known.replace("//root@", "//nobody_here@").replace("//postgres@", "//nobody_here@")
        with pytest.raises(UsageError, match="nobody_here"), opened(read_address(wrong), 10):
            pass
    for scheme in ("mysql", "postgres"):
        with (
            pytest.raises(ServerFailed, match="no server answers"),
            opened(read_address(f"{scheme}://someone@/shop?socket={tmp_path / 'none'}"), 10),
        ):
            pass


@BOTH
def test_a_server_says_that_a_password_lacks(url: Url, ask: Ask, family: shop.Family) -> None:
    owner = ask(family).session
    if family == "postgres":
        ((rules,),) = owner.ask("SHOW hba_file")
        owner.ask("CREATE USER locked PASSWORD 'secret'")
        owner.ask(f"COPY (VALUES ('local all locked scram-sha-256'), ('local all all trust')) TO '{rules}'")
        owner.ask("SELECT pg_reload_conf()")
    else:
        owner.ask("CREATE USER locked@localhost IDENTIFIED BY 'secret'")
        owner.ask("GRANT SELECT ON shop.* TO locked@localhost")
    locked = read_address(url(family).replace("//postgres@", "//locked@").replace("//root@", "//locked@"), environment={})
    with pytest.raises(PasswordWanted), opened(locked, 10):
        pass
    with pytest.raises(UsageError) as refused, opened(locked.model_copy(update={"password": "wrong"}), 10):
        pass
    assert not isinstance(refused.value, PasswordWanted)
    with opened(locked.model_copy(update={"password": "secret"}), 10) as session:
        assert session.ask("SELECT 1") == [(1,)]


SAME_ANSWER = ("point", "range", "join_unique", "sort_all", "group", "exists", "scalar", "union", "window", "min")


def test_two_servers_answers_have_one_digest(ask: Ask) -> None:
    a, b = ask("mariadb").session, ask("postgres").session
    for name in SAME_ANSWER:
        left, right = answer(a, shop.STATEMENTS[name]), answer(b, shop.STATEMENTS[name])
        assert (left.rows, left.digest) == (right.rows, right.digest), name
    kinds = "SELECT 1.50, CAST(NULL AS CHAR(3)), CAST('ab ' AS CHAR(5)), 1e3, CAST('2026-01-02' AS DATE), 1 = 1"
    assert answer(a, kinds).digest == answer(b, kinds).digest
    assert answer(a, "SELECT 1 UNION ALL SELECT 2").digest == answer(b, "SELECT 2 UNION ALL SELECT 1").digest
    assert answer(a, "SELECT 1 UNION ALL SELECT 1").digest != answer(b, "SELECT 1").digest


@BOTH
def test_each_server_says_how_long_it_executed(ask: Ask, family: shop.Family) -> None:
    asker, sql = ask(family), shop.STATEMENTS["sort_all"]
    plan = asker.plan(sql, execute=True)
    own, plain = asker.execution_ms(sql), answer(asker.session, sql).ms
    assert plan.execution_ms and own > 0 and plain > 0
    # Of one and the same execution each server's clock, in milliseconds, is within the client's.
    began = time.perf_counter()
    assert 0.1 < asker.execution_ms(sql) < (time.perf_counter() - began) * 1000


@pytest.mark.parametrize("family", ["mariadb", "postgres"])
def test_two_servers_of_one_kind_are_no_two_engines(
    url: Url, family: shop.Family, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A setting of the second is another: a fact beside the times."""
    names = "full", "sort_all", "group", "ref", "distinct", "point"
    file = tmp_path / "shop.sql"
    file.write_text(";\n".join(shop.STATEMENTS[name] for name in names))
    a = url(family)
    with plan_servers.running(family) as b:
        with opened(read_address(b), 10) as session:
            if family == "postgres":
                session.ask("ALTER SYSTEM SET full_page_writes = off")
                session.ask("SELECT pg_reload_conf()")
            else:
                session.ask("SET GLOBAL innodb_flush_log_at_trx_commit = 2")
        code, out, _err = printed(capsys, "compare", str(file), "--a", a, "--b", b, "--execute", "--rounds", "4", "--json")
        report = json.loads(out)
        assert code == 0
        assert "E1" not in {each["suspect"] for each in report["judgement"]["findings"]}
        timed = [each for each in report["statements"] if each["timing"]]
        assert {each["text"] for each in timed} == {shop.STATEMENTS[name] for name in names}
        assert all(each["timing"]["clock"] == "server" and each["timing"]["rounds"] == 4 for each in timed)
        expected = "full_page_writes" if family == "postgres" else "innodb_flush_log_at_trx_commit"
        assert [each["b"].split("=")[0] for each in report["settings"]] == [expected]
        code, out, _err = printed(capsys, "compare", str(file), "--a", a, "--b", b, "--execute", "--rounds", "1")
        assert code == 0 and "settings that differ, A | B:" in out and "    durability, " in out
        assert "in turns: A " in out and ", one round" in out and "E1 engine: one round has no spread" in out


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = _run(["stack", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_the_commands(url: Url, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b, file = url("mariadb"), url("postgres"), tmp_path / "shop.sql"
    file.write_text(
        "-- the shop's\n" + ";\n".join(shop.STATEMENTS[name] for name in ("full", "conversion", "update")) + ";\nSET a=1;"
    )
    code, out, _err = printed(capsys, "plans", str(file), "--server", b, "--execute", "--json")
    report = json.loads(out)
    told = [each["told"] for each in report["statements"]]
    assert (code, report["server"]["family"], len(told)) == (0, "postgres", 3)
    assert [each["plan"] is None for each in told] == [False, True, False]
    assert "operator does not exist" in told[1]["why_none"] and told[1]["hint"]
    assert told[0]["rows_examined"] == shop.ORDERS and told[2]["rows_examined"] is None
    assert [each["suspect"] for each in report["judgement"]["findings"]] == ["P2"]
    code, out, _err = printed(capsys, "plans", str(file), "--server", a)
    assert code == 0 and "full_scan orders" in out and "P4 implicit conversion" in out and "none executed" in out

    code, out, _err = printed(capsys, "compare", str(file), "--a", a, "--b", b, "--execute", "--json")
    found = json.loads(out)["statements"]
    # PostgreSQL refuses to compare a text with a number: MariaDB alone answers.
    assert code == 1
    assert found[0]["text"] == shop.STATEMENTS["conversion"] and found[0]["same_answer"] is False
    full = next(each for each in found if each["text"] == shop.STATEMENTS["full"])
    assert full["same_answer"] is True and full["differences"] == []
    assert {"P2", "P4"} <= {each["suspect"] for each in json.loads(out)["judgement"]["findings"]}
    assert full["a"]["answer"]["digest"] == full["b"]["answer"]["digest"] and full["a"]["answer"]["ms"] > 0
    code, out, _err = printed(capsys, "compare", str(file), "--a", a, "--b", b, "--execute", "--threshold", "P2.rows=1e9")
    assert code == 1 and "same answer: 20 rows" in out and "ruled out: P2" in out
    assert "ANSWER ON A ALONE: 1 rows" in out

    file.write_text("SELECT length('é')")
    code, out, _err = printed(capsys, "compare", str(file), "--a", a, "--b", b, "--execute")
    assert code == 1 and "ANOTHER ANSWER: 1 rows on A, 1 on B, other cells" in out


@pytest.mark.parametrize(("family", "slow", "suspect"), [("mariadb", "conversion", "P4"), ("postgres", "full", "P2")])
def test_an_examination_asks_for_plans(ask: Ask, family: shop.Family, slow: str, suspect: str, tmp_path: Path) -> None:
    asker = ask(family)
    story = Story("postgres" if family == "postgres" else "mysql", asker.session.version)
    app = story.connection()
    for name in (slow, "point"):
        app.asks(shop.STATEMENTS[name], wait_us=9000)
    app.asks("SELECT nothing FROM nowhere")
    evidence = read_evidence(story.export(tmp_path))
    found = explained(tmp_path, asker, evidence, Thresholds(), lambda _number, _of: None)
    assert (found.statements, found.version) == (2, asker.session.version)
    (named,) = [each for each in found.outcomes if isinstance(each, Finding)]
    assert named.suspect == suspect and 0.3 < named.share < 0.6
