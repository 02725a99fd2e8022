"""A shell that answers from a table, and files that look like installed tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from upshift.errors import CommandFailed, MissingTool
from upshift.shell import Command, Completed, Process

Answer = Callable[[tuple[str, ...]], tuple[int, str] | None]


class FakeShell:
    """Runs nothing: ``answer`` gives exit code and output or None for a program not there."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.ran: list[tuple[str, ...]] = []

    def run(
        self,
        command: Command,
        *,
        log: Path | None = None,
        timeout_s: float | None = None,
        on_line: Callable[[str], None] | None = None,
        check: bool = True,
    ) -> Completed:
        self.ran.append(command.argv)
        answer = self.answer(command.argv)
        if answer is None:
            raise MissingTool(f"{command.argv[0]} is not on this machine")
        if check and answer[0] != 0:
            raise CommandFailed(f"{command.argv[0]} failed", log=answer[1])
        return Completed(returncode=answer[0], stdout=answer[1], wall_s=0, cpu_s=0, peak_memory_bytes=0)

    def spawn(self, command: Command, *, log: Path) -> Process:
        raise NotImplementedError


def tool(path: Path, text: str = "") -> Path:
    """An executable file; compilers give their first line of ``--version`` as ``text``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def llvm(root: Path, version: str, *, without: tuple[str, ...] = ()) -> Path:
    """A Debian-like LLVM below ``root``; its folder of executables."""
    major = version.partition(".")[0]
    prefix = root / f"usr/lib/llvm-{major}"
    for name in {"clang", "clang++", "ld.lld", "llvm-profdata", "llvm-bolt", "merge-fdata"} - set(without):
        # What BOLT answers to --help: LLVM 16 knows other orders.
        orders = "--help =hfsort =cdsort\n" if int(major) >= 18 else "--help =hfsort\n"
        tool(prefix / "bin" / name, f"Debian clang version {version} (3~deb12u1)\nTarget: x86_64\n{orders}")
    if "libclang_rt" not in without:
        tool(prefix / f"lib/clang/{major}/lib/linux/libclang_rt.profile-x86_64.a")
    if "libbolt_rt" not in without:
        tool(prefix / "lib/libbolt_rt_instr.a")
    return prefix / "bin"


def versions(argv: tuple[str, ...]) -> tuple[int, str] | None:
    """Answers ``TOOL --version`` with the file's own text; ``ldd`` with the libraries that programs name, a line each."""
    if argv[0] == "ldd":
        lines = [line for file in argv[1:] for line in Path(file).read_text().splitlines() if line.startswith("NEEDS ")]
        return 0, "".join(f"\tlib.so => {line.removeprefix('NEEDS ')} (0x00007f8fba000000)\n" for line in lines)
    path = Path(argv[0])
    if not path.is_absolute():
        return None
    if argv[1:] == ("--version",):
        return 0, path.read_text()
    # What compilers are asked about themselves: the rest of a line of their text that begins with the question.
    (question,) = argv[1:]
    return 0, next((line.removeprefix(question) for line in path.read_text().splitlines() if line.startswith(question)), "")
