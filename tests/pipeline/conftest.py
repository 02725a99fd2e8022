"""Upshift's command line, run as its users run it, on the tests' own small server."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from in_process import run_main

from upshift.paths import CHECKOUT
from upshift.report.result import Result

# A shell that starts the suite in the background has it ignore Ctrl-C, and what it starts as well.
signal.signal(signal.SIGINT, signal.default_int_handler)

SMALL = CHECKOUT / "tests" / "small_server"
SOURCE = SMALL / "source"
TRAINING = {"--train-seconds": "2", "--sample-seconds": "4"}
# The shortest measurement that gives an interval.
MEASURED = {
    "--trials": "2",
    "--rounds": "1",
    "--slice-seconds": "0.5",
    "--lead-seconds": "0",
    "--warmup-seconds": "1",
    "--card-seconds": "0",
}
# The shortest times that still give the hot set and the profile enough to work with; of one trial there is no interval.
QUICK = {"--connections": "4", **MEASURED, "--trials": "1", **TRAINING, "--explain-seconds": "0"}


def words(options: Mapping[str, str], *more: str) -> tuple[str, ...]:
    """The words of ``options``, and ``more``, which wins over them."""
    return (*(word for option, value in options.items() if option not in more for word in (option, value)), *more)


TRAINED = words(TRAINING)


def workload(name: str) -> str:
    """The path of a workload file for the small server: a well-behaved one, or else a misbehaving one."""
    file = SMALL / "workloads" / f"{name}.toml"
    return str(file if file.is_file() else SMALL / "misbehaving" / f"{name}.toml")


def optimizing(*more: str, train_on: tuple[str, ...] = ("mix",), held_out: tuple[str, ...] = ("scan",)) -> tuple[str, ...]:
    """``optimize`` on the small server, as short as it can be; ``more`` wins over what is given here."""
    named = [part for name in train_on for part in ("--workload", workload(name))]
    named += [part for name in held_out for part in ("--held-out", workload(name))]
    return ("optimize", "--no-install", *named, *words({"--source": str(SOURCE), **QUICK}, *more))


def measuring(*arms: str) -> tuple[str, ...]:
    """``measure`` of these servers, as short as it can be; options among ``arms`` win over what is given here."""
    return ("measure", "--no-install", "--workload", workload("mix"), *words(MEASURED, *arms))


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it printed."""

    code: int
    stdout: str
    stderr: str

    def json(self) -> Any:
        """Its stdout, which must be one JSON document and nothing else."""
        return json.loads(self.stdout)

    def result(self) -> Result:
        return Result.model_validate_json(self.stdout)


def pairs(result: Result) -> set[tuple[str, str]]:
    """Each arm with what it is compared with."""
    return {(one.arm, one.baseline) for one in result.comparisons}


Run = Callable[..., Done]
"""Runs ``upshift`` with arguments to its end."""


class Cli:
    """``./upshift`` with a cache of its own."""

    def __init__(self, cache: Path, home: Path) -> None:
        self.cache = cache
        self.environment = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "UPSHIFT_CACHE": str(cache),
            "UPSHIFT_SERVER_KIND": str(SMALL / "kind.py"),
            # Enough for the small server; what MySQL needs would refuse a small machine.
            "UPSHIFT_NEEDED_DISK_BYTES": "500000000",
            "UPSHIFT_NEEDED_MEMORY_BYTES": "500000000",
        }

    def start(self, *arguments: str, env: Mapping[str, str] = {}) -> subprocess.Popen[str]:
        """Start a command in a process group of its own, so that a test can interrupt it as a terminal would."""
        return subprocess.Popen(
            [str(CHECKOUT / "upshift"), *arguments],
            env={**self.environment, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __call__(self, *arguments: str, env: Mapping[str, str] = {}, timeout_s: float = 900) -> Done:
        """Run a command to its end."""
        process = self.start(*arguments, env=env)
        try:
            stdout, stderr = process.communicate(timeout=timeout_s)
        except BaseException:
            process.kill()
            raise
        return Done(process.returncode, stdout, stderr)

    def optimize(
        self,
        *more: str,
        train_on: tuple[str, ...] = ("mix",),
        held_out: tuple[str, ...] = ("scan",),
        env: Mapping[str, str] = {},
    ) -> Done:
        """How ``optimizing`` with these words ends."""
        return self(*optimizing(*more, train_on=train_on, held_out=held_out), "--json", env=env)

    def measure(self, *arms: str, env: Mapping[str, str] = {}) -> Done:
        """How ``measuring`` these servers ends."""
        return self(*measuring(*arms), "--json", env=env)

    def runs(self) -> list[Path]:
        """The folders of all runs, oldest first."""
        return sorted((self.cache / "runs").iterdir()) if (self.cache / "runs").is_dir() else []


@pytest.fixture(scope="session")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """One cache for all tests of a worker: what an earlier one has built, a later one finds."""
    folder = tmp_path_factory.mktemp("upshift")
    return Cli(folder / "cache", folder)


@pytest.fixture
def here(cli: Cli, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """As ``cli``, in the test's own process: for what is refused before any work, which takes less time than a start."""
    for name, value in cli.environment.items():
        monkeypatch.setenv(name, value)

    def run(*arguments: str) -> Done:
        return Done(*run_main(monkeypatch, capsys, *arguments))

    return run


@pytest.fixture(scope="session")
def plain(cli: Cli) -> Path:
    """The plain build of the small server."""
    built = cli("build", "plain", "--source", str(SOURCE), "--workload", workload("mix"), "--no-install")
    assert built.code == 0, built.stderr
    return Path(built.stdout.strip())


@pytest.fixture(scope="session")
def today(plain: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same server where a package would have put it."""
    folder = tmp_path_factory.mktemp("today") / "bin"
    folder.mkdir(parents=True)
    for name in ("smallserver", "smallload"):
        shutil.copy2(plain.parent / name, folder)
    return folder / "smallserver"
