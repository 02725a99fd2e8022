"""Stacks for other tools, and as a tree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from upshift.explain import stacks
from upshift.explain.inline_frames import Line
from upshift.explain.script import KERNEL, Frame

SHOWN = {"_Z3runv": "run", "_Z4stepv": "step<a;b>", "_Z4tinyv": "tiny"}
SAMPLED = {
    (Frame("", "_Z4stepv", 8), Frame("", "_Z3runv.cold.0", 2)): 3,
    (Frame(KERNEL, "schedule", 0), Frame("libc.so.6", "__send", 0), Frame("", "_Z3runv", 2)): 2,
}


def test_frames_come_from_the_outermost_on_with_the_names_of_the_source() -> None:
    assert stacks.named(SAMPLED, SHOWN) == {("run", "step<a;b>"): 3, ("run", "__send (libc.so.6)", "schedule_[k]"): 2}


def test_inlined_frames_stand_between_the_function_and_what_it_called() -> None:
    lines = {8: (Line("_Z4tinyv", "a.h", 3), Line("_Z4stepv", "a.cc", 30))}
    assert ("run", "step<a;b>", "tiny_[i]") in stacks.named(SAMPLED, SHOWN, lines)


def test_folded_lines_come_back_as_they_were() -> None:
    named = stacks.named(SAMPLED, SHOWN)
    lines = list(stacks.folded(named))
    assert lines == ["run;__send (libc.so.6);schedule_[k] 2", "run;step<a:b> 3"]
    assert stacks.unfolded(lines).total() == 5


def test_speedscope_gets_every_frame_and_weight() -> None:
    told = json.loads(stacks.speedscope(stacks.named(SAMPLED, SHOWN), "plain"))
    (profile,) = told["profiles"]
    names = [frame["name"] for frame in told["shared"]["frames"]]
    assert [[names[number] for number in sample] for sample in profile["samples"]] == [
        ["run", "__send (libc.so.6)", "schedule_[k]"],
        ["run", "step<a;b>"],
    ]
    assert profile["weights"] == [2, 3] and profile["endValue"] == 5


def test_the_tree_adds_up() -> None:
    root = stacks.tree(stacks.named(SAMPLED, SHOWN))
    assert root.samples == root.children["run"].samples == 5
    assert {each.name: each.samples for each in root.children["run"].children.values()} == {
        "step<a;b>": 3,
        "__send (libc.so.6)": 2,
    }


def test_both_files_are_written(tmp_path: Path) -> None:
    files = stacks.write(stacks.named(SAMPLED, SHOWN), tmp_path, "plain-mix", "plain, mix")
    assert files == ("plain-mix.folded", "plain-mix.speedscope.json")
    assert all((tmp_path / name).stat().st_size for name in files)


def test_names_outside_ascii_are_written_in_every_locale(tmp_path: Path) -> None:
    write = "write(Counter({('gr\\xf6\\xdfe',): 1}), Path(), 'plain', 'plain')"
    script = f"from collections import Counter; from pathlib import Path; from upshift.explain.stacks import write; {write}"
    ascii_alone = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    env = {**os.environ, **ascii_alone, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=env, check=True, timeout=60)
    with (tmp_path / "plain.folded").open(encoding="utf-8") as lines:
        assert stacks.unfolded(lines) == {("größe",): 1}
