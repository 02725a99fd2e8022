"""tests/benches/races.py: a race is the two functions of the server that it is between, wherever they are called from."""

from __future__ import annotations

from script_module import BENCHES, script_module

RACES = script_module(BENCHES / "races.py")

# As clang 22 writes it, with stacks cut.
REPORT = """\
==================
WARNING: ThreadSanitizer: data race (pid=4071)
  Write of size 1 at 0x555 by thread T9 (mutexes: write M12):
    #0 Sys_var_bool::global_update(THD*, set_var*) /src/sql/sys_vars.h:620:30 (mysqld+0x1) (BuildId: 1c)
    #1 sys_var::update(THD*, set_var*) /src/sql/set_var.cc:320:12 (mysqld+0x2) (BuildId: 1c)

  Previous read of size 1 at 0x555 by thread T7:
    #0 __interceptor_memcpy <null> (mysqld+0x3) (BuildId: 1c)
    #1 std::vector<Item*, Malloc<Item*>>::at(unsigned long) /lib/vector.h:7:1 (mysqld+0x4) (BuildId: 1c)
    #2 bool Cached<int, Map<int>>::applies(THD const*) const /src/sql/cached.cc:41:7 (mysqld+0x5) (BuildId: 1c)
    #3 mysql_execute_command(THD*, bool) /src/sql/sql_parse.cc:4000:1 (mysqld+0x6) (BuildId: 1c)

  Location is global 'switch_on' of size 1 at 0x555 (mysqld+0x7)

  Thread T9 'connection' (tid=4080, running) created by main thread at:
    #0 pthread_create <null> (mysqld+0x8) (BuildId: 1c)

SUMMARY: ThreadSanitizer: data race /src/sql/sys_vars.h:620:30 in Sys_var_bool::global_update(THD*, set_var*)
==================
"""


def test_a_race_is_between_the_innermost_functions_of_the_server() -> None:
    [(race, text)] = RACES.races(f"2026-11-28 [Note] ready\n{REPORT}")
    assert race == ("data race", "Cached::applies", "Sys_var_bool::global_update")
    assert "Previous read" in text and "SUMMARY" not in text


def test_the_same_race_elsewhere_in_the_source_is_the_same_race() -> None:
    moved = REPORT.replace("620:30", "633:30").replace("sql_parse.cc:4000", "sql_prepare.cc:91")
    assert len({race for race, _ in RACES.races(REPORT + moved)}) == 1


def test_another_function_is_another_race() -> None:
    other = REPORT.replace("::applies(", "::refused(")
    assert len({race for race, _ in RACES.races(REPORT + other)}) == 2


def test_a_stack_without_a_function_of_the_server_is_told_by_its_first_frame() -> None:
    lines = REPORT.splitlines(keepends=True)
    [(race, _)] = RACES.races("".join(line for line in lines if "cached.cc" not in line and "sql_parse.cc" not in line))
    assert race == ("data race", "Sys_var_bool::global_update", "__interceptor_memcpy")


def test_a_log_without_reports_has_no_race() -> None:
    assert RACES.reports() == [] and not list(RACES.races("2026-11-28 [Note] ready\n"))
