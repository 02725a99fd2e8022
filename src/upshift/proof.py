"""The stages of ``optimize`` that come after the builds: is it the same server, is it faster, and what is handed over."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from upshift import __version__
from upshift.build.model import Build
from upshift.errors import VerifyFailed
from upshift.lab import Filled, Gated, Lab, Plugins, PostLinked, fill_data, settings_of
from upshift.machine import describe_machine
from upshift.measure.bench import SystemClock
from upshift.measure.experiment import Progress as Measured
from upshift.measure.experiment import run_experiment
from upshift.measure.model import BASELINE, Arm, Experiment, Load
from upshift.measure.server_bench import ServerBench
from upshift.package.bundle import make_package
from upshift.profile.model import HotSet
from upshift.report.html import write_html
from upshift.report.result import BuildSummary, HotSetSummary, Result, VerifySummary
from upshift.report.store import save_result
from upshift.run.stages import Workbench
from upshift.server.kind import Program
from upshift.source.model import Source
from upshift.values import Value
from upshift.verify import hardening

if TYPE_CHECKING:
    from upshift.pipeline import Measuring, Trained, Work


class Verified(Value):
    """The build that passed, and what it was put through."""

    build: Build
    post_link: str
    """What the post-link step applied to it; empty when it was left out or did not pass."""
    summary: VerifySummary
    warnings: tuple[str, ...]


class Packaged(Value):
    """Where the server to install lies."""

    folder: Path
    tarball: Path


def verify(lab: Lab, source: Source, plain: Build, optimised: Build, post_linked: PostLinked, suite: str) -> Verified:
    """The kind's tests and the binary's hardening; a post-linked server that fails is given up for the one before it.

    Raises VerifyFailed when the optimised server itself fails a test, or lost hardening.
    """

    def action(bench: Workbench) -> Verified:
        if not post_linked.applied:
            return _verified(lab, bench, source, plain, optimised, "", suite, _why_without(post_linked))
        try:
            return _verified(lab, bench, source, plain, post_linked.build, post_linked.applied, suite, ())
        except VerifyFailed as error:
            warning = f"the post-linked server did not pass and was given up: {error.message}"
            bench.progress.note(warning)
            return _verified(lab, bench, source, plain, optimised, "", suite, (warning,))

    inputs = {"plain": plain, "optimised": optimised, "post_linked": post_linked, "suite": suite}
    return lab.stages.run("verify", Verified, action, inputs=inputs)


def arms(lab: Lab, source: Source, plain: Build, optimised: Build, baseline: Path | None) -> tuple[Arm, ...]:
    """Plain first: it is what the others are compared with. The user's own server runs with its own message files."""
    found = [
        Arm(name="plain", program=lab.kind.program(source.path, plain.tree, plain.server)),
        Arm(name="optimised", program=lab.kind.program(source.path, optimised.tree, optimised.server)),
    ]
    return (*found, *arms_of(lab, {BASELINE: baseline} if baseline else {}))


def arms_of(lab: Lab, binaries: Mapping[str, Path]) -> tuple[Arm, ...]:
    """Arms for servers that are installed, or built and runnable from where they lie."""
    return tuple(
        Arm(name=name, program=Program(kind=lab.kind.name, binary=binary.resolve())) for name, binary in binaries.items()
    )


def measure(lab: Lab, measured: tuple[Arm, ...], data: Filled, measuring: Measuring) -> Experiment:
    """All arms on the training workloads over thread counts, and on the held-out ones. Never taken from another run."""
    workloads = {workload.name: workload for workload in (*measuring.train_on, *measuring.hold_out)}
    settings = settings_of(tuple(workloads.values()))
    measured = tuple(arm.model_copy(update={"settings": {**settings, **arm.settings}}) for arm in measured)
    # A server of another version brings its own data format: its data folder is filled by itself.
    templates = {arm.name: data.path for arm in measured}
    for arm in measured:
        if arm.name == BASELINE:
            own = fill_data(lab, arm.program, tuple(workloads.values()), "baseline data")
            templates[arm.name] = own.path
    threads = measuring.options.threads
    loads = [Load(workload=each.name, threads=n, held_out=False) for each in measuring.train_on for n in threads]
    loads += [Load(workload=each.name, threads=max(threads), held_out=True) for each in measuring.hold_out]

    def action(bench: Workbench) -> Experiment:
        def on_progress(at: Measured) -> None:
            latency = f", p99 {at.latency_ms_p99:.2f} ms" if at.latency_ms_p99 is not None else ""
            detail = f"{at.arm}: {at.workload} x{at.threads}, {at.qps:,.0f} QPS{latency}"
            bench.progress.update(at.done, at.total, detail)

        servers = ServerBench(bench.shell, lab.kind, measuring.plan, workloads, templates, bench.folder / "data", bench.log)
        experiment = run_experiment(
            measuring.plan,
            measured,
            _baselines(measured),
            loads,
            servers,
            clock=SystemClock(),
            samples=lab.run.path / "samples.parquet",
            on_progress=on_progress,
            pool_bytes=lab.kind.pool_bytes({**lab.kind.settings(), **settings}),
            data_bytes=lab.kind.data_bytes(data.path),
        )
        return experiment

    inputs = {"arms": measured, "loads": loads, "plan": measuring.plan}
    return lab.stages.run("measure", Experiment, action, inputs=inputs, keep=False)


def _baselines(measured: tuple[Arm, ...]) -> tuple[str, ...]:
    """The first arm, and the server that the user runs today: both are compared with what was built."""
    return tuple(dict.fromkeys((measured[0].name, *(arm.name for arm in measured if arm.name == BASELINE))))


def package(
    lab: Lab,
    source: Source,
    plain: Build,
    verified: Verified,
    gated: Gated | None,
    experiment: Experiment,
    plugins: Plugins | None,
    work: Work,
) -> Packaged:
    """An install tree and a tarball with provenance and the way back, in the run's folder."""

    def action(bench: Workbench) -> Packaged:
        provenance = {
            "upshift_version": __version__,
            "made_at": _now(),
            "run": lab.run.name,
            "source": source.model_dump(mode="json"),
            "recipe": verified.build.recipe.model_dump(mode="json"),
            "toolchain": verified.build.toolchain.model_dump(mode="json"),
            "profile": gated.profile.model_dump(mode="json") if gated else None,
            "post_link": verified.post_link,
            "trained_on": [workload.name for workload in work.train_on],
            "results": [each.model_dump(mode="json") for each in experiment.comparisons if each.metric == "qps"],
        }
        made = make_package(
            kind=lab.kind,
            source=source,
            plain=plain,
            server=verified.build.server,
            plugins=plugins.files if plugins else (),
            post_linked=bool(verified.post_link),
            provenance=provenance,
            folder=lab.run.path / "package",
            shell=bench.shell,
            log=bench.log,
        )
        return Packaged(folder=made.folder, tarball=made.tarball)

    inputs = {"verified": verified, "plain": plain, "experiment": experiment, "plugins": plugins}
    return lab.stages.run("package", Packaged, action, inputs=inputs, keep=False)


def report(
    lab: Lab,
    source: Source,
    plain: Build,
    trained: Trained | None,
    post_linked: PostLinked,
    verified: Verified,
    experiment: Experiment,
    packaged: Packaged,
    work: Work,
) -> Result:
    """The result as JSON and as a page."""
    hot_set = trained.hot_set if trained else None
    profile = trained.gated.profile if trained else None
    summary = BuildSummary(
        name="optimised",
        compiler=_compiler(verified.build),
        flags=verified.build.recipe.flags,
        recipe=verified.build.recipe.name,
        scope=verified.build.recipe.scope if trained else "none",
        objects=verified.build.objects if trained else 0,
        profile=f"{profile.kind} {profile.sha256[:12]}" if profile else "",
        post_link=verified.post_link,
        binary_bytes=verified.build.server.stat().st_size,
        text_bytes=hardening.text_bytes(verified.build.server),
    )
    warnings = [*verified.warnings]
    for build in (plain, verified.build) if trained else (plain,):
        if build.fallbacks:
            warnings.append(
                f"files of {build.recipe.name} that were compiled without precompiled headers: {len(build.fallbacks)}"
            )
    result = Result(
        **_common(lab, experiment, work),
        source=source,
        builds=(_plain_summary(plain), summary),
        hot_set=_hot_set_summary(hot_set) if hot_set else None,
        profile_notes=trained.gated.quality.notes if trained else (),
        verify=verified.summary,
        warnings=tuple(warnings),
        package=str(packaged.tarball),
    )
    return _publish(lab, result)


def report_measured(lab: Lab, experiment: Experiment, measuring: Measuring) -> Result:
    """The result of measuring servers that exist already."""
    nowhere = Source(kind=lab.kind.name, version="", origin="not built here", sha256="", verified="none", path=Path("/"))
    result = Result(
        **_common(lab, experiment, measuring),
        source=nowhere,
        builds=(),
        hot_set=None,
        profile_notes=(),
        verify=None,
        warnings=(),
        package="",
    )
    return _publish(lab, result)


def _publish(lab: Lab, result: Result) -> Result:
    save_result(result, lab.run.path)
    write_html(result, lab.run.path / "report.html")
    return result


def _common(lab: Lab, experiment: Experiment, measuring: Measuring) -> dict[str, Any]:
    return {
        "run": lab.run.name,
        "started_at": lab.run.manifest.started_at,
        "command": " ".join(lab.run.manifest.command),
        "upshift_version": __version__,
        "level": measuring.options.level,
        "machine": describe_machine(),
        "stages": lab.run.records(),
        "experiment": experiment,
    }


def _verified(
    lab: Lab,
    bench: Workbench,
    source: Source,
    plain: Build,
    build: Build,
    applied: str,
    suite: str,
    warnings: tuple[str, ...],
) -> Verified:
    before, after = hardening.examine(plain.server), hardening.examine(build.server)
    hardening.compare(before, after)
    outcome = lab.kind.verify(source.path, plain.tree, build.server, suite, bench, lab.jobs, {})
    if outcome.failed:
        raise VerifyFailed(
            f"{len(outcome.failed)} of {outcome.run} tests failed: {', '.join(outcome.failed[:5])}",
            f"see {bench.log}",
        )
    summary = VerifySummary(
        tests_run=outcome.run,
        tests_passed=outcome.passed,
        suite=suite,
        hardening=tuple((name, before[name], after.get(name, "")) for name in before),
    )
    return Verified(build=build, post_link=applied, summary=summary, warnings=warnings)


def _why_without(post_linked: PostLinked) -> tuple[str, ...]:
    return (f"without a post-link step: {post_linked.reason}",)


def _hot_set_summary(hot_set: HotSet) -> HotSetSummary:
    return HotSetSummary(
        method=hot_set.method,
        objects=len(hot_set.objects),
        all_objects=hot_set.all_objects,
        coverage=hot_set.coverage,
        top=tuple((each.path, each.share) for each in hot_set.objects[:15]),
    )


def _plain_summary(plain: Build) -> BuildSummary:
    return BuildSummary(
        name="plain",
        compiler=_compiler(plain),
        flags=plain.recipe.flags,
        recipe=plain.recipe.name,
        scope="all",
        objects=plain.objects,
        profile="",
        post_link="",
        binary_bytes=plain.server.stat().st_size,
        text_bytes=hardening.text_bytes(plain.server),
    )


def _compiler(build: Build) -> str:
    return f"{build.toolchain.family} {build.toolchain.version}"


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
