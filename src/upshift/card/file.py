"""A machine card that `upshift card --json` has printed, read again."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from upshift.card.model import Card, MachineCard
from upshift.errors import UsageError
from upshift.values import describe_invalid


def read_card(file: Path) -> Card:
    """Raises UsageError for what is not a machine card."""
    hint = "`upshift card --json > card.json`, run on the server's machine, writes one"
    try:
        return MachineCard.model_validate_json(file.read_bytes()).card
    except OSError as error:
        raise UsageError(f"--card {file} cannot be read: {error.strerror}", hint) from error
    except ValidationError as error:
        raise UsageError(f"--card {file} is not a machine card: {describe_invalid(error)}", hint) from error
