"""The one thing that a proof changes: how a replay sends, the server's settings, or its data."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NoReturn

from upshift.errors import UsageError
from upshift.measure.variant import Variant, find_sql
from upshift.server.kind import Program, one_spelling
from upshift.server.kinds import default_kind
from upshift.stack.proof import NotProvableError
from upshift.stack.suspects.model import SUSPECTS, Finding, Layer
from upshift.values import Value

AS_SENT, CHANGED = "as-sent", "changed"
_REPLAYED: Mapping[str, tuple[str, ...]] = {
    "C1": ("--protocol", "prepared"),
    "C2": ("--protocol", "prepared"),
    "C3": ("--fetch-size", "0"),
    "C5": ("--no-chatter",),
    "C11": ("--no-reconnect",),
    "C12": ("--no-metadata",),
    "C13": ("--protocol", "prepared"),
}
"""What a replay does in place of the suspect: options of `upshift load replay`."""
_WITHOUT: Mapping[str, str] = {"--fetch-size": "--fetch-size", "--no-reconnect": "--reconnect"}
"""Changes that take away what only an option asks for."""
_CLIENT = "mysql"
_SETTINGS: Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]] = {
    "E3": (
        {"innodb_flush_log_at_trx_commit": "1", "sync_binlog": "1"},
        {"innodb_flush_log_at_trx_commit": "2", "sync_binlog": "0"},
    ),
}
"""The server's settings with the suspect, and in place of it: a trace does not say which the server had."""
_SERVERS_OWN: tuple[Layer, ...] = ("plan", "engine")
"""What a server does with the statements, whoever sends them: its data and settings can take these suspects away."""


class Given(Value):
    """What a user changes in place of the suspect."""

    sql: tuple[Path, ...] = ()
    """Files of statements that change the data."""
    settings: Mapping[str, str] = {}
    settings_now: Mapping[str, str] = {}
    """Those of both servers: what the trace's server had."""

    @property
    def changes(self) -> bool:
        return bool(self.sql or self.settings)


def read_given(sql: Iterable[Path], settings: Iterable[str], settings_now: Iterable[str]) -> Given:
    """From the command line: settings as ``NAME=VALUE``. Raises UsageError for a file that is not there, and for no setting."""
    return Given(
        sql=find_sql("--sql", tuple(sql)),
        settings=_read("--setting", settings),
        settings_now=_read("--setting-now", settings_now),
    )


def _read(option: str, given: Iterable[str]) -> Mapping[str, str]:
    pairs = [each.partition("=") for each in given]
    for name, equals, value in pairs:
        if not (name and equals):
            raise UsageError(f"{option} {name}{equals}{value} is no setting", f"as {option} innodb_buffer_pool_size=1G")
    names = [name.replace("-", "_") for name, _, _ in pairs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"{option} names {twice} twice", "give it one value")
    return one_spelling({name: value for name, _, value in pairs})


def refuse_unprovable(suspect: str, given: Given) -> None:
    """Raises NotProvableError for a suspect that nothing here can take away, UsageError where the change is not the suspect's
    or is still to be named.
    """
    if SUSPECTS[suspect].layer in _SERVERS_OWN:
        if not given.changes and suspect not in _SETTINGS:
            raise UsageError(
                f"{suspect} ({SUSPECTS[suspect].title}) is proven by a change that you name: --sql or --setting",
                "--sql FILE.sql with what should mend it, such as CREATE INDEX or ANALYZE TABLE; or --setting NAME=VALUE",
            )
        return
    if suspect not in _REPLAYED:
        raise NotProvableError(
            f"{suspect} cannot be proven here: a replay sends the statements that the application sent",
            f"a replay can change {', '.join(_REPLAYED)}; try the other fixes in the application, and capture it again",
        )
    if given.changes:
        raise UsageError(
            f"{suspect} is about what the application sends: neither SQL nor a setting of the server takes it away",
            "leave --sql and --setting out; --setting-now gives both servers a setting",
        )


def variants_of(finding: Finding, sent: tuple[str, ...], binary: Path, given: Given) -> tuple[Variant, Variant]:
    """The replay as the application sends, and with the one thing changed: how it is sent, the settings or the data.

    Raises NotProvableError.
    """
    program = Program(kind=default_kind().name, binary=binary, tools=_tools(binary))
    before, after = _SETTINGS.get(finding.suspect, ({}, {}))
    now = {**before, **given.settings_now}
    as_sent = Variant(name=AS_SENT, program=program, client=sent, settings=now)
    if finding.suspect in _REPLAYED:
        change = _REPLAYED[finding.suspect]
        if _holds(sent, change):
            refuse_unshown(finding)
        return as_sent, as_sent.model_copy(update={"name": CHANGED, "client": (*sent, *change)})
    then = {**now, **(given.settings if given.changes else after)}
    _refuse_idle(now, then, given)
    return as_sent, as_sent.model_copy(update={"name": CHANGED, "settings": then, "sql": given.sql})


def refuse_unshown(finding: Finding) -> NoReturn:
    """Raises NotProvableError: a replay as the application sent has next to nothing of the suspect."""
    raise NotProvableError(
        f"a replay of this trace does not show {finding.suspect}: most of its statements are not sent that way",
        "capture the part of the application that has the fault alone",
    )


def _refuse_idle(now: Mapping[str, str], then: Mapping[str, str], given: Given) -> None:
    """Raises UsageError when both servers would be the same."""
    base = default_kind().settings()
    if not given.sql and {**base, **now} == {**base, **then}:
        said = " ".join(f"{name}={value}" for name, value in then.items())
        raise UsageError(
            f"both servers have {said}: nothing is changed",
            "--setting-now NAME=VALUE says what the trace's server has, where the laboratory's own setting is another",
        )


def _tools(binary: Path) -> Path | None:
    """The folder of the client that restores the dump: beside the server, or as a distribution installs it. None: beside it."""
    for folder in (binary.parent, binary.parent.parent / "bin"):
        if (folder / _CLIENT).is_file():
            return folder
    found = shutil.which(_CLIENT)
    return Path(found).parent if found else None


def _holds(sent: tuple[str, ...], change: tuple[str, ...]) -> bool:
    """Whether the replay does already what the change asks for."""
    if change[0] in _WITHOUT:
        return _WITHOUT[change[0]] not in sent
    return sent[-len(change) :] == change or sent[: len(change)] == change


def described(variant: Variant) -> str:
    """A variant in a line, for the terminal."""
    settings = "".join(f", server with {name}={value}" for name, value in variant.settings.items())
    sql = "".join(f", data changed by {file.name}" for file in variant.sql)
    return f"{variant.name}: upshift load replay {' '.join(variant.client)}{settings}{sql}"
