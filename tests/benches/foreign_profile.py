"""What a patched server loses whose profile was trained without the patches.

    PYTHONPATH=src .venv/bin/python tests/benches/foreign_profile.py --json FILE

Both servers have all patches, the recipe's hot set and ThinLTO, and BOLT no part in them: only the profile differs. One was
trained on the patched server, the other on the server without patches. Instructions a query are counted by `upshift count`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from upshift import console, pipeline
from upshift.build.model import Build
from upshift.cli.session import session
from upshift.machine import describe_machine
from upshift.options import Options
from upshift.plan import prepare
from upshift.profile.model import Gated
from upshift.stages.builds import build_optimised
from upshift.stages.lab import Lab
from upshift.stages.work import Trained, Work

CHECKOUT = Path(__file__).resolve().parents[2]
STAGES = 20


def trained_without(own: Trained, other: Gated) -> Gated:
    """The profile of another source, under the name of this one's: what `refuse_another_source` keeps a run from."""
    provenance = other.profile.provenance.model_copy(update={"source_sha256": own.plain.source_sha256})
    return other.model_copy(update={"profile": other.profile.model_copy(update={"provenance": provenance})})


def optimised(lab: Lab, work: Work, trained: Trained, gated: Gated) -> Build:
    ground = (trained.source, work.recipe, work.toolchain, trained.plain, trained.hot_set)
    return build_optimised(lab, *ground, gated, trained.parsed)


def counted(own: Path, foreign: Path, workloads: tuple[str, ...]) -> dict[str, Any]:
    loads = [word for name in workloads for word in ("--workload", name)]
    command = [str(CHECKOUT / "upshift"), "count", f"own={own}", f"foreign={foreign}", *loads, "--no-install", "--json"]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return dict(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    patched, stock = Options(patches=("all",)), Options()
    works = [prepare(each, allow_install=False, say=console.say) for each in (patched, stock)]
    with session("foreign-profile", patched.model_dump(mode="json"), stages=STAGES, jobs=0) as at_work:
        own, other = (pipeline.train(at_work.lab, work) for work in works)
        both = [optimised(at_work.lab, works[0], own, each) for each in (own.gated, trained_without(own, other.gated))]
    found = counted(both[0].server, both[1].server, patched.workloads)
    for each in found["counts"]:
        sys.stdout.write(f"{each['arm']} {each['workload']}: {each['instructions_per_query']:,.0f} instructions a query\n")
    if given.json:
        result = {"schema_version": 1, "machine": describe_machine().model_dump(mode="json"), **found}
        given.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
