"""ROLLBACK.md's commands: typed as they stand, they lead to the packaged server and back."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from test_bundle import House

# A service manager with one service: `restart` starts what the unit and its drop-ins say, and notes what that was.
_SYSTEMCTL = """#!/bin/sh
set -eu
units={root}/etc/systemd/system
case $1 in
daemon-reload) cat "$units/$SERVICE.service" "$units/$SERVICE.service.d"/*.conf > {root}/loaded ;;
restart) $(sed -n 's/^ExecStart=//p' {root}/loaded | sed 's|^/opt/|{root}/opt/|' | tail -n 1) >> {root}/started ;;
esac
"""


class Machine:
    """A machine below ``root`` that runs an old server as a service."""

    def __init__(self, root: Path, house: House) -> None:
        self.root = root
        made = house.make()
        self.name = made.folder.name
        self.text = (made.folder / "ROLLBACK.md").read_text()
        drop_ins = root / "etc/systemd/system/fake.service.d"
        for folder in (root / "bin", root / "opt", drop_ins):
            folder.mkdir(parents=True)
        self._program("server", "echo old")
        self._program("systemctl", _SYSTEMCTL.format(root=root))
        (drop_ins.parent / "fake.service").write_text(f"[Service]\nExecStart={root}/bin/server\n")
        (drop_ins / "limits.conf").write_text("[Service]\nLimitNOFILE=10000\n")
        (root / made.tarball.name).write_bytes(made.tarball.read_bytes())

    def type(self, part: str) -> str:
        """Type the commands of one part of the text; what was started then."""
        commands = "\n".join(line.strip() for line in part.splitlines() if line.startswith("    "))
        commands = re.sub(r"(?<![\w/])/(?=opt|etc)", f"{self.root}/", commands)
        environment = {**os.environ, "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}", "SERVICE": "fake"}
        subprocess.run(["sh", "-euc", commands], cwd=self.root, env=environment, check=True, capture_output=True)
        started = self.root / "started"
        return started.read_text().split()[-1] if started.is_file() else ""

    def _program(self, name: str, text: str) -> None:
        file = self.root / "bin" / name
        file.write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    house = House(tmp_path / "house")
    house.server.write_text("#!/bin/sh\necho packaged\n")
    return Machine(tmp_path / "machine", house)


def test_the_commands_lead_to_the_packaged_server_and_back(machine: Machine) -> None:
    way_in, way_back = machine.text.split("To go back:")
    assert machine.type(way_in) == "packaged"
    assert machine.type(way_back) == "old"
    drop_ins = machine.root / "etc/systemd/system/fake.service.d"
    assert [file.name for file in drop_ins.iterdir()] == ["limits.conf"]
    assert not (machine.root / "opt" / machine.name).exists()


def test_the_drop_in_is_removed_before_the_package_is(machine: Machine) -> None:
    way_back = machine.text.split("To go back:")[1]
    assert way_back.index("rm /etc") < way_back.index("restart") < way_back.index("rm -r /opt")
