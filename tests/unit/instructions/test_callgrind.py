"""What callgrind writes is read to the instruction, and what it does not write is an error."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import FakeShell, Output

from upshift.errors import CountFailed
from upshift.instructions.callgrind import Callgrind, command, read
from upshift.instructions.executed import Cost, Function, Misses
from upshift.shell import Command

DUMPED = """# callgrind format
version: 1
creator: callgrind-3.19.0
pid: 4711
cmd:  server --data=/data
part: 2
thread: 1

desc: I1 cache: 
desc: Timerange: Basic block 100 - 200
desc: Trigger: Program termination

positions: line
events: Ir
summary: 1052

ob=(1) /bin/server
fl=(1) ???
fn=(1) main
0 52
cfn=(2) select
calls=3 0
0 700
cfn=(3) malloc
calls=4 0
0 300

totals: 1052
"""


def written(folder: Path, text: str, number: int = 1, thread: int = 1) -> Path:
    file = folder / f"counts.{number}-{thread:02}"
    file.write_text(text)
    return file


def test_a_threads_instructions_and_calls_are_read(tmp_path: Path) -> None:
    found = read(written(tmp_path, DUMPED))
    assert (found.instructions, found.calls) == (1052, 7)


FUNCTIONS = """# callgrind format
positions: line
events: Ir
summary: 100

ob=(1) /bin/server
fl=(1) ???
fn=(1) _Z3runv
0 52
+3 8
cob=(2) /usr/lib/libc.so.6
cfi=(3) malloc.c
cfn=(2) malloc@@GLIBC_2.2.5
calls=3 0
* 30
cfn=(3) _Z4leafv
calls=4 +7
0 10
-2 1

ob=(2)
fn=(2)
12 29

ob=(1)
fn=(3)
0 7
fn=(4) _Z3runv'2
0 3

totals: 100
"""


def test_each_function_has_its_own_instructions_and_the_calls_of_it(tmp_path: Path) -> None:
    found = read(written(tmp_path, FUNCTIONS)).functions
    assert found == {
        Function("server", "_Z3runv"): Cost(64, 0),
        Function("libc.so.6", "malloc"): Cost(29, 3),
        Function("server", "_Z4leafv"): Cost(7, 4),
    }
    assert sum(each.instructions for each in found.values()) == 100


@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage\n",
        DUMPED.partition("summary")[0],
        DUMPED.replace("events: Ir", "events: Dr"),
        # Cut short: in the body, before the totals, and within them.
        DUMPED.partition("cfn=(3)")[0],
        DUMPED.partition("totals")[0],
        DUMPED[:-2],
    ],
    ids=range(7),
)
def test_a_file_that_holds_no_instructions_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(CountFailed, match="does not hold callgrind's counts"):
        read(written(tmp_path, text))


def test_each_dump_is_read_alone(tmp_path: Path) -> None:
    numbers = iter((1, 2))

    def dump(_command: Command) -> None:
        number = next(numbers)
        for thread in (1, 12):
            written(tmp_path, DUMPED.replace("1052", str(1000 * number + thread)), number, thread)
        (tmp_path / "counts").touch()

    shell = FakeShell({" dump": Output(effect=dump)})
    callgrind = Callgrind(shell, 4711, tmp_path, tmp_path / "log")
    callgrind.begin()
    assert [(each.instructions, each.calls) for each in callgrind.dump()] == [(1001, 7), (1012, 7)]
    assert [(each.instructions, each.calls) for each in callgrind.dump()] == [(2001, 7), (2012, 7)]
    prefix = f"vgdb --vgdb-prefix={tmp_path}/vgdb --pid=4711"
    assert shell.lines == [f"{prefix} instrumentation on", f"{prefix} zero", f"{prefix} dump", f"{prefix} dump"]


def test_a_dump_without_counts_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CountFailed, match="wrote no counts"):
        Callgrind(FakeShell(), 4711, tmp_path, tmp_path / "log").dump()


def test_a_callgrind_that_does_not_answer_is_an_error(tmp_path: Path) -> None:
    shell = FakeShell({"vgdb": Output("no process", returncode=1)})
    with pytest.raises(CountFailed, match="callgrind does not answer: vgdb failed"):
        Callgrind(shell, 4711, tmp_path, tmp_path / "log").begin()


def test_nothing_is_counted_before_it_is_asked_for() -> None:
    words = command(Path("/folder"))
    assert words[0] == "valgrind"
    assert {"--instr-atstart=no", "--separate-threads=yes", "--callgrind-out-file=/folder/counts"} <= set(words)


# With --dump-instr, --collect-jumps, --cache-sim and --branch-sim: two positions a line, and zeros at its end left out.
DETAILED = """# callgrind format
desc: I1 cache: 65536 B, 64 B, 16-way associative
desc: D1 cache: 49152 B, 64 B, 12-way associative
desc: LL cache: 503316480 B, 64 B, 30-way associative
positions: instr line
events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw Bc Bcm Bi Bim
summary: 3000 700 60 5 4 3 2 1 1 900 80 7 6

ob=(1) /bin/server
fl=(1) ???
fn=(1) _Z3runv
0x1149 0 1
jump=1 +11 0
* 0
+2 0 750 0 0 0 0 0 0 0 0 750 1
jcnd=1/750 +18 0
* 0
+3 0 1000
jcnd=750/1000 -11 0
* 0
cfn=(2) _Z4leafv
calls=4 0x2000 0
* 0 400 10

fn=(2)
0x2000 0 849

totals: 3000 700 60 5 4 3 2 1 1 900 80 7 6
"""


def test_taken_branches_and_simulated_misses_are_read(tmp_path: Path) -> None:
    found = read(written(tmp_path, DETAILED))
    assert (found.instructions, found.calls, found.taken_branches) == (3000, 4, 752)
    assert found.functions == {Function("server", "_Z3runv"): Cost(1751, 0), Function("server", "_Z4leafv"): Cost(849, 4)}
    assert found.misses == Misses("I1 64 KiB, D1 48 KiB, LL 491520 KiB", code=5, data=7, last_level=4, branches=86)


def test_what_was_not_asked_for_is_not_there(tmp_path: Path) -> None:
    found = read(written(tmp_path, FUNCTIONS))
    assert found.taken_branches is None and found.misses is None
    assert not {"--cache-sim=yes", "--collect-jumps=yes"} & set(command(tmp_path))
    assert {"--cache-sim=yes", "--branch-sim=yes", "--collect-jumps=yes"} <= set(command(tmp_path, ("jumps", "misses")))


# Of a program whose function jumps into its cold part, which jumps back: callgrind 3.19 takes the first jump for a call.
SPLIT = """# callgrind format
positions: instr line
events: Ir
summary: 9002

ob=(1) /bin/server
fl=(1) ???
fn=(2) work
0x40102a 0 1000
+2 0 1000
cfn=(4) work.cold
calls=1000 +3 0
* 0 4000

fn=(4)
0x40102e 0 1000
+1 0 1000
+2 0 1000
+1 0 1000
jump=1000 -4 0
* 0

fn=(0) (below main)
0x401000 0 1
+8 0 1
+5 0 1
cfn=(2)
calls=1 +29 0
* 0 6
* 0 999
cfn=(2)
calls=999 +29 0
* 0 5994
+5 0 1000
+2 0 1000
jcnd=999/1000 -7 0
* 0

totals: 9002
"""


def test_a_jump_into_a_cold_part_is_a_taken_branch_and_no_call(tmp_path: Path) -> None:
    found = read(written(tmp_path, SPLIT))
    assert (found.calls, found.taken_branches) == (1000, 2999)
    assert found.functions[Function("server", "work")] == Cost(2000, 1000)
    assert found.functions[Function("server", "work.cold")] == Cost(4000, 0)
    assert read(written(tmp_path, SPLIT.replace("jump=", "#").replace("jcnd=", "#"))).taken_branches is None
