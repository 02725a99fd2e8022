"""Conditions as servers write them, brought into one form: without quotes of names, qualifiers, casts and outer parentheses."""

from __future__ import annotations

import re
from typing import NamedTuple

_STRING = r"'(?:[^'\\]|''|\\.)*'"
_TYPE = r'(?:"[^"]+"|[a-z_][a-z_0-9.]*(?: varying| precision| with(?:out)? time zone)?)(?:\(\d+(?:,\d+)?\))?(?:\[\])?'
_COLUMN = r"(?:[A-Za-z_]\w*\.)*([\w$]+)"
_BOUND = re.compile(rf"{_COLUMN} (=|<>|!=|<=|>=|<|>|in|is null|is not null|like|~~)(?: (.+))?", re.I | re.S)
_CHAIN = re.compile(rf"({_STRING}|[^<>]+?) (<=?) {_COLUMN} (<=?) (.+)", re.S)
_LEFT = re.compile(rf"({_STRING}|-?[\d.]+|NULL) (<=?|>=?) {_COLUMN}")
EQUAL = ("=", "is null")
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_LISTED = re.compile(rf"{_COLUMN} = ANY \('?\{{(.*)\}}'?\)", re.S)


class Bound(NamedTuple):
    """A condition on one column."""

    column: str
    operator: str
    value: str

    def __str__(self) -> str:
        return f"{self.column} {self.operator} {self.value}".rstrip()


def outside_strings(text: str, pattern: str, replacement: str) -> str:
    """``re.sub`` on what stands outside of string literals."""
    parts = re.split(f"({_STRING})", text)
    return "".join(part if at % 2 else re.sub(pattern, replacement, part) for at, part in enumerate(parts))


def plain(condition: str) -> str:
    """A condition without quotes of names, casts and the parentheses around all of it."""
    text = re.sub(rf"({_STRING})::{_TYPE}", r"\1", condition)
    text = outside_strings(text, r"`([^`]*)`", r"\1")
    text = outside_strings(text, rf"\((\w+(?:\.\w+)*)\)::{_TYPE}", r"\1")
    text = outside_strings(text, rf"::{_TYPE}", "")
    return unwrapped(" ".join(text.split()))


def converted(condition: str) -> tuple[str, ...]:
    """Columns that a condition of PostgreSQL converts to another kind of type; one kind of text to another is none."""
    outside = outside_strings(condition, r"::(?:text|bpchar|character varying|character|name)\b", "")
    return tuple(dict.fromkeys(re.findall(r"\((?:\w+\.)*(\w+)\)::\w", re.sub(_STRING, "''", outside))))


def unwrapped(text: str) -> str:
    """Without the parentheses that stand around all of it."""
    text = text.strip()
    while text.startswith("(") and _closing(text) == len(text) - 1:
        text = text[1:-1].strip()
    return text


def _without_texts(text: str) -> str:
    """The same length, with nothing in its string literals: a quote may be escaped in them, a parenthesis is none."""
    return re.sub(_STRING, lambda found: f"'{' ' * (len(found[0]) - 2)}'", text)


def _closing(text: str) -> int:
    """Where the parenthesis that the text begins with is closed; -1: nowhere."""
    depth, quoted = 0, ""
    for at, letter in enumerate(_without_texts(text)):
        if quoted:
            quoted = "" if letter == quoted else quoted
        elif letter in "'\"":
            quoted = letter
        elif letter in "()":
            depth += 1 if letter == "(" else -1
            if depth == 0:
                return at
    return -1


def leading_parenthesis(text: str) -> tuple[str, str]:
    """What stands in the parentheses that the text begins with, and what follows them; all and nothing where none close."""
    end = _closing(text)
    return (text, "") if end < 0 else (text[1:end], text[end + 1 :])


def parts(condition: str, word: str = "and") -> list[str]:
    """What a condition joins by a word, at its top level; BETWEEN's own ``and`` does not count."""
    text, found, depth, begin, quoted, between = unwrapped(condition), [], 0, 0, "", False
    at, outside = 0, _without_texts(text)
    while at < len(text):
        letter = outside[at]
        if quoted:
            quoted = "" if letter == quoted else quoted
        elif letter in "'\"":
            quoted = letter
        elif letter in "()":
            depth += 1 if letter == "(" else -1
        elif depth == 0 and letter == " ":
            following = text[at + 1 : at + 9].lower()
            if following.startswith("between "):
                between = True
            elif following.startswith(word + " "):
                if between and word == "and":
                    between = False
                else:
                    found.append(text[begin:at])
                    begin = at = at + len(word) + 2
                    continue
        at += 1
    return [unwrapped(each) for each in (*found, text[begin:])]


def bound(part: str) -> Bound | None:
    """A part as a condition on one column; None where it is none."""
    text = unwrapped(part)
    if listed := _LISTED.fullmatch(text):
        return Bound(listed[1], "in", f"({listed[2]})")
    if turned := _LEFT.fullmatch(text):
        return Bound(turned[3], _TURNED[turned[2]], turned[1])
    found = _BOUND.fullmatch(text)
    if found is None:
        return None
    operator, value = found[2].lower(), (found[3] or "").strip()
    # What MySQL looks up where the condition is IS NULL, or <=> NULL.
    return Bound(found[1], "is null", "") if operator == "=" and value.upper() == "NULL" else Bound(found[1], operator, value)


def qualifier(part: str) -> str:
    """The table of the column that a condition begins with; empty where it names none."""
    found = re.match(r"(?:[A-Za-z_]\w*\.)*?([A-Za-z_]\w*)\.[\w$]+ ", unwrapped(part))
    return found[1] if found else ""


def bounds(condition: str) -> tuple[str, ...]:
    """All parts of a condition of an index, each as ``column operator value`` where it is one."""
    texts: list[str] = []
    for each in parts(plain(condition)):
        texts.extend(_chained(each))
    return tuple(texts)


def _chained(part: str) -> list[str]:
    """``1 <= a < 5`` as its two bounds; MySQL writes the lower bound of a column that may be NULL as ``NULL < a``."""
    if between := re.fullmatch(rf"{_COLUMN} between (.+?) and (.+)", part, re.I | re.S):
        return [f"{between[1]} >= {between[2]}", f"{between[1]} <= {between[3]}"]
    chain = _CHAIN.fullmatch(part)
    if chain is None:
        found = bound(part)
        return [] if found and found.value.upper() == "NULL" and found.operator == ">" else [str(found) if found else part]
    low, first, column, second, high = chain.groups()
    if _all_with(low, high):
        return [f"{column} like '{_unquoted(low)}%'"]
    lower = [] if low.upper() == "NULL" else [f"{column} {_TURNED[first]} {low}"]
    return [*lower, f"{column} {second} {high}"]


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] == "'" else value


def _all_with(low: str, high: str) -> bool:
    """Whether a range is that of a prefix: its upper bound is filled up with the collation's last character."""
    prefix, last = _unquoted(low), _unquoted(high)
    return len(last) >= len(prefix) + 8 and last.startswith(prefix) and len(set(last[len(prefix) :])) == 1


def ranges(alternatives: list[str]) -> tuple[str, ...]:
    """The bounds of a range scan from its ranges: those of the one, or each range as a text; a list of values as one ``in``."""
    each = [bounds(text) for written in alternatives for text in parts(written, "or")]
    if len(each) == 1:
        return each[0]
    singles = [bound(texts[0]) for texts in each if len(texts) == 1]
    equal = [single for single in singles if single and single.operator == "="]
    if len(equal) == len(each) and len({single.column for single in equal}) == 1:
        return (f"{equal[0].column} in ({','.join(single.value for single in equal)})",)
    return (" or ".join("(" + " and ".join(texts) + ")" for texts in each),)


def all_equal(texts: tuple[str, ...]) -> bool:
    """Whether every bound gives its column one value."""
    found = [bound(each) for each in texts]
    return bool(found) and all(each is not None and each.operator in EQUAL for each in found)


def columns(texts: tuple[str, ...]) -> tuple[str, ...]:
    """The columns that bounds are about, each once, in their order."""
    found = [bound(each) for each in texts]
    return tuple(dict.fromkeys(each.column for each in found if each))
