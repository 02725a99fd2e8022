"""The stage that asks whether a change leaves a trace's answers as they are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from upshift.measure.model import Plan
from upshift.measure.server_bench import ServerBench
from upshift.measure.variant import Variant
from upshift.native.failure import failure_of
from upshift.native.programs import programs_dir
from upshift.shell import Command
from upshift.stack.answers import Answers, read_answers
from upshift.stages.data import Filled
from upshift.stages.keys import program_key
from upshift.stages.lab import Lab
from upshift.stages.names import Stage
from upshift.values import Value, file_sha256
from upshift.workbench import Workbench

# Rows come in any order, and what drivers' ways and columns' types write differently is the same value.
_HOW = ("--order", "serial", "--unordered", "--lenient", "--on-difference", "count", "--json")
_TIMEOUT_S = 4 * 3600.0
"""A trace is sent once, one transaction after the other."""


class Replayed(Value):
    """What is sent both ways."""

    trace: Path
    """For ``upshift load replay``."""
    connections: int


def compare_answers(
    lab: Lab,
    variants: tuple[Variant, Variant],
    filled: Mapping[str, Filled],
    replayed: Replayed,
    plan: Plan,
    settings: Mapping[str, str],
) -> Answers:
    """Send the trace to the first server twice and to the second once, each on fresh data, in the one order that is the same
    every time.

    What the first answers differently the second time differs by itself. The servers have ``settings`` below their own.
    """
    load = programs_dir() / "upshift-load"
    templates = {name: each.path for name, each in filled.items()}
    as_sent, changed = (each.model_copy(update={"settings": {**settings, **each.settings}}) for each in variants)

    def action(bench: Workbench) -> Answers:
        servers = ServerBench(bench.shell, lab.kind_of, plan, {}, templates, bench.folder / "data", bench.log)
        first, second = bench.folder / "first.digest", bench.folder / "second.digest"

        def sent(variant: Variant, number: int, *digests: str | Path) -> str:
            bench.progress.update(number, 3, f"{variant.name}: the answers, compared")
            with servers.arm(variant, number) as server:
                url = lab.kind_of(variant.program).url(server.socket)
                words = (str(load), "replay", str(replayed.trace), "--server", url, "--connections", str(replayed.connections))
                options = (*_HOW, *variant.client, *map(str, digests))
                cpus = variant.client_cpus or plan.client_cpus
                done = bench.shell.run(Command((*words, *options), cpus=cpus), check=False, timeout_s=_TIMEOUT_S)
            if done.returncode != 0:
                raise failure_of(done, "the trace's program")
            return done.stdout

        told = sent(as_sent, 0, "--digest", first)
        sent(as_sent, 1, "--digest", second)
        return read_answers(told, sent(changed, 2, "--compare", first, "--again", second))

    inputs = {
        "servers": [_server_key(each, filled[each.name]) for each in (as_sent, changed)],
        "settings": lab.kind_of(as_sent.program).settings(),
        "trace": file_sha256(replayed.trace),
        "connections": replayed.connections,
        "how": _HOW,
        "load": file_sha256(load),
    }
    return lab.stages.run(Stage.ANSWERS, Answers, action, inputs=inputs)


def _server_key(variant: Variant, filled: Filled) -> Mapping[str, object]:
    """Its data say what SQL has changed."""
    return {"variant": variant.model_copy(update={"sql": ()}), **program_key(variant.program), "data": filled.sha256}
