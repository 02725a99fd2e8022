"""Source lines and inlined functions, as the real symbolizer tells them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from fakes import FakeShell, Output

from upshift.explain.inline_frames import Line, expand
from upshift.explain.tools import find_tools
from upshift.shell import SystemShell

SOURCE = """static inline __attribute__((always_inline)) int inner(int n) {
  return n * n + 7;
}
__attribute__((noinline)) int outer(int n) {
  return inner(n) + 1;
}
int main(int n, char **words) { return outer(n); }
"""


def test_an_address_is_told_with_what_was_inlined_there_and_one_of_nothing_with_nothing(tmp_path: Path) -> None:
    symbolizer = find_tools(FakeShell()).symbolizer
    if symbolizer is None:
        pytest.skip("there is no llvm-symbolizer")
    (tmp_path / "a.c").write_text(SOURCE)
    subprocess.run(["cc", "-O1", "-g", "-o", tmp_path / "a", tmp_path / "a.c"], check=True)
    listed = subprocess.run(["nm", tmp_path / "a"], check=True, capture_output=True, text=True).stdout
    start = next(int(line.split()[0], 16) for line in listed.splitlines() if line.endswith(" T outer"))
    shell = SystemShell()
    try:
        found = expand(shell, symbolizer, tmp_path / "a", {*range(start, start + 8), 1}, tmp_path)
    finally:
        shell.close()
    assert set(found) == {*range(start, start + 8), 1}
    told = next(lines for lines in found.values() if len(lines) == 2)
    assert [(each.function, Path(each.file).name, each.line) for each in told] == [("inner", "a.c", 2), ("outer", "a.c", 5)]
    assert not any(each.line for each in found[1])
    assert expand(shell, symbolizer, tmp_path / "a", set(), tmp_path) == {}


def test_warnings_of_damaged_debug_information_are_passed_over(tmp_path: Path) -> None:
    warning = "warning: DWARF unit at offset 0x00000000 contains invalid abbreviation set offset 0x0\n"
    told = '[{"Address":"0x12","ModuleName":"a","Symbol":[{"FileName":"a.c","FunctionName":"outer","Line":5}]}]\n'
    shell = FakeShell({"symbolizer": Output(2 * warning + told)})
    assert expand(shell, Path("symbolizer"), Path("a"), {0x12}, tmp_path) == {0x12: (Line("outer", "a.c", 5),)}
    assert expand(FakeShell({"symbolizer": Output(warning)}), Path("symbolizer"), Path("a"), {0x12}, tmp_path) == {}
