"""Addresses and functions of a real executable, and functions that share their code."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from upshift.errors import UsageError
from upshift.explain.symbols import Groups, Part, SymbolTable, read_symbols

PROGRAM = """
__attribute__((noinline)) int twice(int number) { return number + number; }
int main(int count, char **words) { (void)words; return twice(count); }
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    (folder / "program.c").write_text(PROGRAM)
    subprocess.run(["cc", "-O1", "-o", folder / "program", folder / "program.c"], check=True)
    return folder / "program"


def test_a_function_is_found_by_every_address_in_it(program: Path) -> None:
    table = read_symbols(program, "program")
    (twice,) = (part for part in table.parts if part.symbols == ("twice",))
    assert twice.end > twice.start
    assert table.part(twice.start) is twice and table.part(twice.end - 1) is twice
    assert table.part(twice.end) is not twice and table.part(0) is None
    assert not table.debug_information


def test_offsets_in_the_file_become_addresses(program: Path) -> None:
    table = read_symbols(program, "program")
    ((offset, size, virtual),) = table.segments
    assert table.virtual(offset) == virtual and table.virtual(offset + 1) == virtual + 1
    assert table.virtual(offset + size) is None


def test_a_stripped_server_is_refused(program: Path, tmp_path: Path) -> None:
    subprocess.run(["strip", "-o", tmp_path / "bare", program], check=True)
    with pytest.raises(UsageError, match=r"plain: .*bare is stripped") as error:
        read_symbols(tmp_path / "bare", "plain")
    assert "symbol table" in error.value.hint


def test_a_size_that_assembly_left_out_is_up_to_the_next_function() -> None:
    table = SymbolTable([Part(20, 30, ("b",)), Part(10, 20, ("a",))], [])
    found = table.part(19)
    assert found is not None and found.symbols == ("a",)
    assert table.part(30) is None


def test_functions_of_the_same_code_have_one_name_the_one_that_was_sampled_most() -> None:
    groups = Groups({"second": 5, "third": 9})
    groups.join(("first", "second"))
    assert groups.of("first") == groups.of("second") == "second"
    groups.join(("second", "third"))
    assert {groups.of(name) for name in ("first", "second", "third")} == {"third"}
    assert groups.of("alone") == "alone"
    assert all(set(groups.members(name)) == {"first", "second", "third"} for name in ("first", "second", "third"))
    assert set(groups.members("alone")) == {"alone"}
