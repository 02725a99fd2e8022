"""The documents are whole: their example, their links, and the commands that they show."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from upshift.paths import CHECKOUT
from upshift.workload.library import read_workload
from upshift.workload.model import Workload

DOCS = sorted([*(CHECKOUT / "docs").rglob("*.md"), *CHECKOUT.glob("*.md")])
SHOWN = [
    (file.name, line.strip())
    for file in DOCS
    for block in re.findall(r"```sh\n(.*?)```", file.read_text(), re.S)
    for line in block.splitlines()
    if line.strip()
]


def headings(page: Path) -> set[str]:
    """As links name them: in small letters, without punctuation, with a hyphen for each space."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in re.findall(r"^#+ (.*)$", text, re.M)}


def test_every_key_of_a_workload_is_in_the_example() -> None:
    text = (CHECKOUT / "docs" / "reference" / "workloads.md").read_text()
    for key in set(Workload.model_fields) - {"name"}:
        assert re.search(rf"^(\[{key}\]|{key} = )", text, re.M), key


@pytest.mark.parametrize("file", sorted((CHECKOUT / "docs").rglob("*-workload.toml")), ids=lambda file: file.name)
def test_workloads_of_the_documents_are_read(file: Path) -> None:
    workload = read_workload(file)
    assert workload.needs_programs and workload.fixed


@pytest.mark.parametrize("file", DOCS, ids=lambda file: file.name)
def test_links_lead_somewhere(file: Path) -> None:
    for target, heading in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", file.read_text()):
        page = file.parent / target if target else file
        assert page.exists(), target
        assert not heading or heading in headings(page), f"{target}#{heading}"


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
