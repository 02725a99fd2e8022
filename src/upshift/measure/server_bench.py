"""The real bench: servers, pinned to their CPUs, each trial on a fresh copy of the filled data."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from upshift.errors import ServerFailed
from upshift.measure.bench import LoadHandle, RunningArm
from upshift.measure.model import Load, Plan
from upshift.measure.variant import Variant
from upshift.server.data import copy
from upshift.server.executable import read_in_order
from upshift.server.huge_text import text_of
from upshift.server.instance import RunningServer, running
from upshift.server.kind import KindOf
from upshift.server.tier import refuse_without_tier
from upshift.shell import Shell
from upshift.workload.driver import RunningLoad, begin_load
from upshift.workload.model import Workload


class ServerBench:
    """Starts arms on copies of ``templates`` (by arm name) below ``folder``, and loads them with ``workloads``."""

    def __init__(
        self,
        shell: Shell,
        kind_of: KindOf,
        plan: Plan,
        workloads: Mapping[str, Workload],
        templates: Mapping[str, Path],
        folder: Path,
        log: Path,
    ) -> None:
        self._shell = shell
        self._kind_of = kind_of
        self._plan = plan
        self._workloads = workloads
        self._templates = templates
        self._folder = folder
        self._log = log
        self._variants: dict[int, Variant] = {}
        """What runs now, by process."""

    @contextlib.contextmanager
    def arm(self, arm: Variant, trial: int) -> Iterator[RunningServer]:
        """A fresh server on its own copy of the data; killed, and its folder removed, at the end."""
        folder = self._folder / f"trial-{trial}-{arm.file_name}"
        try:
            data = copy(self._shell, self._templates[arm.name], folder / "data")
            read_in_order(arm.program.binary)
            with running(
                self._shell,
                self._kind_of(arm.program),
                arm.program,
                data,
                log=self._log,
                settings=arm.settings,
                environment=arm.server_environment(),
                under=arm.before_server(folder),
                cpus=self._plan.seat_of(arm).server_cpus,
                cleanly=False,  # Nobody needs its data.
                label=f"arm '{arm.name}': ",
            ) as server:
                text = text_of(server.pid) if arm.text_huge_pages else None
                if arm.text_huge_pages and not (text and text.huge_bytes):
                    raise ServerFailed(
                        f"{server.label}its text is not on huge pages, although text_huge_pages asks for them",
                        f"{self._log} says why",
                    )
                self._refuse_other_cpus(server, arm)
                self._variants[server.pid] = arm
                self.check(server)
                yield server
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def variant_of(self, running: RunningArm) -> Variant:
        """What runs in this process now."""
        return self._variants[running.pid]

    def check(self, running: RunningArm) -> None:
        assert isinstance(running, RunningServer)
        running.check()
        if self.variant_of(running).tier:
            refuse_without_tier(self._shell, running)

    def place(self, running: RunningArm, load: LoadHandle | None, arm: Variant) -> None:
        assert isinstance(running, RunningServer) and isinstance(load, RunningLoad | None)
        before, after = self._plan.seat_of(self._variants[running.pid]), self._plan.seat_of(arm)
        self._variants[running.pid] = arm
        if before == after:
            return
        try:
            running.process.keep_to(after.server_cpus)
            if load:
                load.process.keep_to(after.client_cpus)
        except OSError as error:
            raise ServerFailed(
                f"{running.label}server or load cannot be moved to other CPUs: {error.strerror}",
                "a duet moves servers: let this user set the CPUs of their processes, or leave the duet out",
            ) from error

    def begin(self, running: RunningArm, load: Load, seconds: float, seed: int) -> RunningLoad:
        assert isinstance(running, RunningServer)
        variant = self._variants[running.pid]
        return begin_load(
            self._shell,
            running.kind,
            self._workloads[load.workload],
            running,
            connections=load.connections,
            seconds=seconds,
            seed=seed,
            options=variant.client,
            cpus=self._plan.seat_of(variant).client_cpus,
            log=self._log,
        )

    def _refuse_other_cpus(self, server: RunningServer, arm: Variant) -> None:
        """A command before the server may choose CPUs, such as ``taskset``: to move the server would undo what it is for."""
        if self._plan.duet and (has := os.sched_getaffinity(server.pid)) != set(self._plan.seat_of(arm).server_cpus):
            raise ServerFailed(
                f"{server.label}it runs on other CPUs than it was given, {', '.join(map(str, sorted(has)))}",
                "a duet moves its servers: leave what chooses CPUs out of `under`, and name server_cpus and client_cpus",
            )
