"""The figures of studies/tpcc_steps.py as a picture.

python studies/tpcc_plot.py FIGURES.json PICTURE.svg
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from forest import Row, forest


def main() -> None:
    found, picture = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    first, *others = found["steps"]
    rows = [Row(f"{first['step']}: {first['tpmc']:,.0f} tpmC")]
    for step in others:
        trips = f"{step['round_trips_per_new_order']:.0f} round trips"
        rows.append(Row(step["step"], step["ratio"], step["ratio_low"], step["ratio_high"], trips))
    title = f"{found['server']['family']} {found['server']['version']}, {found['connections']} connections"
    picture.write_text(forest(title, "NewOrders a minute, times the first step", rows))


if __name__ == "__main__":
    main()
