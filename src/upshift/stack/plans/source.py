"""The statements to look at: the distinct ones of a trace, or those of a file."""

from __future__ import annotations

import hashlib
from pathlib import Path

from upshift.errors import UpshiftError, UsageError
from upshift.parquet import database
from upshift.stack.lacks import Log
from upshift.stack.plans.model import Family
from upshift.stack.plans.statements import EXPLAINABLE, first_word, split
from upshift.stack.timeline import read_facts
from upshift.values import Value

# Of statements that are sent before the answer to the one before has come, each has the time from that answer on.
# Literals beside a word of a password are masked in every trace (crates/wire/src/sql/mask.rs), and other values change plans.
_DISTINCT = """
WITH explainable AS (
  SELECT *, coalesce(max(last_byte_us) OVER (
    PARTITION BY connection ORDER BY request_us, exchange ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before_us
  FROM read_parquet($1)
  WHERE kind IN ('query', 'execute') AND verb IN ('select', 'insert', 'update', 'delete', 'replace')
    AND statement IS NOT NULL AND sql IS NOT NULL AND (last_byte_us IS NOT NULL OR $2) AND coalesce(statements_in_text, 1) < 2
    AND NOT regexp_matches(sql, 'password|passwd|identified', 'i')
), timed AS (
  SELECT *, CASE WHEN last_byte_us IS NOT NULL THEN greatest(0, last_byte_us - greatest(request_us, before_us)) END AS took_us
  FROM explainable
)
SELECT statement, any_value(digest_text), count(*), sum(took_us)::BIGINT,
  arg_max({'sql': sql, 'parameters': parameters}, coalesce(took_us, 0)) AS longest
FROM timed GROUP BY statement ORDER BY 4 DESC NULLS LAST, 3 DESC, 1
"""


class Wanted(Value):
    """A statement to look at."""

    statement: str
    """16 hexadecimal digits, as in the trace; of a file's statement, a hash of its text."""
    text: str
    """Normalised; of a file's statement, as it is written."""
    sql: str
    parameters: str | None = None
    """A JSON array, as in the trace."""
    executions: int = 1
    time_us: int | None = None
    """In the trace; None: it is from a file."""


class Source(Value):
    """Statements and the family that they are written for."""

    family: Family | None
    """None: a file does not say."""
    statements: tuple[Wanted, ...]
    without_plan: tuple[str, ...] = ()
    """Texts of a file's other statements, such as SET or what is misspelt: nobody looks at them."""

    @property
    def timed(self) -> bool:
        """Whether shares are of time, or of the number of statements."""
        return any(each.time_us for each in self.statements)

    def shares(self) -> dict[str, float]:
        """Of each statement, its part of the time of all; of a file's, equal parts."""
        total = sum(each.time_us or 0 for each in self.statements)
        equal = 1 / max(1, len(self.statements))
        return {each.statement: (each.time_us or 0) / total if total else equal for each in self.statements}


def read_file(file: Path, family: Family) -> Source:
    """The statements of a file, each once. Raises UsageError for a file without any that has a plan."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}", "name a file of SQL statements, or a trace") from error
    found = dict.fromkeys(split(text, family))
    each = [sql for sql in found if first_word(sql, family) in EXPLAINABLE]
    if not each:
        raise UsageError(f"{file} has no statement that has a plan", "SELECT, INSERT, UPDATE, DELETE and REPLACE have one")
    wanted = (
        Wanted(statement=hashlib.sha256(sql.encode()).hexdigest()[:16], text=" ".join(sql.split()), sql=sql) for sql in each
    )
    others = tuple(" ".join(sql.split()) for sql in found if first_word(sql, family) not in EXPLAINABLE)
    return Source(family=None, statements=tuple(wanted), without_plan=others)


def read_export(folder: Path) -> Source:
    """The distinct statements of an exported trace, most time first, each with the values of its longest execution.

    Raises UpshiftError where there are none, and where a mask took their values.
    """
    facts = read_facts(folder)
    if facts.get("masked"):
        raise UpshiftError(
            "the trace is masked: its statements have no values", "capture without --mask, or name a file of SQL"
        )
    with database() as base:
        log = facts.get("log")
        untimed = log is not None and "answer_times" in Log.model_validate(log).lacks
        rows = base.execute(_DISTINCT, [str(folder / "exchanges.parquet"), untimed]).fetchall()
    if not rows:
        raise UpshiftError("the trace has no statement that has a plan", "`upshift stack dump` shows what it has")
    wanted = (
        Wanted(
            statement=statement,
            text=text or longest["sql"],
            sql=longest["sql"],
            parameters=longest["parameters"],
            executions=executions,
            time_us=time_us,
        )
        for statement, text, executions, time_us, longest in rows
    )
    return Source(family="postgres" if facts.get("family") == "postgres" else "mysql", statements=tuple(wanted))
