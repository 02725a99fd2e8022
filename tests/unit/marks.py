"""Marks of tests that not every run takes."""

from __future__ import annotations

import os

import pytest

from upshift.cli.test import FULL

only_full = pytest.mark.skipif(FULL not in os.environ, reason="needs a built MySQL: ./upshift test --full")
