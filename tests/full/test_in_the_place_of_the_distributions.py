"""The packaged MySQL takes the place of Debian's: its configuration, its folders, its parts and its defaults. Needs root."""

from __future__ import annotations

import os
import shlex
import subprocess
import tarfile
from pathlib import Path

import pytest
from distribution import MYSQLD_CNF, Distributed, fetch, housed, variables
from main_job import packaged_server
from marks import only_full

from upshift.archive import unpack

pytestmark = [only_full, pytest.mark.skipif(os.geteuid() != 0, reason="a mount namespace needs root")]

# They follow from the folder that the server was unpacked into.
OWN = {"basedir", "character-sets-dir", "lc-messages-dir", "plugin-dir", "tmpdir"}


@pytest.fixture(scope="module")
def packaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked package."""
    folder = tmp_path_factory.mktemp("package")
    with tarfile.open(packaged_server()) as archive:
        unpack(archive, folder)
    (tree,) = folder.iterdir()
    return tree


@pytest.fixture(scope="module")
def debians(tmp_path_factory: pytest.TempPathFactory) -> Distributed:
    found = fetch(tmp_path_factory.mktemp("debian"))
    if found is None:
        pytest.skip("the machine's mirror has no mysql-server-core of sid")
    return found


def test_it_takes_the_distributions_configuration(tmp_path: Path) -> None:
    ask = "$bin/mysql --no-defaults -uroot -S/run/mysqld/mysqld.sock -Ne"
    done = housed(
        tmp_path,
        f"""
trap 'cat /var/log/mysql/error.log >&2; kill ${{pid-}} 2>/dev/null' EXIT
tar -C /opt -xzf {packaged_server()}
bin=$(echo /opt/*/bin)
$bin/mysqld --validate-config
$bin/mysqld --initialize-insecure
$bin/mysqld & pid=$!
for _ in $(seq 300); do {ask} 'SELECT 1' >/dev/null 2>&1 && break; sleep 0.2; done
{ask} 'SELECT @@datadir, @@socket, @@secure_file_priv, @@mysqlx_socket, @@mysqlx_bind_address'
{ask} "INSTALL PLUGIN group_replication SONAME 'group_replication.so'"
{ask} "SELECT plugin_status FROM information_schema.plugins WHERE plugin_name IN ('mysqlx', 'group_replication')"
kill $pid
wait $pid
trap - EXIT
""",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [
        "/var/lib/mysql/",
        "/var/run/mysqld/mysqld.sock",
        "/var/lib/mysql-files/",
        "/var/run/mysqld/mysqlx.sock",
        "127.0.0.1",
        "ACTIVE",
        "ACTIVE",
    ]


@pytest.mark.parametrize("configuration", [MYSQLD_CNF, "", "[mysqld]\nuser = mysql\nno-such-variable = 1\n"])
def test_both_servers_judge_a_configuration_alike(
    packaged: Path, debians: Distributed, tmp_path: Path, configuration: str
) -> None:
    user = "" if configuration else "--user=mysql"
    said = []
    for name, command in (("ours", (str(packaged / "bin" / "mysqld"),)), ("debians", debians.command)):
        done = housed(tmp_path / name, f"{shlex.join(command)} {user} --validate-config --log-error=stderr", configuration)
        said.append((done.returncode, [line.split("]", 3)[-1] for line in done.stderr.splitlines() if "[Server]" in line]))
    assert said[0] == said[1]


def test_it_has_every_variable_of_the_distributions_with_its_default(packaged: Path, debians: Distributed) -> None:
    ours, theirs = variables((str(packaged / "bin" / "mysqld"),)), variables(debians.command)
    # Debian's server has NDB Cluster's engine; the package leaves it out, and says so in the README.
    assert {name for name in theirs if not name.startswith("ndb")} == set(ours)
    differing = {name: (theirs[name], own) for name, own in ours.items() if theirs[name] != own}
    assert {name: pair for name, pair in differing.items() if name not in OWN} == {}


def test_every_library_it_needs_is_there(packaged: Path) -> None:
    for file in (packaged / "bin" / "mysqld", *sorted((packaged / "lib" / "plugin").glob("*.so"))):
        done = subprocess.run(["ldd", str(file)], capture_output=True, text=True, check=True)
        assert "not found" not in done.stdout, file.name
