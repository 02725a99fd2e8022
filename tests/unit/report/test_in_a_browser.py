"""The page as a browser draws it: `charts.js` runs, paints every chart and leaves no colour token behind."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from example import example
from explained_example import explanation

from upshift.report.explained import PAGE_FILE
from upshift.report.explanation import publish
from upshift.report.html import write_html

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs a browser, such as Debian's chromium")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """The page's elements after its scripts have run, and what it wrote to its console."""
    folder = tmp_path_factory.mktemp("page")
    page = folder / "report.html"
    write_html(example(loss=True, third_arm=True), page)
    return browse(folder, "--dump-dom", page.as_uri())


def browse(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    assert BROWSER
    quiet = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-dev-shm-usage")
    settings = (f"--user-data-dir={folder / 'profile'}", "--enable-logging=stderr", "--virtual-time-budget=10000")
    return subprocess.run(
        [BROWSER, *quiet, *settings, "--window-size=1100,3000", *arguments],
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
    )


def test_every_chart_is_drawn(drawn: subprocess.CompletedProcess[str]) -> None:
    charts = re.split(r'(?=<div class="chart[^>]* data-figure=)', drawn.stdout)[1:]
    assert len(charts) > 10
    assert all("<svg" in each for each in charts)


def test_its_scripts_complain_of_nothing(drawn: subprocess.CompletedProcess[str]) -> None:
    assert "CONSOLE" not in drawn.stderr, drawn.stderr


def test_colours_are_those_of_the_style_sheet(drawn: subprocess.CompletedProcess[str]) -> None:
    shown = re.sub(r"<script.*?</script>", "", drawn.stdout, flags=re.S)
    assert not re.search(r"""[:"']\s*@[a-z]+[0-9]?["';]""", shown)
    fills = set(re.findall(r"fill: (rgb\([^)]+\))", shown))
    assert len(fills) > 3


def test_flame_graphs_are_drawn_on_one_scale(tmp_path: Path) -> None:
    publish(explanation(tmp_path), tmp_path)
    shown = browse(tmp_path, "--dump-dom", (tmp_path / PAGE_FILE).as_uri())
    assert "CONSOLE" not in shown.stderr, shown.stderr
    graphs = re.split(r'(?=<div class="flame" )', shown.stdout)[1:]
    roots = [re.search(r'<rect x="0" y="0" width="([\d.]+)"', each) for each in graphs]
    before, after = (float(root[1]) for root in roots if root)
    # The second server takes half of the first one's time.
    assert before > 200 and abs(after / before - 0.5) < 0.01
    assert all("run" in each and "_[i]" in each for each in graphs)


def test_a_click_on_a_frame_gives_it_the_whole_width(tmp_path: Path) -> None:
    publish(explanation(tmp_path), tmp_path)
    page = tmp_path / PAGE_FILE
    told = """addEventListener('load', () => {
        const frames = () => [...document.querySelector('.flame').querySelectorAll('rect')];
        const widest = () => Math.max(...frames().map(each => +each.getAttribute('width')));
        const narrow = frames().filter(each => +each.getAttribute('width') < widest() / 2).pop();
        const named = each => each.parentNode.querySelector('title').textContent;
        const before = +narrow.getAttribute('width'), name = named(narrow), all = widest();
        narrow.dispatchEvent(new MouseEvent('click', {bubbles: true}));
        const same = frames().find(each => named(each) === name);
        document.title = `clicked ${before} ${+same.getAttribute('width')} ${all}`;
    })"""
    page.write_text(page.read_text().replace("</head>", f"<script>{told}</script></head>", 1))
    shown = browse(tmp_path, "--dump-dom", page.as_uri())
    title = re.search(r"<title>clicked ([\d.]+) ([\d.]+) ([\d.]+)</title>", shown.stdout)
    assert title
    before, after, whole = map(float, title.groups())
    assert before < whole / 2 and abs(after / whole - 1) < 0.01


def test_a_long_name_does_not_widen_the_page(tmp_path: Path) -> None:
    """Such as that of a template's function, in a note on the profile."""
    page = tmp_path / "report.html"
    write_html(example().model_copy(update={"profile_notes": (f"hot without counts: {'_Z12ForEachChild' * 60}",)}), page)
    told = "addEventListener('load', () => { document.title = `wide ${document.documentElement.scrollWidth}` })"
    page.write_text(page.read_text().replace("</head>", f"<script>{told}</script></head>", 1))
    width = re.search(r"<title>wide (\d+)</title>", browse(tmp_path, "--dump-dom", page.as_uri()).stdout)
    assert width and int(width[1]) <= 1100
