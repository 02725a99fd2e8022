"""Interrupts and kills at awkward moments, with real processes: nothing is left behind, and no package half installed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from upshift import interrupts, process
from upshift.paths import CHECKOUT
from upshift.shell import Command, SystemShell

# Stands in for apt: it notes each signal, goes on for a second, and prints meanwhile, as dpkg does.
APT_GET = """#!/bin/sh
cd "$(dirname "$0")"
[ "$3" = update ] && exit
trap 'echo INT >>signals' INT
trap 'echo TERM >>signals' TERM
trap 'echo PIPE >>signals' PIPE
echo $$ >pid
for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 0.05; echo "unpacking $n"; done
while [ -e hold ]; do sleep 0.05; done
echo whole >installed
"""
DPKG_QUERY = "#!/bin/sh\n"
# Like sudo: a program of root's that the user who started it may not signal.
SUDO = """#include <unistd.h>
int main(int count, char **arguments) { return setuid(0) || count < 3 || execvp(arguments[2], arguments + 2); }
"""
NOBODY = 65534


def wait_for(file: Path, within_s: float = 20.0) -> str:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if file.is_file() and file.read_text().endswith("\n"):
            return file.read_text()
        time.sleep(0.02)
    raise AssertionError(f"{file} was never written")


def ended(pid: int, within_s: float = 20.0) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False


@pytest.fixture
def apt() -> Iterator[Path]:
    """A folder with stand-ins for dpkg and apt, that other users can read and write."""
    with tempfile.TemporaryDirectory(prefix="upshift-apt-") as name:
        folder = Path(name)
        folder.chmod(0o777)
        for program, script in (("apt-get", APT_GET), ("apt-cache", DPKG_QUERY), ("dpkg-query", DPKG_QUERY)):
            (folder / program).write_text(script)
            (folder / program).chmod(0o755)
        yield folder


def python_for(user: int) -> str:
    """A Python that this user may run; root's own may lie in root's home."""
    new_enough = "import sys; sys.exit(sys.version_info < (3, 11))"
    for python in (sys.executable, "/usr/bin/python3"):
        with contextlib.suppress(OSError):
            if subprocess.run([python, "-c", new_enough], user=user, check=False).returncode == 0:
                return python
    pytest.skip("no other user can run a Python here")


def _heed() -> None:
    """A suite that was started in the background ignores Ctrl-C, one under nohup SIGHUP, and so would what it starts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def installing(apt: Path, user: int | None = None, python: str = sys.executable) -> subprocess.Popen[str]:
    """Upshift as the launcher starts it to install packages, once it is at that."""
    conductor = subprocess.Popen(
        [python, "-m", "upshift.cli.packages"],
        env={"PATH": f"{apt}:/usr/bin:/bin", "PYTHONPATH": str(CHECKOUT / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=apt,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        user=user,
        preexec_fn=_heed,  # noqa: PLW1509
    )
    wait_for(apt / "pid")
    return conductor


def heard(conductor: subprocess.Popen[str], words: str) -> str:
    """What it says until a line with these words."""
    assert conductor.stderr
    said = ""
    for line in conductor.stderr:
        said += line
        if words in line:
            break
    return said


def told(conductor: subprocess.Popen[str]) -> str:
    said = conductor.communicate(timeout=30)[1]
    assert "Traceback" not in said
    return said


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the packages are installed without sudo")
@pytest.mark.parametrize("interrupts_sent", [1, 3])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_install_that_is_interrupted_is_waited_for(apt: Path, number: signal.Signals, interrupts_sent: int) -> None:
    # A busy machine may send the last signal late.
    (hold := apt / "hold").touch()
    conductor = installing(apt)
    said = ""
    for _ in range(interrupts_sent):
        conductor.send_signal(number)
        # Two signals that wait to be taken are one.
        said += heard(conductor, "waiting for the package manager")
    hold.unlink()
    said += told(conductor)
    assert conductor.returncode == 130
    assert (apt / "installed").read_text() == "whole\n"
    assert (apt / "signals").read_text() == "INT\n"
    assert said.count("waiting for the package manager") == interrupts_sent


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the packages are installed without sudo")
def test_an_install_goes_on_when_upshift_is_killed(apt: Path) -> None:
    conductor = installing(apt)
    conductor.kill()
    conductor.communicate()
    assert wait_for(apt / "installed") == "whole\n"
    # Linux sends the signal of a parent's death once for each thread that was the parent: as the threads die one after the
    # other, a child may pass from one to the next.
    assert set((apt / "signals").read_text().split()) == {"INT"}
    assert ended(int((apt / "pid").read_text()))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes a program that takes root's rights, as sudo does")
def test_an_install_through_sudo_is_told_to_stop_and_waited_for(apt: Path) -> None:
    (apt / "sudo.c").write_text(SUDO)
    subprocess.run(["cc", "-o", apt / "sudo", apt / "sudo.c"], check=True)
    (apt / "sudo").chmod(0o4755)
    conductor = installing(apt, NOBODY, python_for(NOBODY))
    assert psutil.Process(int((apt / "pid").read_text())).uids().real == 0
    conductor.send_signal(signal.SIGINT)
    said = told(conductor)
    assert conductor.returncode == 130
    assert (apt / "installed").read_text() == "whole\n"
    assert (apt / "signals").read_text() == "INT\n"
    assert "waiting for the package manager" in said


def working(folder: Path, code: str) -> subprocess.Popen[str]:
    """A program that runs ``code`` under a shell of Upshift's, once the file pid is there."""
    lines = [
        "import signal; from pathlib import Path",
        "from upshift import interrupts, process; from upshift.shell import Command, SystemShell",
        "signal.signal(signal.SIGINT, signal.default_int_handler)",
        "shell = SystemShell()",
        "try:",
        "    with interrupts.handled():",
        "        try:",
        *(f"            {line}" for line in code.splitlines()),
        "        finally: shell.close()",
        "except KeyboardInterrupt: raise SystemExit(130)",
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    conductor = subprocess.Popen(
        [sys.executable, "-c", "\n".join(lines)], env=environment, cwd=folder, stderr=subprocess.PIPE, text=True
    )
    wait_for(folder / "pid")
    return conductor


STUBBORN = """import time; from pathlib import Path
process._GRACE_S = 600
shell.run(Command(('sh', '-c', 'trap "echo told >told" TERM; echo $$ >pid; while :; do sleep 0.05; done')))"""


def test_a_second_interrupt_kills_what_does_not_stop(tmp_path: Path) -> None:
    conductor = working(tmp_path, STUBBORN)
    conductor.send_signal(signal.SIGINT)
    wait_for(tmp_path / "told")
    conductor.send_signal(signal.SIGINT)
    told(conductor)
    assert conductor.returncode == 130
    assert ended(int((tmp_path / "pid").read_text()))


def test_what_is_in_a_process_group_of_its_own_is_stopped_too(tmp_path: Path) -> None:
    script = (
        "import os, signal, time\n"
        "if os.fork() == 0:\n"
        "    os.setpgid(0, 0); signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "    open('pid', 'w').write(str(os.getpid()) + chr(10))\n"
        "time.sleep(600)\n"
    )
    conductor = working(tmp_path, f"shell.run(Command(({sys.executable!r}, '-c', {script!r})))")
    conductor.send_signal(signal.SIGINT)
    told(conductor)
    assert ended(int((tmp_path / "pid").read_text()))


FAMILY = (
    "import os, time\n"
    "open('first', 'w').write(str(os.getpid()) + chr(10))\n"
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    if os.fork() == 0: open('pid', 'w').write(str(os.getpid()) + chr(10))\n"
    "    else: open('second', 'w').write(str(os.getpid()) + chr(10))\n"
    "time.sleep(600)\n"
)
"""Three generations; the younger two in a session of their own, as PostgreSQL's processes are."""


def states(folder: Path, within_s: float = 20.0, *, wanted: str) -> set[str]:
    pids = [int(wait_for(folder / name)) for name in ("first", "second", "pid")]
    deadline = time.monotonic() + within_s
    found: set[str]
    while (found := {psutil.Process(pid).status() for pid in pids}) != {wanted} and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


@pytest.mark.parametrize("listed", [True, False])
def test_a_server_of_several_processes_is_paused_and_goes_on_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: bool
) -> None:
    monkeypatch.setattr(process, "_CHILDREN_ARE_LISTED", listed and process._CHILDREN_ARE_LISTED)
    shell = SystemShell()
    try:
        family = shell.spawn(Command((sys.executable, "-c", FAMILY), cwd=tmp_path), log=tmp_path / "log")
        assert states(tmp_path, wanted="sleeping") == {"sleeping"}
        family.pause()
        assert states(tmp_path, wanted="stopped") == {"stopped"}
        family.resume()
        assert states(tmp_path, wanted="sleeping") == {"sleeping"}
        family.pause()
    finally:
        shell.close()
    assert all(ended(int((tmp_path / name).read_text())) for name in ("first", "second", "pid"))


def test_a_paused_server_goes_on_when_upshift_is_killed(tmp_path: Path) -> None:
    """Else nothing would end its processes: they do not notice that their parent is gone."""
    lines = (
        f"family = shell.spawn(Command(({sys.executable!r}, '-c', {FAMILY!r})), log=Path('log'))\n"
        "import time\n"
        "while not all(Path(name).exists() for name in ('second', 'pid')): time.sleep(0.05)\n"
        "family.pause(); Path('paused').write_text(chr(10)); time.sleep(600)"
    )
    conductor = working(tmp_path, lines)
    wait_for(tmp_path / "paused")
    assert states(tmp_path, wanted="stopped") == {"stopped"}
    second, third = (int((tmp_path / name).read_text()) for name in ("second", "pid"))
    conductor.kill()
    conductor.communicate()
    try:
        assert ended(int((tmp_path / "first").read_text()))  # the kernel's signal
        deadline = time.monotonic() + 10
        going = set[str]()
        # A process that goes on may be seen as it runs, before it sleeps again.
        while going != {"sleeping"} and time.monotonic() < deadline:
            time.sleep(0.02)
            going = {psutil.Process(pid).status() for pid in (second, third)}
        assert going == {"sleeping"}
    finally:
        for pid in (second, third):
            os.kill(pid, signal.SIGKILL)


def test_a_command_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    shell = SystemShell()
    started = []
    thread = threading.Thread(target=lambda: started.append(shell.spawn(Command(("sleep", "100")), log=tmp_path / "log")))
    thread.start()
    thread.join()
    try:
        assert started[0].wait(0.3) is None
    finally:
        shell.close()
    assert started[0].poll() == -signal.SIGTERM


def test_an_interrupt_is_held_back_while_a_process_starts() -> None:
    reached = False
    with interrupts.handled(), pytest.raises(KeyboardInterrupt):
        with interrupts.held():
            with interrupts.held():
                signal.raise_signal(signal.SIGINT)
            reached = True
        raise AssertionError("it is raised at the end")
    assert reached


def test_only_the_first_interrupt_raises() -> None:
    with interrupts.handled():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        assert not interrupts.hurried()
        signal.raise_signal(signal.SIGINT)
        assert interrupts.hurried()


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interrupts.handled():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
