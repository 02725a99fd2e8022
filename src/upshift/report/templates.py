"""How pages are filled in: by templates, whose values are escaped."""

from __future__ import annotations

import re
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape

FOLDER = Path(__file__).parent
_CODE = re.compile(r"`([^`]+)`")


def page(name: str, *folders: Path) -> Template:
    """The template ``name`` of ``folders`` or of this one, with the filter ``coded`` for Upshift's own sentences, which quote
    commands and keys as the terminal shows them.

    The filter is not for what a server or a user wrote: SQL quotes names the same way.
    """
    environment = Environment(
        loader=FileSystemLoader([*folders, FOLDER]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["coded"] = _coded
    return environment.get_template(name)


def _coded(sentence: str) -> Markup:
    """Escaped, with what stands in backticks as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(sentence))))
