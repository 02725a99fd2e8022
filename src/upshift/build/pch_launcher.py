"""A compiler launcher that brings precompiled headers in from outside, without touching the source tree.

ninja runs it in place of the compiler: ``python3 -I -S pch_launcher.py PLAN compiler args...``. It uses the standard library
alone, since it starts once for each file. PLAN is JSON: ``folder`` (where precompiled headers go), ``log`` (fallbacks, a line
each), ``headers`` (a list of [source folder, [header, ...]], the longest folder first) and ``gcc`` (whether the compiler takes
them as GCC does).

A header set is compiled when the first file that needs it does: by then the build has made the generated headers that it
includes. One is made for each set of compile flags. A file that does not compile with it is compiled without.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
import sys

_VALUE_FLAGS = ("-o", "-MF", "-MT", "-MQ", "-c")
# -fpch-instantiate-templates: templates used in the headers are instantiated once, in the header, not in each file.
_CLANG_FLAGS = ("-fpch-instantiate-templates",)


def main(argv: list[str]) -> int:
    plan_file, command = argv[1], argv[2:]
    source = _value_of(command, "-c")
    if source is None or not source.endswith((".cc", ".cpp", ".cxx")):
        os.execvp(command[0], command)
    with open(plan_file) as file:
        plan = json.load(file)
    headers = next((found for folder, found in plan["headers"] if source.startswith(folder + "/")), None)
    header = _precompiled(plan["folder"], command, headers, gcc=plan["gcc"]) if headers else None
    if header is None:
        os.execvp(command[0], command)
    # GCC looks for HEADER.gch beside the header, and takes it when it was made with the same flags.
    use = ("-include", header) if plan["gcc"] else ("-include-pch", header + ".pch")
    done = subprocess.run([*command, *use], capture_output=True)
    if done.returncode == 0:
        sys.stderr.buffer.write(done.stderr)
        return 0
    with open(plan["log"], "a") as log:
        log.write(source + "\n")
    os.execvp(command[0], command)


def _precompiled(folder: str, command: list[str], headers: list[str], *, gcc: bool) -> str | None:
    """The header that is precompiled for this command's flags, now if need be; None when it can't be."""
    flags = _shared_flags(command)
    key = hashlib.sha256("\0".join([command[0], *flags, *headers]).encode()).hexdigest()[:20]
    header, failed = os.path.join(folder, key + ".h"), os.path.join(folder, key + ".failed")
    pch = header + (".gch" if gcc else ".pch")
    if os.path.exists(pch):
        return header
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, key + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(pch):
            return header
        if os.path.exists(failed):
            return None
        with open(header, "w") as out:
            out.writelines(f'#include "{name}"\n' for name in headers)
        how = () if gcc else _CLANG_FLAGS
        made = [command[0], *flags, *how, "-x", "c++-header", "-c", header, "-o", pch + ".partial"]
        done = subprocess.run(made, capture_output=True)
        if done.returncode != 0:
            with open(failed, "wb") as out:
                out.write(done.stderr)
            return None
        os.rename(pch + ".partial", pch)
        return header


def _shared_flags(command: list[str]) -> list[str]:
    """What files of one target have in common: the command without its input and outputs."""
    flags, skip = [], False
    for part in command[1:]:
        if skip:
            skip = False
        elif part in _VALUE_FLAGS:
            skip = True
        elif part not in ("-MD", "-MMD"):
            flags.append(part)
    return flags


def _value_of(command: list[str], flag: str) -> str | None:
    return command[command.index(flag) + 1] if flag in command[:-1] else None


if __name__ == "__main__":
    sys.exit(main(sys.argv))
