"""What a changed file reaches: all that include it, and a whole build where a part would not do."""

from __future__ import annotations

from pathlib import Path

import pytest

from upshift.build.model import Build, Patched
from upshift.build.ninja import Step
from upshift.build.steps import at_source, link_command, replaced
from upshift.build.touched import Includes, is_text, read_includes, touched_steps

FILES = {
    "sql/base.h": "",
    "sql/mid.h": '#include "sql/base.h"\n',
    "sql/a.cc": "#  include <sql/mid.h>\n",
    "sql/b.cc": '#include "../sql/base.h"\n',
    "sql/c.cc": '#include "other/base.h"\n// #include "sql/base.h" is not what it does\n',
    "other/base.h": "",
    "lib/x.h": "",
    "lib/y.cc": "#include LIB_HEADER\n",
    "tests/t.cc": '#include "sql/base.h"\n',
}


@pytest.fixture
def includes(tmp_path: Path) -> Includes:
    for name, text in {
        **{f"source/{each}": text for each, text in FILES.items()},
        "tree/made.cc": '#include "mid.h"\n',
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return read_includes(tmp_path / "source", tmp_path / "tree", ("tests",))


def reached(includes: Includes, *changed: str) -> set[str]:
    top = includes.source.parent
    return {str(Path(path).relative_to(top)).removeprefix("source/") for path in includes.reached(changed)} - set(changed)


def test_a_header_reaches_all_that_include_it_over_others(includes: Includes) -> None:
    assert reached(includes, "sql/base.h") == {"sql/mid.h", "sql/a.cc", "sql/b.cc", "tree/made.cc"}
    assert reached(includes, "sql/a.cc") == set()
    assert reached(includes, "other/base.h") == {"sql/c.cc"}


def test_a_macro_in_an_include_stands_for_any_file_of_its_folder(includes: Includes) -> None:
    assert reached(includes, "lib/x.h") == {"lib/y.cc"}


def step(output: str, source: str = "", *linked: str) -> Step:
    return Step(("c++", *linked, "-o", output), output, source)


def test_steps_are_those_whose_sources_are_reached(includes: Includes) -> None:
    source, tree = includes.source, includes.source.parent / "tree"
    server = [
        *(step(f"{name}.o", str(source / f"sql/{name}.cc")) for name in "abc"),
        step("made.o", str(tree / "made.cc")),
        step("unused.o", str(source / "sql/b.cc")),
        step("server", "", "a.o", "c.o", "made.o", "lib/libb.a"),
    ]
    members = {"lib/libb.a(b.o)": ["b.o"], "lib/libu.a(unused.o)": ["unused.o"]}

    def touched(*changed: str, known: list[Step] = server) -> tuple[list[str], str]:
        found = touched_steps(known, (), (), members, tree, includes, changed)
        assert found.plugins == ()
        return [each.output for each in found.steps], found.whole

    assert touched("sql/base.h") == (["a.o", "b.o", "made.o"], "")
    assert touched("sql/c.cc") == (["c.o"], "")
    tool = [*server[:-1], step("maker", "", "c.o"), server[-1]]
    assert touched("sql/c.cc", known=tool)[1] == "maker, which the build needs itself, is linked from c.o"


def test_plugins_that_are_touched_are_linked_again(includes: Includes) -> None:
    source, tree = includes.source, includes.source.parent / "tree"
    server = [step("a.o", str(source / "sql/a.cc")), step("b.o", str(source / "sql/b.cc")), step("server", "", "a.o", "b.a")]
    own_b, y, archived = (
        step(name, str(source / path)) for name, path in (("p/b.o", "sql/b.cc"), ("p/y.o", "lib/y.cc"), ("p/c.o", "sql/c.cc"))
    )
    one, other = step("one.so", "", "p/b.o", "p/y.o"), step("other.so", "", "p/y.o", "p/lib.a")
    members = {"b.a(b.o)": ["b.o"], "p/lib.a(c.o)": ["p/c.o"]}

    def touched(*changed: str, loaded: tuple[Step, ...] = (own_b, y, archived, one, other)) -> tuple[list[str], list[str], str]:
        found = touched_steps(server, loaded, ("one.so", "other.so"), members, tree, includes, changed)
        return [each.output for each in found.steps], [each.output for each in found.plugins], found.whole

    def lost(name: str) -> tuple[list[str], list[str], str]:
        return [], [], f"what the server loads has {name} by way of an archive, a library or a program"

    assert touched("lib/y.cc") == touched("lib/x.h") == ([], ["p/y.o", "one.so", "other.so"], "")
    assert touched("sql/b.cc") == (["b.o"], [], ""), "a plugin keeps its own copy of code that no header has"
    assert touched("sql/b.cc", "lib/y.cc") == (["b.o"], ["p/y.o", "one.so", "other.so"], "")
    assert touched("sql/base.h") == (["a.o", "b.o"], ["p/b.o", "one.so"], "")
    # What the plugin alone is not made of.
    assert touched("sql/c.cc") == touched("other/base.h") == lost("p/c.o")
    assert touched("lib/y.cc", loaded=(y, one, step("tool", "", "p/y.o"))) == lost("p/y.o")
    assert touched("lib/y.cc", loaded=(y, step("one.so", "", "p/y.o"), step("other.so", "", "one.so"))) == lost("one.so")
    # Its new objects would meet old ones.
    assert touched("sql/base.h", loaded=(own_b, step("one.so", "", "p/b.o", "b.a"))) == lost("b.o")
    assert touched("lib/y.cc", "sql/b.cc", loaded=(y, step("one.so", "", "p/y.o", "b.a")))[2] == ""
    both = touched("sql/base.h", loaded=(server[0], own_b, step("one.so", "", "p/b.o", "a.o")))
    assert both == (["a.o", "b.o"], ["a.o", "p/b.o", "one.so"], ""), "an object of the server and a plugin is in both"


@pytest.mark.parametrize(
    ("path", "text"), [("sql/a.cc", True), ("univ.i", True), ("sql_yacc.yy", False), ("CMakeLists.txt", False)]
)
def test_compilers_read_some_files(path: str, text: bool) -> None:
    assert is_text(path) == text


def test_a_step_moves_to_the_patched_source_and_no_further(tmp_path: Path) -> None:
    before = Step(("c++", "-I/src/my", "-I/src/my/sql", "-I/src/my-build", "-c", "/src/my/a.cc"), "a.o", "/src/my/a.cc")
    moved = at_source(before, Path("/src/my"), tmp_path)
    assert moved.argv == ("c++", f"-I{tmp_path}", f"-I{tmp_path}/sql", "-I/src/my-build", "-c", f"{tmp_path}/a.cc")
    assert (moved.output, moved.source) == ("a.o", f"{tmp_path}/a.cc")


def test_objects_of_a_later_stage_take_the_place_of_patched_ones(tmp_path: Path) -> None:
    for name in ("patched/objects/a.o", "patched/objects/b.o", "hot/objects/b.o"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    patched = Patched(configured=Path("/s"), source=Path("/p"), objects=tmp_path / "patched" / "objects")
    build = Build.model_construct(server=tmp_path / "hot" / "server", patched=patched)
    found = replaced(build)
    assert found == {"a.o": tmp_path / "patched/objects/a.o", "b.o": tmp_path / "hot/objects/b.o"}
    argv = link_command(step("server", "", "b.o", "lib.a"), found, Path("/new"), ("-flag",))
    assert argv == ("c++", str(found["b.o"]), "lib.a", "-o", "/new", str(found["a.o"]), "-flag")


def test_a_source_whose_path_stands_within_another_path_stays_there(tmp_path: Path) -> None:
    before = Step(("c++", "-I/src/a", "-I/mnt/src/tree/include", '-DROOT="/src/b"', "/src/a.cc"), "a.o", "/src/a.cc")
    moved = at_source(before, Path("/src"), Path("/p"))
    assert moved.argv == ("c++", "-I/p/a", "-I/mnt/src/tree/include", '-DROOT="/p/b"', "/p/a.cc")
