"""What tests of the runtime share."""

from __future__ import annotations

import pytest

from tests.unit.runtime.toys import Counting, counting


@pytest.fixture
def function() -> Counting:
    return counting(7)
