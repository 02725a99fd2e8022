"""What a proof starts, by the server that a trace is of: its kind, its dumps, what there is to change, what there is not."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from upshift.errors import UsageError
from upshift.server.kind import Program, ServerKind
from upshift.server.kinds import kinds
from upshift.stack.evidence import Chat, TraceFacts
from upshift.stack.proof import NotProvableError
from upshift.values import Value


class Laboratory(Value):
    """What a proof needs to know of a family of servers."""

    family: str
    """As people call it."""
    client: str
    """The program that restores a dump."""
    restore: str
    """The same as a command of the shell: $0 is the client, $1 the server's socket, $2 the database, $3 the dump."""
    dump: str
    """How the dump is made."""
    settings: Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]]
    """By suspect, the server's settings with it, and in place of it: a trace does not say which the server had."""
    unprovable: Mapping[str, tuple[str, str]] = {}
    """By suspect, why no replay is without it, and what to do."""
    unsent: tuple[Chat, ...]
    """Chatter that both ways send, or neither."""
    unsent_said: str

    @property
    def kind_name(self) -> str:
        return {"PostgreSQL": "postgres"}.get(self.family, self.family.lower())

    @property
    def kind(self) -> ServerKind:
        return kinds()[self.kind_name]


MYSQL = Laboratory(
    family="MySQL",
    client="mysql",
    restore='exec "$0" --no-defaults --socket="$1" --user=root "$2" < "$3"',
    dump="mysqldump of one database",
    settings={
        "E3": (
            {"innodb_flush_log_at_trx_commit": "1", "sync_binlog": "1"},
            {"innodb_flush_log_at_trx_commit": "2", "sync_binlog": "0"},
        ),
    },
    unsent=("USE", "statistics"),
    unsent_said="a replay sends no USE",
)
_DUMP_POSTGRES = "pg_dump --no-owner --no-privileges"
POSTGRES = Laboratory(
    family="PostgreSQL",
    client="psql",
    # The dump's roles are not there, and without ON_ERROR_STOP psql goes on with half a database.
    restore='"$0" -Xq -v ON_ERROR_STOP=1 -h "${1%/*}" -p "${1##*.}" -U postgres -d "$2" -f "$3"'
    f' || {{ echo "the dump must be what {_DUMP_POSTGRES} writes of one database" >&2; exit 1; }}',
    dump=_DUMP_POSTGRES,
    settings={"E3": ({"synchronous_commit": "on"}, {"synchronous_commit": "off"})},
    unprovable={
        "C12": (
            "PostgreSQL describes the columns of each text statement, and no option leaves that out",
            "prove C2: an execution of a prepared statement describes nothing",
        )
    },
    unsent=("ping", "reset"),
    unsent_said="a replay sends no empty Sync, and leaves no DISCARD out",
)
_OWN_FORMAT = b"PGDMP"


def laboratory_of(trace: TraceFacts) -> Laboratory:
    """That of the server that the trace is of. Raises NotProvableError for one that the laboratory does not start."""
    if trace.family == "postgres":
        return POSTGRES
    is_mariadb = "MariaDB" in (trace.server_version or "")
    found = MYSQL.model_copy(update={"family": "MariaDB"}) if is_mariadb else MYSQL
    if found.kind_name not in kinds():
        raise NotProvableError(
            f"the laboratory starts MySQL and PostgreSQL, and this trace is of a {found.family}",
            "make the fix on a test server, and compare it with one as it is now by `upshift stack compare --execute`; "
            "a fix in the application shows in another capture",
        )
    return found


def program_of(laboratory: Laboratory, binary: Path | None) -> Program:
    """The server's program, the installed package's unless it is named, with the folder of the client that restores a dump.

    Raises UsageError where none is there, and for one of another family.
    """
    kind = laboratory.kind
    found = binary.resolve() if binary else kind.packaged()
    what = f"name the server's program, {kind.server_target}, with --binary: it runs on copies of the dump's data"
    if found is None:
        raise UsageError(f"no package of {laboratory.family} is installed, and --binary names none", what)
    others = {each.server_target for each in kinds().values()} - {kind.server_target}
    if found.name in others:
        raise UsageError(f"the trace is of a {laboratory.family}, and --binary is a {found.name}", what)
    return Program(kind=kind.name, binary=found, tools=_tools(found, laboratory.client))


def _tools(binary: Path, client: str) -> Path | None:
    """The folder of the client: beside the server, or as a distribution installs it. None: beside it."""
    for folder in (binary.parent, binary.parent.parent / "bin"):
        if (folder / client).is_file():
            return folder
    found = shutil.which(client)
    return Path(found).parent if found else None


def refuse_dump(laboratory: Laboratory, before: Path) -> None:
    """Raises UsageError for a dump that is no text of SQL statements."""
    with before.open("rb") as file:
        if file.read(len(_OWN_FORMAT)) == _OWN_FORMAT:
            raise UsageError(f"{before} is in pg_dump's own format", f"make it with {laboratory.dump}, which writes plain text")
