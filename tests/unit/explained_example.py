"""Two servers' samples and an explanation of them, made up for tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from upshift.explain.layout import Spread
from upshift.explain.model import (
    Change,
    CodeChange,
    Explained,
    Explanation,
    Family,
    Figure,
    Focus,
    FocusCaller,
    FocusLine,
    FocusSide,
    FunctionWork,
    Inlined,
    KernelGroup,
    KernelTime,
    Row,
    Side,
    SystemCall,
    Verdict,
)
from upshift.explain.recording import Block
from upshift.explain.script import KERNEL, Frame, Samples, Stack
from upshift.machine import Machine
from upshift.measure.variant import Variant
from upshift.server.kind import Program


def on(*names: str) -> Stack:
    """A stack in the server, the innermost function first."""
    return tuple(Frame("", name, 0x1000 + 0x40 * number) for number, name in enumerate(names))


def in_call(name: str) -> Stack:
    return (Frame(KERNEL, "schedule", 0), Frame(KERNEL, f"__x64_sys_{name}", 0), *on("run"))


def block(stacks: Mapping[Stack, int], queries: int = 1000, cpu_s: float = 0.1) -> Block:
    return Block(
        queries=queries,
        cpu_s=cpu_s,
        sampled_cpu_s=cpu_s,
        run_delay_s=cpu_s / 10,
        switches=queries // 2,
        voluntary_switches=queries // 4,
        samples=Samples(Counter(stacks)),
    )


def variant(name: str) -> Variant:
    return Variant(name=name, program=Program(kind="fake", binary=Path("/nowhere") / name))


def side(name: str, us: float) -> Side:
    return Side(
        server=name,
        queries=10_000,
        cpu_us_per_query=us,
        user_us_per_query=us * 0.6,
        system_us_per_query=us * 0.4,
        switches_per_query=0.5,
        voluntary_switches_per_query=0.375,
        run_delay_us_per_query=us / 8,
        samples=1000,
        lost=0,
    )


def row(name: str, before: int, after: int, **changes: object) -> Row:
    base = {
        "name": name,
        "home": "server",
        "before_samples": before,
        "after_samples": after,
        "before_us": before / 10,
        "after_us": after / 20,
        "difference_us": after / 20 - before / 10,
        "before_share": before / 1000,
        "after_share": after / 1000,
        "ratio": after / 2 / before if before else None,
        "ci_low": 0.1,
        "ci_high": 0.9 if before else None,
        "verdict": "less",
        "symbol": name,
    }
    return Row.model_validate({**base, **changes})


def inlined(callee: str, caller: str) -> Inlined:
    return Inlined(
        callee=callee,
        caller=caller,
        indirect=False,
        calls_before=1,
        calls_after=0,
        cold_calls_after=2,
        symbol_gone=True,
        moved_calls=("leap",),
        callee_us_before=30.0,
        callee_us_after=0.0,
        under_us_before=31.0,
        under_us_after=0.0,
        caller_us_before=50.0,
        caller_us_after=15.0,
        proof="code",
    )


def figure(before: float, after: float, verdict: Verdict) -> Figure:
    value = after / before
    return Figure(before=before, after=after, ratio=value, ci_low=value * 0.9, ci_high=value * 1.1, verdict=verdict)


def explanation(folder: Path, *, nothing_differs: bool = False) -> Explanation:
    """An explanation whose stacks lie in ``folder``."""
    for name in ("plain", "new"):
        (folder / f"{name}-mix.folded").write_text(f"run;walk 600\nrun;{name}</script>_[i] 399\nrun;rare 1\n")
    spread = Spread(samples=500, pages_90=20, pages_99=40, lines_90=100, lines_99=200)
    load = Explained(
        workload="mix",
        connections=8,
        before=side("plain", 100.0),
        after=side("new", 50.0),
        changes=(
            Change(metric="cpu", before=100.0, after=50.0, ratio=0.5, ci_low=0.45, ci_high=0.55),
            Change(metric="instructions", before=9e4, after=6e4, ratio=0.667, ci_low=None, ci_high=None, log_share=0.58),
            Change(
                metric="time per instruction", before=7e-4, after=5e-4, ratio=0.71, ci_low=None, ci_high=None, log_share=0.42
            ),
        ),
        rows=(
            row("walk<int>", 500, 300, cause="takes in", file="walk.cc:12"),
            row("step", 300, 0, cause="inlined"),
            row("futex", 100, 180, home="kernel", verdict="not told apart", symbol=""),
            row("brand_new", 0, 420, verdict="more"),
            row("other functions of the server", 100, 100, functions=31, symbol=""),
        ),
        inlined=(inlined("step", "walk<int>").model_copy(update={"calls_per_query_before": 19.5, "calls_per_query_after": 0}),),
        families=(Family(name="walk<int>", members=("step",), before_us=80.0, own_before_us=50.0, after_us=15.0),),
        code=(
            CodeChange(
                name="walk<int>",
                instructions_before=40,
                instructions_after=70,
                cold_before=0,
                cold_after=20,
                same_instructions=False,
            ),
        ),
        system_calls=(
            SystemCall(name="futex", calls_before=0.5, calls_after=0.25, us_before=10.0, us_after=4.0),
            SystemCall(name="sendto", calls_before=1.0, calls_after=1.0, us_before=10.0, us_after=8.0),
        ),
        kernel=KernelTime(
            confidence=0.975,
            groups=(
                KernelGroup(
                    name="network",
                    ways=("sendto", "ppoll"),
                    us=figure(20.0, 14.0, "less"),
                    counted=("sendto",),
                    calls=figure(1.0, 1.0, "not told apart"),
                    us_a_call=figure(10.0, 7.0, "less"),
                ),
                KernelGroup(
                    name="wake-ups",
                    ways=("futex",),
                    us=figure(10.0, 9.0, "not told apart"),
                    counted=("futex",),
                    calls=figure(2.0, 1.5, "less"),
                    us_a_call=figure(5.0, 6.0, "more"),
                ),
                KernelGroup(name="other", ways=("page fault",), us=figure(1.0, 3.0, "more")),
            ),
            waking=figure(6.0, 5.5, "not told apart"),
            interrupts=figure(0.50, 0.45, "not told apart"),
        ),
        executed=(
            FunctionWork(
                name="step", home="server", instructions_before=60_000, instructions_after=0, calls_before=19.5, calls_after=0
            ),
            FunctionWork(
                name="walk<int>",
                home="server",
                instructions_before=30_000,
                instructions_after=60_000,
                calls_before=1,
                calls_after=1,
            ),
        ),
        focus=(
            Focus(
                name="step",
                before=FocusSide(
                    own_function=True,
                    callers_known=True,
                    samples=300,
                    us=30.0,
                    own_us=25.0,
                    inlined_us=0.0,
                    lines=(FocusLine(line="/source/core/walk.cc:7", us=30.0),),
                    callers=(FocusCaller(name="walk<int>", line="/source/core/walk.cc:12", inlined=False, us=30.0),),
                ),
                after=FocusSide(
                    own_function=False,
                    callers_known=True,
                    samples=100,
                    us=5.0,
                    own_us=5.0,
                    inlined_us=5.0,
                    lines=(FocusLine(line="/source/core/walk.cc:7", us=5.0),),
                    callers=(FocusCaller(name="walk<int>", line="/source/core/walk.cc:12", inlined=True, us=5.0),),
                ),
                ratio=5.0 / 30.0,
                ci_low=0.125,
                ci_high=0.22,
            ),
        ),
        layout=(spread, spread.model_copy(update={"pages_90": 9})),
        dispersion=1.5,
        confidence=0.968,
        notes=("plain has no debug information",),
        stacks=("plain-mix.folded", "plain-mix.speedscope.json", "new-mix.folded", "new-mix.speedscope.json"),
    )
    return Explanation(
        run="20261122-120000-explain",
        started_at="2026-11-22T12:00:00+00:00",
        command="upshift explain plain=/a/mysqld new=/b/mysqld",
        upshift_version="0.1.0",
        machine=Machine(cpu="AMD EPYC", cpus=2, memory_bytes=2**34, os="Debian 12", kernel="6.1", virtual="kvm", pmu=False),
        version="9.7.4",
        before=variant("plain"),
        after=variant("new"),
        nothing_differs=nothing_differs,
        seconds=16.0,
        loads=() if nothing_differs else (load,),
    )
