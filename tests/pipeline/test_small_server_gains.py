"""By hand, with none of Upshift's own stages: PGO and ThinLTO make the small server faster.

Only then can the pipeline's tests ask for a gain.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
from pathlib import Path

import psutil
import pytest
from conftest import SMALL, SOURCE, workload

from upshift.server.instance import running
from upshift.server.kind import ServerKind
from upshift.server.kinds import default_kind
from upshift.shell import Command, SystemShell
from upshift.toolchain.find import find
from upshift.workload.driver import fill, run_load
from upshift.workload.library import find_workload

pytestmark = pytest.mark.pipeline
MIX = find_workload(workload("mix"))


class Hand:
    """A folder with builds, and data that one of them has filled."""

    def __init__(self, folder: Path, kind: ServerKind, shell: SystemShell) -> None:
        self.folder, self.kind, self.shell = folder, kind, shell
        self.toolchain = find("clang", shell=shell)
        self.log = folder / "log"

    def build(self, name: str, compile_flags: tuple[str, ...] = (), link_flags: tuple[str, ...] = ()) -> Path:
        tree = self.folder / name
        configure = self.kind.configure(
            SOURCE,
            tree,
            self.toolchain,
            build_type="Release",
            compile_flags=compile_flags,
            link_flags=("-fuse-ld=lld", *link_flags),
            options={},
        )
        self.shell.run(configure, log=self.log)
        # The load client comes from the first build alone.
        targets = self.kind.targets if name == "plain" else (self.kind.server_target,)
        self.shell.run(Command(("ninja", "-C", str(tree), *targets)), log=self.log)
        return tree

    def load(self, tree: Path, seconds: float) -> float:
        """User CPU time of the server of ``tree`` for each statement of the mix, in microseconds."""
        data = self.folder / "data"
        shutil.rmtree(data, ignore_errors=True)
        program = self.kind.program(SOURCE, self.folder / "plain", tree / "smallserver")
        self.shell.run(self.kind.initialise(program, data), log=self.log)
        with running(self.shell, self.kind, program, data, log=self.log) as server:
            fill(self.shell, self.kind, MIX, server, self.log)
            before_s = psutil.Process(server.pid).cpu_times().user
            _report, queries = run_load(self.shell, self.kind, MIX, server, seconds=seconds, cpus=(), log=self.log)
            return (psutil.Process(server.pid).cpu_times().user - before_s) / queries * 1e6


def test_profile_and_thin_lto_save_at_least_a_tenth_of_the_servers_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UPSHIFT_SERVER_KIND", str(SMALL / "kind.py"))
    shell = SystemShell()
    try:
        hand = Hand(tmp_path, default_kind(), shell)
        plain = hand.build("plain")
        raw = tmp_path / "raw"
        instrumented = hand.build("instrumented", (f"-fprofile-generate={raw}", "-fprofile-update=atomic"))
        hand.load(instrumented, seconds=2)
        profile = tmp_path / "mix.profdata"
        merge = [str(hand.toolchain.profdata), "merge", "-o", str(profile), *map(str, raw.glob("*.profraw"))]
        subprocess.run(merge, check=True)
        optimised = hand.build("optimised", (f"-fprofile-use={profile}", "-flto=thin"), ("-flto=thin",))
        # One after the other, so that both meet the same moments of a busy machine.
        ratios = [hand.load(optimised, seconds=1) / hand.load(plain, seconds=1) for _ in range(5)]
    finally:
        shell.close()
    assert statistics.median(ratios) < 0.9, ratios
