"""MySQL's own test suite against one server: MTR on a shadow of the build folder in which mysqld is the server under test."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import textwrap
from collections.abc import Mapping
from pathlib import Path

from upshift.errors import CommandFailed, NotTested
from upshift.server.kind import TestOutcome
from upshift.server.mtr_alone import alone
from upshift.server.mtr_shadow import SERVER, make_shadow
from upshift.shell import Command
from upshift.values import content_hash
from upshift.workbench import Workbench

# Where compilers hurt: some minutes on two CPUs. Left out: main.ps, which needs mysql_client_test built, and main.range_icp,
# whose plans hang on when statistics are gathered.
SHORT = (
    # Statements, joins, prepared statements, aggregates.
    "main.1st",
    "main.ps_1general",
    "main.ps_3innodb",
    "main.group_by",
    "main.union",
    "main.select_all",
    "main.join_nested",
    "main.count_distinct",
    "main.window_functions",
    "main.window_std_var",
    "main.with_recursive",
    # Stack depth.
    "main.execution_constants",
    "main.parser_stack",
    "main.sp_stress_case",
    # Decimal and binary numbers.
    "main.type_newdecimal",
    "main.type_decimal",
    "main.type_float",
    "main.func_math",
    "main.round",
    # Strings, collations, sorting.
    "main.func_str",
    "main.ctype_uca",
    "main.ctype_utf8mb4",
    "main.filesort",
    "main.order_by_all",
    "main.order_by_sortkey",
    # JSON, partitions.
    "json.json_functions_innodb",
    "json.json_table",
    "json.array_index",
    "main.partition",
    "main.partition_innodb",
    "main.partition_pruning",
    # Indexes, and recovery after a kill.
    "innodb.innodb-index",
    "innodb.update_time",
    "innodb.xa_recovery",
    "innodb.lob_recovery",
)
# Programs whose absence stops MTR before the first test, besides mysqld.
TARGETS = (
    "mysql",
    "mysqladmin",
    "mysqlbinlog",
    "mysqlcheck",
    "mysqldump",
    "mysqlimport",
    "mysqlshow",
    "mysqltest",
    "mysqltest_safe_process",
    "mysql_config_editor",
    "mysql_tzinfo_to_sql",
    "mysql_secure_installation",
    "mysql_migrate_keyring",
    "mysql_keyring_encryption_test",
    "mysqlslap",
    "my_print_defaults",
    "innochecksum",
    "ibd2sdi",
    "myisamchk",
    "myisampack",
    "myisamlog",
    "myisam_ftdump",
    "perror",
)
# A test may come once for each combination of options: ``main.ps 'ps-protocol'``. MTR repeats what failed.
_RESULT = re.compile(
    r"^\[\s*\d+%\]\s+(\w+\.\S+(?:\s+'[^']*')?|shutdown_report)\s.*\[ (?:retry-)?(pass|fail|skipped|disabled) \]"
)
# Not a test, but whether all servers ended without a crash.
_SHUTDOWN = "shutdown_report"
_ENDED = "Completed: "
# Before that line, where workers died: a server that could not make its data folder is none of the tests that failed.
_LOST = "Not all tests completed: "
_LONGEST_REASON = 300
_STARTING = re.compile(r"\[Server\] (\S+) \(mysqld \S+\) starting as process")
_CURRENT = re.compile(r"CURRENT_TEST: (\S+)")
_CRASH = re.compile(r"got signal \d+|Sanitizer:|: runtime error: ")
SUITES = {
    "short": SHORT,
    "main": ("--suite=main",),
    "innodb": ("--suite=innodb",),
    "json": ("--suite=json",),
    "sys_vars": ("--suite=sys_vars",),
    "perfschema": ("--suite=perfschema",),
    "whole": ("--suite=main,json,innodb,sys_vars",),
    # MySQL's run-profile-suite target runs some thirty suites for many hours; these two execute most of the server.
    "profile": ("--suite=main,innodb", "--mysqld=--binlog-format=row", "--retry=0"),
}
_SHARED_MEMORY = Path("/dev/shm")
_WORKER_BYTES = 300_000_000
"""Data of a test server with its logs and tables; MTR keeps one more to copy from."""
_SHORT_TIMEOUT_S, _SUITE_TIMEOUT_S = 3600.0, 12 * 3600.0
# MTR's own limit, 300 minutes unless it is told, would come before that of a suite.
_MTR_LIMIT = f"--suite-timeout={_SUITE_TIMEOUT_S / 60:.0f}"
_TEST = re.compile(r"([\w-]+)\.([\w-]+)")


def unknown_tests(tests: str, source: Path | None) -> tuple[str, ...]:
    """Those of ``tests``, a suite's name or SUITE.TEST with commas between them, that are not MySQL's."""
    return () if tests in SUITES else tuple(name for name in tests.split(",") if not _known(name, source))


def _known(name: str, source: Path | None) -> bool:
    found = _TEST.fullmatch(name)
    if found is None or source is None:
        return found is not None
    suite, test = found[1], found[2]
    folder = tests_folder(suite, source)
    # Some plugins bring a suite of their own.
    return (folder / f"{test}.test").is_file() if folder else any(source.glob(f"plugin/{suite}/tests/mtr"))


def tests_folder(suite: str, source: Path) -> Path | None:
    """Where the scripts of a suite lie, if the source has it."""
    folder = source / "mysql-test" / ("t" if suite == "main" else f"suite/{suite}/t")
    return folder if folder.is_dir() else None


def run_tests(
    bench: Workbench,
    source: Path,
    tree: Path,
    server: Path,
    suite: str,
    *,
    jobs: int,
    environment: Mapping[str, str] = {},
    options: tuple[str, ...] = (),
) -> TestOutcome:
    """Run one of SUITES (``profile`` is what trains vendor-pgo), or tests separated by commas, with MTR's own ``options``.

    A test that passes when MTR repeats it has passed. Raises NotTested when MTR could not test, stopped before the
    end, lost tests with a worker, or tested another executable than ``server``.
    """
    tests = SUITES.get(suite) or tuple(suite.split(","))
    results: dict[str, str] = {}
    repeated: set[str] = set()
    ended, lost = False, ""

    def on_line(line: str) -> None:
        nonlocal ended, lost
        ended = ended or line.startswith(_ENDED)
        if _LOST in line:
            lost = textwrap.shorten(line[line.index(_LOST) :], _LONGEST_REASON, placeholder=" ...")
        if found := _RESULT.match(line.strip()):
            before = results.get(found[1])
            if before == "fail" and found[2] == "pass":
                bench.progress.note(f"{found[1]} passed only when it was repeated: see {bench.log}")
                repeated.add(found[1])
            # What is skipped when it is repeated has failed.
            if before != "fail" or found[2] in ("pass", "fail"):
                results[found[1]] = found[2]
            bench.progress.update(len(results), max(len(tests), len(results)), found[1])

    shadow = bench.folder.resolve() / "mtr"
    _remove(shadow)
    make_shadow(shadow, tree.resolve(), server, source)
    command = _command(source, shadow, (*options, *tests), jobs, environment, memory_folder(shadow, jobs))
    try:
        with alone(lambda: bench.progress.note("another run is testing with MTR, which takes the same ports: waiting for it")):
            bench.shell.run(
                command,
                log=bench.log,
                on_line=on_line,
                timeout_s=_SUITE_TIMEOUT_S if tests[0].startswith("--suite") else _SHORT_TIMEOUT_S,
            )
        failure = None
    except CommandFailed as error:
        failure = error
    finally:
        tested, crashed = _logged(shadow)
        _remove(shadow)
    if lost or not ended:
        why = lost or (failure.message if failure else "it did not say that it completed")
        raise NotTested(f"MySQL's test suite did not run to its end: {why}", f"see {bench.log}") from failure
    outcome = _outcome(results, tests, tested, shadow / SERVER, bench.log)
    again = tuple(name for name in outcome.passing if name in repeated)
    return outcome.model_copy(update={"repeated": again, "crashed": tuple(sorted(crashed))})


def _command(
    source: Path, shadow: Path, tests: tuple[str, ...], jobs: int, environment: Mapping[str, str], memory: Path | None
) -> Command:
    script = source / "mysql-test" / "mysql-test-run.pl"
    in_memory = ("--mem",) if memory else ()
    options = ("--force", "--max-test-fail=0", _MTR_LIMIT, f"--parallel={jobs}", *in_memory, "--skip-rpl")
    return Command(
        ("perl", str(script), *options, *tests),
        cwd=source / "mysql-test",
        env={**environment, "MTR_BINDIR": str(shadow), **({"MTR_MEM": str(memory)} if memory else {})},
    )


def _outcome(results: Mapping[str, str], tests: tuple[str, ...], tested: set[str], server: Path, log: Path) -> TestOutcome:
    ran = {name: how for name, how in results.items() if how in ("pass", "fail")}
    failed, passing = (tuple(sorted(name for name in ran if ran[name] == how)) for how in ("fail", "pass"))
    ran.pop(_SHUTDOWN, None)
    if not ran:
        raise NotTested(f"no test ran of {', '.join(tests)}", f"see {log}")
    if str(server) not in tested:
        others = ", ".join(sorted(tested)) or "no server's log was left"
        raise NotTested(f"the tests did not run on {server} ({others})", f"see {log}")
    passed = sum(1 for how in ran.values() if how == "pass")
    return TestOutcome(run=len(ran), passed=passed, failed=failed, passing=passing)


def _logged(shadow: Path) -> tuple[set[str], set[str]]:
    """What the servers' own logs say: the executables, ``PATH (mysqld 9.7.4) starting as process``, and the tests in which a
    server crashed.
    """
    tested: set[str] = set()
    crashed: set[str] = set()
    # --mem has put var into memory, behind a link, which rglob would not follow.
    for log in (shadow / "mysql-test" / "var").resolve().rglob("mysqld.*.err"):
        current = ""
        with log.open(errors="replace") as lines:
            for line in lines:
                tested.update(_STARTING.findall(line))
                if found := _CURRENT.match(line):
                    current = found[1]
                elif current and _CRASH.search(line):
                    crashed.add(current)
    return tested, crashed


def memory_folder(shadow: Path, jobs: int) -> Path | None:
    """A new folder in memory for the data of ``jobs`` workers; None where there is too little room.

    In a container, /dev/shm has 64 MB by default. By its name the next run in ``shadow`` finds what a kill has left.
    """
    folder = _memory(shadow)
    with contextlib.suppress(OSError):
        if shutil.disk_usage(folder.parent).free >= _WORKER_BYTES * (jobs + 1):
            folder.mkdir(mode=0o700)
            return folder
    return None


def _memory(shadow: Path) -> Path:
    return _SHARED_MEMORY / f"upshift-{os.getuid()}-{content_hash(str(shadow))[:16]}"


def _remove(shadow: Path) -> None:
    for folder in (_memory(shadow), (shadow / "mysql-test" / "var").resolve(), shadow):
        shutil.rmtree(folder, ignore_errors=True)
