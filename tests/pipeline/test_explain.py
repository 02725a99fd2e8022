"""Why one server is faster: `upshift explain` finds planted causes. Code and places of samples are judged, no time."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import SOURCE, TRAINED, Cli, Done, Run, workload

from upshift.explain.model import Explained, Explanation
from upshift.explain.names import source_name

pytestmark = pytest.mark.pipeline

# Too long to be worth a copy, unless a profile says how often it runs; two callers, so that it is no single call either.
# The same with other numbers, so that the linker does not fold the two, is one that no profile may inline.
PLANTED = """
namespace {
volatile unsigned sink;
#define STEP(n) left = (left ^ (right * (2u * n + 1))) + ((left << (n % 7 + 1)) | (right >> (n % 5 + 1))); right += left ^ n;
void planted(unsigned left, unsigned right) {
    STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7) STEP(8) STEP(9) STEP(10) STEP(11) STEP(12)
    sink = left + right;
}
[[gnu::noinline]] void kept(unsigned left, unsigned right) {
    STEP(13) STEP(14) STEP(15) STEP(16) STEP(17) STEP(18) STEP(19) STEP(20) STEP(21) STEP(22) STEP(23) STEP(24)
    sink = left + right;
}
}  // namespace

"""
CALLEE, CALLERS = "small::(anonymous namespace)::planted", ("small::append_escaped", "small::compare_text")
KEPT = "small::(anonymous namespace)::kept"
QUICK = ("--connections", "4", "--seconds", "4", "--card-seconds", "0", "--no-install")
# With line tables, which BOLT moves with the code, and stacks that tell callers.
TOLD = """
toolchain = "clang"
scope = "hot"
profile = "ir"
post_link = "bolt"
flags = ["-g1", "-gdwarf-4", "-fdebug-info-for-profiling", "-fno-omit-frame-pointer"]
post_link_flags = ["-update-debug-sections"]
"""
LAID_OUT = 'toolchain = "clang"\npost_link = "bolt"\n'


def planted(folder: Path) -> Path:
    """The small server's source with the two callees."""
    shutil.copytree(SOURCE, folder)
    file = folder / "core" / "text.cc"
    text = file.read_text().replace("int compare_text(", f"{PLANTED}int compare_text(", 1)
    for head in ("int compare_text(std::string_view left, std::string_view right) {", "void append_escaped("):
        assert text.count(head) == 1
    for before, arguments in (
        ("    size_t common = std::min(", "left.size(), right.size()"),
        ("    for (char letter : text) {", "text.size(), 7"),
    ):
        text = text.replace(before, f"    planted({arguments});\n    kept({arguments});\n{before}", 1)
    assert text.count("    planted(") == text.count("    kept(") == 2
    file.write_text(text)
    return folder


class Lab:
    """Builds servers and explains them."""

    def __init__(self, cli: Cli, folder: Path) -> None:
        self._cli, self._folder = cli, folder

    def build(self, name: str, recipe: str, source: Path) -> Path:
        """A server by a recipe, with the load client beside it; ``recipe`` is a name or a recipe's text."""
        named = recipe
        if "=" in recipe:
            file = self._folder / f"{name}.toml"
            file.write_text(recipe)
            named = str(file)
        of_source = ("--source", str(source), "--workload", workload("mix"))
        built = self._cli("build", named, *of_source, *TRAINED, "--no-install")
        assert built.code == 0, built.stderr
        folder = self._folder / name
        folder.mkdir()
        server = Path(built.stdout.strip())
        shutil.copy2(server, folder / "smallserver")
        # A tree that holds the hot set alone has no clients.
        shutil.copy2(next(self._cli.cache.glob("stages/plain-build-*/tree/smallload")), folder)
        return folder / "smallserver"

    def explain(self, before: Path, after: Path, *more: str) -> Done:
        named = (f"before={before}", f"after={after}")
        return self._cli("explain", *named, "--workload", workload("mix"), *QUICK, *more, "--json")

    def explained(self, before: Path, after: Path, *more: str) -> Explained:
        done = self.explain(before, after, *more)
        assert done.code == 0, done.stderr
        (load,) = Explanation.model_validate_json(done.stdout).loads
        return load


@pytest.fixture(scope="module")
def lab(cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab(cli, tmp_path_factory.mktemp("explain"))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planted(tmp_path_factory.mktemp("planted") / "source")


@pytest.fixture(scope="module")
def plain(lab: Lab, source: Path) -> Path:
    return lab.build("plain", "plain", source)


@pytest.fixture(scope="module")
def profiled(lab: Lab, plain: Path, source: Path) -> Explained:
    return lab.explained(plain, lab.build("profiled", TOLD, source), "--function", "planted")


def test_what_the_profile_alone_inlines_is_named_with_its_callers(profiled: Explained) -> None:
    found = {each.caller: (each.calls_before, each.calls_after) for each in profiled.inlined if each.callee == CALLEE}
    assert dict.fromkeys(CALLERS, (1, 0)).items() <= found.items()
    (row,) = (row for row in profiled.rows if row.name == CALLEE)
    assert row.cause == "inlined" and row.after_samples == 0 < row.before_samples


def test_what_must_not_be_inlined_is_not_called_inlined(profiled: Explained) -> None:
    assert KEPT not in {each.callee for each in profiled.inlined}
    (row,) = (row for row in profiled.rows if row.name == KEPT)
    assert row.cause != "inlined" and row.after_samples > 0


def test_shares_add_up_to_all(profiled: Explained) -> None:
    assert sum(row.before_share for row in profiled.rows) == pytest.approx(1)
    assert sum(row.after_share for row in profiled.rows) == pytest.approx(1)
    differences = sum(row.difference_us for row in profiled.rows)
    assert differences == pytest.approx(profiled.after.cpu_us_per_query - profiled.before.cpu_us_per_query)
    assert sum(row.before_samples for row in profiled.rows) == profiled.before.samples


def test_the_kernels_time_is_told_by_system_call(profiled: Explained) -> None:
    if profiled.before.system_us_per_query is None:
        pytest.skip("perf may not sample the kernel here")
    assert {"sendto", "recvfrom", "read", "write"} & {row.name for row in profiled.rows if row.home == "kernel"}


def test_what_the_kernel_was_entered_for_adds_up_to_its_time(profiled: Explained) -> None:
    if profiled.kernel is None:
        pytest.skip("perf may not sample the kernel here, or it hides its names")
    for side, own in (("before", profiled.before), ("after", profiled.after)):
        assert sum(getattr(each.us, side) for each in profiled.kernel.groups) == pytest.approx(own.system_us_per_query)
    (network,) = (each for each in profiled.kernel.groups if each.name == "network")
    assert {"sendto", "recvfrom"} <= set(network.ways)
    if network.calls is None:
        pytest.skip("perf may not count system calls here")
    # A batch of statements is received at once and answered at once, by both servers.
    assert network.calls.before == pytest.approx(network.calls.after, rel=0.2)


def test_a_new_layout_is_the_same_instructions_on_fewer_pages(lab: Lab, plain: Path, source: Path) -> None:
    found = lab.explained(plain, lab.build("laid-out", LAID_OUT, source))
    hot = [code for code in found.code if code.cold_after and not code.cold_before]
    assert hot, "no function was split"
    assert sum(code.same_instructions for code in found.code) > 0.8 * len(found.code)
    before, after = found.layout
    assert before.samples == after.samples
    assert after.pages_99 < before.pages_99
    assert not [each for each in found.inlined if each.proof == "code"]


def test_the_same_server_twice_differs_in_nothing(lab: Lab, plain: Path, tmp_path: Path) -> None:
    copy = tmp_path / "smallserver"
    shutil.copy2(plain, copy)
    done = lab.explain(plain, copy)
    assert done.code == 0, done.stderr
    told = Explanation.model_validate_json(done.stdout)
    assert told.nothing_differs and told.loads == ()


def test_a_page_and_stacks_for_other_tools_are_left(cli: Cli, profiled: Explained) -> None:
    runs = [run for run in cli.runs() if (run / profiled.stacks[0]).is_file()]
    assert runs
    assert all((runs[0] / name).stat().st_size for name in (*profiled.stacks, "explanation.html", "explanation.json"))
    names = {source_name(each) for each in (runs[0] / profiled.stacks[0]).read_text().split(";")}
    assert any(name.startswith("small::") for name in names)


def test_what_a_server_lacks_is_said_of_it_alone(profiled: Explained) -> None:
    lacking = [note.partition(":")[0] for note in profiled.notes if note.startswith(("before ", "after "))]
    assert lacking == ["before keeps no frame pointers", "before has no debug information"]


def test_line_tables_that_bolt_has_moved_show_inlined_frames_and_source_lines(cli: Cli, profiled: Explained) -> None:
    (run,) = (run for run in cli.runs() if (run / profiled.stacks[0]).is_file() and _inlined(run / profiled.stacks[2]))
    assert not _inlined(run / profiled.stacks[0])
    into = {outer for outer, inner in _inlined(run / profiled.stacks[2]) if inner == f"{CALLEE}_[i]"}
    assert into & set(CALLERS)
    files = {row.name: row.file for row in profiled.rows if row.file}
    assert any("core/text.cc:" in file for file in files.values()), files


def test_a_function_that_was_asked_for_is_told_with_its_callers_where_it_was_inlined(profiled: Explained) -> None:
    (asked,) = profiled.focus
    before, after = asked.before, asked.after
    assert before.own_function and before.samples and not before.inlined_us and not before.lines
    assert after.callers_known and not before.callers_known and not before.callers
    assert not before.inlined_known and asked.ratio is None
    assert after.samples and after.inlined_us == pytest.approx(after.us)
    assert {each.name for each in after.callers} <= set(CALLERS) and all("core/text.cc:" in each.line for each in after.callers)
    assert all("core/text.cc:" in each.line for each in after.lines) and after.lines


def _inlined(stacks: Path) -> set[tuple[str, str]]:
    """Frames of inlined functions, each with the frame around it."""
    frames = (line.rpartition(" ")[0].split(";") for line in stacks.read_text().splitlines())
    return {pair for names in frames for pair in itertools.pairwise(names) if pair[1].endswith("_[i]")}


def test_without_perf_nothing_is_explained(cli: Cli, plain: Path) -> None:
    before = cli.runs()
    named = ("explain", f"a={plain}", f"b={plain}", "--workload", workload("mix"))
    done = cli(*named, env={"UPSHIFT_PERF": "off"})
    assert done.code == 1 and "UPSHIFT_PERF=off forbids perf" in done.stderr and "hint: unset UPSHIFT_PERF" in done.stderr
    assert cli.runs() == before


def test_what_cannot_be_compared_is_refused_before_any_work(cli: Cli, here: Run, plain: Path, tmp_path: Path) -> None:
    before = cli.runs()
    bare = tmp_path / "smallserver"
    subprocess.run(["strip", "-o", bare, plain], check=True)
    for other, said in (("/bin/true", "they come from different sources"), (str(bare), "is stripped")):
        done = here("explain", f"a={plain}", f"b={other}", "--workload", workload("mix"))
        assert done.code == 2 and said in done.stderr and "hint: " in done.stderr
    assert cli.runs() == before
