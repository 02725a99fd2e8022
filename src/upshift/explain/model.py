"""The shape of an explanation: what differs between two servers under a load, and the evidence for why."""

from __future__ import annotations

from typing import Literal, NamedTuple

from upshift.card.model import Card
from upshift.explain.layout import Spread
from upshift.explain.origin import Origin
from upshift.instructions.model import MissCount
from upshift.machine import Machine
from upshift.measure.variant import Variant
from upshift.server.kind import Unit
from upshift.values import Value

SCHEMA_VERSION = 1

Home = Literal["server", "library", "kernel"]
Group = Literal["wake-ups", "network", "disk", "other"]
"""What the kernel is entered for."""
Verdict = Literal["less", "more", "not told apart"]
ChangeMetric = Literal["cpu", "user", "system", "instructions", "time per instruction"]
CauseKind = Literal[
    "inlined", "takes in", "same instructions", "compiled otherwise", "seen no more", "not in both", "not examined"
]


class Place(NamedTuple):
    """What a sample or an instruction counts to."""

    home: Home
    name: str
    """Of a function, or of what the kernel was entered for."""


class Slots(Value):
    """What the processor's issue slots went to while a server ran, as shares of all."""

    retiring: float
    """Instructions that the program needed."""
    bad_speculation: float
    """Instructions on a path that a wrongly predicted branch had taken."""
    frontend_bound: float
    """Empty: fetching and decoding were too slow."""
    backend_bound: float
    """Empty: instructions waited for data, or for a unit."""
    smt_contention: float = 0.0
    """The core's other thread had them; AMD alone tells these apart."""


class Side(Value):
    """One server under the load."""

    server: str
    queries: int
    cpu_us_per_query: float
    """CPU time of the server, from the kernel, exact."""
    user_us_per_query: float
    """The part in user mode, by samples."""
    system_us_per_query: float | None
    """The part in the kernel, by samples; None when perf may not sample it."""
    switches_per_query: float
    """How often a thread left its CPU."""
    voluntary_switches_per_query: float | None = None
    """Of these, to wait: for the next statement, a lock, a disk. None in results of an earlier Upshift."""
    run_delay_us_per_query: float | None = None
    """How long threads were ready to run and waited for a CPU; None where the kernel does not tell it."""
    samples: int
    lost: int
    """Samples that the kernel dropped."""
    instructions_per_query: float | None = None
    """In user mode; None where nobody counted them."""
    taken_branches_per_query: float | None = None
    """Jumps that did not go on with what follows, without calls and returns; None where nobody counted them."""
    misses: MissCount | None = None
    """None where nobody simulated them."""
    slots: Slots | None = None
    """None where they cannot be counted."""


class Change(Value):
    """A figure of both servers, and after / before with its interval."""

    metric: ChangeMetric
    before: float
    after: float
    ratio: float
    ci_low: float | None
    ci_high: float | None
    """None where there is no interval: a single pair of blocks, or a count."""
    log_share: float | None = None
    """For instructions and time per instruction: the part of ln(user CPU after / before) that it makes up. None where the
    interval of user CPU time does not leave 1 out, and where user CPU time has none."""


class _Functions(Value):
    """What a row stands for."""

    functions: int = 1
    """How many stand behind the row: 1, or those of a rest."""
    rest: bool = False
    """Whether it is all that is too small for a row of its own. False for every row in results of an earlier Upshift."""

    @property
    def is_rest(self) -> bool:
        """The same, for results of an earlier Upshift, too: several functions stand behind a rest alone."""
        return self.rest or self.functions > 1


class Row(_Functions):
    """Where CPU time goes: a source function, a system call, or all that is too small for a row of its own."""

    name: str
    home: Home
    before_samples: int
    after_samples: int
    before_us: float
    """CPU microseconds a query."""
    after_us: float
    difference_us: float
    before_share: float
    after_share: float
    ratio: float | None
    ci_low: float | None
    ci_high: float | None
    """None: the interval has no upper limit. So it is without samples before; the ratio is None as well then."""
    verdict: Verdict
    symbol: str = ""
    """The linkage name; empty for kernel, libraries and *other* rows."""
    file: str = ""
    """FILE:LINE of its definition, where debug information tells it."""
    cause: CauseKind = "not examined"


class Inlined(Value):
    """A call in one server's code that the other's lacks: its callee was inlined, or nobody calls it there any more."""

    callee: str
    caller: str
    indirect: bool
    """The call went through a pointer before."""
    calls_before: int
    """Direct calls from caller to callee in the caller's hot code; instructions, not executions."""
    calls_after: int
    cold_calls_after: int
    """Such calls that are left in the caller's cold part."""
    calls_per_query_before: float | None = None
    """Executed calls of the callee by all callers, counted; None where functions were not."""
    calls_per_query_after: float | None = None
    symbol_gone: bool
    """Whether the callee exists nowhere any more as a function of its own."""
    moved_calls: tuple[str, ...]
    """What the callee called and the caller did not: now the caller calls it."""
    callee_us_before: float
    """CPU microseconds a query in the callee itself, the part that came through this caller where stacks tell callers."""
    callee_us_after: float
    """CPU microseconds a query in the callee itself, by all callers."""
    under_us_before: float
    """CPU microseconds a query with the callee on the stack, called by this caller (of a recursion, in the innermost call from
    outside the callee); with whatever the callee called."""
    under_us_after: float
    caller_us_before: float
    caller_us_after: float
    proof: Literal["code", "samples", "call gone"]
    """Beside the call that is gone: calls of the callee's are now the caller's, or the callee exists no more (*code*); it was
    never sampled any more (*samples*); nothing (*call gone*)."""


class Family(Value):
    """A function with all that was inlined into it: what it and they took before, and what it takes now."""

    name: str
    members: tuple[str, ...]
    before_us: float
    """CPU microseconds a query, its own and its members' as far as they were called by it."""
    own_before_us: float
    after_us: float


class SystemCall(Value):
    """How often a query makes a system call, and what that takes."""

    name: str
    calls_before: float
    """A query."""
    calls_after: float
    us_before: float
    """CPU microseconds a query in the kernel, by samples."""
    us_after: float


class Figure(Value):
    """A figure of both servers, and after / before with its interval."""

    before: float
    after: float
    ratio: float | None
    """None without anything before."""
    ci_low: float
    ci_high: float | None
    """None: the interval has no upper limit."""
    verdict: Verdict


class KernelGroup(Value):
    """What one kind of entering the kernel takes, how often it happens, and what each costs."""

    name: Group
    ways: tuple[str, ...]
    """Its system calls, faults and interrupts; those with most samples first."""
    us: Figure
    """CPU microseconds a query, by samples."""
    counted: tuple[str, ...] = ()
    """Those of ``ways`` that perf counted; not what was sampled on a server and not made there during the count."""
    calls: Figure | None = None
    """A query, of those that were counted; None where none was."""
    us_a_call: Figure | None = None
    """Of those that were counted."""


class KernelTime(Value):
    """Why the kernel takes more or less of a query's time."""

    confidence: float
    """Of all intervals of ``groups``."""
    groups: tuple[KernelGroup, ...]
    """Those with the most time before first; their ``us`` add up to all of the kernel's."""
    waking: Figure | None = None
    """CPU microseconds a query in which a thread wakes another, whatever the kernel was entered for: part of ``groups``. None
    without such samples, and in results of an earlier Upshift."""
    interrupts: Figure | None = None
    """A query, by which CPUs of the load were woken or called. None where the kernel does not tell them."""


class CodeChange(Value):
    """A function's machine code in both servers."""

    name: str
    instructions_before: int
    instructions_after: int
    cold_before: int
    """Of these, in parts that were split off as cold."""
    cold_after: int
    same_instructions: bool
    """Jumps and padding apart: what differs is where they lie."""


class FunctionWork(_Functions):
    """What is executed of a source function for a query, or of all that are too small for a row of their own."""

    name: str
    home: Home
    instructions_before: float
    """Its own and those of what was inlined into it, in user mode, without those of what it called."""
    instructions_after: float
    calls_before: float
    calls_after: float


class FocusLine(Value):
    """A line of the source at which a function was sampled: it ran there, or what was called there did."""

    line: str
    """FILE:LINE."""
    us: float
    """CPU microseconds a query."""


class FocusCaller(Value):
    """Who called a function, or took it in."""

    name: str
    line: str
    """FILE:LINE of the call; empty where debug information does not tell it."""
    inlined: bool
    """Whether the function's code lies in its caller's, or in that of a caller of it."""
    us: float
    """CPU microseconds a query with the function on the stack under this caller."""


class FocusSide(Value):
    """A function in one server."""

    own_function: bool
    """Whether the server has a function of this name to be called; if not, it was inlined wherever it runs, or is not there."""
    callers_known: bool
    """Whether the server keeps frame pointers; if not, its samples are those in the function itself alone."""
    inlined_known: bool = True
    """Whether line tables name the copies that were inlined; if not, they are in no figure. True in results of an earlier
    Upshift."""
    samples: int
    """With the function on the stack."""
    us: float
    """CPU microseconds a query, with what it called."""
    own_us: float
    """In the function itself."""
    inlined_us: float
    """The part of ``us`` in which its code was inlined."""
    lines: tuple[FocusLine, ...]
    """Those with most time first; empty without debug information."""
    callers: tuple[FocusCaller, ...]


class Focus(Value):
    """A function that was asked for by name."""

    name: str
    before: FocusSide
    after: FocusSide
    same_code: tuple[str, ...] = ()
    """Others that share its code in one of the servers: in both, all figures are of them together."""
    same_code_more: int = 0
    """How many more there are."""
    ratio: float | None = None
    """Of CPU time a query with the function on the stack, after / before. None where it was on no stack before, where one
    server alone keeps frame pointers, or where a server's inlined copies are not known."""
    ci_low: float | None = None
    ci_high: float | None = None
    """With 95 % confidence for each function by itself: it was named before anybody sampled. None where nothing can be
    compared; a ``ci_low`` without ``ci_high`` has no upper limit."""


class Explained(Value):
    """Why one server takes less CPU time than the other for a query of one load."""

    workload: str
    connections: int
    unit: Unit = "query"
    """What counts as a query in all figures; *query* in results of an earlier Upshift."""
    before: Side
    after: Side
    changes: tuple[Change, ...]
    rows: tuple[Row, ...]
    """The largest differences first; they add up to all CPU time."""
    inlined: tuple[Inlined, ...]
    families: tuple[Family, ...]
    code: tuple[CodeChange, ...]
    system_calls: tuple[SystemCall, ...]
    """Of those with the most time; empty where perf may not count them."""
    kernel: KernelTime | None = None
    """None where perf may not sample the kernel, or it hides its functions' names, and in results of an earlier Upshift."""
    executed: tuple[FunctionWork, ...] = ()
    """The largest differences first; they add up to the instructions of a query. Empty where functions were not counted."""
    focus: tuple[Focus, ...] = ()
    """The functions that were asked for."""
    layout: tuple[Spread, Spread]
    dispersion: float
    """How much more functions' shares vary between blocks than Poisson's; their intervals are wider by its root."""
    shared_error: float | None = None
    """Standard error of ln(after / before) of CPU time a query, which all rows share; None where no two pairs of blocks
    tell it, and in results of an earlier Upshift, whose intervals do not hold it."""
    confidence: float
    """Of the intervals of ``rows``."""
    slots_lacking: str = ""
    """Why nobody counted the processor's slots; empty where somebody did, and in results of an earlier Upshift."""
    notes: tuple[str, ...]
    """What could not be told, and why."""
    stacks: tuple[str, ...]
    """Files beside the result: folded stacks and Speedscope's, of each server."""


class Explanation(Value):
    """Everything that the explanation's page shows."""

    schema_version: int = SCHEMA_VERSION
    run: str
    started_at: str
    command: str
    upshift_version: str
    machine: Machine
    version: str
    """Of both servers, as they say it."""
    before: Variant
    after: Variant
    before_source: Origin | None = None
    """None: not known, and in results of an earlier Upshift."""
    after_source: Origin | None = None
    nothing_differs: bool
    """Whether the two are the same program in the same surroundings: there is nothing to explain then."""
    seconds: float
    """Sampled, of each server under each load."""
    loads: tuple[Explained, ...]
    card: Card | None = None
    """What the machine costs a server; None where it was not measured, and where another result beside this one has it."""
    card_lacking: str = ""
    """Why there is no card; empty with one, and when none was asked for."""
