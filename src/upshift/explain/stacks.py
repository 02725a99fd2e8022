"""Stacks for other tools and for flame graphs: folded lines, Speedscope's JSON, and a tree of frames."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from upshift.explain.inline_frames import Line
from upshift.explain.names import source_name
from upshift.explain.script import KERNEL, Frame, Stack
from upshift.run.directory import write_text

Named = Counter[tuple[str, ...]]
"""Samples by names of frames, the outermost first."""

_SPEEDSCOPE = "https://www.speedscope.app/file-format-schema.json"


@dataclass
class Node:
    """A frame of a flame graph; its width is ``samples``."""

    name: str
    samples: int = 0
    children: dict[str, Node] = field(default_factory=dict)


def named(stacks: Mapping[Stack, int], shown: Mapping[str, str], inlined: Mapping[int, tuple[Line, ...]] = {}) -> Named:
    """Stacks by names for people; frames of inlined functions come in where they are known."""
    found: Named = Counter()
    for stack, count in stacks.items():
        names = [name for frame in stack for name in _names(frame, shown, inlined)]
        found[tuple(reversed(names))] += count
    return found


def folded(stacks: Named) -> Iterable[str]:
    """A line a stack: frames from the outermost on with semicolons between them, then the samples."""
    for names, count in sorted(stacks.items()):
        yield f"{';'.join(name.replace(';', ':') for name in names)} {count}"


def unfolded(lines: Iterable[str]) -> Named:
    """What ``folded`` wrote."""
    found: Named = Counter()
    for line in lines:
        names, _, count = line.rpartition(" ")
        found[tuple(names.split(";"))] += int(count)
    return found


def speedscope(stacks: Named, name: str) -> str:
    """The file format of speedscope.app, one sampled profile."""
    frames = sorted({each for names in stacks for each in names})
    numbers = {each: number for number, each in enumerate(frames)}
    ordered = sorted(stacks.items())
    profile = {
        "type": "sampled",
        "name": name,
        "unit": "none",
        "startValue": 0,
        "endValue": stacks.total(),
        "samples": [[numbers[each] for each in names] for names, _count in ordered],
        "weights": [count for _names, count in ordered],
    }
    document = {
        "$schema": _SPEEDSCOPE,
        "exporter": "upshift",
        "name": name,
        "shared": {"frames": [{"name": each} for each in frames]},
        "profiles": [profile],
    }
    return json.dumps(document, separators=(",", ":"))


def tree(stacks: Named) -> Node:
    """All stacks as one tree; the root holds all samples."""
    root = Node("all")
    for names, count in stacks.items():
        node = root
        node.samples += count
        for name in names:
            node = node.children.setdefault(name, Node(name))
            node.samples += count
    return root


def write(stacks: Named, folder: Path, stem: str, title: str) -> tuple[str, str]:
    """Both files in ``folder``; their names."""
    files = (f"{stem}.folded", f"{stem}.speedscope.json")
    write_text(folder / files[0], "".join(f"{line}\n" for line in folded(stacks)))
    write_text(folder / files[1], speedscope(stacks, title))
    return files


def _names(frame: Frame, shown: Mapping[str, str], inlined: Mapping[int, tuple[Line, ...]]) -> list[str]:
    if frame.home == KERNEL:
        return [f"{frame.symbol}_[k]"]
    if frame.home:
        return [f"{frame.symbol} ({frame.home})"]
    lines = inlined.get(frame.address, ())[:-1]
    names = [f"{shown.get(source_name(each.function), each.function)}_[i]" for each in lines]
    return [*names, shown.get(source_name(frame.symbol), frame.symbol)]
