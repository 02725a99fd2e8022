"""What a check of the server in use found stands on the page and on the terminal."""

from __future__ import annotations

import io

from example import example
from rich.console import Console
from served import changed

from upshift.check.model import Checked
from upshift.check.rule import judge
from upshift.check.rules import RULES
from upshift.report.html import render
from upshift.report.result import Result
from upshift.report.terminal import show

BAD = changed(variables={"innodb_doublewrite": "OFF", "general_log": "ON"})


def shown(result: Result) -> str:
    out = io.StringIO()
    show(result, Console(file=out, width=100))
    return out.getvalue()


def test_the_page_and_the_terminal_have_the_findings() -> None:
    result = example(check=Checked(report=judge(BAD, RULES, server="db:3306")))
    page = render(result)
    assert "The configuration of the server in use" in page and "innodb_doublewrite = ON" in page and "doublewrite-off" in page
    assert "Configuration of db:3306: " in shown(result) and "innodb_doublewrite = ON" in shown(result)


def test_a_page_says_why_nothing_was_checked() -> None:
    result = example(check=Checked(report=None, why_none="no server was named: <b>"))
    assert "No server was named: &lt;b&gt;." in render(result)
    assert "configuration: no server was named" in shown(result)
    assert "configuration of the server in use" not in render(example())


def test_the_result_is_read_again_as_it_was_written() -> None:
    result = example(check=Checked(report=judge(BAD, RULES, server="db:3306")))
    assert Result.model_validate_json(result.model_dump_json()).check == result.check
