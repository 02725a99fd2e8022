"""The stage that counts instructions."""

from __future__ import annotations

from collections.abc import Mapping

from upshift.instructions.experiment import count_all, nothing_counted
from upshift.instructions.model import Instructions
from upshift.instructions.tools import (
    NO_BOLT,
    NO_FIXED_ADDRESSES,
    NOTHING_COUNTS,
    NOTHING_COUNTS_FUNCTIONS,
    find_bolt,
    find_tool,
    fixes_addresses,
)
from upshift.machine import cpu_model
from upshift.measure.variant import Variant
from upshift.stages.data import Filled
from upshift.stages.keys import files_key, libraries_key, program_key, surroundings_key
from upshift.stages.lab import Lab
from upshift.stages.names import Stage
from upshift.stages.work import Measuring
from upshift.workbench import Workbench

VERSION = 3
"""Raised when the commands of a count change, how many transactions are sent, or what is read of a dump: no key holds them."""


def count_instructions(
    lab: Lab,
    arms: tuple[Variant, ...],
    filled: Mapping[str, Filled],
    measuring: Measuring,
    *,
    by_function: bool = False,
    by_bolt: bool = False,
    simulate: bool = False,
) -> Instructions:
    """What each arm executes for a query of each workload, ``by_function`` as well; the first arm is the baseline.

    ``by_bolt``: servers that BOLT has instrumented count themselves. By function, taken branches are counted, too, and with
    ``simulate`` what a simulated processor misses.

    Other than a time, a count belongs to what was counted: a later run takes it when nothing that it depends on has changed.
    Where nothing counts, or a server does not run under valgrind, the result says so.
    """
    asked = measuring.train_on + measuring.hold_out
    workloads = tuple(each for each in asked if each.fixed is not None)
    tool = find_bolt(lab.shell) if by_bolt else find_tool(lab.shell, by_function=by_function)
    if tool and by_function:
        tool = tool.model_copy(update={"details": ("jumps", "misses") if simulate else ("jumps",)})
    why_nothing = NO_BOLT if by_bolt else NOTHING_COUNTS_FUNCTIONS if by_function else NOTHING_COUNTS
    if tool and not fixes_addresses(lab.shell):
        tool, why_nothing = None, NO_FIXED_ADDRESSES

    kind = lab.kind_of(arms[0].program)
    same = tuple(arm for arm in arms if arm.program.kind == arms[0].program.kind)
    others = tuple(f"server '{arm.name}' is of another kind than '{arms[0].name}'" for arm in arms if arm not in same)

    def action(bench: Workbench) -> Instructions:
        if not kind.one_process:
            return nothing_counted(arms[0].name, f"a {kind.name} is several processes, and instructions are counted of one")
        if tool is None:
            return nothing_counted(arms[0].name, why_nothing)
        folders = {name: each.path for name, each in filled.items()}
        found = count_all(bench, kind, same, workloads, folders, tool, by_function=by_function)
        return found.model_copy(update={"not_counted": (*others, *found.not_counted)})

    inputs = {
        "arms": arms,
        "programs": [program_key(arm.program) for arm in arms],
        "libraries": [libraries_key(arm, lab.shell) for arm in arms],
        "surroundings": [surroundings_key(arm) for arm in arms],
        "workloads": [each.model_copy(update={"description": ""}) for each in workloads],
        "files": files_key(
            (*(each.fixed.command for each in workloads if each.fixed), *(arm.client for arm in arms if arm.client))
        ),
        "data": {name: each.sha256 for name, each in filled.items()},
        "server": (kind.settings(), kind.repeatable()),
        "tool": tool,
        # Libraries choose their code by it, and a simulation its caches.
        "cpu": cpu_model(),
        **({"by": "function"} if by_function else {}),
    }
    found = lab.stages.run(
        Stage.INSTRUCTIONS, Instructions, action, inputs=inputs, version=VERSION, lasts=lambda found: not found.not_counted
    )
    if found.source == "none":
        return found
    silent = tuple(f"workload '{each.name}' has no [fixed] command" for each in asked if each.fixed is None)
    in_transactions = tuple(each.name for each in workloads if each.unit == "transaction")
    return found.model_copy(update={"not_counted": (*silent, *found.not_counted), "transactions": in_transactions})
