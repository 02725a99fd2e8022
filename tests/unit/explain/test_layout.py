"""Pages and cache lines that hold the samples."""

from __future__ import annotations

from upshift.explain.layout import LINE_BYTES, PAGE_BYTES, fewest, spreads


def test_the_fewest_lines_are_those_with_the_most_samples() -> None:
    counts = {0: 80, 63: 10, 64: 5, 4096: 5}
    assert [fewest(counts, LINE_BYTES, share) for share in (0.5, 0.90, 0.95, 0.99)] == [1, 1, 2, 3]
    assert [fewest(counts, PAGE_BYTES, share) for share in (0.90, 0.99)] == [1, 2]
    assert fewest({}, PAGE_BYTES, 0.9) == 0


def test_the_same_code_on_fewer_pages_shows_as_fewer_pages_and_as_many_lines() -> None:
    scattered = {number * 2 * PAGE_BYTES: 100 for number in range(20)}
    together = {number * LINE_BYTES: 100 for number in range(20)}
    before, after = spreads(scattered, together)
    assert (before.pages_99, after.pages_99) == (20, 1)
    assert before.lines_99 == after.lines_99 == 20


def test_more_samples_do_not_make_more_lines() -> None:
    code = range(0, 300 * LINE_BYTES, LINE_BYTES)
    few, many = (dict.fromkeys(code, times) for times in (1, 20))
    before, after = spreads(few, many)
    assert before.samples == after.samples == 300
    # A sample of 300 from 6,000 misses lines, as 300 of its own did not: the thinned side has no more of them.
    assert after.lines_99 < before.lines_99
    assert spreads({}, many)[1].lines_90 == 0
