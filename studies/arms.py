"""Gain of several servers over the first, from a run of `upshift measure`, as a picture and a table in Markdown.

./upshift measure plain=... hot=... all=... --json > arms.json
studies/arms.py arms.json docs/images/arms.svg
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from forest import Row, forest

NAMES = {"qps": "queries a second", "user_cpu_us_per_query": "user CPU a query"}


def main() -> None:
    parser = argparse.ArgumentParser(description="Gain of several servers over the first")
    parser.add_argument("result", type=Path, help="what upshift measure --json printed")
    parser.add_argument("picture", type=Path, help="the SVG to write")
    args = parser.parse_args()
    result = json.loads(args.result.read_text())
    rows: list[Row] = []
    print("| metric | workload | connections | server | ratio | interval | verdict |\n|---|---|---|---|---|---|---|")
    for metric, name in NAMES.items():
        found = [one for one in result["comparisons"] if one["metric"] == metric]
        found.sort(key=lambda one: one["arm"], reverse=True)
        for workload, threads in sorted({(one["workload"], one["connections"]) for one in found}):
            rows.append(Row(f"{name}: {workload}, {threads} connections"))
            for one in (one for one in found if (one["workload"], one["connections"]) == (workload, threads)):
                low, high = one["ci_low"], one["ci_high"]
                rows.append(Row(one["arm"], one["ratio"], low, high))
                shown = f"{one['ratio']:.3f} | {low:.3f} to {high:.3f} | {one['verdict']}"
                print(f"| {name} | {workload} | {threads} | {one['arm']} | {shown} |")
    baseline = result["comparisons"][0]["baseline"]
    args.picture.write_text(forest(f"Against {baseline}", f"times {baseline}", rows))


if __name__ == "__main__":
    main()
