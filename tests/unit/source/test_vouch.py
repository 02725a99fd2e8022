"""Checksums and signatures beside a tarball."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import FakeShell, Output

from upshift.errors import MissingTool, SourceError
from upshift.shell import Command
from upshift.source.vouch import vouched

SUM = "ab" * 32


@pytest.fixture
def tarball(tmp_path: Path) -> Path:
    return tmp_path / "mysql.tar.gz"


def beside(tarball: Path, ending: str, text: str = "signature") -> None:
    tarball.with_name(tarball.name + ending).write_text(text)


def test_nothing_beside_it_vouches_for_nothing(tarball: Path) -> None:
    assert vouched(tarball, SUM, FakeShell()).startswith("none")


@pytest.mark.parametrize(
    "line",
    [
        *(SUM, f"{SUM}  mysql.tar.gz", f"{SUM.upper()} *mysql.tar.gz", f"{SUM}  ./mysql.tar.gz"),
        *(f"SHA256 (mysql.tar.gz) = {SUM}", f"SHA256(mysql.tar.gz)= {SUM}", f"SHA2-256(mysql.tar.gz)= {SUM}"),
    ],
)
def test_a_checksum_of_its_own_vouches(tarball: Path, line: str) -> None:
    beside(tarball, ".sha256", line + "\n")
    assert vouched(tarball, SUM, FakeShell()) == "mysql.tar.gz.sha256"


def test_a_list_of_checksums_is_searched_for_the_name(tarball: Path) -> None:
    tarball.with_name("SHA256SUMS").write_text(f"{'cd' * 32}  other.tar.gz\n{SUM}  mysql.tar.gz\n")
    assert vouched(tarball, SUM, FakeShell()) == "SHA256SUMS"


def test_a_list_without_the_name_vouches_for_nothing(tarball: Path) -> None:
    tarball.with_name("SHA256SUMS").write_text(f"{SUM}  other.tar.gz\n")
    assert vouched(tarball, SUM, FakeShell()) == "none (SHA256SUMS has no SHA-256 of mysql.tar.gz)"


def test_a_name_may_have_spaces(tmp_path: Path) -> None:
    tarball = tmp_path / "my sql.tar.gz"
    beside(tarball, ".sha256", f"{SUM}  my sql.tar.gz\n")
    assert vouched(tarball, SUM, FakeShell()) == "my sql.tar.gz.sha256"


@pytest.mark.parametrize("text", ["cd" * 32, f"SHA256 (mysql.tar.gz) = {'cd' * 32}"])
def test_another_checksum_is_refused(tarball: Path, text: str) -> None:
    beside(tarball, ".sha256", text)
    with pytest.raises(SourceError, match="does not match its checksum"):
        vouched(tarball, SUM, FakeShell())


def test_a_good_signature_names_its_key(tarball: Path) -> None:
    beside(tarball, ".asc")
    status = Output("[GNUPG:] GOODSIG 12 Someone\n[GNUPG:] VALIDSIG ABCDEF 2026-01-01\n")
    assert vouched(tarball, SUM, FakeShell({"gpg": status})) == "signature by ABCDEF"


def test_a_revoked_keys_signature_does_not_vouch(tarball: Path) -> None:
    beside(tarball, ".asc")
    status = Output("[GNUPG:] REVKEYSIG 12 Someone\n[GNUPG:] VALIDSIG ABCDEF 2026-01-01\n")
    assert vouched(tarball, SUM, FakeShell({"gpg": status})).startswith("none (mysql.tar.gz.asc was not checked")


def test_a_bad_signature_is_refused_even_with_a_good_checksum(tarball: Path) -> None:
    beside(tarball, ".asc")
    beside(tarball, ".sha256", SUM)
    with pytest.raises(SourceError, match="does not match its signature"):
        vouched(tarball, SUM, FakeShell({"gpg": Output("[GNUPG:] BADSIG 12 Someone\n", returncode=1)}))


def test_an_unknown_key_leaves_the_checksum_to_vouch(tarball: Path) -> None:
    beside(tarball, ".sig")
    beside(tarball, ".sha256", SUM)
    status = Output("[GNUPG:] ERRSIG 12\n[GNUPG:] NO_PUBKEY 12\n", returncode=2)
    assert vouched(tarball, SUM, FakeShell({"gpg": status})) == "mysql.tar.gz.sha256"


def test_a_machine_without_gpg_says_that_it_did_not_check(tarball: Path) -> None:
    def absent(_command: Command) -> None:
        raise MissingTool("gpg is not on this machine")

    beside(tarball, ".asc")
    assert "gpg is not on this machine" in vouched(tarball, SUM, FakeShell({"gpg": Output(effect=absent)}))
