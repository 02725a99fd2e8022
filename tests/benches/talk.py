"""The talk, again: from a naive Java client to a tuned one, each step named by `upshift stack examine`.

    PYTHONPATH=src .venv/bin/python tests/benches/talk.py --binary PATH/mysqld --folder FOLDER
    PYTHONPATH=src .venv/bin/python tests/benches/talk.py --server postgres --folder FOLDER

The client is drivers/java's `upshift.talk.Talk`: TPC-C's NewOrder over JDBC, four connections, two warehouses. It begins with
options that cost round trips. Each time, a proxy captures it for a few seconds, and `examine` names suspects; the first one
for which the client has a fix is mended, until none is left. `prove` replays the trace of each step with its fault and
without, where a replay can tell. Then a study measures each step beside the one before it, with
the client itself. FOLDER keeps `steps.json` (what was named, in which order, and the proofs), the traces, `study.toml`, and
`study.json`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from _proxied import captured, upshift

from upshift import console
from upshift.machine import describe_machine
from upshift.shell import SystemShell
from upshift.stack.driver_matrix.servers import Family, find_kind, running
from upshift.stack.driver_matrix.toolkit import Workshop, prepare

CONNECTIONS, WAREHOUSES = 4, 2


def options(*pairs: str) -> tuple[str, ...]:
    return tuple(word for pair in pairs for word in ("--option", pair))


@dataclass(frozen=True)
class Client:
    """A driver, what it begins with, and what a person changes who reads the fix of a suspect."""

    driver: str
    naive: tuple[str, ...]
    fixes: Mapping[str, tuple[str, ...]]


WRITTEN: Mapping[str, tuple[str, ...]] = {"C6": ("--keys", "in"), "C7": ("--writes", "joined")}
CLIENTS: Mapping[Family, Client] = {
    "mysql": Client(
        "connector-j",
        # Prepared for each call, ten rows a fetch, and in the program a statement for each line.
        options("useServerPrepStmts=true", "useCursorFetch=true", "defaultFetchSize=10"),
        {
            "C1": options("cachePrepStmts=true", "prepStmtCacheSize=500", "prepStmtCacheSqlLimit=8192"),
            "C2": options("useServerPrepStmts=true", "cachePrepStmts=true"),
            "C3": options("useCursorFetch=false", "defaultFetchSize=0"),
            "C5": options("useLocalSessionState=true", "elideSetAutoCommits=true", "cacheServerConfiguration=true"),
            **WRITTEN,
        },
    ),
    "postgres": Client(
        "pgjdbc",
        # Parsed for each call, ten rows a fetch, and in the program a statement for each line.
        options("prepareThreshold=0", "defaultRowFetchSize=10"),
        {
            "C1": options("prepareThreshold=1"),
            "C2": options("prepareThreshold=1"),
            "C3": options("defaultRowFetchSize=0"),
            **WRITTEN,
        },
    ),
}


def named(words: tuple[str, ...], url: str, trace: Path, seconds: int) -> dict[str, Any]:
    """What `examine` says of so many seconds of a client."""
    with captured(url, trace) as through:
        place, _, database = through.rpartition("@")[2].partition("/")
        to = ("--address", place, "--database", database, "--seconds", str(seconds))
        said = subprocess.run((*words, *to), check=True, stdout=subprocess.PIPE, text=True).stdout
    found = json.loads(upshift("stack", "examine", trace, "--json"))
    return {"client": json.loads(said.splitlines()[-1]), "findings": found["findings"], "budget": found["budget"]}


def dumped(family: Family, binary: Path, url: str, folder: Path) -> Path:
    """The database as it is, by the mysqldump or pg_dump that lies beside the server."""
    parts = urlsplit(url)
    words: tuple[str | Path, ...] = (binary.with_name("mysqldump"), "--no-defaults", "--skip-lock-tables", "-u")
    if family == "postgres":
        words = (binary.with_name("pg_dump"), "--no-owner", "--no-privileges", "-U")
    named = (parts.username or "", "-h", parts.hostname or "", f"--port={parts.port}", parts.path.strip("/"))
    dump = folder / "before.sql"
    with dump.open("wb") as out:
        subprocess.run((*words, *named), check=True, stdout=out)
    return dump


def investigate(java: tuple[str, ...], client: Client, url: str, folder: Path, seconds: int) -> list[dict[str, Any]]:
    """Capture, examine, mend, and again."""
    steps: list[dict[str, Any]] = []
    words = client.naive
    mended: list[str] = []
    while True:
        base = (*java, "--driver", client.driver, "--connections", str(CONNECTIONS), "--warehouses", str(WAREHOUSES))
        seen = named((*base, *words), url, folder / f"step-{len(steps)}.trace", seconds)
        suspects = [each["suspect"] for each in seen["findings"]]
        following = next((each for each in suspects if each in client.fixes and each not in mended), None)
        shares = {each["suspect"]: round(each["share"], 3) for each in seen["findings"]}
        steps.append({"mended": list(mended), "named": shares, "next": following, **seen})
        console.say(f"step {len(steps) - 1}: {seen['client']} {shares}: next {following}")
        if following is None:
            return steps
        mended.append(following)
        words += client.fixes[following]


def proofs(steps: list[dict[str, Any]], binary: Path, dump: Path, folder: Path) -> dict[str, Any]:
    """What a replay says of each step's suspect: a word, and the ratio where there is one."""
    said = {}
    for number, each in enumerate(steps):
        if each["next"]:
            words = ("--suspect", each["next"], "--before", dump, "--binary", binary, "--loop", "always")
            found = json.loads(upshift("stack", "prove", folder / f"step-{number}.trace", *words, "--no-install", "--json"))
            said[each["next"]] = {name: found[name] for name in ("verdict", "why", "change", "measured")}
            console.say(f"{each['next']}: {said[each['next']]}")
    return said


def study_text(java: tuple[str, ...], family: Family, binary: Path, workload: Path, order: list[str], budget: str) -> str:
    """A study of these steps."""

    def words(values: tuple[str, ...]) -> str:
        return "[" + ", ".join(json.dumps(each) for each in values) + "]"

    client = CLIENTS[family]
    address = ("--address", "{socket}", "--database", "{database}", "--connections", "{connections}", "--seconds", "{seconds}")
    fixed = ("--driver", client.driver, "--warehouses", str(WAREHOUSES), "--seed", "{seed}")
    load = (*java, *fixed, *address)
    fill = ("{programs}/upshift-load", "tpcc", "prepare", "--server", "{url}", "--warehouses", str(WAREHOUSES), "--drop")
    workload.write_text(
        f'description = "NewOrder over JDBC."\nserver = "{family}"\nunit = "transaction"\n'
        f'[fill]\ncommand = {words(fill)}\n[load]\ncommand = {words(load)}\nlatency = "json"\n'
    )
    lines = [
        'description = "From a naive Java client to a tuned one, in the order in which examine named the steps."',
        'design = "steps"',
        'metric = "qps"',
        f"workloads = [{json.dumps(str(workload))}]",
        f"connections = [{CONNECTIONS}]",
        f'budget = "{budget}"',
        # The JVM starts, and compiles what it runs.
        "lead_s = 3.0",
        "slice_s = 2.0",
        "[base]",
        f'server = "{family}"',
        f"binary = {json.dumps(str(binary))}",
        f"client = {words(client.naive)}",
    ]
    for each in order:
        lines += [f"[factors.{each}.mended]", f"client = {words(client.fixes[each])}"]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", choices=tuple(CLIENTS), default="mysql")
    parser.add_argument("--binary", type=Path, help="of MySQL; PostgreSQL is the package's")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--budget", default="12m", help="for the study")
    parser.add_argument(
        "--capture-seconds", type=int, default=60, help="of each step; a replay of it runs several times as fast"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--no-proofs", action="store_true", help="leave the replays out")
    what.add_argument("--proofs-alone", action="store_true", help="replay the traces that an earlier run left in FOLDER")
    given = parser.parse_args()
    folder: Path = given.folder
    family: Family = given.server
    kind = find_kind(family, given.binary)
    if given.proofs_alone:
        kept = json.loads((folder / "steps.json").read_text())
        kept["proofs"] = proofs(kept["steps"], kind.program, folder / "before.sql", folder)
        (folder / "steps.json").write_text(json.dumps(kept, indent=1) + "\n")
        return 0
    folder.mkdir(parents=True)
    shell = SystemShell(folder / "commands.log")
    try:
        java = (*prepare("java", Workshop(shell=shell, binary=None, say=console.say)).argv[:-1], "upshift.talk.Talk")
        with running(shell, kind, folder / "server", None) as ground:
            upshift("load", "tpcc", "prepare", "--server", ground.url, "--warehouses", str(WAREHOUSES), "--drop")
            dump = None if given.no_proofs else dumped(family, kind.program, ground.url, folder)
            steps = investigate(java, CLIENTS[family], ground.url, folder, given.capture_seconds)
    finally:
        shell.close()
    machine = describe_machine().model_dump(mode="json")
    found = proofs(steps, kind.program, dump, folder) if dump else {}
    result = {"schema_version": 1, "machine": machine, "steps": steps, "proofs": found}
    (folder / "steps.json").write_text(json.dumps(result, indent=1) + "\n")
    order = [each["next"] for each in steps if each["next"]]
    study = folder / "study.toml"
    study.write_text(study_text(java, family, kind.program, folder / "java-new-order.toml", order, given.budget))
    (folder / "study.json").write_text(upshift("study", study, "--no-install", "--json"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
