"""How contenders are told apart in charts and legends."""

from __future__ import annotations

import re

from upshift.report import templates
from upshift.report.charts import ARM_COLOURS, MARKS, colour, mark

ARMS = ["plain", *(f"server{number}" for number in range(1, 20))]


def looks(baseline: str = "plain") -> list[tuple[str, str]]:
    return [(colour(ARMS, baseline, arm), mark(ARMS, baseline, arm)) for arm in ARMS]


def test_seven_contenders_have_colours_and_marks_of_their_own() -> None:
    first = looks()[:8]
    assert len({paint for paint, _mark in first}) == len({symbol for _paint, symbol in first}) == 8
    assert {symbol for _paint, symbol in looks()} == MARKS.keys()


def test_a_colour_that_comes_again_has_another_mark() -> None:
    assert len(set(looks())) == len(ARMS)


def test_the_baseline_is_grey_wherever_it_stands() -> None:
    assert looks("server3")[3] == (ARM_COLOURS[0], "circle")


def test_every_colour_is_in_the_style_sheet_for_light_and_dark() -> None:
    style = (templates.FOLDER / "style.css").read_text(encoding="utf-8")
    for paint in ARM_COLOURS:
        values = re.findall(rf"--{paint.removeprefix('@')}: (#[0-9a-f]{{6}});", style)
        assert len(values) == 2
