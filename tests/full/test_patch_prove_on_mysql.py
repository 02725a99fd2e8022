"""`upshift patch prove` on a real MySQL: stock against itself, and a patched server against stock, are equal in every part."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from marks import only_full

from upshift.cli.test import MYSQLD, PATCHED_MYSQLD
from upshift.native.programs import DIFFER, programs_dir, target_dir
from upshift.patches.model import read_series
from upshift.paths import CHECKOUT
from upshift.prove.model import Asked, Proof
from upshift.prove.proving import prove
from upshift.server.kinds import default_kind
from upshift.shell import SystemShell

pytestmark = only_full

SERIES = CHECKOUT / "server" / "mysql-9.7"


def differ() -> Path:
    for folder in (target_dir() / "debug", programs_dir()):
        if (folder / DIFFER).is_file():
            return folder / DIFFER
    pytest.skip(f"{DIFFER} is not built: cargo test builds it")


def server(variable: str) -> Path:
    named = os.environ.get(variable)
    if not named:
        pytest.skip(f"{variable} names no server")
    return Path(named)


def proven(asked: Asked, folder: Path) -> Proof:
    kept: list[Proof] = []
    shell = SystemShell()
    try:
        proof = prove(shell, default_kind(), differ(), asked, folder, say=print, keep=kept.append)
    finally:
        shell.close()
    assert [part.name for part in proof.parts] == ["mix", "random", "storm", "crash"]
    # Each part was handed over as it ended.
    assert [len(each.parts) for each in kept] == [1, 2, 3, 4] and not any(each.complete for each in kept)
    assert proof.complete and all(part.statements for part in proof.parts)
    assert proof.verdict == "equal", [part.wrong for part in proof.parts]
    return proof


def test_stock_is_equal_to_itself(tmp_path: Path) -> None:
    binary = server(MYSQLD)
    proof = proven(Asked(stock=binary, patched=binary, statements=3000, minutes=0.1), tmp_path)
    assert proof.switches == {}


@pytest.mark.parametrize("seeded", ["fixed", "fresh"])
def test_a_patched_server_is_equal_to_stock_and_takes_every_short_path(tmp_path: Path, seeded: str) -> None:
    # Chosen here: two workers that collect the same tests must see the same names.
    seed = 1 if seeded == "fixed" else random.SystemRandom().randrange(1 << 32)
    asked = Asked(
        stock=server(MYSQLD),
        patched=server(PATCHED_MYSQLD),
        statements=20_000,
        seed=seed,
        minutes=0.5,
        allow=SERIES / "allowed.toml",
    )
    proof = proven(asked, tmp_path)
    patches = read_series(SERIES).patches
    assert set(proof.switches) == {each.variable for each in patches if each.variable}
    assert set(proof.switches.values()) == {"ON"}
    used = {name for each in patches for name in each.counters if name.endswith("_used")}
    mix, _random, storm, _crash = proof.parts
    assert set(mix.short_paths) == set(storm.short_paths) == used
    assert proof.untaken == ()
    # A storm with no request ahead, or on a debug build, would take none of these.
    assert storm.short_paths["Ps_pipeline_flush_used"] > 0
    assert storm.short_paths["Ps_metadata_cache_used"] > 0


def test_a_patched_server_with_all_switches_off_is_stock(tmp_path: Path) -> None:
    """Byte for byte, but for what allowed.toml says of the series as a whole; no statement takes a short path."""
    switches = {each.variable: "OFF" for each in read_series(SERIES).patches if each.variable}
    asked = Asked(
        stock=server(MYSQLD),
        patched=server(PATCHED_MYSQLD),
        settings=switches,
        statements=5_000,
        minutes=0.1,
        allow=SERIES / "allowed.toml",
    )
    proof = proven(asked, tmp_path)
    assert proof.switches == switches
    mix, random_statements, *_rest = proof.parts
    assert not any(mix.short_paths.values()) and not any(random_statements.short_paths.values())
