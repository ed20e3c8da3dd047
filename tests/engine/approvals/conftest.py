"""A clock that tests of deadlines can advance."""

from __future__ import annotations

import pytest

from tests.support.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()
