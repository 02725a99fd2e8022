"""Does measuring find what is there, and nothing else?

    PYTHONPATH=src .venv/bin/python tests/benches/precision.py same --server PATH/mysqld --runs 8 --json FILE
    PYTHONPATH=src .venv/bin/python tests/benches/precision.py planted --runs 10 --json FILE
    PYTHONPATH=src .venv/bin/python tests/benches/precision.py planted-mysql --runs 10 --json FILE
    PYTHONPATH=src .venv/bin/python tests/benches/precision.py again RUN... --json FILE

``same`` measures a server against itself: five workloads a run, so that 8 runs are 40 comparisons of QPS, and says how many
an interval of 99 % would call. ``planted`` measures the tests' small server against one that does a loop more for each
statement: first how many rounds of it cost ``--percent`` of the CPU time a query, then so many experiments of ``--budget``
whether that is called. ``planted-mysql`` does so with MySQL and the patch of tests/full/planted, which both servers have: one
loop is longer than the other. It says of each experiment whether the instructions a query call it, too; ``--rounds`` more take
the place of ``--percent``. ``--polling`` keeps idle CPUs
from halting at once (see ``_halting.polling``). Nothing else should run meanwhile. FILE is written after each experiment;
those that it holds already count as runs that were made. ``again`` compares the servers of finished runs, named by their
folders, from the samples: what they say by the rules that hold now, or ``--as-measured``, as if no speed probe had run. It
writes FILE anew.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from _halting import DEFAULT_NS, polling
from scipy.special import stdtrit

from upshift.machine import Machine, describe_machine
from upshift.measure.samples import read_samples
from upshift.measure.statistics import comparisons
from upshift.report.store import load_result

CHECKOUT = Path(__file__).resolve().parents[2]
SMALL = CHECKOUT / "tests" / "small_server"
WORKLOADS = ("oltp_point_select", "oltp_read_only", "oltp_read_write", "oltp_write_only", "select_random_ranges")
EXECUTE = "int64_t execute(const Statement& statement, Database& database, Arena& arena, std::string& out) {\n"
SPIN = '    asm volatile("mov ${rounds}, %%ecx\\n1: dec %%ecx\\n jnz 1b" ::: "rcx", "cc");\n'
CALIBRATING_ROUNDS = 20_000
BASE_ROUNDS = 200
"""Of the loop that MySQL has in both servers, so that they differ in one constant: without it, code behind the loop would lie
elsewhere, which costs or saves time, too. Both constants take as many bytes of code.
"""

PLANTED = CHECKOUT / "tests" / "full" / "planted"
PLANTED_KIND = PLANTED / "planted_kind.py"
LOOP = "planted_round < 400;"
OF_SMALL = {"UPSHIFT_SERVER_KIND": str(SMALL / "kind.py")}
OF_PLANTED = {"UPSHIFT_SERVER_KIND": str(PLANTED_KIND)}

Rows = list[dict[str, Any]]
Metrics = tuple[dict[str, dict[str, Any]], float]
"""Of one experiment: each metric's comparison, and how long it measured in seconds."""
TIMED = ("qps", "total_cpu_us_per_query", "typical_cpu_us_per_query")
INSTRUCTIONS = "instructions_per_query"
REPEATS_WITHIN = 0.001
"""Instructions a query of statements that read repeat within this share of themselves."""

BUDGET = "--budget"
"""Without a width to reach, an experiment takes all of it, and all trials say how far they spread."""
SHORT_TURNS = ("--rounds", "60", "--slice-seconds", "0.1", "--lead-seconds", "0.1")
"""For the small server, whose starts do not spread, and whose arms differ by a loop that caches do not see: the first
stage with these turns fits into ten minutes.
"""


SHORT_STARTS = ("--speed-probe", "--rounds", "10", "--slice-seconds", "0.1", "--warmup-seconds", "1.5", "--lead-seconds", "0.1")
"""For MySQL, whose starts spread: more of them fit into the time. Both arms are equally warm, and differ by that loop. On a
quiet 2-CPU guest two starts differ by 2.5 % and a pair of turns by 5 % more; a start of both takes as long as many pairs.
With about ten pairs, the interval is narrowest (Cochran, as in ``measure.allocation``).
"""


class Kept:
    """The comparisons that were made, in ``file``, where there is one."""

    def __init__(self, what: str, file: Path | None, machine: Machine | None = None) -> None:
        self._what = what
        self._file = file
        self.machine = (machine or describe_machine()).model_dump(mode="json")
        self.rows: Rows = []
        if file and file.exists():
            result = json.loads(file.read_text())
            if result["what"] != what:
                raise SystemExit(f"{file} is of {result['what']}")
            if result["machine"] != self.machine:
                raise SystemExit(f"{file} is of another machine")
            self.rows = result["comparisons"]

    def runs(self) -> int:
        return 1 + max((each["run"] for each in self.rows), default=-1)

    def add(self, rows: Rows) -> None:
        """Keep these, and say them on stderr."""
        self.rows += rows
        for one in rows:
            half = math.log(one["ci_high"] / one["ci_low"]) / 2
            trials = f", {one['trials']} trials" if "trials" in one else ""
            sys.stderr.write(f"{one['run']} {one['metric']}: {one['ratio']:.4f} +-{half:.2%}{trials}, {one['verdict']}\n")
        if self._file:
            result = {"schema_version": 1, "what": self._what, "machine": self.machine, "comparisons": self.rows}
            partial = self._file.with_suffix(".partial")
            partial.write_text(json.dumps(result, indent=1) + "\n")
            partial.replace(self._file)


def upshift(*words: str, environment: Mapping[str, str] = {}) -> str:
    command = [str(CHECKOUT / "upshift"), *words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}).stdout


def measure(*words: str, environment: Mapping[str, str] = {}) -> dict[str, Any]:
    """The result of `upshift measure`."""
    said = upshift("measure", *words, "--card-seconds", "0", "--no-install", "--json", environment=environment)
    result: dict[str, Any] = json.loads(said)
    return result


def measured(*words: str, environment: Mapping[str, str] = {}) -> tuple[Rows, float]:
    """The comparisons of `upshift measure`, and how long it measured."""
    result = measure(*words, environment=environment)
    wall_s = next(each["wall_s"] for each in result["stages"] if each["name"] == "measure")
    compared = result["comparisons"] + [counted(each) for each in (result["instructions"] or {}).get("ratios", [])]
    return [{**each, "called": each["verdict"] in ("faster", "slower")} for each in compared], wall_s


def counted(ratio: Mapping[str, Any]) -> dict[str, Any]:
    """The ratio of instructions a query as a comparison. Its interval is how well a count repeats, once for each server."""
    low, high = ratio["ratio"] * (1 - 2 * REPEATS_WITHIN), ratio["ratio"] * (1 + 2 * REPEATS_WITHIN)
    verdict = "slower" if low > 1 else "faster" if high < 1 else "inconclusive"
    return {**ratio, "metric": INSTRUCTIONS, "ci_low": low, "ci_high": high, "verdict": verdict}


def called_at(one: Mapping[str, Any], confidence: float) -> bool:
    """Whether Student's interval of another confidence would leave 1 out."""
    half = math.log(one["ci_high"] / one["ci_low"]) / 2
    freedom = one["trials"] - 1
    wider = float(stdtrit(freedom, (1 + confidence) / 2)) / float(stdtrit(freedom, (1 + one["confidence"]) / 2))
    return bool(abs(math.log(one["ratio"])) > half * wider)


def same(kept: Kept, server: Path, runs: int) -> None:
    loads = [word for name in WORKLOADS for word in ("--workload", name)]
    for run in range(kept.runs(), runs):
        rows, wall_s = measured(f"one={server}", f"other={server}", *loads, "-c", "8", "--trials", "4")
        of = [one for one in rows if one["metric"] in TIMED]
        kept.add([{"run": run, "wall_s": wall_s, "called_at_99": called_at(one, 0.99), **one} for one in of])


def small_server(folder: Path, rounds: int) -> str:
    """The small server with a loop of ``rounds`` more a statement; 0: as it is."""
    source = folder / str(rounds)
    shutil.copytree(SMALL / "source", source)
    replaced(source / "sql" / "executor.cc", EXECUTE, EXECUTE + (SPIN.replace("{rounds}", str(rounds)) if rounds else ""))
    workload = str(SMALL / "workloads" / "point.toml")
    server = upshift("build", "plain", "--source", str(source), "--workload", workload, "--no-install", environment=OF_SMALL)
    shutil.rmtree(source)
    return server.strip()


def mysql(folder: Path, rounds: int) -> str:
    """MySQL with the patch of tests/full/planted, whose loop has ``rounds`` more than ``BASE_ROUNDS``."""
    series = folder / "planted"
    shutil.copytree(PLANTED, series, dirs_exist_ok=True)
    replaced(series / "000-counted_loop.patch", LOOP, LOOP.replace("400", str(BASE_ROUNDS + rounds)))
    environment = {"UPSHIFT_SERVER_KIND": str(series / PLANTED_KIND.name)}
    workload = ("--workload", "oltp_point_select")
    return upshift("build", "plain", "--patches", "counted_loop", *workload, "--no-install", environment=environment).strip()


def replaced(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    if text.count(old) != 1:
        raise SystemExit(f"{file} does not have this once: {old}")
    file.write_text(text.replace(old, new))


def planted(kept: Kept, runs: int, percent: float, budget: str) -> None:
    """The small server's loop costs ``percent`` of the CPU time a query, by what a long one costs."""
    with tempfile.TemporaryDirectory() as folder:
        plain = small_server(Path(folder), 0)
        load = ("--workload", str(SMALL / "workloads" / "point.toml"), "-c", "8")

        def compared(rounds: int, *more: str) -> Metrics:
            other = small_server(Path(folder), rounds)
            return by_metric(f"plain={plain}", f"planted={other}", *load, *more, environment=OF_SMALL)

        rounds = rounds_of(percent, compared)
        experiments(kept, runs, lambda: compared(rounds, *SHORT_TURNS, BUDGET, budget), rounds=rounds)


def planted_mysql(kept: Kept, runs: int, percent: float, rounds: int | None, budget: str) -> None:
    """MySQL's loop costs ``percent`` of the CPU time a query, by what a long one costs, or has ``rounds`` more."""
    with tempfile.TemporaryDirectory() as folder:
        base = mysql(Path(folder), 0)
        load = ("--workload", "oltp_point_select", "-c", "8", *SHORT_STARTS, BUDGET, budget)

        def compared(rounds: int) -> Metrics:
            return by_metric(f"base={base}", f"planted={mysql(Path(folder), rounds)}", *load, environment=OF_PLANTED)

        theirs = kept.rows[0]["rounds"] if kept.rows else None
        rounds = rounds or theirs or rounds_of(percent, compared)
        if theirs not in (None, rounds):
            raise SystemExit(f"the file is of a loop of {theirs} rounds")
        experiments(kept, runs, functools.partial(compared, rounds), rounds=rounds)


def again(file: Path | None, runs: list[Path], *, as_measured: bool) -> Kept:
    """The comparisons of these runs, anew: nothing is kept of what the file says."""
    if file:
        file.unlink(missing_ok=True)
    results = [load_result(run) for run in runs]
    if len({each.machine.model_dump_json() for each in results}) != 1:
        raise SystemExit("these runs are of several machines")
    kept = Kept("again", file, results[0].machine)
    for number, (run, found) in enumerate(zip(runs, results, strict=True)):
        slices = read_samples(run / "samples.parquet")
        if as_measured:
            slices = tuple(each.model_copy(update={"probe_us": 0.0}) for each in slices)
        judged = comparisons(slices, found.experiment.baseline, first_stage=found.experiment.plan.first_stage)
        compared = [each.model_dump() for each in judged]
        compared += [counted(each.model_dump()) for each in (found.instructions.ratios if found.instructions else ())]
        wall_s = next(each.wall_s for each in found.stages if each.name == "measure")
        of = [each for each in compared if each["metric"] in (*TIMED, INSTRUCTIONS)]
        kept.add([{"run": number, "wall_s": wall_s, **one, "called": one["verdict"] == "slower"} for one in of])
    return kept


def rounds_of(percent: float, compared: Callable[[int], Metrics]) -> int:
    """How many rounds cost ``percent`` of the CPU time a query, by what ``CALIBRATING_ROUNDS`` cost."""
    calibrated, _wall_s = compared(CALIBRATING_ROUNDS)
    costs: float = calibrated["total_cpu_us_per_query"]["ratio"] - 1
    rounds = round(CALIBRATING_ROUNDS * percent / 100 / costs)
    sys.stderr.write(f"{CALIBRATING_ROUNDS} rounds cost {costs:.1%}: {rounds} rounds\n")
    return rounds


def by_metric(*words: str, environment: Mapping[str, str]) -> Metrics:
    rows, wall_s = measured(*words, environment=environment)
    return {each["metric"]: each for each in rows}, wall_s


def experiments(kept: Kept, runs: int, compared: Callable[[], Metrics], **said: int) -> None:
    for run in range(kept.runs(), runs):
        metrics, wall_s = compared()
        of = {name: metrics[name] for name in (*TIMED, INSTRUCTIONS) if name in metrics}
        kept.add([{"run": run, "wall_s": wall_s, **said, **one, "called": one["verdict"] == "slower"} for one in of.values()])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_subparsers(dest="what", required=True)
    for name in ("same", "planted", "planted-mysql"):
        one = what.add_parser(name)
        one.add_argument("--runs", type=int, default=8 if name == "same" else 10)
        one.add_argument("--json", type=Path)
        one.add_argument("--polling", action="store_true", help="keep idle CPUs of this virtual machine from halting at once")
        if name == "same":
            one.add_argument("--server", type=Path, required=True)
        else:
            one.add_argument("--budget", default="10m")
            one.add_argument("--percent", type=float, default=2.0)
        if name == "planted-mysql":
            one.add_argument("--rounds", type=int, help="of the loop, in place of --percent")
    one = what.add_parser("again")
    one.add_argument("runs", nargs="+", type=Path)
    one.add_argument("--as-measured", action="store_true", help="as if no speed probe had run")
    one.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.what == "again":
        told(again(given.json, given.runs, as_measured=given.as_measured))
        return 0
    kept = Kept(given.what, given.json)
    with polling(DEFAULT_NS) if given.polling else contextlib.nullcontext():
        if given.what == "same":
            same(kept, given.server, given.runs)
        elif given.what == "planted":
            planted(kept, given.runs, given.percent, given.budget)
        else:
            planted_mysql(kept, given.runs, given.percent, given.rounds, given.budget)
    told(kept)
    return 0


def told(kept: Kept) -> None:
    """How many comparisons were called, on stdout."""
    for metric in dict.fromkeys(each["metric"] for each in kept.rows):
        of = [each for each in kept.rows if each["metric"] == metric]
        called = sum(each["called"] for each in of)
        at_99 = f", {sum(each['called_at_99'] for each in of)} at 99 %" if "called_at_99" in of[0] else ""
        sys.stdout.write(f"{metric}: {called} of {len(of)} called{at_99}\n")


if __name__ == "__main__":
    sys.exit(main())
