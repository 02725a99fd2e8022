"""When a source counts as another one, before it is read."""

from __future__ import annotations

from pathlib import Path

from upshift import plan


def test_a_changed_source_is_another_source(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / ".git").mkdir(parents=True)
    (tree / "a.cc").write_text("int a;")
    first = plan._identity(str(tree))
    (tree / ".git" / "index").write_text("moves with each command")
    (tree / "link").symlink_to("/nowhere")
    assert plan._identity(str(tree)) == first
    (tree / "a.cc").write_text("int b; ")
    assert plan._identity(str(tree)) != first


def test_a_changed_tarball_is_another_source(tmp_path: Path) -> None:
    file = tmp_path / "m.tar.gz"
    file.write_text("one")
    first = plan._identity(str(file))
    assert plan._identity(str(file)) == first
    file.write_text("other")
    assert plan._identity(str(file)) != first


def test_the_day_is_no_part_of_the_distribution_s_source() -> None:
    """A run that is resumed after midnight keeps its source."""
    assert plan._identity(None) == ""
