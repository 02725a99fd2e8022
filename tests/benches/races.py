"""Which data races does a patched server have that stock does not?

    PYTHONPATH=src .venv/bin/python tests/benches/races.py STOCK.log PATCHED.log

Reads what ThreadSanitizer wrote into two servers' logs. A race is told by the two places that it is between: of either stack
the innermost function of the server itself, without line numbers, which patches move. Prints the races that the patched
server's log alone has, with the first report of each. Ends with 1 if there is one.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

_REPORT = re.compile(r"^WARNING: ThreadSanitizer: (?P<kind>.*?) \(pid=\d+\)\n(?P<text>.*?)^SUMMARY:", re.M | re.S)
_STACK = re.compile(r"^  (?P<what>\S.*?):?\n(?P<frames>(?:    #\d+ .*\n)+)", re.M)
_FRAME = re.compile(r"^    #\d+ (?P<function>.+?) (?P<place>(?:/|<null>|\().*)$", re.M)
# What the sanitizer and the libraries below the server call in its place.
_BELOW = re.compile(
    r"^(?:__interceptor_|__tsan|__sanitizer|operator (?:new|delete)|std::|_?mem(?:cpy|set|move|cmp)|free$|malloc$|calloc$|"
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
    found = [frame["function"] for frame in _FRAME.finditer(frames)]
    own = [name for name in found if not _BELOW.match(name)]
    return (own or found or ["?"])[0]


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stock", type=Path)
    parser.add_argument("patched", type=Path)
    given = parser.parse_args(argv)
    known = Counter(race for race, _ in races(given.stock.read_text(errors="replace")))
    found = list(races(given.patched.read_text(errors="replace")))
    own: dict[Race, str] = {}
    for race, text in found:
        if race not in known:
            own.setdefault(race, text)
    sys.stdout.write(f"stock: {known.total()} reports of {len(known)} races\n")
    sys.stdout.write(f"patched: {len(found)} reports of {len({race for race, _ in found})} races\n")
    for race, text in own.items():
        number = sum(each == race for each, _ in found)
        sys.stdout.write(f"\nthe patched server alone, {number} times: {' | '.join(race)}\n{text}")
    sys.stdout.write(f"{len(own)} races of the patched server alone\n")
    return 1 if own else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
