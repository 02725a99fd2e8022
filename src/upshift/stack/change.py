"""The one thing that a proof changes: how a replay sends, the server's settings, or its data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NoReturn

from upshift.errors import UsageError
from upshift.measure.variant import Variant, find_sql
from upshift.server.kind import Program, one_spelling
from upshift.stack.laboratory import Laboratory
from upshift.stack.proof import NotProvableError
from upshift.stack.suspects.model import SUSPECTS, Finding, Layer
from upshift.values import Value

AS_SENT, CHANGED = "as-sent", "changed"
_KEPT = ("--protocol", "prepared")
"""In place of C1 where it was prepared and executed in one flight: a replay sends that as text."""
_REPLAYED: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "C1": ((), ("--protocol", "recorded-kept")),
    "C2": ((), ("--protocol", "prepared")),
    "C3": ((), ("--fetch-size", "0")),
    "C5": ((), ("--no-chatter",)),
    "C11": (("--reconnect",), ("--no-reconnect",)),
    "C12": ((), ("--no-metadata",)),
    # A replay has parameters in place of the literals, so that its statement is one that was prepared again and again.
    "C13": (("--protocol", "prepare-per-request"), ("--protocol", "prepared")),
}
"""Options of `upshift load replay`: those with which it sends the suspect, and those with which it then does not."""
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
            raise UsageError(
                f"{option} {name}{equals}{value} is not NAME=VALUE", f"for example {option} innodb_buffer_pool_size=1G"
            )
    names = [name.replace("-", "_") for name, _, _ in pairs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"{option} names {twice} twice", "give it one value")
    return one_spelling({name: value for name, _, value in pairs})


def refuse_unprovable(suspect: str, given: Given, laboratory: Laboratory) -> None:
    """Raises NotProvableError for a suspect that nothing here can take away, UsageError where the change is not the suspect's
    or is still to be named.
    """
    if SUSPECTS[suspect].layer in _SERVERS_OWN:
        if not given.changes and suspect not in laboratory.settings:
            raise UsageError(
                f"{suspect} ({SUSPECTS[suspect].title}) is proven by a change that you name: --sql or --setting",
                "--sql FILE.sql with the fix, such as CREATE INDEX; or --setting NAME=VALUE",
            )
        return
    if suspect in laboratory.unprovable:
        why, instead = laboratory.unprovable[suspect]
        raise NotProvableError(f"{suspect} ({SUSPECTS[suspect].title}) cannot be proven here: {why}", instead)
    if suspect not in _REPLAYED:
        raise NotProvableError(
            f"{suspect} cannot be proven here: a replay sends the statements that the application sent",
            f"a replay can change {', '.join(_REPLAYED)}; try the other fixes in the application, and capture it again",
        )
    if given.changes:
        raise UsageError(
            f"{suspect} is about what the application sends: neither SQL nor a setting of the server changes that",
            "leave --sql and --setting out; --setting-now gives both servers a setting",
        )


def variants_of(
    finding: Finding, sent: tuple[str, ...], program: Program, given: Given, laboratory: Laboratory, *, at_once: bool = False
) -> tuple[Variant, Variant]:
    """The replay as the application sends, and with the one thing changed: how it is sent, the settings or the data.

    ``at_once``: what is prepared each time is executed in the same flight. Raises UsageError when nothing is changed.
    """
    before, after = laboratory.settings.get(finding.suspect, ({}, {}))
    now = {**before, **given.settings_now}
    as_sent = Variant(name=AS_SENT, program=program, client=sent, settings=now)
    if finding.suspect in _REPLAYED:
        with_it, without = _REPLAYED[finding.suspect]
        if finding.suspect == "C1" and at_once:
            without = _KEPT
        as_sent = as_sent.model_copy(update={"client": (*sent, *(each for each in with_it if each not in sent))})
        return as_sent, as_sent.model_copy(update={"name": CHANGED, "client": (*as_sent.client, *without)})
    then = {**now, **(given.settings if given.changes else after)}
    _refuse_idle(now, then, given, laboratory)
    return as_sent, as_sent.model_copy(update={"name": CHANGED, "settings": then, "sql": given.sql})


def refuse_unshown(finding: Finding) -> NoReturn:
    """Raises NotProvableError: a replay as the application sent has next to nothing of the suspect."""
    raise NotProvableError(
        f"a replay of this trace does not show {finding.suspect}: hardly any of its requests are sent that way",
        "is the report of another trace? `upshift stack examine` says what this one has",
    )


def _refuse_idle(now: Mapping[str, str], then: Mapping[str, str], given: Given, laboratory: Laboratory) -> None:
    """Raises UsageError when both servers would be the same."""
    base = laboratory.kind.settings()
    if not given.sql and {**base, **now} == {**base, **then}:
        said = " ".join(f"{name}={value}" for name, value in then.items())
        raise UsageError(
            f"both servers have {said}: nothing is changed",
            "--setting-now NAME=VALUE says what the trace's server has, where the laboratory's own setting is another",
        )


def described(variant: Variant) -> str:
    """A variant in a line, for the terminal."""
    settings = "".join(f", server with {name}={value}" for name, value in variant.settings.items())
    sql = "".join(f", data changed by {file.name}" for file in variant.sql)
    return f"{variant.name}: upshift load replay {' '.join(variant.client)}{settings}{sql}"
