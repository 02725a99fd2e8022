"""Reads what a workload's driver reports at the end of a load."""

from __future__ import annotations

import json
import math
import re

from upshift.errors import LoadFailed
from upshift.values import Value


class LoadReport(Value):
    """What a driver said at the end of a load. Latencies in milliseconds; None where it does not report them."""

    errors: int = 0
    latency_ms_p50: float | None = None
    latency_ms_p95: float | None = None
    latency_ms_p99: float | None = None
    client_cpu_s: float = 0.0


def read_sysbench(output: str, paused: int = 0) -> LoadReport:
    """sysbench 1.0's ``--histogram``: latency percentiles from its buckets (upper limits, milliseconds), and errors.

    The ``paused`` longest are left out: they waited while the driver was.
    Raises LoadFailed when there is no histogram: the command must pass ``--histogram=on``.
    """
    buckets = [(float(value), int(count)) for value, count in re.findall(r"^\s*([\d.]+) \|\**\s+(\d+)$", output, re.M)]
    if not buckets:
        raise LoadFailed("sysbench printed no latency histogram", 'pass --histogram=on, or set latency = "none"')
    ignored = re.search(r"ignored errors:\s+(\d+)", output)
    return _percentiles(buckets, paused, int(ignored.group(1)) if ignored else 0)


def read_upshift_load(output: str, paused: int = 0) -> LoadReport:
    """The document that ``upshift-load --json`` prints; the latency is that of a transaction, of whatever kind.

    Where it has a histogram (``--histogram``), the ``paused`` longest are left out: they waited while the driver was.

    Raises LoadFailed when there is none.
    """
    start = output.find("{\n")
    try:
        # Warnings follow on stderr, which shares the file.
        result, _end = json.JSONDecoder().raw_decode(output[start:])
        errors = sum(error["count"] for error in result["errors"].values())
        if counted := result.get("latency_us_histogram"):
            return _percentiles([(value / 1000, count) for value, count in counted], paused, errors)
        return LoadReport(
            errors=errors, latency_ms_p50=result["latency_us_p50"] / 1000, latency_ms_p99=result["latency_us_p99"] / 1000
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise LoadFailed("the load command did not print upshift-load's result", "pass --json to upshift-load") from error


def read_json(output: str, _paused: int = 0) -> LoadReport:
    """The last line of the output as JSON, its latencies as they are; no number or an infinite one stands for none. Raises
    LoadFailed when it is no JSON.
    """
    lines = [line for line in output.splitlines() if line.strip()]
    try:
        report = json.loads(lines[-1])
        names = ("latency_ms_p50", "latency_ms_p95", "latency_ms_p99")
        given = {name: value for name in names if (value := report.get(name)) is not None and math.isfinite(float(value))}
        return LoadReport(errors=int(report.get("errors", 0)), **given)
    except (IndexError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise LoadFailed(
            'the last line that the load command printed is not a JSON object, and latency = "json" asks for one',
            'docs/reference/workloads.md lists its keys; latency = "none" needs no such line',
        ) from error


def _percentiles(buckets: list[tuple[float, int]], paused: int, errors: int) -> LoadReport:
    left = sum(count for _value, count in buckets) - paused
    if left <= 0:
        return LoadReport(errors=errors)
    # Without the longest, the same bucket reaches a share of what is left.
    p50, p95, p99 = (_value_at(buckets, share * left) for share in (0.50, 0.95, 0.99))
    return LoadReport(errors=errors, latency_ms_p50=p50, latency_ms_p95=p95, latency_ms_p99=p99)


def _value_at(buckets: list[tuple[float, int]], rank: float) -> float:
    """The value of the first bucket that has ``rank`` values up to it."""
    seen = 0
    for value, count in buckets:
        seen += count
        if seen >= rank:
            return value
    return buckets[-1][0]


def _read_nothing(_output: str, _paused: int = 0) -> LoadReport:
    return LoadReport()


READERS = {"sysbench": read_sysbench, "upshift-load": read_upshift_load, "json": read_json, "none": _read_nothing}
"""By ``latency`` of a workload's file. Each takes what the command printed, and how many of the longest to leave out."""
