"""What is to be explained, as a user names it; everything that can be refused is refused here, before the work."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from upshift.door import number_of, versions_of
from upshift.errors import UsageError, WorkloadError
from upshift.explain.explaining import Pair
from upshift.explain.names import plain_name
from upshift.explain.symbols import read_symbols
from upshift.measure.model import OPTIMISED, PATCHED
from upshift.measure.variant import Variant, find_variant, split_name
from upshift.report.store import load_result
from upshift.run.directory import RunDirectory
from upshift.server.data import settings_of
from upshift.server.kind import ServerKind
from upshift.server.kinds import kind_of
from upshift.shell import Shell
from upshift.values import Value, file_sha256
from upshift.workload.library import find_workload
from upshift.workload.model import Workload


class Asked(Value):
    """Two servers, and the loads that were named for them, or that their run measured them under; empty without either."""

    before: Variant
    after: Variant
    workloads: tuple[str, ...] = ()
    connections: int | None = None

    @property
    def pair(self) -> Pair:
        return self.before, self.after


def asked(servers: list[str], workloads: Sequence[str] = ()) -> Asked:
    """``A=PATH B=PATH``, or one run; under ``workloads`` in place of those of the run. Raises UsageError."""
    if len(servers) == 1 and not split_name(servers[0])[0]:
        return _of_run(servers[0], tuple(workloads))
    if len(servers) != 2:
        raise UsageError(f"explain compares two servers, not {len(servers)}", "name A=PATH B=PATH, or a run: `upshift runs`")
    before, after = (find_variant(each) for each in servers)
    if before.name == after.name:
        raise UsageError("the two servers have the same name", "name them: plain=/a/mysqld new=/b/mysqld")
    return Asked(before=before, after=after, workloads=tuple(workloads))


def pair_of(arms: Sequence[Variant], first: str) -> Pair:
    """Which two of a run's arms are explained: the optimised server, or else any other, after the one named ``first``.

    With patches, after the patched server: what patches change in a function would pass for what a compiler did with it.
    """
    named = {arm.name: arm for arm in arms}
    before = named.pop(first)
    if OPTIMISED in named:
        return named.get(PATCHED, before), named[OPTIMISED]
    return before, next(iter(named.values()))


def refuse_nameless(functions: Sequence[str]) -> None:
    """Raises UsageError for what names no function: nothing, or template arguments and parameters alone."""
    for each in functions:
        if not plain_name(each):
            raise UsageError(f"--function {each!r} names no function", "name it as in the source: BTree::find, operator<<")


def refuse_unexplainable(shell: Shell, kind: ServerKind, pair: Pair) -> str:
    """The version of both servers. Raises UsageError when they have two, and for one that does not start or was stripped."""
    for each in pair:
        if each.program.kind != kind.name:
            raise UsageError(
                f"{each.name} is a {each.program.kind}, and explain supports only {kind.name}",
                "`upshift measure` says which of two servers is faster",
            )
    said = versions_of(shell, lambda _program: kind, {each.name: each.program for each in pair})
    before, after = (number_of(said[each.name]) for each in pair)
    if before != after:
        raise UsageError(
            f"{pair[0].name} is {before}, {pair[1].name} is {after}: they come from different sources",
            "an explanation compares functions of the same source; build both from one version",
        )
    for each in pair:
        if each.text_huge_pages:
            raise UsageError(
                f"{each.name}: with text_huge_pages its code is in memory without a file, so samples have no function names",
                "leave text_huge_pages out: the same functions run, and `upshift measure` measures what huge pages gain",
            )
        read_symbols(each.program.binary.resolve(), each.name)
    return before


def nothing_differs(pair: Pair) -> bool:
    """Whether both are the same program, byte by byte, in the same surroundings."""
    before, after = (each.model_dump(exclude={"name": True, "program": {"binary", "tools"}}) for each in pair)
    return before == after and len({file_sha256(each.program.binary) for each in pair}) == 1


def _of_run(name: str, workloads: tuple[str, ...]) -> Asked:
    run = RunDirectory.open(name, ("optimize", "measure"))
    if run.manifest.verb not in ("optimize", "measure"):
        raise UsageError(
            f"run {run.name} is one of `upshift {run.manifest.verb}`, and explain takes a run of optimize or measure",
            "`upshift runs` lists them; or name two servers: A=PATH B=PATH",
        )
    result = load_result(run.path)
    if len(result.experiment.arms) < 2:
        raise UsageError(f"the run {result.run} measured one server", "name two servers: A=PATH B=PATH")
    pair = pair_of(result.experiment.arms, result.experiment.baseline)
    for each in pair:
        for path in (each.program.binary, *_files(each.program.options)):
            if not path.exists():
                raise UsageError(
                    f"{each.name}'s file {path} of run {run.name} is gone", "run it again, or name two servers: A=PATH B=PATH"
                )
    connections = result.experiment.plan.headline_connections
    if workloads:
        before, after = (_without_loads(each, run) for each in pair)
        return Asked(before=before, after=after, workloads=workloads, connections=connections)
    loads = result.experiment.loads
    trained = tuple(dict.fromkeys(_as_named(load.workload, run) for load in loads if not load.held_out))
    return Asked(before=pair[0], after=pair[1], workloads=trained, connections=connections)


def _without_loads(arm: Variant, run: RunDirectory) -> Variant:
    """The arm without what it ran with for the sake of the run's workloads: others ask for settings of their own."""
    options = run.manifest.options
    own: list[Workload] = []
    for each in (*options.get("workloads", ()), *options.get("held_out", ())):
        # A file that is gone cannot say what it asked for.
        with contextlib.suppress(WorkloadError):
            own.append(find_workload(each))
    usual = {**kind_of(arm.program).settings(), **settings_of(tuple(own))}
    return arm.model_copy(
        update={"settings": {name: value for name, value in arm.settings.items() if usual.get(name) != value}}
    )


def _as_named(workload: str, run: RunDirectory) -> str:
    """The file that a workload came from, where the run was given one."""
    files = [each for each in run.manifest.options.get("workloads", ()) if each.endswith(".toml")]
    return next((each for each in files if _name_in(each) == workload), workload)


def _name_in(file: str) -> str:
    """What a workload's file calls it; of a file that is gone its own name, so that it is missed by its path."""
    try:
        return find_workload(file).name
    except WorkloadError:
        return Path(file).stem


def _files(options: tuple[str, ...]) -> list[Path]:
    values = (option.partition("=")[2] for option in options)
    return [Path(value) for value in values if value.startswith("/")]
