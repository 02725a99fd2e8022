"""Text on huge pages as a variant asks for it: its environment, the machine that cannot, and a server that did not get them."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_bench import plan
from fakes import FakeKind, FakeShell

from upshift.errors import ServerFailed, UsageError
from upshift.measure import server_bench
from upshift.measure.server_bench import ServerBench
from upshift.measure.variant import Variant, find_variant
from upshift.server.huge_text import PROGRAM, Text, refuse_without_huge_pages, text_of
from upshift.server.kind import Program

SMAPS = """\
55d000000000-55d000200000 r--p 00000000 08:01 99 /usr/sbin/mysqld
Size:               2048 kB
AnonHugePages:         0 kB
55d000200000-55d003200000 r-xp 00000000 00:00 0
Size:              49152 kB
AnonHugePages:     45056 kB
FilePmdMapped:         0 kB
VmFlags: rd ex mr mw me hg
55d003200000-55d003300000 r-xp 03200000 08:01 99                         /usr/sbin/mysqld
Size:               1024 kB
AnonHugePages:         0 kB
FilePmdMapped:         0 kB
7f0000000000-7f0040000000 rw-p 00000000 00:00 0
Size:            1048576 kB
AnonHugePages:   1048576 kB
7f0040000000-7f0040200000 r-xp 00000000 08:01 77                         /usr/lib/libc.so.6
Size:               2048 kB
FilePmdMapped:      2048 kB
"""


def test_text_is_the_programs_executable_memory(tmp_path: Path) -> None:
    process = tmp_path / "proc" / "7"
    process.mkdir(parents=True)
    (process / "smaps").write_text(SMAPS)
    (process / "exe").symlink_to("/usr/sbin/mysqld")
    assert text_of(7, tmp_path) == Text(size_bytes=49 << 20, huge_bytes=44 << 20)
    assert text_of(8, tmp_path) is None


@pytest.mark.parametrize(
    ("setting", "why"), [("always madvise [never]\n", "its setting is never"), (None, "built without them")]
)
def test_a_kernel_without_huge_pages_is_refused(tmp_path: Path, setting: str | None, why: str) -> None:
    folder = tmp_path / "sys/kernel/mm/transparent_hugepage"
    folder.mkdir(parents=True)
    if setting:
        (folder / "enabled").write_text(setting)
    with pytest.raises(UsageError, match=f"huge.toml: text_huge_pages.*{why}") as error:
        refuse_without_huge_pages("huge.toml", tmp_path)
    assert "echo madvise" in error.value.hint
    (folder / "enabled").write_text("always [madvise] never\n")
    refuse_without_huge_pages("huge.toml", tmp_path)


def test_a_file_asks_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPSHIFT_CACHE", str(tmp_path))
    asked: list[str] = []
    monkeypatch.setattr("upshift.measure.variant.refuse_without_huge_pages", asked.append)
    (tmp_path / "mysqld-9.7").touch(mode=0o755)
    (tmp_path / "mysqld").symlink_to("mysqld-9.7")
    file = tmp_path / "huge.toml"
    file.write_text('binary = "mysqld"\ntext_huge_pages = true\nenvironment = { LD_PRELOAD = "/lib/jemalloc.so", A = "b" }\n')
    found = find_variant(str(file))
    assert asked == [str(file)]
    library = tmp_path / "target" / "release" / "libupshift_hugetext.so"
    environment = found.server_environment()
    # By its file's own name, which is what /proc says of the process.
    assert environment[PROGRAM] == "mysqld-9.7"
    assert (environment["LD_PRELOAD"], environment["A"]) == (f"{library}:/lib/jemalloc.so", "b")
    alone = found.model_copy(update={"environment": {}})
    assert alone.server_environment()["LD_PRELOAD"] == str(library)
    without = found.model_copy(update={"text_huge_pages": False})
    assert without.server_environment() == without.environment


def test_a_server_that_did_not_get_them_is_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arm = Variant(name="huge", program=Program(kind="fake", binary=Path("/opt/server")), text_huge_pages=True)
    shell = FakeShell()
    bench = ServerBench(shell, lambda _program: FakeKind(), plan(), {}, {"huge": tmp_path}, tmp_path, tmp_path / "log")
    with pytest.raises(ServerFailed, match="arm 'huge': its text is not on huge pages"), bench.arm(arm, trial=0):
        pass
    assert shell.spawned[0].env[PROGRAM] == "server"
    monkeypatch.setattr(server_bench, "text_of", lambda _pid: Text(size_bytes=4 << 20, huge_bytes=2 << 20))
    with bench.arm(arm, trial=0):
        pass
