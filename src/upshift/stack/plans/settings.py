"""Settings that decide durability, isolation, TLS and compression, in words that hold for every server: facts, no suspects."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from upshift.stack.plans.session import Refused, Session
from upshift.values import Value

Topic = Literal["durability", "isolation", "tls", "compression"]
Known = Mapping[str, str]
"""Variables by name, as the server says them; ``ssl_version`` is this session's, empty without TLS."""


class Setting(NamedTuple):
    """One server's answer to a question."""

    means: str
    """In words that hold for every server: these are compared."""
    said: str
    """As it is set."""


Reader = Callable[[Known], Setting | None]
"""None: the server does not say."""


class SettingDifference(Value):
    """A setting in which two servers differ."""

    topic: Topic
    what: str
    a: str
    """As the server has it set."""
    b: str

    def __str__(self) -> str:
        return f"{self.topic}, {self.what}: {self.a} | {self.b}"


_SWITCH = {"1": "on", "yes": "on", "true": "on", "0": "off", "no": "off", "false": "off"}


def _variable(*names: str, words: Mapping[str, str] | None = None) -> Reader:
    """The first of these variables that the server has. ``words`` says what its values mean."""

    def read(known: Known) -> Setting | None:
        name = next((each for each in names if each in known), None)
        if name is None:
            return None
        value = known[name].lower()
        return Setting((words or _SWITCH).get(value, value), f"{name}={known[name]}")

    return read


def _postgres_commit(known: Known) -> Setting | None:
    if known.get("fsync") == "off":
        return Setting("never", "fsync=off")
    words = {"on": "flushed", "local": "flushed", "off": "later"}
    return _variable("synchronous_commit", words=words)(known)


def _binary_log(known: Known) -> Setting | None:
    if known.get("log_bin", "ON").lower() in ("off", "0"):
        return Setting("none", "log_bin=OFF")
    return _variable("sync_binlog")(known)


def _isolation(*names: str) -> Reader:
    def read(known: Known) -> Setting | None:
        told = _variable(*names)(known)
        return told and Setting(told.means.replace("-", " "), told.said)

    return read


def _session_tls(known: Known) -> Setting | None:
    version = known.get("ssl_version")
    return None if version is None else Setting(version or "none", version or "none")


def _asked_compression(known: Known) -> Setting | None:
    told = _variable("protocol_compression_algorithms")(known)
    return told and Setting(",".join(sorted(told.means.split(","))), told.said)


def _constant(means: str, said: str) -> Reader:
    return lambda _known: Setting(means, said)


class Question(NamedTuple):
    """What is asked of both servers. A family that has no reader does not say."""

    topic: Topic
    what: str
    mysql: Reader | None = None
    """MySQL's and MariaDB's."""
    postgres: Reader | None = None


_COMMIT = {"0": "later", "1": "flushed", "2": "written", "3": "flushed"}
_GUARDED = {**_SWITCH, "detect_and_recover": "on"}
_COMPRESSED = {**_SWITCH, "pglz": "on", "lz4": "on", "zstd": "on"}

QUESTIONS: tuple[Question, ...] = (
    Question("durability", "the log at a commit", _variable("innodb_flush_log_at_trx_commit", words=_COMMIT), _postgres_commit),
    Question("durability", "the binary log at a commit", _binary_log, _constant("none", "no binary log")),
    Question(
        "durability",
        "pages that a crash tears",
        _variable("innodb_doublewrite", words=_GUARDED),
        _variable("full_page_writes"),
    ),
    Question(
        "isolation",
        "of a transaction",
        _isolation("transaction_isolation", "tx_isolation"),
        _isolation("default_transaction_isolation"),
    ),
    Question("tls", "of this session", _session_tls, _session_tls),
    Question("tls", "asked of clients", _variable("require_secure_transport")),
    Question("compression", "of connections", _asked_compression),
    Question(
        "compression",
        "of the log",
        _variable("binlog_transaction_compression", "log_bin_compress"),
        _variable("wal_compression", words=_COMPRESSED),
    ),
    Question("compression", "of pages", _variable("innodb_compression_default")),
)

_MYSQL_NAMES = (
    "innodb_flush_log_at_trx_commit",
    "log_bin",
    "sync_binlog",
    "innodb_doublewrite",
    "transaction_isolation",
    "tx_isolation",
    "require_secure_transport",
    "protocol_compression_algorithms",
    "binlog_transaction_compression",
    "log_bin_compress",
    "innodb_compression_default",
)
_POSTGRES_NAMES = ("fsync", "synchronous_commit", "full_page_writes", "default_transaction_isolation", "wal_compression")


def settings_that_differ(a: Session, b: Session) -> tuple[SettingDifference, ...]:
    """By each question that both servers answer. Raises ServerFailed when one is gone."""
    pair = [(session.family == "postgres", _known(session)) for session in (a, b)]
    found = []
    for each in QUESTIONS:
        readers = [(each.postgres if postgres else each.mysql, known) for postgres, known in pair]
        told = [reader(known) if reader else None for reader, known in readers]
        if told[0] and told[1] and told[0].means != told[1].means:
            found.append(SettingDifference(topic=each.topic, what=each.what, a=told[0].said, b=told[1].said))
    return tuple(found)


def _known(session: Session) -> Known:
    names = _POSTGRES_NAMES if session.family == "postgres" else _MYSQL_NAMES
    listed = ", ".join(f"'{name}'" for name in names)
    if session.family == "postgres":
        variables = f"SELECT name, setting FROM pg_catalog.pg_settings WHERE name IN ({listed})"
        encrypted = "SELECT 'ssl_version', coalesce(version, '') FROM pg_catalog.pg_stat_ssl WHERE pid = pg_backend_pid()"
    else:
        variables = f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({listed})"
        encrypted = "SHOW SESSION STATUS LIKE 'Ssl_version'"
    known: dict[str, str] = {}
    for sql in (variables, encrypted):
        with contextlib.suppress(Refused):
            known |= {str(name).lower(): str(value) for name, value in session.ask(sql)}
    return known
