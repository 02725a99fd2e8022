"""Each call of a template's macro gives what the macro needs. Otherwise a page breaks in a branch that no example takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from jinja2 import Environment, nodes

import upshift

TEMPLATES = sorted(Path(upshift.__file__).parent.glob("*/*.html"))
_PARSER = Environment(autoescape=True)


def parsed(text: str) -> nodes.Template:
    return _PARSER.parse(text)


def macros(tree: nodes.Template, folder: Path) -> dict[str, nodes.Macro]:
    """The macros that a template defines or imports, by the name that it calls them by."""
    found = {each.name: each for each in tree.find_all(nodes.Macro)}
    for taken in tree.find_all(nodes.FromImport):
        assert isinstance(taken.template, nodes.Const)
        theirs = macros(parsed((folder / taken.template.value).read_text()), folder)
        for name in taken.names:
            original, here = name if isinstance(name, tuple) else (name, name)
            found[here] = theirs[original]
    return found


def wrong_calls(text: str, folder: Path) -> Iterator[str]:
    tree = parsed(text)
    known = macros(tree, folder)
    for call in tree.find_all(nodes.Call):
        if not isinstance(call.node, nodes.Name) or (macro := known.get(call.node.name)) is None:
            continue
        given = {each.name for each in macro.args[: len(call.args)]} | {each.key for each in call.kwargs}
        needed = {each.name for each in macro.args[: len(macro.args) - len(macro.defaults)]}
        if needed - given or len(call.args) > len(macro.args):
            yield f"line {call.lineno}: {macro.name}"


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda each: each.name)
def test_each_macro_gets_its_parameters(template: Path) -> None:
    assert list(wrong_calls(template.read_text(), template.parent)) == []


def test_a_call_that_lacks_a_parameter_is_found() -> None:
    """Inside and outside of a branch, by position and by name."""
    one = "{% macro cell(value, unit, wide=false) %}{{ value }}{{ unit }}{% endmacro %}\n"
    folder = TEMPLATES[0].parent
    for call in ("cell(1, 'us')", "cell(1, unit='us')", "cell(1, 'us', true)", "other(1)"):
        assert list(wrong_calls(one + "{{ " + call + " }}", folder)) == []
    for call in ("cell(1)", "cell(1, wide=true)", "cell(1, 'us', true, 4)"):
        assert list(wrong_calls(one + "{% if x %}{{ " + call + " }}{% endif %}", folder)) == ["line 2: cell"]
    imported = '{% from "explained.html" import kernel as theirs with context %}\n{{ theirs() }}'
    assert list(wrong_calls(imported, folder)) == ["line 2: kernel"]
