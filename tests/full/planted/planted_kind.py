"""MySQL with a series of one patch that makes it slower by a known loop; ``UPSHIFT_SERVER_KIND`` names this file."""

from __future__ import annotations

from pathlib import Path

from upshift.server.mysql import MySQL


class Planted(MySQL):
    """MySQL whose series is beside this file."""

    series: Path | None = Path(__file__).resolve().parent


KIND = Planted()
