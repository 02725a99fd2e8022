"""Which data races does a patched server have that stock does not?

    PYTHONPATH=src .venv/bin/python tests/benches/races.py STOCK-FOLDER PATCHED-FOLDER --json FILE

Reads what ThreadSanitizer wrote into the logs of two proofs, which `upshift patch prove --keep` left in these folders: one of
stock beside a copy of itself, and one of the patched server beside stock. A race is told by the two places that it is between:
of either stack the innermost function of the server itself, without line numbers, which patches move. Prints the races that
the patched server's log alone has, with the first report of each. Ends with 1 if there is one.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from upshift.machine import describe_machine

_REPORT = re.compile(r"^WARNING: ThreadSanitizer: (?P<kind>.*?) \(pid=\d+\)\n(?P<text>.*?)^SUMMARY:", re.M | re.S)
_STACK = re.compile(r"^  (?P<what>\S.*?):?\n(?P<frames>(?:    #\d+ .*\n)+)", re.M)
_FRAME = re.compile(r"^    #\d+ (?P<function>.+?) (?P<place>(?:/|<null>|\().*)$", re.M)
# What the sanitizer and the libraries below the server call in its place.
_BELOW = re.compile(
    r"^(?:__interceptor_|__tsan|__sanitizer|__gnu_cxx|new$|delete$|std::|_?mem(?:cpy|set|move|cmp)$|free$|malloc$|calloc$|"
    r"realloc$|pthread_|str\w+$|read$|write$|close$|epoll_\w+$|recv$|send$)"
)
# The stacks that say where a race is; the others say where memory and threads came from.
_ACCESS = re.compile(r"read|write|previous|mutex .* (?:acquired|destroyed)|destroy|unlock|atomic", re.I)

Race = tuple[str, ...]


def races(text: str) -> Iterator[tuple[Race, str]]:
    """Each report of a log, by what tells it from others."""
    for report in _REPORT.finditer(text):
        places = [
            _innermost(stack["frames"])
            for stack in _STACK.finditer(report["text"])
            if _ACCESS.search(stack["what"]) and not stack["what"].startswith(("Location", "Thread", "Mutex"))
        ]
        yield (report["kind"], *sorted(places[:2])), report["text"]


def _innermost(frames: str) -> str:
    found = [_bare(frame["function"]) for frame in _FRAME.finditer(frames)]
    own = [name for name in found if not _BELOW.match(name)]
    return (own or found or ["?"])[0]


def _bare(function: str) -> str:
    """A function's name without what it returns, its arguments and those of templates."""
    shorter = re.sub(r"<[^<>]*>", "", function)
    while shorter != function:
        function, shorter = shorter, re.sub(r"<[^<>]*>", "", shorter)
    return shorter.split("(")[0].split(" ")[-1]


def reports(*logs: Path) -> list[tuple[Race, str]]:
    return [report for log in logs for report in races(log.read_text(errors="replace"))]


def described(folder: Path, found: list[tuple[Race, str]]) -> dict[str, Any]:
    """A proof in figures: the statements of its parts by name, its reports, and how many races they are of."""
    parts = json.loads((folder / "proof.json").read_text())["parts"]
    statements = {part["name"]: part["statements"] for part in parts}
    return {"statements": statements, "reports": len(found), "races": len({race for race, _ in found})}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stock", type=Path, help="what is kept of the proof of stock beside a copy of itself")
    parser.add_argument("patched", type=Path, help="what is kept of the proof of the patched server beside stock")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    stock = reports(given.stock / "patched.log", given.stock / "stock.log")
    patched = reports(given.patched / "patched.log")
    known = {race for race, _ in (*stock, *reports(given.patched / "stock.log"))}
    own: dict[Race, str] = {}
    for race, text in patched:
        if race not in known:
            own.setdefault(race, text)
    numbers = Counter(race for race, _ in patched)
    servers = {"stock": described(given.stock, stock), "patched": described(given.patched, patched)}
    result = {
        **{"schema_version": 1, "machine": describe_machine().model_dump(mode="json"), **servers},
        "own": [{"race": list(race), "reports": numbers[race]} for race in own],
    }
    for race, text in own.items():
        sys.stdout.write(f"the patched server alone, {numbers[race]} times: {' | '.join(race)}\n{text}\n")
    for name, said in servers.items():
        sys.stdout.write(f"{name}: {said['reports']} reports of {said['races']} races\n")
    sys.stdout.write(f"{len(own)} races of the patched server alone\n")
    if given.json:
        given.json.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if own else 0


if __name__ == "__main__":
    sys.exit(main())
