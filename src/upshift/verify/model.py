"""What a server's tests said."""

from __future__ import annotations

from upshift.values import Value


class TestOutcome(Value):
    """Tests that ran against one server."""

    __test__ = False  # pytest: not a test class

    run: int
    passed: int
    failed: tuple[str, ...]
