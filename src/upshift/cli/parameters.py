"""Options and arguments that several commands have, each with one text. Every command imports it: it imports nothing heavy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Arms = Annotated[
    list[str],
    typer.Argument(help="Servers as PATH or NAME=PATH, the first is the baseline: executables, or .toml files of variants."),
]
RecipeName = Annotated[str, typer.Argument(help="A recipe's name or its .toml file.")]
Trace = Annotated[Path, typer.Argument(metavar="TRACE", help="What `upshift stack capture` wrote.")]

# What is built.
Source = Annotated[str | None, typer.Option(help="A source directory or tarball; default: the distribution's newest MySQL.")]
Patches = Annotated[
    str | None,
    typer.Option(metavar="NAMES", help="Patch the source: names separated by commas, or all; default: the recipe's."),
]
SampleSeconds = Annotated[float, typer.Option(min=1, help="Seconds of sampling for each workload, to find the hot set.")]
Jobs = Annotated[int, typer.Option("--jobs", "-j", min=0, help="Compilers to run side by side; 0: by CPUs and memory.")]

# How it is measured.
Trials = Annotated[int, typer.Option(min=1, help="Server starts of each arm.")]
Rounds = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Turns of each server under each load, in a server start; "
        "default: 2; with --until or --budget, the number that gives the narrowest interval.",
    ),
]
SliceSeconds = Annotated[
    float | None,
    typer.Option(
        min=0.02, help="Seconds that are measured in a turn; default: 0.4, or 0.1 where Upshift chooses more than two turns."
    ),
]
LeadSeconds = Annotated[
    float | None,
    typer.Option(
        min=0,
        help="Seconds of load in a turn before measuring begins; default: 0.3; with --until or --budget, a pilot chooses.",
    ),
]
WarmupSeconds = Annotated[
    float, typer.Option(min=0, help="Seconds of load after each start, shared by all servers and workloads.")
]
Until = Annotated[
    str | None,
    typer.Option(metavar="PERCENT", help="Add trials until the headline's intervals have this half-width, such as 1%."),
]
Budget = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Measure about this long in all, or less where --until needs less: 90s, 10m, 2h."),
]
SpeedProbe = Annotated[
    bool,
    typer.Option(
        "--speed-probe",
        help="Measure the speed of the servers' CPUs, and take bursts of the machine out of the figures; as root.",
    ),
]
Duet = Annotated[
    bool,
    typer.Option("--duet", help="Load two servers at the same time, on CPUs that they swap; takes four CPUs or more."),
]
CardSeconds = Annotated[
    float, typer.Option(min=0, help="Seconds to measure this machine for the report, 5 to 600; 0: leave its card out.")
]

# How a trace is judged.
JudgedBy = Annotated[
    list[str] | None, typer.Option(metavar="NAME=VALUE", help="Judge by this value, such as C1.share=0.2; repeatable.")
]

# What every command does alike.
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show stages, commands and estimates, and exit.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON to stdout.")]
JsonResult = Annotated[bool, typer.Option("--json", help="Print the result as JSON to stdout.")]
JsonReport = Annotated[bool, typer.Option("--json", help="Print the report as JSON to stdout.")]
NoInstall = Annotated[bool, typer.Option("--no-install", help="Install no system packages.")]
