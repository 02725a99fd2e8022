"""The reference page of `upshift stack drivers` names what the code has."""

from __future__ import annotations

from typing import get_args

import pytest
from test_reference import keys, words

from upshift.stack.driver_matrix.matrix import Check, Driver, Kind, Matrix, Setting, read_matrix
from upshift.stack.driver_matrix.matrix import Protocol as Spoken
from upshift.stack.driver_matrix.model import Checked, Counted, DriversResult, LeftOut, Traffic
from upshift.stack.driver_matrix.operations import OPERATIONS, Language
from upshift.values import Value


@pytest.mark.parametrize("model", [DriversResult, Counted, Checked, LeftOut, Traffic, Matrix, Driver, Setting])
def test_every_key_is_named(model: type[Value]) -> None:
    assert set(keys(model, deep=False)) - {"driver"} <= words("stack-drivers")


def test_every_driver_operation_check_and_kind_is_named() -> None:
    drivers = {each.name for each in read_matrix().driver}
    choices = {word for kind in (Check, Kind, Language, Spoken) for word in get_args(kind)}
    assert {*OPERATIONS, *drivers, *choices} <= words("stack-drivers")
