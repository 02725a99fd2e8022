"""Debian's own MySQL server, unpacked with the libraries that it needs, and a machine's folders to start servers in."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from upshift.paths import cache_dir

# The lines of mysqld.cnf in Debian's mysql-server 9.7.4-2 that are no comments.
MYSQLD_CNF = """\
[mysqld]
user = mysql
bind-address = 127.0.0.1
mysqlx-bind-address = 127.0.0.1
key_buffer_size = 16M
myisam-recover-options = BACKUP
log_error = /var/log/mysql/error.log
max_binlog_size = 100M
"""

# A machine on which the distribution's package has been set up, seen by the commands that follow alone: its folders are in
# memory, the user mysql is there, and no port is taken. `unshare` takes it all back.
_HOUSE = """\
set -eu
ip link set lo up
mkdir -p "$1/etc" && cp -L /etc/passwd /etc/group /etc/nsswitch.conf /etc/ld.so.cache "$1/etc"
for folder in /etc /opt /run /var/lib /var/log; do mount -t tmpfs tmpfs $folder; done
cp "$1"/etc/* /etc
echo 'mysql:x:27000:27000::/nonexistent:/bin/false' >> /etc/passwd
echo 'mysql:x:27000:' >> /etc/group
mkdir -p /etc/mysql /var/lib/mysql /var/lib/mysql-files /var/lib/mysql-keyring /var/log/mysql /run/mysqld
chown mysql:mysql /var/lib/mysql* /var/log/mysql /run/mysqld
cat > /etc/mysql/my.cnf <<'END'
{configuration}END
{script}
"""


@dataclass(frozen=True)
class Distributed:
    """Debian's server, which may be newer than this machine's C library: it runs with its own."""

    root: Path

    @property
    def command(self) -> tuple[str, ...]:
        libraries = self.root / "usr/lib/x86_64-linux-gnu"
        return (str(libraries / "ld-linux-x86-64.so.2"), "--library-path", str(libraries), str(self.root / "usr/sbin/mysqld"))


def fetch(folder: Path) -> Distributed | None:
    """Debian's mysql-server-core of sid from the machine's own mirror; None where it has none.

    Upshift's source stage has left the lists of that mirror in its cache.
    """
    apt = cache_dir() / "apt"
    sources = apt / "etc" / "sources.list"
    if not sources.is_file() or " sid " not in sources.read_text():
        return None
    (folder / "cache/archives/partial").mkdir(parents=True)
    settings = (
        f"Dir::Etc::sourcelist={sources}",
        "Dir::Etc::sourceparts=/dev/null",
        f"Dir::State::lists={apt / 'lists'}",
        f"Dir::Cache={folder / 'cache'}",
        # So that no library counts as installed.
        "Dir::State::status=/dev/null",
        "APT::Sandbox::User=root",
        "APT::Install-Recommends=false",
    )
    options = [word for setting in settings for word in ("-o", setting)]
    command = ["apt-get", *options, "-y", "--download-only", "-t", "sid", "install", "mysql-server-core"]
    if subprocess.run(command, capture_output=True).returncode != 0:
        return None
    for package in sorted((folder / "cache/archives").glob("*.deb")):
        subprocess.run(["dpkg", "-x", str(package), str(folder / "root")], check=True)
    return Distributed(folder / "root")


def housed(folder: Path, script: str, configuration: str = MYSQLD_CNF) -> subprocess.CompletedProcess[str]:
    """Run ``script`` where /etc/mysql/my.cnf and the folders of Debian's package are there and nothing of this machine's is."""
    text = _HOUSE.format(configuration=configuration, script=script)
    command = ("unshare", "--mount", "--net", "--propagation", "private", "sh", "-c", text, "sh", str(folder))
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def variables(command: Sequence[str]) -> dict[str, str]:
    """Each variable of a server and its default, as ``--verbose --help`` lists them."""
    done = subprocess.run([*command, "--no-defaults", "--verbose", "--help"], capture_output=True, text=True, check=True)
    table = done.stdout.split("\n---", 1)[1].splitlines()[1:]
    rows = (line.split(None, 1) for line in table[: table.index("")])
    return {row[0]: row[1].strip() if len(row) > 1 else "" for row in rows}
