"""What perf prints of the processor's slots. No machine with counters was at hand: the lines are those that others published.

Of the kernel's mailing list (linux-perf-users, linux-kernel) where nothing else is said; a counter's line is followed by
others that have nothing to say here, of which some are kept.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import FakeShell, Output

from upshift.explain.counting import command
from upshift.explain.model import Slots
from upshift.explain.topdown import options_here, read

# -M TopdownL1 on Sapphire Rapids, perf 6.13, without the column of -I: the last column is a metric's threshold.
SAPPHIRE_RAPIDS = """# started on Mon Nov 23 23:00:00 2026

4677067630,,TOPDOWN.SLOTS,16029302700,100.00,31.1,%  tma_backend_bound,bad
,,,,,51.0,%  tma_frontend_bound,bad
,,,,,7.6,%  tma_bad_speculation,good
,,,,,10.2,%  tma_retiring,good
476781750,,topdown-retiring,16029302700,100.00,,
2389693619,,topdown-fe-bound,16029302700,100.00,,
49066178,,UOPS_DECODED.DEC0,16029100912,100.00,,
26472844,,cpu/UOPS_DECODED.DEC0,cmask=1/,16029009707,100.00,,
"""
# perf 6.5 without the thresholds, among other figures.
WITHOUT_THRESHOLDS = """37977214,,instructions,225850071251,100.00,0.73,insn per cycle
51102,,branch-misses,225849672536,100.00,0.70,of all branches
,225849327050,100.00,,,,TopdownL1
,,,,,70.1,%  tma_backend_bound
,,,,,2.7,%  tma_bad_speculation
,,,,,12.5,%  tma_frontend_bound
,,,,,14.6,%  tma_retiring
,225849327050,100.00,,,,TopdownL2
,,,,,2.3,%  tma_branch_mispredicts
,,,,,19.6,%  tma_core_bound
"""
# --topdown, perf 5.9 on Ice Lake.
METRICS_ONLY = "retiring,bad speculation,frontend bound,backend bound,\n18.0,16.1,40.4,25.5,\n"
# perf 4.15 on Cascade Lake, github.com/andikleen/pmu-tools/issues/203: on its way to 180 %.
BEYOND_ALL = "core,cpus,retiring,bad speculation,frontend bound,backend bound\nS0-C0,1,151.0,3.9,26.0,,\n"
# A hybrid processor: the four are of two kinds of cores, and no whole.
HYBRID = """,648266,100.00,,,,TopdownL1 (cpu_atom)
,,,,,87.9,%  tma_bad_speculation
,648266,100.00,,,24.0,%  tma_frontend_bound
,648266,100.00,,,31.5,%  tma_backend_bound
,,,,,31.5,%  tma_backend_bound_aux
,371932,57.00,,,0.0,%  tma_retiring
"""
# perf 6.1 on this project's machine, a guest without counters.
NONE = """0.58,msec,task-clock,583866,100.00,0.461,CPUs utilized
<not supported>,,cycles,0,100.00,,
<not supported>,,instructions,0,100.00,,
"""
REFUSED = "top down event configuration requires system-wide mode (-a)\n"
COUNTS = {"instructions:u": Output("12345,,instructions:u,583866,100.00,,\n")}


@pytest.mark.parametrize(
    ("printed", "shares"),
    [
        (SAPPHIRE_RAPIDS, (0.102, 0.076, 0.510, 0.311)),
        (WITHOUT_THRESHOLDS, (0.146, 0.027, 0.125, 0.701)),
        (METRICS_ONLY, (0.180, 0.161, 0.404, 0.255)),
    ],
)
def test_the_four_shares_are_read_in_every_form(printed: str, shares: tuple[float, ...]) -> None:
    found = read(printed)
    assert found
    told = (found.retiring, found.bad_speculation, found.frontend_bound, found.backend_bound)
    assert told == pytest.approx(shares) and found.smt_contention == 0


def test_amds_fifth_share_is_part_of_the_whole_and_fractions_are_shares() -> None:
    """The names are those of the kernel's tools/perf/pmu-events/arch/x86/amdzen4/pipeline.json."""
    shares = {"frontend_bound": 0.25, "bad_speculation": 0.05, "backend_bound": 0.35, "smt_contention": 0.15, "retiring": 0.20}
    percents = "".join(f",,,,,{100 * share:.1f},%  {name}\n" for name, share in shares.items())
    fractions = "".join(f",,,,,{share:.2f},{name}\n" for name, share in shares.items())
    assert read(percents) == read(fractions) == Slots(**shares)


def test_a_share_that_perf_leaves_empty_is_none_of_the_whole() -> None:
    # It prints no number that is below 0, which rounding makes of a share of nothing.
    found = read(WITHOUT_THRESHOLDS.replace("2.7,", ",").replace("14.6", "17.3"))
    assert found and found.bad_speculation == 0 and found.retiring == pytest.approx(0.173)


@pytest.mark.parametrize("printed", ["", NONE, REFUSED, BEYOND_ALL, HYBRID, "\n".join(METRICS_ONLY.splitlines()[:1])])
def test_what_is_no_whole_is_no_figure(printed: str) -> None:
    assert read(printed) is None


def test_a_machine_without_counters_says_so_and_is_asked_nothing_else() -> None:
    shell = FakeShell({"perf stat": Output(NONE)})
    options, why_not = options_here(shell)
    assert options == () and "shows no counters of the processor" in why_not
    assert len(shell.ran) == 1


def test_the_first_way_that_tells_all_shares_is_taken() -> None:
    assert options_here(FakeShell({**COUNTS, "TopdownL1": Output(SAPPHIRE_RAPIDS)})) == (("-M", "TopdownL1"), "")
    amd = {**COUNTS, "PipelineL1": Output(WITHOUT_THRESHOLDS.replace("tma_", ""))}
    assert options_here(FakeShell(amd)) == (("-M", "PipelineL1"), "")
    assert options_here(FakeShell({**COUNTS, "--topdown": Output(METRICS_ONLY)})) == (("--topdown",), "")
    options, why_not = options_here(FakeShell({**COUNTS, "--topdown": Output(REFUSED, returncode=129)}))
    assert options == () and "no top-down metrics" in why_not


def test_the_command_counts_a_server_and_nothing_else() -> None:
    line = command(77, ("-M", "TopdownL1"), Path("/run/counts.csv")).pasteable()
    assert line == "perf stat -x , -o /run/counts.csv -M TopdownL1 -p 77 -- sleep 2.0"
