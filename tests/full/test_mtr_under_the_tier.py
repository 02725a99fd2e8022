"""MySQL's innodb suite under the tier: what passes without it passes with it. An hour or more; ``./upshift test --full``.

What fails under it is run again without it, and must fail there too.

Two variables narrow it: ``UPSHIFT_MTR_TESTS`` names tests or suites as MTR does, separated by commas
(``innodb.alter_crash,--suite=innodb_zip``), ``UPSHIFT_MTR_TREE`` a build folder of MySQL that is there already.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from fakes import FakeProgress
from marks import only_full

from upshift.native.programs import programs_dir
from upshift.paths import CHECKOUT
from upshift.server import mtr
from upshift.server.kind import TestOutcome
from upshift.shell import SystemShell
from upshift.workbench import Workbench

pytestmark = only_full

TESTS = os.environ.get("UPSHIFT_MTR_TESTS", "innodb")
JOBS = os.cpu_count() or 1
# More than the data of any test, so that what is not served was not to be served.
SIZE = "128M"


@pytest.fixture
def shell() -> Iterator[SystemShell]:
    shell = SystemShell()
    yield shell
    shell.close()


def test_what_passes_without_the_tier_passes_with_it(tmp_path: Path, shell: SystemShell) -> None:
    tree = _tree()
    server = tree / "runtime_output_directory" / "mysqld"
    pages = tmp_path / "pages"
    pages.mkdir()
    under = _run(tmp_path / "with", shell, tree, _under_the_tier(server, tmp_path / "mysqld", pages), TESTS)
    served = _served(pages)
    sys.stdout.write(f"with the tier {under.passed} of {under.run} passed; {dict(served)}\n")
    # Else the tier was not there to be tested.
    assert served["servers"] > 0
    assert served["hits"] > 0
    assert served["warm starts"] > 0
    if failed := [name for name in under.failed if "." in name]:
        without = _run(tmp_path / "without", shell, tree, server, ",".join(_names(failed)))
        sys.stdout.write(f"of {failed}, without the tier {without.failed} fail\n")
        assert set(failed) <= set(without.failed), f"see {tmp_path / 'with' / 'log'}"
    assert set(under.failed) == set(failed), "a server crashed at its end"


def _names(failed: list[str]) -> list[str]:
    """What to ask MTR for: without the combination of options, once each."""
    return list(dict.fromkeys(name.split()[0] for name in failed))


def _tree() -> Path:
    """The plain build, made where it is not there."""
    if named := os.environ.get("UPSHIFT_MTR_TREE"):
        return Path(named).resolve()
    return Path(json.loads(_upshift("build", "plain", "--json", "--no-install"))["tree"])


def _source(tree: Path) -> Path:
    found = re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.+)$", (tree / "CMakeCache.txt").read_text(), re.MULTILINE)
    assert found, f"{tree} is not a build folder of CMake's"
    return Path(found[1])


def _run(folder: Path, shell: SystemShell, tree: Path, server: Path, tests: str) -> TestOutcome:
    folder.mkdir()
    bench = Workbench(folder, shell, folder / "log", FakeProgress())
    return mtr.run_tests(bench, _source(tree), tree, server, tests, jobs=JOBS)


def _under_the_tier(server: Path, script: Path, pages: Path) -> Path:
    """A server that is started as ``upshift cache run`` starts it, with the name it was called by, which MTR's log must show.

    A tier's file for each of MTR's servers, which are told apart by their first two options (option file and group), so that
    restarts are warm; a statistics page for each start.
    """
    line = _upshift("cache", "run", "--size", SIZE, "--cutoff", "0", "--dry-run", "--", str(server), "--no-defaults")
    environment = _assignments(line)
    words = " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items())
    script.write_text(
        "#!/bin/bash\n"
        "name=$(printf %s \"$1$2\" | tr -c 'a-z0-9\\n' _)\n"
        f"{words} UPSHIFT_TIER_MEDIUM=file:{shlex.quote(str(pages))}/$name.cache "
        f"UPSHIFT_TIER_STATUS={shlex.quote(str(pages))}/$$.status "
        f'exec -a "$0" {shlex.quote(str(server))} "$@"\n'
    )
    script.chmod(0o755)
    return script


def _assignments(line: str) -> Mapping[str, str]:
    """The variables that stand before the command in a line for a shell."""
    found: dict[str, str] = {}
    for word in shlex.split(line):
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier():
            return found
        found[name] = value
    raise AssertionError(f"no command in {line}")


def _served(pages: Path) -> Counter[str]:
    """What the tiers of all servers counted, from the pages that they left."""
    total: Counter[str] = Counter()
    for page in pages.glob("*.status"):
        done = subprocess.run(
            [str(programs_dir() / "upshift-cache"), "stat", "--json", "--status", str(page)], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout)
        total["servers"] += 1
        total["warm starts"] += said["start"].startswith("warm: ")
        total["hits"] += said["counters"]["hits"]
        total["misses"] += said["counters"]["misses"]
        total["pages verified after a start"] += said["counters"]["warm_verified"]
        total["pages rejected after a start"] += said["counters"]["warm_rejected"]
    return total


def _upshift(*arguments: str) -> str:
    done = subprocess.run([str(CHECKOUT / "upshift"), *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout
