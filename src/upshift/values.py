"""The base of every value that one stage hands to the next."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from upshift.errors import UsageError

M = TypeVar("M", bound=BaseModel)

_LONGEST = 60
"""Letters of a wrong value that a message shows."""
_WRONG: Mapping[str, str] = {
    "missing": "this key is missing",
    "extra_forbidden": "there is no such key",
    **dict.fromkeys(("int_type", "int_parsing", "int_parsing_size", "int_from_float"), "{} is not a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "{} is not a number"),
    "finite_number": "{} is not a finite number",
    **dict.fromkeys(("bool_type", "bool_parsing"), "{} is not true or false"),
    **dict.fromkeys(("string_type", "path_type"), "{} is not a text in quotes"),
    **dict.fromkeys(("tuple_type", "list_type"), "{} is not a list"),
    **dict.fromkeys(("dict_type", "mapping_type", "model_type"), "{} is not a table"),
    "literal_error": "{} is not {expected}",
    "greater_than": "{} is not more than {gt:.12g}",
    "greater_than_equal": "{} is not {ge:.12g} or more",
    "less_than": "{} is not less than {lt:.12g}",
    "less_than_equal": "{} is not {le:.12g} or less",
    "too_short": "it has {actual_length} entries; {min_length} or more are needed",
    "string_too_short": "{} has fewer letters than {min_length}",
    "string_pattern_mismatch": "{} does not have the form {pattern}",
}
"""Words for pydantic's types of errors; an error of a validator of ours has its own."""


class Value(BaseModel):
    """An immutable, typed value that survives as JSON; unknown keys are an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def is_empty(value: Any) -> bool:
    """For ``Field(exclude_if=is_empty)``: a field that came later, left out of the JSON, leaves older hashes as they were."""
    return not value


def content_hash(value: Any) -> str:
    """The SHA-256 of a value's canonical JSON, in hexadecimal. Models, paths, tuples and mappings may be nested.

    A model's fields that have their default count, too: a default that changes makes another value.
    """
    canonical = json.dumps(_plain(value), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file's contents, in hexadecimal. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def folder_bytes(folder: Path) -> int:
    """What a folder's files take on the disk; files that share their contents count once."""
    seen: dict[int, int] = {}
    for parent, _folders, names in os.walk(folder):
        for name in names:
            # A dry run holds no lock: a command at work may remove a file meanwhile.
            with contextlib.suppress(FileNotFoundError):
                status = Path(parent, name).lstat()
                seen[status.st_ino] = status.st_blocks * 512
    return sum(seen.values())


def environment_number(name: str, otherwise: float) -> float:
    """What an environment variable says; ``otherwise`` where it is not set. Raises UsageError."""
    text = os.environ.get(name)
    if text is None:
        return otherwise
    with contextlib.suppress(ValueError):
        if 0 <= (value := float(text)) < math.inf:
            return value
    raise UsageError(f"the environment has {name}={text}, which is not a number", f"write digits alone, or unset {name}")


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(_plain(item) for item in value)
    if isinstance(value, Path):
        return str(value)
    return value


def describe_invalid(error: ValidationError, options: Mapping[str, str] = {}) -> str:
    """A validation error in one sentence that names the keys as the user wrote them, and says what is wrong in TOML's terms.
    ``options`` are the options of keys that go by another name on the command line.
    """
    return "; ".join(_sentence(item, options) for item in error.errors())


def _sentence(item: ErrorDetails, options: Mapping[str, str]) -> str:
    wrong = _wrong(item)
    return wrong if wrong.startswith("--") else f"{_key(item, options)}: {wrong}"


def _key(item: ErrorDetails, options: Mapping[str, str]) -> str:
    location = tuple(map(str, item["loc"]))
    return options.get(location[0], ".".join(location)) if location else "file"


def _wrong(item: ErrorDetails) -> str:
    words = _WRONG.get(item["type"])
    return words.format(_shown(item["input"]), **item.get("ctx", {})) if words else item["msg"].removeprefix("Value error, ")


def _shown(value: Any) -> str:
    """A value as a message shows it."""
    if isinstance(value, Mapping | BaseModel):
        return "a table"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, int) and abs(value) >= 10**_LONGEST:  # Python writes no number of thousands of digits.
        return f"a number of more than {_LONGEST} digits"
    text = str(value).lower() if isinstance(value, bool) else repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def checked(model: type[M], given: Mapping[str, Any], options: Mapping[str, str] = {}) -> M:
    """A model from what a user typed. Raises UsageError that names the option, see ``describe_invalid``."""
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise UsageError(describe_invalid(error, options), "see --help") from error
