"""The documents are true to the code: commands, keys, links, and the commands that they show."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import typer

from upshift.build.recipe import Recipe
from upshift.cli.app import app
from upshift.paths import CHECKOUT
from upshift.report.result import Result
from upshift.workload.model import Workload

DOCS = sorted([*(CHECKOUT / "docs").rglob("*.md"), *CHECKOUT.glob("*.md")])
SHOWN = [
    (file.name, line.strip())
    for file in DOCS
    for block in re.findall(r"```sh\n(.*?)```", file.read_text(), re.S)
    for line in block.splitlines()
    if line.strip()
]


def test_every_command_and_option_is_in_the_reference() -> None:
    text = (CHECKOUT / "docs" / "reference" / "cli.md").read_text()
    sections = dict(re.findall(r"^## upshift (\w+)\n(.*?)(?=^## |\Z)", text, re.M | re.S))
    group = typer.main.get_command(app)
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        assert name in sections
        for parameter in command.params:
            for option in parameter.opts:
                if option.startswith("--"):
                    assert f"`{option}`" in sections[name], f"{name} {option}"


@pytest.mark.parametrize(("page", "model"), [("recipes", Recipe), ("result-json", Result)])
def test_every_key_is_in_the_reference(page: str, model: type[Recipe] | type[Result]) -> None:
    text = (CHECKOUT / "docs" / "reference" / f"{page}.md").read_text()
    for key in model.model_fields:
        assert f"`{key}`" in text or key == "schema_version", key


def test_every_key_of_a_workload_is_in_the_example() -> None:
    text = (CHECKOUT / "docs" / "reference" / "workloads.md").read_text()
    for key in set(Workload.model_fields) - {"name"}:
        assert re.search(rf"^(\[{key}\]|{key} = )", text, re.M), key


@pytest.mark.parametrize("file", DOCS, ids=lambda file: file.name)
def test_links_lead_somewhere(file: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", file.read_text()):
        assert (file.parent / target).exists(), target


@pytest.mark.parametrize("file", DOCS, ids=lambda file: file.name)
def test_nothing_is_left_open(file: Path) -> None:
    assert not re.search(r"TODO|COST-TABLE", file.read_text())


@pytest.mark.parametrize(("page", "command"), SHOWN)
def test_commands_that_are_shown_work(page: str, command: str, tmp_path: Path) -> None:
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=CHECKOUT,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    # doctor's exit code says what the machine lacks.
    assert done.returncode == 0 or (done.returncode == 1 and "doctor" in command), done.stderr
    assert "|| true" not in command
    assert done.stdout and not done.stderr
