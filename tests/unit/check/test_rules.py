"""Each rule names what it is for, stays silent where it comes near, and well-set servers hear nothing."""

from __future__ import annotations

import re
from typing import Any

import pytest
from cards import calls, card, steady, wild
from examples import EXAMPLES
from served import MARIADB, SMALL, WELL, changed

from upshift.check.model import BY_COMMAND_LINE, BY_PERSIST, BY_SET, Facts, Report
from upshift.check.rule import Rule, judge
from upshift.check.rules import RULES
from upshift.server.huge_text import Text

BY_ID = {each.id: each for each in RULES}
# What is wrong in one way may be in another as well: each pair with its reason.
COMPANIONS = {
    "log-not-written": {"durability-pair"},  # the binary log is synced
    "tmp-table-pair": {"tmp-engine-memory"},  # limits differ only for that engine
    "statistics-on-metadata": {"statistics-not-kept"},  # it matters only for statistics that are not kept
}


def reported(facts: Facts, *rules: Rule) -> Report:
    return judge(facts, rules or RULES, server="localhost:3306")


def ids(report: Report) -> set[str]:
    return {each.id for each in report.findings}


def test_every_rule_has_both_examples_and_no_other() -> None:
    assert len(BY_ID) == len(RULES)
    assert set(EXAMPLES) == set(BY_ID)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_names_what_it_is_for_with_a_fix(rule: Rule) -> None:
    (finding,) = reported(EXAMPLES[rule.id].firing, rule).findings
    assert EXAMPLES[rule.id].fix in (*finding.my_cnf, *finding.sql, *finding.shell)
    assert finding.evidence.endswith(".")
    assert not rule.provable or finding.settings_then, "what is measured is a setting"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_is_silent_where_it_comes_near(rule: Rule) -> None:
    report = reported(EXAMPLES[rule.id].silent, rule)
    assert not report.findings
    assert [each.id for each in report.well] == [rule.id], "it was judged, and not left out"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_one_fault_alone_is_named_alone(rule: Rule) -> None:
    assert ids(reported(EXAMPLES[rule.id].firing)) - {rule.id} <= COMPANIONS.get(rule.id, set())


@pytest.mark.parametrize("facts", [WELL, SMALL, MARIADB], ids=["well set", "container of 256 MiB", "MariaDB"])
def test_a_well_set_server_hears_nothing(facts: Facts) -> None:
    assert ids(reported(facts)) == set()


def test_every_rule_is_written_as_the_others_are() -> None:
    for each in RULES:
        assert re.fullmatch(r"[a-z]+(-[a-z0-9]+)*", each.id)
        assert re.match(r"(MySQL manual|MySQL 9\.7 source|MariaDB documentation|Linux kernel)[:, ]", each.source), each.id
        assert not each.title.endswith(".") and each.effect.endswith(".") and each.risk.endswith(".")
        assert len(f"WARNING {each.id}: {each.title}") <= 100


def test_several_faults_at_once_are_all_named() -> None:
    variables: dict[str, str] = {}
    planted = [name for name, each in EXAMPLES.items() if not name.endswith("mariadb") and _only_variables(each.firing)]
    for name in planted:
        variables |= {key: value for key, value in EXAMPLES[name].firing.variables.items() if WELL.variables.get(key) != value}
    found = ids(reported(changed(variables=variables)))
    assert len(found & set(planted)) >= 25


def _only_variables(facts: Facts) -> bool:
    return facts.family == "mysql" and facts.model_copy(update={"variables": WELL.variables}) == WELL


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ({"uptime": "600", "uptime_since_flush_status": "600"}, "600 s"),
        ({"uptime_since_flush_status": "60"}, "60 s"),
        ({"questions": "9000"}, "9,000 statements"),
    ],
)
def test_the_load_is_not_judged_before_there_was_one(status: dict[str, str], why: str) -> None:
    of_load = [each for each in RULES if "traffic" in each.needs and each.families != ("mariadb",)]
    assert len(of_load) > 10
    for rule in of_load:
        facts = EXAMPLES[rule.id].firing
        report = reported(facts.model_copy(update={"status": {**facts.status, **status}}), rule)
        assert not report.findings and not report.well
        assert why in report.not_judged[0].why


@pytest.mark.parametrize(
    "change",
    [
        {"card": card()},  # huge pages change little
        {"card": card(calls=calls(steady(12), wild(31), steady(20)))},
        {"card": card(calls=calls(steady(12), steady(31), steady(15), had=False))},
        {"host": {"text": Text(size_bytes=4 << 20, huge_bytes=0)}},
    ],
)
def test_text_on_small_pages_is_well_where_huge_ones_promise_little(change: dict[str, Any]) -> None:
    facts = changed(**{"card": EXAMPLES["text-small-pages"].firing.card, **change})
    assert [each.id for each in reported(facts, BY_ID["text-small-pages"]).well] == ["text-small-pages"]


def test_a_kernel_that_gives_no_huge_pages_is_told_to() -> None:
    facts = changed(card=EXAMPLES["text-small-pages"].firing.card, host={"huge_pages": "never"})
    (finding,) = reported(facts, BY_ID["text-small-pages"]).findings
    assert finding.shell[0].startswith("echo madvise >") and "mysqld" in finding.shell[1]


def test_the_library_is_preloaded_into_the_unit_that_runs() -> None:
    facts = changed(card=EXAMPLES["text-small-pages"].firing.card, host={"unit": "mysqld.service"})
    (finding,) = reported(facts, BY_ID["text-small-pages"]).findings
    assert finding.shell[0].startswith("mkdir -p /etc/systemd/system/mysqld.service.d && ")


UNMEASURED = {"card": "no machine card was named", "disk speed": "no machine card was named"}


def test_what_the_kernel_says_of_a_disk_is_no_speed() -> None:
    """Without a card: of the capacity nothing is said; where nothing seeks, the kernel is quoted."""
    for rotational, named in ((False, {"flush-neighbors", "io-scheduler"}), (True, set())):
        for capacity in ("100", "20000"):
            facts = changed(
                variables={"innodb_io_capacity": capacity, "innodb_flush_neighbors": "1"},
                disk={"rotational": rotational, "scheduler": "bfq"},
                unseen=UNMEASURED,
                card=None,
            )
            report = reported(facts)
            assert ids(report) == named
            assert {"io-capacity-low", "io-capacity-high"} <= {each.id for each in report.not_judged}
            assert all("the kernel says that nvme0n1 does not turn" in each.evidence for each in report.findings)
            assert not any("fast" in f"{each.title} {each.evidence}" for each in report.findings)


@pytest.mark.parametrize(
    ("read_us", "sync_us", "capacity", "named"),
    [
        (500, 1999, 999, {"io-capacity-low", "flush-neighbors"}),
        (500, 1999, 1000, {"flush-neighbors"}),
        (501, 1999, 999, set()),  # between fast and turning: nothing is said
        (90, 2000, 999, set()),  # reads from a cache, and a disk behind it that turns
        (1999, 5000, 20000, set()),
        (2000, 5000, 1001, {"io-capacity-high"}),
        (2000, 5000, 1000, set()),
    ],
)
def test_a_disk_is_judged_by_what_was_measured(read_us: float, sync_us: float, capacity: int, named: set[str]) -> None:
    """Whatever the kernel says of it."""
    for rotational in (True, False, None):
        facts = changed(
            variables={"innodb_io_capacity": str(capacity), "innodb_flush_neighbors": "1"},
            disk={"rotational": rotational},
            card=card(read_us_p50=steady(read_us), fsync_us_p50=steady(sync_us)),
        )
        assert ids(reported(facts)) == named


@pytest.mark.parametrize(("read_us", "advised"), [(2000, 500), (3500, 300), (8000, 100), (30_000, 100)])
def test_a_capacity_is_advised_by_the_reads_a_second(read_us: float, advised: int) -> None:
    facts = changed(card=card(read_us_p50=steady(read_us), fsync_us_p50=steady(9000)))
    (finding,) = reported(facts, BY_ID["io-capacity-high"]).findings
    assert finding.settings_then["innodb_io_capacity"] == str(advised)
    assert f"in {read_us:,.0f} µs, {1e6 / read_us:,.0f} a second one at a time" in finding.evidence


def test_what_cannot_be_seen_is_not_judged() -> None:
    away_sections = ("machine", "disk", "disk speed")
    elsewhere = changed(unseen=dict.fromkeys(away_sections, "another machine")).model_copy(update={"host": None})
    report = reported(elsewhere)
    assert not report.findings and not report.on_this_machine
    away = {each.id for each in report.not_judged}
    assert away == {each.id for each in RULES if set(away_sections) & set(each.needs) and each.holds_for(elsewhere)}
    assert {each.why for each in report.not_judged} == {"another machine"}


@pytest.mark.parametrize("id", ["no-primary-key", "unused-index", "charset-utf8mb3", "statistics-frozen", "myisam-tables"])
def test_tables_that_a_login_cannot_see_are_not_called_well(id: str) -> None:
    few = {"all tables": "this login sees its own tables"}
    report = reported(changed(unseen=few), BY_ID[id])
    assert not report.well and [each.why for each in report.not_judged] == [few["all tables"]]
    found = reported(EXAMPLES[id].firing.model_copy(update={"unseen": few}), BY_ID[id])
    assert ids(found) == {id} and not found.not_judged


def test_a_rule_of_another_server_says_nothing() -> None:
    known = {each.id for part in (reported(MARIADB).well, reported(MARIADB).not_judged) for each in part}
    assert {"redo-small-mariadb", "query-cache", "doublewrite-off"} <= known
    assert not known & {"redo-small", "tmp-engine-memory", "performance-schema-off", "container-unaware"}


def test_evidence_says_where_a_setting_comes_from() -> None:
    facts = changed(variables={"innodb_doublewrite": "OFF"}, origins={"innodb_doublewrite": "/etc/mysql/my.cnf"})
    (finding,) = reported(facts).findings
    assert finding.evidence.endswith("innodb_doublewrite comes from /etc/mysql/my.cnf.")
    assert finding.settings_now == {"innodb_doublewrite": "OFF"} and finding.settings_then == {"innodb_doublewrite": "ON"}


def test_a_persisted_setting_is_changed_where_it_is() -> None:
    """mysqld-auto.cnf overrides my.cnf, and SET takes neither 256K nor a word without quotes."""
    bad = {"sort_buffer_size": str(8 << 20), "innodb_flush_log_at_trx_commit": "2", "sync_binlog": "0"}
    facts = changed(
        variables={**bad, "transaction_isolation": "SERIALIZABLE"},
        origins=dict.fromkeys(("sort_buffer_size", "sync_binlog", "transaction_isolation"), BY_PERSIST),
    )
    found = {each.id: each for each in reported(facts).findings}
    sort, log = found["sort-buffer-global"], found["log-not-synced"]
    assert sort.my_cnf == () and sort.sql == ("SET PERSIST_ONLY sort_buffer_size = 262144",)
    assert sort.evidence.endswith(" sort_buffer_size is persisted: mysqld-auto.cnf overrides my.cnf.")
    assert sort.provable and sort.settings_then == {"sort_buffer_size": "256K"}
    assert log.my_cnf == ("innodb_flush_log_at_trx_commit = 1",) and log.sql == ("SET PERSIST_ONLY sync_binlog = 1",)
    assert found["isolation-serializable"].sql == ("SET PERSIST_ONLY transaction_isolation = 'REPEATABLE-READ'",)


def test_a_persisted_pool_size_is_a_configured_one() -> None:
    named = {"innodb_dedicated_server": "ON"}
    for origin, id in ((BY_PERSIST, "dedicated-server-ignored"), (BY_SET, "dedicated-server-shared")):
        facts = changed(variables=named, origins={"innodb_buffer_pool_size": origin}, host={"others_bytes": 5 << 30})
        assert ids(reported(facts)) == {id}


def test_evidence_says_that_the_services_options_hold() -> None:
    facts = changed(variables={"general_log": "ON"}, origins={"general_log": BY_COMMAND_LINE})
    (finding,) = reported(facts).findings
    assert finding.evidence.endswith(
        " general_log comes from the command line, which overrides my.cnf: "
        "change the options of the service that starts the server."
    )


def test_the_worst_comes_first() -> None:
    facts = changed(variables={"innodb_status_output": "ON", "innodb_doublewrite": "OFF", "character_set_server": "latin1"})
    severities = [each.severity for each in reported(facts).findings]
    assert severities == sorted(severities, key=["error", "warning", "note"].index) and severities[0] == "error"


def test_names_are_quoted_as_sql_takes_them() -> None:
    odd = WELL.tables[0].model_copy(update={"name": "o`dd", "engine": "MyISAM"})
    (finding,) = reported(changed(tables=(odd,)), BY_ID["myisam-tables"]).findings
    assert finding.sql == ("ALTER TABLE `shop`.`o``dd` ENGINE=InnoDB",)
