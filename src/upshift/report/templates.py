"""How the pages are filled in: templates beside this file, whose values are escaped."""

from __future__ import annotations

import re
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

FOLDER = Path(__file__).parent
_CODE = re.compile(r"`([^`]+)`")


def environment() -> Environment:
    """With the filter ``coded``, for Upshift's own sentences: the terminal shows what they quote as it is.

    Not for what a server or a user wrote: SQL quotes names the same way.
    """
    made = Environment(
        loader=FileSystemLoader(FOLDER), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters["coded"] = _coded
    return made


def _coded(sentence: str) -> Markup:
    """Escaped, with what stands in backticks as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(sentence))))
