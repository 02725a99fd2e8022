"""From a server's answers to facts: what a login may not see is named, and the rest is read."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import pymysql
import pytest
from cards import card
from served import VARIABLES

from upshift.card.model import Card
from upshift.check.gather import read_facts
from upshift.check.model import BY_COMMAND_LINE, BY_PERSIST
from upshift.check.session import Session
from upshift.errors import UsageError

Rows = list[tuple[Any, ...]]


class Server(Session):
    """Answers by a word that only one statement has."""

    def __init__(self, version: str = "9.7.4", **variables: str) -> None:
        self.asked: list[str] = []
        self.local_port = False
        self.answers: dict[str, Rows | Exception] = {
            "GLOBAL VARIABLES": [*{**VARIABLES, "version": version, "pid_file": "x.pid", **variables}.items()],
            "STATUS LIKE": [("Threads_running", "3")],
            "GLOBAL STATUS": [("Uptime", "4000"), ("Questions", "20000")],
            "SHOW GRANTS": [("GRANT SELECT, PROCESS ON *.* TO `check`@`%`",)],
            "variables_info": [("sync_binlog", "GLOBAL", "/etc/my.cnf"), ("back_log", "COMMAND_LINE", "")],
            "persisted_variables": [],
            "system_variables": [("sync_binlog", "CONFIG", "/etc/my.cnf")],
            "information_schema.tables WHERE": [
                ("shop", "orders", "InnoDB", "Dynamic", 10, 100, 50, 0, 11, "utf8mb4_0900_ai_ci", ""),
                ("shop", "bad", None, None, None, None, None, None, None, None, None),
            ],
            "information_schema.statistics": [
                ("shop", "orders", "PRIMARY", 0, "BTREE", "YES", "id", None, "A", ""),
                ("shop", "orders", "words", 1, "BTREE", "NO", "a", 10, "D", "YES"),
                ("shop", "orders", "words", 1, "BTREE", "NO", None, None, "A", "YES"),
            ],
            "column_type": [("shop", "orders", "id", b"bigint unsigned", None, "auto_increment", "the key")],
            "columns_extensions": [],
            "key_column_usage": [("shop", "lines", "order_id")],
            "innodb_table_stats": [("shop", "orders", 10, 60)],
            "table_io_waits": [("shop", "orders", "PRIMARY", 7)],
            "setup_instruments": [(4,)],
            "SHOW ENGINE": [("performance_schema", "x.memory", "1"), ("performance_schema", "performance_schema.memory", "99")],
            "innodb_metrics": [("trx_rseg_history_len", 12)],
            "innodb_trx": [(9, 70, 2)],
            "processlist": [(9, 70, "select\n1")],
        }

    def ask(self, statement: str) -> Rows:
        self.asked.append(statement)
        answer = next(rows for word, rows in self.answers.items() if word in statement)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def socket(self) -> Any:
        return None


def on_this_machine(root: Path, **variables: str) -> Server:
    """A server whose process has the number 77 on the machine below ``root``."""
    for file, text in {
        "run/mysqld.pid": "77\n",
        "proc/77/comm": "mysqld\n",
        "proc/meminfo": "MemTotal: 1024 kB\n",
        "proc/cpuinfo": "flags : fpu hypervisor\n",
    }.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(text)
    server = Server(pid_file="/run/mysqld.pid", **{"hostname": platform.node(), **variables})
    server.local_port = True
    return server


def read(server: Server) -> Any:
    return read_facts(server, sleep=lambda _s: None, root=Path("/no/such"))


def test_all_parts() -> None:
    facts = read(Server())
    assert (facts.family, facts.version, facts.version_text) == ("mysql", (9, 7, 4), "MySQL 9.7.4")
    assert facts.counted("uptime") == 4000 and facts.threads_running == (2,) * 5
    assert facts.origins == {"sync_binlog": "/etc/my.cnf", "back_log": "the command line"}
    assert [each.engine for each in facts.tables] == ["InnoDB", ""]
    primary, words = facts.indexes
    assert primary.unique and primary.primary and not words.unique and not words.visible
    assert [(part.name, part.prefix, part.descending) for part in words.columns] == [("a", 10, True), ("", None, False)]
    assert facts.columns[0].counts and facts.columns[0].type == "bigint unsigned"
    assert facts.references == (("shop", "lines", "order_id"),)
    assert (facts.instruments, facts.performance_schema_bytes) == (4, 99)
    assert facts.metrics == {"trx_rseg_history_len": 12} and facts.statements[0].verb == "SELECT"
    assert facts.host is None and set(facts.unseen) == {
        "machine",
        "network",
        "file system",
        "disk",
        "disk speed",
        "text",
        "card",
    }
    assert "card" not in read_facts(Server(), card=card(), sleep=lambda _s: None, root=Path("/no/such")).unseen


def test_a_persisted_setting_has_an_origin_of_its_own_whatever_set_it_last() -> None:
    server = Server()
    server.answers["persisted_variables"] = [("back_log",), ("Sort_buffer_size",)]
    facts = read(server)
    assert facts.origins == {"sync_binlog": "/etc/my.cnf", "back_log": BY_PERSIST, "sort_buffer_size": BY_PERSIST}


def test_settings_that_the_server_does_not_load_are_not_called_persisted() -> None:
    server = Server(persisted_globals_load="OFF")
    server.answers["persisted_variables"] = [("back_log",)]
    assert read(server).origins["back_log"] == BY_COMMAND_LINE


def test_persisted_settings_that_a_login_may_not_see_are_unseen() -> None:
    server = Server()
    server.answers["persisted_variables"] = pymysql.err.OperationalError(1142, "SELECT command denied")
    facts = read(server)
    assert "SELECT command denied" in facts.unseen["persisted variables"] and facts.origins["sync_binlog"] == "/etc/my.cnf"
    mariadb = Server("11.8.2-MariaDB")
    read(mariadb)
    assert not any("persisted_variables" in each for each in mariadb.asked)


def test_attributes_of_a_column_for_engines_are_part_of_its_definition() -> None:
    server = Server()
    server.answers["columns_extensions"] = [("shop", "orders", "id")]
    (found,) = read(server).columns
    assert (found.extra, found.comment) == ("auto_increment ENGINE_ATTRIBUTE", "the key")
    for version in ("8.0.20", "11.8.2-MariaDB"):
        older = Server(version)
        assert read(older).columns[0].extra == "auto_increment"
        assert not any("columns_extensions" in each for each in older.asked)


def test_a_variable_without_a_value_is_an_empty_one() -> None:
    server = Server()
    for word in ("GLOBAL VARIABLES", "GLOBAL STATUS"):
        rows = server.answers[word]
        assert isinstance(rows, list)
        rows.append(("Odd", None))
    facts = read(server)
    assert facts.text("odd") == "" and facts.counted("odd") == 0


def test_what_a_login_may_not_see() -> None:
    server = Server()
    server.answers |= {
        "SHOW GRANTS": [("GRANT USAGE ON *.* TO `me`@`%`",), ("GRANT SELECT ON `shop`.* TO `me`@`%`",)],
        "innodb_table_stats": pymysql.err.OperationalError(1142, "SELECT command denied"),
        "innodb_trx": pymysql.err.OperationalError(1227, "you need PROCESS"),
        "innodb_metrics": pymysql.err.OperationalError(1227, "you need PROCESS"),
        "column_type": pymysql.err.OperationalError(3024, "maximum statement execution time exceeded"),
        "variables_info": pymysql.err.OperationalError(1142, "SELECT command denied"),
    }
    facts = read(server)
    assert facts.unseen["transactions"] == facts.unseen["statements"] == "this login may not see it: you need PROCESS"
    assert "SELECT command denied" in facts.unseen["statistics"] and "20 s" in facts.unseen["columns"]
    assert "GRANT SELECT" in facts.unseen["all tables"]
    assert not facts.statements and not facts.origins and len(facts.tables) == 2
    assert not any("processlist" in each for each in server.asked)


@pytest.mark.parametrize(
    ("version", "schema"),
    [
        ("9.7.4", "performance_schema"),
        ("8.0.22", "performance_schema"),
        ("8.0.21", "information_schema"),
        ("11.8.2-MariaDB", "information_schema"),
    ],
)
def test_where_statements_are_looked_up(version: str, schema: str) -> None:
    server = Server(version)
    read(server)
    assert [each for each in server.asked if f"FROM {schema}.processlist" in each]


def test_tables_that_could_not_be_read_are_not_all_tables() -> None:
    """Else a key buffer is called unused, and a small pool large enough."""
    server = Server()
    server.answers["information_schema.tables WHERE"] = pymysql.err.OperationalError(3024, "maximum execution time exceeded")
    facts = read(server)
    assert facts.unseen["all tables"] == facts.unseen["tables"] == "the server needed more than 20 s for it"


@pytest.mark.parametrize(
    ("text", "verb"),
    [
        ("/* criteria query of an application, with its long name */ select id", "SELECT"),
        ("-- a note\n# another\n(SELECT 1)", "SELECT"),
        ("/* cut sho", ""),
    ],
)
def test_a_statement_is_known_by_its_verb_and_not_by_a_comment(text: str, verb: str) -> None:
    server = Server()
    server.answers["processlist"] = [(9, 70, text)]
    assert read(server).statements[0].verb == verb


@pytest.mark.parametrize(
    "grant", ["GRANT ALL PRIVILEGES ON *.* TO `root`@`localhost`", "GRANT INSERT, SELECT ON *.* TO `a`@`b`"]
)
def test_a_login_that_sees_all_tables(grant: str) -> None:
    server = Server()
    server.answers["SHOW GRANTS"] = [(grant,)]
    assert "all tables" not in read(server).unseen


@pytest.mark.parametrize(
    ("version", "family", "numbers"),
    [
        ("8.4.6-6", "mysql", (8, 4, 6)),
        ("10.11.14-MariaDB-0+deb12u2", "mariadb", (10, 11, 14)),
        ("5.5.5-10.6.12-MariaDB-log", "mariadb", (10, 6, 12)),
    ],
)
def test_which_server_it_is(version: str, family: str, numbers: tuple[int, int, int]) -> None:
    facts = read(Server(version, performance_schema="OFF"))
    assert (facts.family, facts.version) == (family, numbers)
    assert facts.unseen["index use"] == "performance_schema is off"


@pytest.mark.parametrize(
    ("version", "said"), [("5.7.44", "MySQL 5.7.44"), ("10.3.39-MariaDB", "MariaDB 10.3.39"), ("8", "is not a version")]
)
def test_a_server_that_no_rule_holds_for(version: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read(Server(version))


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ({"folder": "/data"}, None),
        ({"folder": "/elsewhere"}, "the card measured /elsewhere, which is not on the data's file system; `upshift card --f"),
        ({"folder": "/no/such"}, "the card measured /no/such, which is not"),
        ({"folder": "/data", "direct_io": False}, "the card has no reads of the disk past the kernel's cache"),
        ({"folder": "/data", "fsync_us_p50": ()}, "or no syncs"),
        (None, "no machine card was named"),
    ],
)
def test_a_card_says_how_fast_the_datas_disk_is_and_no_other(
    tmp_path: Path, named: dict[str, Any] | None, why: str | None
) -> None:
    server = on_this_machine(tmp_path, datadir="/data/")
    (tmp_path / "data").mkdir()
    (tmp_path / "elsewhere").symlink_to("/proc")
    (tmp_path / "proc/77/mountinfo").write_text("22 1 254:1 / / rw,relatime - ext4 /dev/vda1 rw\n")
    (tmp_path / "proc/77/root").symlink_to(tmp_path)
    measured = None if named is None else card(**named)
    facts = read_facts(server, card=measured, sleep=lambda _s: None, root=tmp_path)
    assert facts.host and facts.host.disk and facts.host.disk.rotational is None
    assert why is None or why in facts.unseen["disk speed"]
    assert ("disk speed" in facts.unseen) == ("disk" in facts.unseen) == (why is not None)


def test_a_container_has_a_network_of_its_own(tmp_path: Path) -> None:
    for number, seen in ((1, True), (2, False)):
        server = on_this_machine(tmp_path)
        for process, net in (("77", number), ("self", 1)):
            folder = tmp_path / f"proc/{process}/ns"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "net").unlink(missing_ok=True)
            (folder / "net").symlink_to(f"net:[{net}]")
        facts = read_facts(server, sleep=lambda _s: None, root=tmp_path)
        assert facts.host and (facts.host.somaxconn is not None) is seen is ("network" not in facts.unseen)


def test_a_port_of_this_machine_may_be_a_containers(tmp_path: Path) -> None:
    for hostname, seen in ((platform.node(), True), ("0a1b2c3d4e5f", False)):
        facts = read_facts(on_this_machine(tmp_path, hostname=hostname), sleep=lambda _s: None, root=tmp_path)
        assert (facts.host is not None) == seen


@pytest.mark.parametrize("measured", [card(), None])
def test_no_card_is_asked_for_where_the_file_system_is_not_seen(tmp_path: Path, measured: Card | None) -> None:
    """It would not help: nobody could tell whether it is of the data's file system."""
    server = on_this_machine(tmp_path, datadir="/nowhere/")
    (tmp_path / "proc/77/mountinfo").write_text("22 1 254:1 / / rw,relatime - ext4 /dev/vda1 rw\n")
    facts = read_facts(server, card=measured, sleep=lambda _s: None, root=tmp_path)
    assert facts.host and facts.host.disk is None
    assert facts.unseen["disk speed"] == facts.unseen["file system"]
