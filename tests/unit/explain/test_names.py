"""What tools add to a function's name is taken off again."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from fakes import FakeShell, Output

from upshift.explain.names import demangled, for_commands, is_cold, plain_name, source_name


@pytest.mark.parametrize(
    ("symbol", "source"),
    [
        ("_Z3runv", "_Z3runv"),
        ("_Z3runv.cold", "_Z3runv"),
        ("_Z3runv.cold.0", "_Z3runv"),
        ("_Z3runv.part.3", "_Z3runv"),
        ("_Z3runv.isra.0.cold", "_Z3runv"),
        ("_Z3runv.constprop.1", "_Z3runv"),
        ("_Z3runv.lto_priv.0", "_Z3runv"),
        ("_Z3runv.llvm.15980883935795717310", "_Z3runv"),
        ("_Z3runv.llvm.123.cold.0", "_Z3runv"),
        ("_ZL4helpv.__uniq.99", "_ZL4helpv"),
        ("_Z3runv.specialized.2", "_Z3runv"),
        ("_Z3runv.org.0", "_Z3runv"),
        ("_ZL4helpv/file.cc/1", "_ZL4helpv"),
        ("plain_c", "plain_c"),
        # A lambda's own number is no copy, and a file that an initialiser is named after is no part.
        ("_ZZ3runvENK3$_0clEv", "_ZZ3runvENK3$_0clEv"),
        ("_GLOBAL__sub_I_run.cc", "_GLOBAL__sub_I_run.cc"),
    ],
)
def test_copies_and_parts_count_to_their_function(symbol: str, source: str) -> None:
    assert source_name(symbol) == source


@pytest.mark.parametrize(
    ("shown", "plain"),
    [
        ("std::ostream& std::operator<< <std::char_traits<char> >(std::ostream&, char)", "std::operator<<"),
        ("std::operator<< <std::char_traits<char> >", "std::operator<<"),
        ("bool std::operator< <char>", "std::operator<"),
        ("Row::operator<", "Row::operator<"),
        ("Row<int>::operator->", "Row::operator->"),
        ("Row<int>::operator()<long>(int)", "Row::operator()"),
        ("Row::operator<=>", "Row::operator<=>"),
        ("Row<int>::operator bool", "Row::operator bool"),
        ("(anonymous namespace)::run", "run"),
        ("void run<int>(Row<int>)", "run"),
        ("<int>", ""),
        ("BTree::find(int) const", "BTree::find"),
        ("Row::next() const &", "Row::next"),
        ("Row::operator()(int) const", "Row::operator()"),
        ("Row::find(int) const::'lambda'(int)::operator()", "Row::find::'lambda'::operator()"),
        ("text_of[abi:cxx11](Item const*)", "text_of"),
        ("Row::at(int (Row::*)(int) const)", "Row::at"),
        ("Row::operator[]", "Row::operator[]"),
    ],
)
def test_a_plain_name_has_no_arguments_and_keeps_all_of_an_operator(shown: str, plain: str) -> None:
    assert plain_name(shown) == plain


def test_cold_parts_are_told_from_copies() -> None:
    assert [is_cold(name) for name in ("f.cold", "f.cold.0", "f.llvm.1.cold.2")] == [True] * 3
    assert [is_cold(name) for name in ("f", "f.part.0", "f.llvm.123")] == [False] * 3


def test_names_are_demangled_in_one_go_and_without_a_tool_left_as_they_are() -> None:
    shell = FakeShell({"c++filt": Output("run\nstop\n")})
    assert demangled(shell, Path("/bin/c++filt"), ["_Z4stopv", "_Z3runv", "main"]) == {
        "_Z3runv": "run",
        "_Z4stopv": "stop",
        "main": "main",
    }
    assert len(shell.ran) == 1
    assert demangled(shell, None, ["_Z3runv"]) == {"_Z3runv": "_Z3runv"}


def test_names_of_kilobytes_are_parted_so_that_each_part_fits_into_one_argument() -> None:
    names = [f"{number:04}{'n' * 4_000}" for number in range(100)]
    parts = list(for_commands(names))
    assert [name for part in parts for name in part] == names
    assert max(len(",".join(part)) for part in parts) <= 100_000
    assert len(parts) == 5
    assert list(for_commands([])) == []


def test_linux_takes_a_part_as_one_argument() -> None:
    (longest, *_rest) = for_commands([f"{number:04}{'n' * 4_000}" for number in range(30)])
    assert subprocess.run(["true", ",".join(longest)], check=False).returncode == 0
