"""The figures of studies/tpcc_steps.py as a picture.

python studies/tpcc_plot.py FIGURES.json PICTURE.svg
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from forest import Row, forest


def main() -> None:
    parser = argparse.ArgumentParser(description="The figures of tpcc_steps.py as a picture")
    parser.add_argument("figures", type=Path, help="what tpcc_steps.py --json wrote")
    parser.add_argument("picture", type=Path, help="the SVG to write")
    args = parser.parse_args()
    found = json.loads(args.figures.read_text())
    first, *others = found["steps"]
    rows = [Row(f"{first['step']}: {first['tpmc']:,.0f} tpmC")]
    for step in others:
        trips = f"{step['round_trips_per_new_order']:.0f} round trips"
        rows.append(Row(step["step"], step["ratio"], step["ratio_low"], step["ratio_high"], trips))
    title = f"{found['server']['family']} {found['server']['version']}, {found['connections']} connections"
    args.picture.write_text(forest(title, "NewOrders a minute, times the first step", rows))


if __name__ == "__main__":
    main()
