"""Finding the hot set: which objects of the plain server the workload really executes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from elftools.elf.elffile import ELFFile

from upshift.build.model import Build
from upshift.build.relink import link_of
from upshift.build.steps import archive_members, link_command, replaced, steps_of
from upshift.errors import LoadFailed
from upshift.profile.link_map import LinkMap, read_link_map
from upshift.profile.model import HotFunction, HotObject, HotSet
from upshift.server.kind import SourceKind
from upshift.shell import Command, Shell
from upshift.toolchain.perf import SAMPLE_HZ, Mappings, Segment, code_segments, virtual

COVERAGE = 0.995
_FUNCTION_COVERAGE = 0.95
# With fewer samples than this the tail of the hot set (0.5 %) would be a matter of two or three of them.
_FEWEST_SAMPLES = 500


@dataclass(frozen=True)
class Counted:
    """How often each object and each symbol of the server was seen executing; of several workloads, by their shares."""

    by_origin: Mapping[str, float]
    by_symbol: Mapping[str, float]
    seen: int
    """Samples or branches that were counted."""
    method: Literal["perf", "bolt"]
    worth: int | None = None
    """Of several workloads: so many samples would be as precise if all counted alike."""

    @property
    def total(self) -> float:
        return sum(self.by_origin.values())


def map_plain_server(shell: Shell, kind: SourceKind, plain: Build, folder: Path, log: Path) -> LinkMap:
    """Link the plain server once more with a link map, by the command that linked it: linkers lay out the same objects, in the
    same order, in the same way every time.
    """
    map_file = folder / "mapped.map"
    flags = (f"-Wl,-Map={map_file}", "-Wl,--no-demangle")
    argv = link_command(link_of(shell, kind, plain), {}, folder / "mapped", flags)
    command = Command(argv, cwd=plain.tree)
    shell.run(command, log=log)
    found = read_link_map(map_file)
    map_file.unlink()
    (folder / "mapped").unlink()
    return found


def record_command(pid: int, output: Path, seconds: float) -> Command:
    """Sample where a running server's user code executes; ``cpu-clock`` works without a hardware PMU."""
    return Command(
        (
            *("perf", "record", "-e", "cpu-clock:u", "-F", str(SAMPLE_HZ), "-p", str(pid), "-o", str(output)),
            *("--", "sleep", f"{seconds:.0f}"),
        )
    )


def count_samples(shell: Shell, data: Path, server: Path, link_map: LinkMap) -> Counted:
    """Attribute perf's samples in the server's own code to objects and symbols."""
    script = data.with_suffix(".script")
    script.unlink(missing_ok=True)
    shell.run(
        Command(("perf", "script", "-i", str(data), "--show-mmap-events", "-F", "comm,tid,event,ip,dso")),
        log=script,
    )
    with script.open(errors="replace") as lines:
        # The kernel names a program without the links on the way to it, such as a home folder that is one.
        counted = attribute(lines, server.resolve(), _segments(server), link_map)
    script.unlink()
    return counted


def attribute(lines: Iterable[str], server: Path, segments: list[Segment], link_map: LinkMap) -> Counted:
    """Samples of ``perf script`` to origins. ``segments`` are those of the server."""
    by_origin: Counter[str] = Counter()
    by_symbol: Counter[str] = Counter()
    mapped = Mappings(server)
    for line in lines:
        if mapped.line(line):
            continue
        before, in_server, _ = line.rpartition(f" ({server})")
        if not in_server:
            continue
        offset = mapped.offset(int(before.split()[-1], 16))
        address = virtual(offset, segments) if offset is not None else None
        origin = link_map.origin(address) if address is not None else None
        if origin is None or address is None:
            continue
        by_origin[origin] += 1
        by_symbol[link_map.symbol(address) or "?"] += 1
    return Counted(by_origin, by_symbol, by_origin.total(), "perf")


def count_fdata(file: Path, link_map: LinkMap) -> Counted:
    """Attribute a BOLT-instrumented run's branches (``1 name offset 1 name offset misses count``) to objects and symbols.

    A static function's name can stand in several objects: its count then goes to each of them. A last line that was cut short
    counts nothing.
    """
    by_origin: Counter[str] = Counter()
    by_symbol: Counter[str] = Counter()
    with file.open(errors="replace") as lines:
        for line in lines:
            parts = line.split()
            # A count that was cut short is another number.
            if len(parts) != 8 or parts[0] != "1" or not line.endswith("\n"):
                continue
            symbol = parts[1].split("/", 1)[0].split(".cold", 1)[0]
            count = int(parts[7])
            by_symbol[symbol] += count
            for origin in link_map.symbols.get(symbol, ()):
                by_origin[origin] += count
    return Counted(by_origin, by_symbol, by_origin.total(), "bolt")


def hot_set(shell: Shell, kind: SourceKind, plain: Build, counted: Counted, coverage: float = COVERAGE) -> HotSet:
    """The hottest objects that together hold ``coverage`` of what was counted. Raises LoadFailed when there is too little."""
    worth = counted.seen if counted.worth is None else counted.worth
    if worth < _FEWEST_SAMPLES:
        uneven = f", worth no more than {worth}, because a workload with a large share has few of them"
        raise LoadFailed(
            f"only {counted.seen} samples fell into the server's own code{uneven if worth < counted.seen else ''}: "
            "too few to tell what is hot",
            "use more connections or, with optimize, a longer --sample-seconds; check that the load command loads the server",
        )
    compiles = _compiles(shell, kind, plain)
    members = _objects_by_origin(shell, kind, plain)
    by_object: defaultdict[str, float] = defaultdict(float)
    for origin, count in counted.by_origin.items():
        for path in members.get(origin, [origin]):
            if compiles.get(path, False):
                by_object[path] += count
    chosen, covered = [], 0.0
    for path, count in _hottest(by_object):
        if covered >= coverage * counted.total:
            break
        chosen.append(HotObject(path=path, share=count / counted.total))
        covered += count
    return HotSet(
        method=counted.method,
        objects=tuple(chosen),
        coverage=min(1.0, covered / counted.total),
        all_objects=len(compiles),
        samples=counted.seen,
        functions=_hot_functions(counted),
    )


def whole_tree(shell: Shell, kind: SourceKind, plain: Build, link_map: LinkMap) -> HotSet:
    """Every object whose code the server holds as its hot set: what ``--scope all`` rebuilds.

    The build makes more: programs that it runs itself, and archive members that nothing calls.
    """
    compiles = _compiles(shell, kind, plain)
    members = _objects_by_origin(shell, kind, plain)
    held = {path for origin in set(link_map.origins) for path in members.get(origin, [origin])}
    objects = [path for path, again in compiles.items() if again and path in held]
    return HotSet(
        method="all",
        objects=tuple(HotObject(path=path, share=1 / len(objects)) for path in objects),
        coverage=1.0,
        all_objects=len(compiles),
        samples=0,
        functions=(),
    )


def _compiles(shell: Shell, kind: SourceKind, plain: Build) -> dict[str, bool]:
    """The server's object files, and whether each may be compiled again: not those of ``kind.opaque``."""
    found = (step for step in steps_of(shell, kind, plain) if step.source)
    return {step.output: not step.source.endswith(kind.opaque) for step in found}


def _objects_by_origin(shell: Shell, kind: SourceKind, plain: Build) -> dict[str, list[str]]:
    """What a link map calls the objects of archives, and those that were compiled again, to their paths in the tree."""
    again = {str(file): [path] for path, file in replaced(plain).items()}
    return {**archive_members(shell, plain.tree, kind.server_target), **again}


def _hot_functions(counted: Counted) -> tuple[HotFunction, ...]:
    found, covered = [], 0.0
    total = sum(counted.by_symbol.values())
    for symbol, count in _hottest(counted.by_symbol):
        if covered >= _FUNCTION_COVERAGE * total:
            break
        found.append(HotFunction(symbol=symbol, share=count / total))
        covered += count
    return tuple(found)


def _segments(server: Path) -> list[Segment]:
    with server.open("rb") as file:
        return code_segments(ELFFile(file))


def merged(counted: Sequence[tuple[Counted, float]]) -> Counted:
    """Several workloads' counts together, each multiplied by its share. Raises LoadFailed when one has none: the hot set would
    be that of the others.
    """
    if silent := sum(not one.seen for one, _share in counted):
        raise LoadFailed(
            f"{silent} of {len(counted)} workloads left no sample of the server's own code",
            "the stage's logs, one a workload, have what the sampler and the load said",
        )
    by_origin: defaultdict[str, float] = defaultdict(float)
    by_symbol: defaultdict[str, float] = defaultdict(float)
    for one, share in counted:
        for into, counts in ((by_origin, one.by_origin), (by_symbol, one.by_symbol)):
            for name, count in counts.items():
                into[name] += share * count
    # Kish's effective size of a weighted sample: a few samples with a large share tell little, however many others have.
    weighted = sum(share * one.seen for one, share in counted)
    worth = round(weighted**2 / sum(share**2 * one.seen for one, share in counted))
    return Counted(by_origin, by_symbol, sum(one.seen for one, _share in counted), counted[0][0].method, worth)


def _hottest(counts: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(counts.items(), key=lambda item: -item[1])
