"""A whole result to test reports with. EVERY FIGURE HERE IS INVENTED: none was measured, none may be quoted."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cards import card

from upshift.instructions.model import Count, Instructions, compared
from upshift.machine import Machine
from upshift.measure.model import Comparison, Experiment, Flag, Flagged, Level, Load, Metric, Plan, Verdict
from upshift.measure.placement import Seat
from upshift.measure.variant import Variant
from upshift.report.result import (
    BuildSummary,
    HotSetSummary,
    Result,
    VerifySummary,
)
from upshift.run.record import StageRecord
from upshift.server.kind import Program
from upshift.source.model import Source

UNBOUNDED = (0.0, 1e9)

# workload, connections, held out: baseline's figures, then ratios of the optimised arm (qps, p99, user, system), half-width
_INVENTED: tuple[tuple[str, int, bool, dict[Metric, float], dict[Metric, float], float], ...] = tuple(
    (
        workload,
        connections,
        held_out,
        {
            "qps": qps,
            "latency_ms_p99": p99,
            "total_cpu_us_per_query": user + system,
            "user_cpu_us_per_query": user,
            "system_cpu_us_per_query": system,
        },
        {
            "qps": ratios[0],
            "latency_ms_p99": ratios[1],
            "total_cpu_us_per_query": (user * ratios[2] + system * ratios[3]) / (user + system),
            "user_cpu_us_per_query": ratios[2],
            "system_cpu_us_per_query": ratios[3],
        },
        half,
    )
    for workload, connections, held_out, qps, p99, user, system, ratios, half in (
        ("oltp_read_write", 1, False, 4210.0, 7.9, 151.0, 49.0, (1.27, 0.82, 0.66, 0.99), 0.024),
        ("oltp_read_write", 4, False, 5630.0, 24.1, 128.0, 44.0, (1.33, 0.77, 0.65, 0.98), 0.017),
        ("oltp_read_write", 16, False, 5710.0, 81.5, 129.0, 43.0, (1.34, 0.76, 0.64, 0.97), 0.026),
        ("oltp_read_only", 1, False, 5120.0, 4.6, 118.0, 47.0, (1.22, 0.86, 0.70, 1.002), 0.021),
        ("oltp_read_only", 4, False, 7020.0, 14.2, 102.0, 38.0, (1.26, 0.80, 0.69, 1.001), 0.015),
        ("oltp_read_only", 16, False, 7090.0, 47.0, 101.0, 38.0, (1.27, 0.79, 0.68, 0.999), 0.019),
        ("oltp_point_select", 1, False, 9600.0, 0.21, 41.0, 38.0, (1.09, 0.94, 0.71, 1.0), 0.031),
        ("oltp_point_select", 4, False, 15800.0, 0.52, 33.0, 29.0, (1.17, 0.88, 0.70, 1.0), 0.014),
        ("oltp_point_select", 16, False, 16100.0, 1.9, 32.0, 29.0, (1.18, 0.87, 0.69, 1.0), 0.022),
        ("oltp_update_index", 16, True, 3300.0, 21.0, 140.0, 90.0, (1.14, 0.90, 0.81, 1.0), 0.03),
        ("select_random_ranges", 16, True, 8200.0, 4.1, 96.0, 22.0, (1.001, 1.002, 0.999, 1.001), 0.004),
        ("oltp_insert", 16, True, 6100.0, 6.4, 88.0, 71.0, (1.03, 0.98, 0.97, 1.0), 0.07),
    )
)


def comparison(**changes: Any) -> Comparison:
    """A clear win in throughput, changed as asked."""
    base = {
        "workload": "oltp_read_write",
        "held_out": False,
        "connections": 8,
        "metric": "qps",
        "arm": "optimised",
        "baseline": "plain",
        "ratio": 1.34,
        "ci_low": 1.31,
        "ci_high": 1.38,
        "confidence": 0.95,
        "trials": 6,
        "verdict": "faster",
        "trials_needed": None,
    }
    return Comparison.model_validate({**base, **changes})


LOSS = comparison(
    workload="oltp_delete",
    held_out=True,
    connections=16,
    ratio=0.94,
    ci_low=0.92,
    ci_high=0.96,
    verdict="slower",
)


def example(*, loss: bool = False, trials: int = 6, third_arm: bool = False, **changes: Any) -> Result:
    """A result of `upshift optimize` with every part filled in.

    ``loss`` adds LOSS, a held-out workload that got slower; ``trials`` of 1 leaves all intervals without limits.
    """
    loads = [Load(workload=name, connections=connections, held_out=out) for name, connections, out, *_ in _INVENTED]
    levels = list(_levels(trials))
    comparisons = list(_comparisons(trials))
    arms = [_arm("plain"), _arm("optimised")]
    if third_arm:
        arms.append(_arm("baseline"))
        factor = 0.93
        levels += [
            each.model_copy(update={"arm": "baseline", **_scaled(each, factor)}) for each in levels if each.arm == "plain"
        ]
        qps = [each for each in comparisons if each.metric == "qps"]
        slower = {"arm": "baseline", "ratio": 0.93, "ci_low": 0.91, "ci_high": 0.95, "verdict": "slower"}
        comparisons += [each.model_copy(update=slower) for each in qps]
        comparisons += [
            each.model_copy(
                update={"baseline": "baseline", **{name: getattr(each, name) / 0.93 for name in ("ratio", "ci_low", "ci_high")}}
            )
            for each in qps
        ]
    if loss:
        loads.append(Load(workload="oltp_delete", connections=16, held_out=True))
        comparisons.append(LOSS)
        levels += [
            Level(
                workload="oltp_delete",
                held_out=True,
                connections=16,
                arm=arm,
                metric="qps",
                value=value,
                ci_low=value * 0.98,
                ci_high=value * 1.02,
            )
            for arm, value in (("plain", 4800.0), ("optimised", 4512.0))
        ]
    experiment = Experiment(
        plan=Plan(
            trials=trials,
            rounds=1,
            slice_s=2.5,
            lead_s=0.3,
            warmup_s=10.0,
            seed=1,
            headline_connections=16,
            server_cpus=(0,),
            client_cpus=(1,),
            placement="the server has 1 core and the load 1 core of its own",
        ),
        arms=tuple(arms),
        baseline="plain",
        loads=tuple(loads),
        levels=tuple(levels),
        comparisons=tuple(comparisons),
        confidence=0.95,
        steal_share=0.004,
        flags=(
            Flag(
                name="other-load",
                message="other programs used 0.14 CPUs while 2 CPUs were measured",
                hint="stop them, or measure longer: all servers were affected alike, but intervals get wider",
            ),
            Flag(
                name="server-idle",
                message="the server mostly waited: of its CPUs it used 41% (plain, oltp_point_select at 1 connection)",
                hint="use more connections, or see what it waits for (disk, locks, client); CPU per query still counts",
                loads=(Flagged(arm="plain", workload="oltp_point_select", held_out=False, connections=1),),
            ),
        ),
    )
    return Result.model_validate({**_around(experiment), **changes})


def in_a_duet() -> Result:
    """Both servers were loaded at the same time, each with its load on CPUs of its own."""
    found = example()
    seats = (Seat(server_cpus=(0, 1, 2), client_cpus=(3,)), Seat(server_cpus=(4, 5, 6), client_cpus=(7,)))
    words = "the server has 3 cores and the load 1 core of its own"
    changes = {"server_cpus": (0, 1, 2, 4, 5, 6), "client_cpus": (3, 7), "duet": seats, "placement": words}
    plan = found.experiment.plan.model_copy(update=changes)
    return found.model_copy(update={"experiment": found.experiment.model_copy(update={"plan": plan})})


def measured_only() -> Result:
    """A result of `upshift measure`: servers that exist already, nothing built, verified or packaged."""
    nowhere = Source(kind="mysql", version="", origin="not built here", sha256="", verified="none", path=Path("/"))
    return example(source=nowhere, builds=(), hot_set=None, profile_notes=(), verify=None, warnings=(), package="")


def _scaled(level: Level, factor: float) -> dict[str, float]:
    return {name: getattr(level, name) * factor for name in ("value", "ci_low", "ci_high")}


def _arm(name: str) -> Variant:
    binary = Path("/var/cache/upshift/stages") / name / "bin/mysqld"
    return Variant(name=name, program=Program(kind="mysql", binary=binary), settings={"innodb_buffer_pool_size": "1G"})


def _levels(trials: int) -> Iterator[Level]:
    for workload, connections, held_out, base, ratios, half in _INVENTED:
        for metric, plain in base.items():
            for arm, value in (("plain", plain), ("optimised", plain * ratios[metric])):
                low, high = (value * (1 - half), value * (1 + half)) if trials > 1 else UNBOUNDED
                yield Level(
                    workload=workload,
                    held_out=held_out,
                    connections=connections,
                    arm=arm,
                    metric=metric,
                    value=value,
                    ci_low=low,
                    ci_high=high,
                )


def _comparisons(trials: int) -> Iterator[Comparison]:
    for workload, connections, held_out, _base, ratios, half in _INVENTED:
        for metric, ratio in ratios.items():
            low, high = (ratio / (1 + half), ratio * (1 + half)) if trials > 1 else UNBOUNDED
            verdict = _verdict(metric, ratio, low, high)
            yield comparison(
                workload=workload,
                held_out=held_out,
                connections=connections,
                metric=metric,
                ratio=ratio,
                ci_low=low,
                ci_high=high,
                trials=trials,
                verdict=verdict,
                trials_needed=14 if verdict == "inconclusive" else None,
            )


def _verdict(metric: Metric, ratio: float, low: float, high: float) -> Verdict:
    if low < 1 < high:
        return "equivalent" if low > 0 and math.log(high / low) < 0.02 else "inconclusive"
    return "faster" if (ratio > 1) == (metric == "qps") else "slower"


def _around(experiment: Experiment) -> dict[str, Any]:
    return {
        "run": "20261121-051500-optimize",
        "started_at": "2026-11-21T05:15:00+00:00",
        "command": "upshift optimize --workload oltp_read_write --connections 1,4,16",
        "upshift_version": "0.1.0",
        "level": "full",
        "machine": Machine(
            cpu="Invented CPU 9000 @ 2.60GHz",
            cpus=2,
            memory_bytes=25_000_000_000,
            os="Debian GNU/Linux 12 (bookworm)",
            kernel="6.1.0-test",
            virtual="kvm",
            pmu=False,
        ),
        "card": card(),
        "source": Source(
            kind="mysql",
            version="9.7.4",
            origin="apt: mysql-source 9.7.4-2 (sid)",
            sha256="0f" * 32,
            verified="apt signature",
            path=Path("/var/cache/upshift/stages/source/mysql-9.7"),
        ),
        "stages": _stages(),
        "builds": _builds(),
        "hot_set": HotSetSummary(
            method="perf cpu-clock samples",
            objects=252,
            all_objects=1442,
            coverage=0.995,
            top=(
                ("storage/innobase/row/row0sel.cc.o", 0.091),
                ("storage/innobase/btr/btr0cur.cc.o", 0.064),
                ("sql/sql_executor.cc.o", 0.052),
                ("storage/innobase/page/page0cur.cc.o", 0.047),
                ("sql/sql_yacc.cc.o", 0.041),
                ("storage/innobase/mtr/mtr0mtr.cc.o", 0.033),
                ("sql/item_func.cc.o", 0.021),
                ("mysys/my_alloc.cc.o", 0.017),
            ),
        ),
        "profile_notes": ("8123 of 25595 functions have counts", "97 of the 100 hottest functions have counts"),
        "verify": VerifySummary(
            tests_run=11,
            tests_passed=11,
            suite="short",
            hardening=(
                ("PIE", "yes", "yes"),
                ("RELRO", "full", "full"),
                ("NX stack", "yes", "yes"),
                ("stack protector", "yes", "yes"),
                ("FORTIFY", "no", "no"),
            ),
        ),
        "experiment": experiment,
        "warnings": ("files of max-clang that were compiled without precompiled headers: 3",),
        "package": "/var/cache/upshift/runs/20261121-051500-optimize/package/mysql-9.7.4-upshift.tar.gz",
    }


def _stages() -> tuple[StageRecord, ...]:
    return tuple(
        StageRecord(name=name, wall_s=wall, cpu_s=cpu, peak_memory_bytes=int(peak * 1e9), cached=cached)
        for name, wall, cpu, peak, cached in (
            ("source", 41.0, 22.0, 0.2, True),
            ("plain build", 643.0, 1240.0, 1.4, True),
            ("data", 14.2, 11.0, 0.9, True),
            ("hot set", 66.0, 71.0, 1.1, False),
            ("instrumented build", 184.0, 351.0, 1.6, False),
            ("train", 92.0, 101.0, 1.2, False),
            ("profile gate", 2.4, 2.2, 0.1, False),
            ("optimised build", 171.0, 322.0, 2.9, False),
            ("post-link", 61.0, 88.0, 8.5, False),
            ("verify", 48.0, 71.0, 1.9, False),
            ("measure", 1260.0, 1990.0, 2.2, False),
            ("package", 21.0, 19.0, 0.3, False),
        )
    )


def _builds() -> tuple[BuildSummary, ...]:
    return (
        BuildSummary(
            name="plain",
            compiler="clang 22.1.8",
            flags=(),
            recipe="plain",
            scope="all",
            objects=1442,
            profile="",
            post_link="",
            binary_bytes=88_000_000,
            text_bytes=31_000_000,
        ),
        BuildSummary(
            name="optimised",
            compiler="clang 22.1.8",
            flags=("-O3", "-flto=thin", "-fprofile-use=train.profdata"),
            recipe="max-clang",
            scope="hot",
            objects=252,
            profile="ir 3f9c0a1b2c3d",
            post_link="bolt 22.1.8",
            binary_bytes=97_000_000,
            text_bytes=38_000_000,
        ),
    )


def counted() -> Instructions:
    """What was counted of two servers under a workload, and one sentence about what was not."""
    counts = tuple(
        Count(arm=arm, workload="oltp_point_select", instructions_per_query=executed, calls_per_query=calls, queries=2000)
        for arm, executed, calls in (("plain", 60000.0, 1800.4), ("optimised", 45000.0, 360.0))
    )
    return Instructions(
        source="callgrind",
        version="3.19.0",
        baseline="plain",
        counts=counts,
        ratios=compared(counts, "plain"),
        not_counted=("workload 'mine' has no [fixed] command",),
    )


def in_transactions() -> Result:
    """One of whose workloads count transactions."""
    result = example()
    return result.model_copy(update={"experiment": result.experiment.model_copy(update={"transactions": ("tpcc", "commit")})})
