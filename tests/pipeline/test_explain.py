"""Why one server is faster: `upshift explain` finds planted causes. Code and places of samples are judged, no time."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from conftest import SOURCE, Cli, Done, workload

from upshift.explain.model import Explained, Explanation
from upshift.explain.names import source_name

pytestmark = pytest.mark.pipeline

# Too long to be worth a copy, unless a profile says how often it runs; two callers, so that it is no single call either.
PLANTED = """
namespace {
volatile unsigned sink;
%s void planted(unsigned left, unsigned right) {
#define STEP(n) left = (left ^ (right * (2u * n + 1))) + ((left << (n %% 7 + 1)) | (right >> (n %% 5 + 1))); right += left ^ n;
    STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7) STEP(8) STEP(9) STEP(10) STEP(11) STEP(12)
    sink = left + right;
}
}  // namespace

"""
CALLEE, CALLERS = "small::(anonymous namespace)::planted", ("small::append_escaped", "small::compare_text")
QUICK = ("--connections", "4", "--seconds", "4", "--card-seconds", "0", "--no-install")
PROFILED = 'toolchain = "clang"\nprofile = "ir"\n'
LAID_OUT = 'toolchain = "clang"\npost_link = "bolt"\n'


def planted(folder: Path, how: str) -> Path:
    """The small server's source with a callee that is declared ``how``."""
    shutil.copytree(SOURCE, folder)
    file = folder / "core" / "text.cc"
    text = file.read_text().replace("int compare_text(", f"{PLANTED % how}int compare_text(", 1)
    for head in ("int compare_text(std::string_view left, std::string_view right) {", "void append_escaped("):
        assert text.count(head) == 1
    text = text.replace(
        "    size_t common = std::min(", "    planted(left.size(), right.size());\n    size_t common = std::min(", 1
    )
    text = text.replace("    for (char letter : text) {", "    planted(text.size(), 7);\n    for (char letter : text) {", 1)
    assert text.count("    planted(") == 2
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
        built = self._cli("build", named, "--source", str(source), "--workload", workload("mix"), "--no-install")
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

    def explained(self, before: Path, after: Path) -> Explained:
        done = self.explain(before, after)
        assert done.code == 0, done.stderr
        (load,) = Explanation.model_validate_json(done.stdout).loads
        return load


@pytest.fixture(scope="module")
def lab(cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab(cli, tmp_path_factory.mktemp("explain"))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planted(tmp_path_factory.mktemp("planted") / "source", "")


@pytest.fixture(scope="module")
def plain(lab: Lab, source: Path) -> Path:
    return lab.build("plain", "plain", source)


@pytest.fixture(scope="module")
def profiled(lab: Lab, plain: Path, source: Path) -> Explained:
    return lab.explained(plain, lab.build("profiled", PROFILED, source))


def test_what_the_profile_alone_inlines_is_named_with_its_callers(profiled: Explained) -> None:
    found = {each.caller: (each.calls_before, each.calls_after) for each in profiled.inlined if each.callee == CALLEE}
    assert dict.fromkeys(CALLERS, (1, 0)).items() <= found.items()
    (row,) = (row for row in profiled.rows if row.name == CALLEE)
    assert row.cause == "inlined" and row.after_samples == 0 < row.before_samples


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


def test_what_must_not_be_inlined_is_not_called_inlined(lab: Lab, tmp_path: Path) -> None:
    source = planted(tmp_path / "source", "[[gnu::noinline]]")
    found = lab.explained(lab.build("kept-plain", "plain", source), lab.build("kept", PROFILED, source))
    assert found.inlined
    assert CALLEE not in {each.callee for each in found.inlined}
    (row,) = (row for row in found.rows if row.name == CALLEE)
    assert row.cause != "inlined" and row.after_samples > 0


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


@pytest.mark.parametrize(("env", "said"), [({"UPSHIFT_PERF": "off"}, "there is no perf")])
def test_without_samples_nothing_is_explained(cli: Cli, plain: Path, env: dict[str, str], said: str) -> None:
    before = cli.runs()
    done = cli("explain", f"a={plain}", "b=/bin/true", "--workload", workload("mix"), env=env)
    assert done.code in (1, 2) and "hint:" in done.stderr and "Traceback" not in done.stderr
    again = cli("explain", f"a={plain}", f"b={plain}", "--workload", workload("mix"), env=env)
    assert again.code == 1 and said in again.stderr
    assert cli.runs() == before
