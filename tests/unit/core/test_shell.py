"""The real shell with real processes: each of them short, or ended by the test."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from upshift.errors import CommandFailed, MissingTool
from upshift.process import hidden, hidden_names
from upshift.shell import Command, SystemShell


@pytest.fixture
def shell(tmp_path: Path) -> SystemShell:
    return SystemShell(tmp_path / "commands.log")


def gone(pid: int, within_s: float = 3.0) -> bool:
    """Whether a process has ended (a zombie counts as ended) within some time."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False


def await_number(file: Path) -> int:
    """A process id that another process writes into ``file``."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        if file.is_file() and file.read_text().endswith("\n"):
            return int(file.read_text())
        time.sleep(0.02)
    raise AssertionError(f"{file} was never written")


def test_output_exit_code_and_times_of_a_command(shell: SystemShell) -> None:
    done = shell.run(Command(("sh", "-c", "echo one; echo two >&2; exit 0")))
    assert (done.returncode, done.stdout) == (0, "one\ntwo\n")
    assert done.wall_s > 0 and done.peak_memory_bytes > 100_000


def test_cpu_time_counts_what_a_command_started(shell: SystemShell) -> None:
    busy = "import time; begin = time.process_time()\nwhile time.process_time() - begin < 0.2: pass"
    done = shell.run(Command(("sh", "-c", f"{sys.executable} -c '{busy}'; true")))
    assert done.cpu_s >= 0.2


def test_environment_and_folder(shell: SystemShell, tmp_path: Path) -> None:
    done = shell.run(Command(("sh", "-c", "pwd; echo $LEVER"), cwd=tmp_path, env={"LEVER": "long enough"}))
    assert done.stdout == f"{tmp_path}\nlong enough\n"


def test_a_command_does_not_get_what_is_hidden_from_it_nor_does_its_line(
    shell: SystemShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPORT", "6432")
    monkeypatch.setenv("PGHOST", "production")
    command = Command(("sh", "-c", "echo $PGPORT/$PGHOST/$PGX"), env={"PGX": "own"}, hidden="PG")
    assert shell.run(command).stdout == "//own\n"
    line = command.pasteable()
    assert line.startswith("env -u PGHOST -u PGPORT PGX=own sh ")
    assert subprocess.run(("sh", "-c", line), capture_output=True, text=True, check=True).stdout == "//own\n"
    assert shell.run(Command(("sh", "-c", "echo $PGPORT"))).stdout == "6432\n"


def test_the_environment_is_as_it_was_when_a_library_has_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPORT", "6432")
    with pytest.raises(ValueError, match="no"), hidden("PG"):
        assert "PGPORT" not in os.environ and hidden_names("PG") == ()
        raise ValueError("no")
    assert os.environ["PGPORT"] == "6432" and hidden_names("") == ()


def test_a_command_does_not_speak_the_user_s_language(shell: SystemShell, monkeypatch: pytest.MonkeyPatch) -> None:
    """perf writes 25,3 for 25.3 in a German locale, and compilers and cp translate what is looked for in their messages."""
    for name, value in {"LANG": "de_DE.UTF-8", "LC_ALL": "de_DE.UTF-8", "LANGUAGE": "de_DE:de"}.items():
        monkeypatch.setenv(name, value)
    said = Command(("sh", "-c", "echo $LC_ALL/$LANGUAGE"))
    assert shell.run(said).stdout == "C.UTF-8/\n"
    assert shell.run(replace(said, env={"LC_ALL": "tr_TR"})).stdout == "tr_TR/\n", "what a command asks for holds"


def test_a_command_is_pinned_to_its_cpus(shell: SystemShell) -> None:
    cpu = max(os.sched_getaffinity(0))
    code = "import os; print(*os.sched_getaffinity(0))"
    assert shell.run(Command((sys.executable, "-c", code), cpus=(cpu,))).stdout == f"{cpu}\n"


def test_lines_arrive_one_by_one_and_the_log_is_appended_to(shell: SystemShell, tmp_path: Path) -> None:
    log, lines = tmp_path / "logs" / "stage.log", list[str]()
    shell.run(Command(("printf", "a\\nb")), log=log, on_line=lines.append)
    shell.run(Command(("echo", "c")), log=log)
    assert lines == ["a", "b"]
    assert log.read_text() == "a\nbc\n"


def test_output_that_is_not_text_is_no_error(shell: SystemShell) -> None:
    assert "�" in shell.run(Command(("printf", "\\377\\n"))).stdout


def test_with_a_log_only_the_end_of_the_output_is_kept_in_memory(shell: SystemShell, tmp_path: Path) -> None:
    done = shell.run(Command(("seq", "1000")), log=tmp_path / "log")
    assert done.stdout.splitlines()[-1] == "1000" and len(done.stdout.splitlines()) == 200
    assert len((tmp_path / "log").read_text().splitlines()) == 1000


def test_a_failure_shows_the_end_of_the_output_and_where_the_rest_is(shell: SystemShell, tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="sh failed with exit code 3\nno such thing") as caught:
        shell.run(Command(("sh", "-c", "echo no such thing; exit 3")), log=tmp_path / "log")
    assert caught.value.returncode == 3
    assert str(tmp_path / "log") in caught.value.hint
    assert "no such thing" in caught.value.log


def test_a_failure_without_a_log_gives_the_command_to_paste(shell: SystemShell) -> None:
    with pytest.raises(CommandFailed) as caught:
        shell.run(Command(("sh", "-c", "exit 1"), env={"A": "b c"}))
    assert caught.value.hint == "the command was: A='b c' sh -c 'exit 1'"


def test_unchecked_failures_are_returned(shell: SystemShell) -> None:
    assert shell.run(Command(("sh", "-c", "exit 7")), check=False).returncode == 7


def test_a_death_by_signal_is_negative(shell: SystemShell) -> None:
    assert shell.run(Command(("sh", "-c", "kill -9 $$")), check=False).returncode == -9


def test_a_full_disk_is_called_by_its_name(shell: SystemShell) -> None:
    with pytest.raises(CommandFailed, match="cp ran out of disk") as caught:
        shell.run(Command(("cp", "/etc/passwd", "/dev/full")))
    assert "start again; `optimize` and `study` go on with --resume last" in caught.value.hint


def test_a_program_that_is_not_there(shell: SystemShell) -> None:
    with pytest.raises(MissingTool, match="no-such-compiler is not on this machine") as caught:
        shell.run(Command(("no-such-compiler",)))
    assert "doctor" in caught.value.hint


def test_a_folder_that_is_not_there_is_not_a_missing_program(shell: SystemShell, tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="is gone"):
        shell.run(Command(("true",), cwd=tmp_path / "deleted"))


def test_a_program_that_may_not_be_run(shell: SystemShell, tmp_path: Path) -> None:
    plain = tmp_path / "mysqld"
    plain.write_text("text")
    with pytest.raises(CommandFailed, match="cannot be run"):
        shell.run(Command((str(plain),)))


def test_a_limit_that_is_reached_is_no_fault_of_the_program(shell: SystemShell, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_given: object) -> None:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr("upshift.shell.start", start)
    with pytest.raises(CommandFailed, match="true cannot be run: Resource temporarily unavailable") as caught:
        shell.run(Command(("true",)))
    assert "executable" not in caught.value.hint and "limit" in caught.value.hint


@pytest.mark.parametrize("check", [True, False])
def test_a_timeout_ends_the_command_and_all_that_it_started(shell: SystemShell, tmp_path: Path, check: bool) -> None:
    command = Command(("sh", "-c", f"sleep 100 & echo $! > {tmp_path}/pid; wait"))
    began = time.monotonic()
    if check:
        with pytest.raises(CommandFailed, match="sh did not end within 0 s"):
            shell.run(command, timeout_s=0.4)
    else:
        assert shell.run(command, timeout_s=0.4, check=False).returncode == -15
    assert time.monotonic() - began < 5
    assert gone(await_number(tmp_path / "pid"))


@pytest.mark.parametrize("daemon", ["exec sleep 100", "while sleep 0.1; do echo more; done"], ids=["silent", "printing"])
def test_a_daemon_that_a_command_leaves_behind_does_not_outlast_the_timeout(
    shell: SystemShell, tmp_path: Path, daemon: str
) -> None:
    """It holds the command's output open, and belongs to nobody: only the limit of time is left."""
    command = Command(("sh", "-c", f"echo begun; setsid sh -c 'echo $$ > {tmp_path}/pid; {daemon}' & exit 0"))
    began = time.monotonic()
    done = shell.run(command, timeout_s=1, check=False)
    assert done.stdout.replace("more\n", "") == "begun\n" and done.returncode != 0
    os.kill(await_number(tmp_path / "pid"), signal.SIGKILL)
    assert time.monotonic() - began < 20


def test_what_a_command_says_while_it_stops_is_output_too(shell: SystemShell) -> None:
    stopping = "exec 2>/dev/null; trap 'sleep 1.5; echo stopped; exit 0' TERM; echo begun; while :; do sleep 0.1; done"
    done = shell.run(Command(("sh", "-c", stopping)), timeout_s=1, check=False)
    assert done.stdout == "begun\nstopped\n" and done.returncode != 0


def test_a_last_line_without_an_end_is_output_too(shell: SystemShell) -> None:
    lines: list[str] = []
    assert shell.run(Command(("printf", "one\\ntwo")), on_line=lines.append).stdout == "one\ntwo"
    assert lines == ["one", "two"]


def test_cpus_that_are_not_there(shell: SystemShell) -> None:
    with pytest.raises(CommandFailed, match="true cannot be kept to the CPUs 4090, 4091") as caught:
        shell.run(Command(("true",), cpus=(4090, 4091)))
    assert "taskset" in caught.value.hint


def test_a_command_that_stops_in_good_order_at_its_timeout_has_still_not_done_its_work(shell: SystemShell) -> None:
    code = (
        "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); print('ready', flush=True); signal.pause()"
    )
    assert shell.run(Command((sys.executable, "-c", code)), timeout_s=0.7, check=False).returncode != 0


def test_a_command_that_will_not_stop_is_killed(shell: SystemShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("upshift.process._GRACE_S", 0.2)
    process = shell.spawn(
        Command(("sh", "-c", f"trap '' TERM; echo $$ > {tmp_path}/pid; while :; do sleep 100; done")), log=tmp_path / "log"
    )
    await_number(tmp_path / "pid")
    shell.close()
    assert process.poll() == -9


def test_close_ends_background_commands_and_all_that_they_started(shell: SystemShell, tmp_path: Path) -> None:
    process = shell.spawn(Command(("sh", "-c", f"sleep 100 & echo $! > {tmp_path}/pid; wait")), log=tmp_path / "log")
    child = await_number(tmp_path / "pid")
    assert process.poll() is None
    shell.close()
    assert gone(process.pid) and gone(child)
    assert process.poll() == -15


def test_an_interrupt_ends_the_command_that_runs(shell: SystemShell, tmp_path: Path) -> None:
    command = Command(("sh", "-c", f"echo $$ > {tmp_path}/pid; echo ready; exec sleep 100"))

    def interrupt(_line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        shell.run(command, on_line=interrupt)
    assert gone(await_number(tmp_path / "pid"))


def test_a_background_command_is_waited_for_and_signalled(shell: SystemShell, tmp_path: Path) -> None:
    process = shell.spawn(Command(("sleep", "100")), log=tmp_path / "log")
    assert process.wait(0.05) is None
    process.signal(signal.SIGTERM)
    assert process.wait(5) == -15
    process.signal(signal.SIGTERM)  # to a process that has ended: nothing happens
    shell.close()


def test_a_background_command_is_paused_with_what_it_started_and_goes_on(shell: SystemShell, tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = shell.spawn(Command(("sh", "-c", "(while :; do echo; sleep 0.01; done) & wait")), log=log)
    try:
        written(log, 0)
        process.pause()
        members = [psutil.Process(process.pid), *psutil.Process(process.pid).children()]
        assert len(members) > 1
        deadline = time.monotonic() + 20
        # A shell whose child was stopped between vfork and exec waits for it in the kernel, and is as still.
        while not {each.status() for each in members} <= {psutil.STATUS_STOPPED, psutil.STATUS_DISK_SLEEP}:
            assert time.monotonic() < deadline, "they go on"
            time.sleep(0.01)
        before = log.stat().st_size
        process.resume()
        written(log, before)
    finally:
        shell.close()


def test_close_ends_a_paused_command(shell: SystemShell, tmp_path: Path) -> None:
    process = shell.spawn(Command(("sh", "-c", "sleep 60")), log=tmp_path / "log")
    process.pause()
    shell.close()
    assert not psutil.pid_exists(process.pid)


def written(log: Path, beyond: int) -> None:
    """Wait until the log has more than so many bytes."""
    deadline = time.monotonic() + 20
    while log.stat().st_size <= beyond:
        assert time.monotonic() < deadline, "nothing was written"
        time.sleep(0.01)


def test_background_output_goes_to_the_log(shell: SystemShell, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("before\n")
    assert shell.spawn(Command(("sh", "-c", "echo out; echo err >&2")), log=log).wait(5) == 0
    assert log.read_text() == "before\nout\nerr\n"


def after_its_conductor_was_killed(folder: Path, code: str) -> int:
    """The process whose number ``code`` wrote into the file pid, once the Upshift that ran ``code`` was killed outright."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    code = f"import signal; from pathlib import Path; from upshift.shell import Command, SystemShell\n{code}"
    conductor = subprocess.Popen([sys.executable, "-c", code], env=environment, cwd=folder)
    try:
        number = await_number(folder / "pid")
        assert psutil.pid_exists(number)
    finally:
        conductor.kill()
        conductor.wait()
    return number


def test_a_killed_upshift_leaves_no_server_behind(tmp_path: Path) -> None:
    code = (
        "process = SystemShell().spawn(Command(('sleep', '100')), log=Path('log'))\n"
        "Path('pid').write_text(f'{process.pid}\\n')\n"
        "signal.pause()"
    )
    assert gone(after_its_conductor_was_killed(tmp_path, code))


def test_a_killed_upshift_lets_a_command_stop_what_it_started_elsewhere(tmp_path: Path) -> None:
    code = (
        "script = 'setsid sleep 100 & echo $! >pid; trap \"kill $!\" TERM; wait'\n"
        "SystemShell().run(Command(('sh', '-c', script), when_orphaned=signal.SIGTERM))"
    )
    assert gone(after_its_conductor_was_killed(tmp_path, code))


def test_each_command_is_logged_so_that_a_shell_runs_it(shell: SystemShell, tmp_path: Path) -> None:
    (tmp_path / "a folder").mkdir()
    command = Command(("printf", "%s", "it's $HOME"), cwd=tmp_path / "a folder", env={"X": "a b"}, cpus=(0,))
    assert shell.run(command).stdout == "it's $HOME"
    logged = (tmp_path / "commands.log").read_text()
    assert logged == command.pasteable() + "\n"
    assert logged.startswith(f"(cd '{tmp_path}/a folder' && X='a b' taskset -c 0 printf ")
    assert subprocess.run(["sh", "-c", logged], capture_output=True, text=True, check=True).stdout == "it's $HOME"


def test_commands_run_side_by_side(shell: SystemShell) -> None:
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda n=n: found.append(shell.run(Command(("sh", "-c", f"exit {n}")), check=False).returncode))
        for n in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [0, 1, 2, 3, 4]
