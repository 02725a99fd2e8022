"""The stage that says what is compiled again: what the workloads execute, or every object."""

from __future__ import annotations

from upshift.build.model import Build
from upshift.profile import hotness
from upshift.profile.model import HotSet
from upshift.profile.training import train
from upshift.source.model import Source
from upshift.stages.data import Filled
from upshift.stages.keys import servers_key, workloads_key
from upshift.stages.lab import Lab
from upshift.stages.names import Stage
from upshift.stages.post_link import bolt_counts
from upshift.toolchain.perf import SAMPLE_HZ
from upshift.workbench import Workbench
from upshift.workload.model import Workload

VERSION = 4
"""Raised when the commands that find a hot set change, or what is refused as one: no key holds them."""


def find_hot_set(
    lab: Lab,
    source: Source,
    plain: Build,
    workloads: tuple[Workload, ...],
    filled: Filled,
    *,
    seconds: float,
    use_perf: bool,
) -> HotSet:
    """What the workloads execute, from perf's samples; without perf from a BOLT-instrumented run."""
    program = lab.kind.program(source.path, plain.tree, plain.server)

    def from_perf(bench: Workbench) -> HotSet:
        link_map = hotness.map_plain_server(bench.shell, lab.kind, plain, bench.folder, bench.log)
        files = {workload.name: bench.folder / f"{workload.name}.perf" for workload in workloads}
        trained = train(
            bench,
            lab.kind,
            program,
            filled.path,
            workloads,
            seconds=seconds,
            environment=lambda _workload: {},
            samples=lambda workload: files[workload.name],
        )
        counted = [
            (hotness.count_samples(bench.shell, files[each.name], plain.server, link_map), each.share) for each in trained
        ]
        for file in files.values():
            file.unlink()
        return hotness.hot_set(bench.shell, lab.kind, plain, hotness.merged(counted))

    def from_bolt(bench: Workbench) -> HotSet:
        link_map = hotness.map_plain_server(bench.shell, lab.kind, plain, bench.folder, bench.log)
        counts = bolt_counts(lab, bench, source, plain, workloads, filled, (), seconds)
        counted = [(hotness.count_fdata(file, link_map), share) for file, share in counts]
        return hotness.hot_set(bench.shell, lab.kind, plain, hotness.merged(counted))

    inputs = {
        "plain": plain,
        "servers": servers_key(lab.kind, program, workloads),
        "workloads": workloads_key(workloads),
        "data": filled.sha256,
        "seconds": seconds,
        "perf": use_perf,
        "how": (SAMPLE_HZ, hotness.COVERAGE, lab.kind.opaque),
    }
    action = from_perf if use_perf else from_bolt
    return lab.stages.run(Stage.HOT_SET, HotSet, action, inputs=inputs, version=VERSION)


def whole_tree(lab: Lab, plain: Build) -> HotSet:
    """``--scope all``: every object of the server is rebuilt."""

    def action(bench: Workbench) -> HotSet:
        link_map = hotness.map_plain_server(bench.shell, lab.kind, plain, bench.folder, bench.log)
        return hotness.whole_tree(bench.shell, lab.kind, plain, link_map)

    inputs = {"plain": plain, "opaque": lab.kind.opaque}
    return lab.stages.run(Stage.HOT_SET, HotSet, action, inputs=inputs, version=VERSION)
